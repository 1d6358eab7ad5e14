// Loads each living figure when it comes near the view; if it cannot be drawn, its still stays, with a sentence.
(() => {
  const figures = document.querySelectorAll("figure.living");
  if (!figures.length) return;
  window.livingFigures = {}; // each script enters itself here
  const folder = new URL("figures/", document.currentScript.src), loads = {};
  const language = document.documentElement.lang === "ko" ? "ko" : "en";
  const NEAR = "600px";
  const FAILED = {
    en: "This browser cannot move the figure; it shows a still of it.",
    ko: "이 브라우저에서는 그림을 움직일 수 없어 한 장면만 보여 줍니다.",
  };

  /** The address of a script; from a server it comes packed, a fifth as large. */
  async function addressOf(file) {
    const url = new URL(file, folder);
    if (url.protocol === "file:" || !window.DecompressionStream) return url;
    const { ok, body } = await fetch(`${url}.gz`);
    if (!ok) throw new Error(file);
    const unpacked = new Response(body.pipeThrough(new DecompressionStream("gzip")));
    return URL.createObjectURL(new Blob([await unpacked.arrayBuffer()], { type: "text/javascript" }));
  }

  const load = (name) => (loads[name] ??= addressOf(`${name}.${language}.js`).then((src) => new Promise((done, failed) => {
    const fail = () => failed(new Error(`${name}.${language}.js`));
    const onload = () => (window.livingFigures[name] ? done(window.livingFigures[name]) : fail());
    document.head.append(Object.assign(document.createElement("script"), { src, onload, onerror: fail }));
  })));

  /** How a figure opens: names and values, as "rule=softmax temperature=0.3". */
  const stateOf = ({ dataset }) => Object.fromEntries((dataset.state ?? "").split(" ").filter(Boolean).map((pair) => pair.split("=")));

  async function enliven(figure) {
    const element = Object.assign(document.createElement("div"), { className: "alive" });
    element.dataset.folder = folder;
    try {
      const { draw, data } = await load(figure.dataset.figure);
      figure.querySelector("figcaption").before(element);
      await draw(element, data, language, stateOf(figure));
      figure.dataset.alive = "";
    } catch (error) {
      element.remove();
      const note = Object.assign(document.createElement("p"), { className: "note", textContent: `${FAILED[language]} (${error.message})` });
      figure.querySelector("figcaption").before(note);
      figure.dataset.failed = error.message;
    }
  }

  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      enliven(target);
    }
  }, { rootMargin: NEAR });
  for (const figure of figures) observer.observe(figure);
})();
