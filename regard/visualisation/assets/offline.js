// Starts the page from disk: the worker gets the library and the models that the file holds.
(() => {
  const find = (id) => document.getElementById(id);
  if (!find("unsupported").hidden) return;
  const worker = new Worker(URL.createObjectURL(new Blob([find("worker").textContent], { type: "text/javascript" })));
  worker.onerror = (event) => livePage.stop(event.message || "worker");
  livePage.start(worker);
  const files = [...document.querySelectorAll("script.file")];
  const [wasm, ...models] = files.map((node) => node.textContent.trim());
  files.forEach((node) => node.remove()); // the worker has them
  worker.postMessage({ kind: "start", wasm, models });
  livePage.update();
  find("how").addEventListener("toggle", explanationPage.redraw); // closed, it has no room
})();
