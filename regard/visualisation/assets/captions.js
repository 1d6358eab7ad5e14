// Captions on the page of the server: an image that is chosen, dropped or pasted, its caption, and the gaze of each word.
const captionPage = (() => {
  const LARGEST = 1600, MOST_BYTES = 3e6, SENT = ["image/png", "image/jpeg", "image/webp"]; // pixels a side; kinds that go as they are
  const NBEST = 3;
  const find = (id) => document.getElementById(id), { element } = explanationPage, words = () => explanationPage.labels();
  let model = "", running = new AbortController(), explained = null, url = "", state = { kind: "empty" }, describe = String;

  async function prepared(file) { // throws an error if it is no image
    const bitmap = await createImageBitmap(file), scale = Math.min(1, LARGEST / Math.max(bitmap.width, bitmap.height));
    if (scale === 1 && SENT.includes(file.type) && file.size <= MOST_BYTES) return file;
    const canvas = element("canvas"), brush = canvas.getContext("2d");
    canvas.width = Math.max(1, Math.round(bitmap.width * scale));
    canvas.height = Math.max(1, Math.round(bitmap.height * scale));
    brush.fillStyle = "#ffffff"; // under what is transparent
    brush.fillRect(0, 0, canvas.width, canvas.height);
    brush.imageSmoothingQuality = "high";
    brush.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise((done) => { canvas.toBlob(done, "image/jpeg", 0.92); });
    if (!blob) throw new Error("this browser cannot draw it");
    return blob;
  }

  function say(next) { // what the page says of the image: {kind, text, hypotheses}
    state = next;
    const { kind, text = "", hypotheses = [] } = next;
    find("caption").className = kind;
    find("caption").textContent = { empty: "", pending: words().captioning, unread: words().noImage }[kind] ?? (text || "–"); // else: done, failed
    find("captions").hidden = hypotheses.length < 2;
    find("captions-name").textContent = words().captions(hypotheses.length);
    find("ranked-captions").replaceChildren(...hypotheses.map((hypothesis) => {
      const item = element("li");
      item.append(element("span", hypothesis.text, { dir: "auto" }), element("span", (hypothesis.score ?? NaN).toFixed(2).replace("-", "−"), { class: "share", title: words().score }));
      return item;
    }));
  }

  function showExplanation() { // the search only while its view is open
    find("open-player").hidden = !explained?.steps.length;
    if (explained) explanationPage.show(livePage.state().isTraced ? explained : { ...explained, steps: [] });
    else explanationPage.hide();
  }

  function form(image, values) {
    const data = new FormData();
    data.append("image", image, "image");
    for (const [name, value] of Object.entries(values)) data.append(name, value);
    return data;
  }

  /** Send an image, and show its caption and the gaze of each word. */
  async function caption(file) {
    clear();
    const { signal } = running;
    let image;
    try {
      image = await prepared(file);
    } catch {
      if (!signal.aborted) say({ kind: "unread" });
      return;
    }
    if (signal.aborted) return;
    url = URL.createObjectURL(image);
    find("preview").src = url;
    find("preview").alt = file.name || words().image;
    find("preview").hidden = false;
    say({ kind: "pending" });
    try {
      const { caption: text, hypotheses } = await serverClient.request("v1/caption", form(image, { model, nbest: NBEST }), signal);
      say({ kind: "done", text, hypotheses });
      const { explanation } = await serverClient.request("v1/explain_image", form(image, { model }), signal);
      const unpacked = await explanationPage.unpack(explanation);
      if (signal.aborted) return;
      explained = unpacked;
      showExplanation();
    } catch (problem) {
      if (signal.aborted) return;
      if (!(problem instanceof serverClient.Problem)) throw problem;
      if (state.kind === "pending") say({ kind: "failed", text: describe(problem) });
    }
  }

  function clear() {
    running.abort();
    running = new AbortController();
    URL.revokeObjectURL(url);
    find("preview").hidden = true;
    find("preview").removeAttribute("src");
    explained = null;
    say({ kind: "empty" });
    showExplanation();
  }

  find("file").onchange = (event) => {
    const [file] = event.target.files;
    if (file) caption(file);
    event.target.value = ""; // the same file may be chosen again
  };

  return {
    caption, clear,
    /** Show the page for a captioner, or leave it (null). */
    open(name) {
      find("captioning").hidden = name === null;
      if (name === model) return;
      model = name;
      if (name !== null) explanationPage.reset();
      clear();
    },
    update: () => { if (model) { say(state); showExplanation(); } },
    onProblem: (run) => { describe = run; },
  };
})();
