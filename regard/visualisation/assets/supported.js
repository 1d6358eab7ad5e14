// Tells whoever opens the page in an old browser, in the JavaScript that old browsers read.
(function () {
  var simd = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];
  var has = typeof WebAssembly === "object" && typeof Worker === "function" && typeof DecompressionStream === "function" && "replaceAll" in String.prototype;
  if (has && WebAssembly.validate(new Uint8Array(simd))) return;
  document.getElementById("unsupported").hidden = false;
  document.getElementById("live").hidden = true;
})();
