// The start page's translator: the sample's model in this tab, and lines from each word to the words it attends to.
(() => {
  const root = document.getElementById("try");
  if (!root) return;
  const part = (name) => root.querySelector(`[data-part=${name}]`);
  const [input, output, figure, source, target, lines, hint, message] =
    ["input", "output", "figure", "source", "target", "lines", "hint", "message"].map(part);
  const folder = new URL("translator/", document.currentScript.src);
  const korean = document.documentElement.lang === "ko";
  const FAINT = 0.04, WAIT = 60, SLICE = 30; // SLICE: milliseconds of work between two looks at the keyboard
  let translator, shown, timer, chosen, latest = 0; // chosen: the word of the translation whose lines stay

  const script = (url) => new Promise((done, failed) => {
    const node = document.createElement("script");
    Object.assign(node, { src: url, onload: done, onerror: () => failed(new Error(url)) });
    document.head.append(node);
  });
  const inflated = (blob) => new Response(blob.stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  const unpacked = (text) => inflated(new Blob([Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))]));
  const fetched = async (name) => {
    const response = await fetch(new URL(`${name}.gz`, folder));
    if (!response.ok) throw new Error(`${name}: ${response.status}`);
    return inflated(await response.blob());
  };
  const packedScript = async (name) => script(URL.createObjectURL(new Blob([await fetched(name)], { type: "text/javascript" })));

  async function open() {
    const isDisk = location.protocol === "file:"; // where fetch is forbidden
    const library = isDisk ? Promise.all(["regard.js", "files.js"].map((name) => script(new URL(name, folder)))) : packedScript("regard.js");
    const read = async (name) => (isDisk ? unpacked((await library, window.regardFiles[name])) : fetched(name));
    const [wasm, model] = await Promise.all([read("regard.wasm"), read("model.regard"), library]);
    translator = await window.regard.load({ wasm, model });
    delete window.regardFiles;
    message.hidden = true;
    message.setAttribute("role", "status");
    await translate();
    root.dataset.loaded = "";
  }

  /** Translate step by step. Returns null once there is a newer text. */
  async function translated(text, options) {
    const own = ++latest, steps = translator.translateInSteps(text, options);
    for (let start = performance.now(); ;) {
      const { done, value } = steps.next();
      if (done) return value[0];
      if (value > 1 && options.alignments) { steps.return(); return translated(text, {}); } // of several parts there is no figure
      if (performance.now() - start < SLICE) continue;
      await new Promise((resume) => { setTimeout(resume); });
      if (own !== latest) { steps.return(); return null; }
      start = performance.now();
    }
  }

  async function translate() {
    const text = input.value.trim();
    input.style.height = "auto";
    input.style.height = `${input.scrollHeight + 2}px`;
    figure.hidden = hint.hidden = true;
    if (!text || !translator) {
      output.textContent = "";
      root.removeAttribute("data-unlearnt");
      message.hidden = false; // without a translator it says that the model is being loaded
      if (translator) message.textContent = korean ? "한국어 문장을 입력하면 여기에서 번역합니다." : "Type a Korean sentence, and its translation appears here.";
      return;
    }
    const translation = await translated(text, { attention: "cross", alignments: true });
    if (!translation) return;
    output.textContent = translation.text;
    const unread = unreadOf(text, translation), lost = unread.map((index) => translation.sourceWords.texts[index]).join(", ");
    message.hidden = !root.toggleAttribute("data-unlearnt", translation.doubtful || unread.length > 0);
    message.textContent = [
      ...(translation.doubtful ? [korean ? "모델이 배운 것과 많이 다른 문장이어서 번역을 믿을 수 없습니다." : "This is unlike what the model has learnt; do not trust the translation."] : []),
      ...(lost ? [korean ? `번역에서 빠진 말: ${lost}` : `The translation leaves out: ${lost}`] : []),
    ].join(" ");
    shown = { translation, unread, weights: wordWeights(translation) };
    figure.hidden = !translation.sourceWords.texts.length; // several sentences, or a line that is copied
    if (!figure.hidden) draw();
  }

  /** Words of the sentence that its translation leaves out, by their index. */
  function unreadOf(text, translation) {
    const words = window.regard.unreadWords.unattended(text, translation, translation, translator.card.alignment);
    const others = translator.translate(words.map((word) => word.text), { nbest: 1 });
    return words.filter((_, i) => others[i].text === translation.text).map(({ index }) => index);
  }

  /** Weights between words, of the last layer: the mean over heads and the tokens of a target word, the sum over those of a source word. */
  function wordWeights({ attention, sourceWords, targetWords }) {
    const last = attention.at(-1);
    if (!last) return [];
    return targetWords.texts.map((_, row) => {
      const rows = targetWords.ofTokens.flatMap((word, token) => (word === row ? [token] : []));
      const sums = sourceWords.texts.map(() => 0);
      for (let head = 0; head < last.heads; head++) {
        for (const token of rows) {
          sourceWords.ofTokens.forEach((word, column) => {
            if (word >= 0) sums[word] += last.weights[(head * last.rows + token) * last.columns + column];
          });
        }
      }
      return sums.map((sum) => sum / (last.heads * rows.length));
    });
  }

  function draw() {
    const { sourceWords, targetWords } = shown.translation;
    source.replaceChildren(...sourceWords.texts.map((text, index) => Object.assign(document.createElement("span"), { textContent: text, className: shown.unread.includes(index) ? "unread" : "" })));
    target.replaceChildren(...targetWords.texts.map((text, row) => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: text });
      const weights = shown.weights[row] ?? [];
      const best = weights.indexOf(Math.max(...weights));
      button.setAttribute("aria-label", `${text}: ${sourceWords.texts[best] ?? ""} ${Math.round(100 * (weights[best] ?? 0))} %`);
      for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => connect(row));
      for (const event of ["pointerleave", "blur"]) button.addEventListener(event, () => connect(chosen));
      button.addEventListener("click", () => { chosen = chosen === row ? undefined : row; connect(chosen); });
      return button;
    }));
    chosen = undefined;
    connect();
  }

  /** Draw the lines of one word of the translation, or of all. */
  function connect(only) {
    const overflows = () => [source, target].some((words) => words.clientHeight > 1.6 * words.firstElementChild.clientHeight);
    figure.classList.remove("tight");
    if (overflows()) figure.classList.add("tight"); // smaller words, if all of a row fit then
    const isCrowded = overflows();
    if (isCrowded) figure.classList.remove("tight");
    const box = lines.getBoundingClientRect();
    hint.hidden = !isCrowded; // several rows of words: lines on demand
    const place = (node, edge) => { const at = node.getBoundingClientRect(); return [(at.left + at.right) / 2 - box.left, at[edge] - box.top]; };
    lines.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    lines.replaceChildren(...shown.weights.flatMap((weights, row) => ((only === undefined ? !isCrowded : only === row) ? weights : []).flatMap((weight, column) => {
      if (weight < FAINT || !source.children[column]) return [];
      const [x, y] = place(source.children[column], "bottom"), [u, v] = place(target.children[row], "top");
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", `M${x} ${y}C${x} ${(y + v) / 2} ${u} ${(y + v) / 2} ${u} ${v}`);
      path.setAttribute("stroke-width", 1 + 5 * weight);
      path.setAttribute("opacity", Math.min(1, 0.15 + weight));
      return [path];
    })));
    [...source.children].forEach((node, column) => {
      node.style.setProperty("--weight", only === undefined ? 0 : Math.round(100 * (shown.weights[only]?.[column] ?? 0)));
    });
    [...target.children].forEach((node, row) => node.setAttribute("aria-pressed", row === chosen));
  }

  input.addEventListener("input", () => {
    latest++; // what is being translated is given up, and its figure goes
    figure.hidden = hint.hidden = true;
    clearTimeout(timer);
    timer = setTimeout(translate, WAIT);
  });
  window.addEventListener("resize", () => { if (shown && !figure.hidden) connect(chosen); });
  for (const chip of root.querySelectorAll("button[data-text]")) {
    chip.addEventListener("click", () => { input.value = chip.textContent; translate(); });
  }
  open().catch((error) => {
    message.hidden = false;
    message.textContent = (korean ? "이 브라우저에서는 번역기를 열 수 없습니다: " : "This browser cannot open the translator: ") + error.message;
  });
})();
