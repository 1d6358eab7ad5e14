// Brings the heatmap to life: point at, tap or focus a word, and see what it reads or who reads it.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { source, target, alignments, ceiling } = data;
  const S = source.length, T = target.length;

  const ENGLISH = {
    source: "Source", target: "Target", reading: "Showing", numbers: "All numbers", end: "(end)", heatmap: "Heatmap",
    hint: "Point at a word, tap it, or walk with the arrow keys: its weights appear. Enter keeps it, Escape lets go.",
    sourceWords: "Source words", targetWords: "Target words", reads: "reads", isReadBy: "is read by", nothing: "nothing",
  };
  const KOREAN = {
    source: "원문", target: "번역문", reading: "보기", numbers: "모든 수치", end: "(끝)", heatmap: "히트맵",
    hint: "단어를 가리키거나 누르거나 화살표 키로 옮겨 가면 가중치가 나타납니다. Enter로 고정하고 Esc로 풉니다.",
    sourceWords: "원문 단어", targetWords: "번역문 단어", reads: "→ 읽은 곳:", isReadBy: "← 읽은 단어:", nothing: "없음",
  };
  const FIGURE = { // what the picture says, in Korean
    "source →": "원문 →", "target ↓": "번역문 ↓", "attention weight": "어텐션 가중치", "link": "정렬", "(end)": "(끝)",
  };
  const isKorean = (navigator.language || "").toLowerCase().startsWith("ko");
  const say = isKorean ? KOREAN : ENGLISH;

  const find = (id) => document.getElementById(id);
  const figure = find("figure"), svg = figure.querySelector("svg");
  const marks = (group, kind) => [...svg.querySelectorAll(`.${group} ${kind}`)];
  const cells = marks("cells", "rect"), values = marks("values", "text"), endCells = marks("end", "rect");
  const labels = { source: marks("sources", "text"), target: marks("targets", "text") };

  let shown = alignments[0];
  let kept = null; // the choice that stays: {side, index, other}
  let seen; // what show() showed last

  const weight = (t, s) => shown.weights[t * S + s] / 1000;
  const level = (w) => Math.min(100, Math.max(0, Math.round(100 * w / ceiling)));
  const digits = (w) => (w >= 0.005 ? w.toFixed(2) : "");

  function element(name, text = "", attributes = {}) {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function inSvg(name, attributes) { // made in the svg's own namespace
    const made = document.createElementNS(svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  // --- words as buttons

  function wordButton(side, word, index) {
    const button = element("button", "", { type: "button", class: "word", "aria-pressed": "false", tabindex: index ? -1 : 0 });
    button.append(element("bdi", word, { lang: data.langs[side][index] }), element("small", "", { "aria-hidden": "true" }));
    button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && show({ side, index }));
    button.addEventListener("pointerleave", () => show(kept));
    button.addEventListener("focus", () => button.matches(":focus-visible") && show({ side, index }));
    button.addEventListener("click", () => keep({ side, index }));
    return button;
  }

  function sentence(side, words) {
    const row = find(side);
    row.setAttribute("aria-label", say[`${side}Words`]);
    const buttons = words.map((word, index) => wordButton(side, word, index));
    row.append(...buttons);
    row.dir = data.rtl[side] ? "rtl" : "ltr";
    row.addEventListener("keydown", (event) => walk(event, buttons, data.rtl[side]));
    return buttons;
  }

  function walk(event, buttons, isRtl) { // one tab stop a sentence; arrow keys inside
    const at = buttons.indexOf(document.activeElement);
    const ahead = isRtl ? -1 : 1;
    const to = {
      ArrowRight: at + ahead, ArrowLeft: at - ahead, ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1,
    }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (!buttons[to]) return;
    buttons[at].tabIndex = -1;
    buttons[to].tabIndex = 0;
    buttons[to].focus();
  }

  const buttons = { source: sentence("source", source), target: sentence("target", target) };
  const endWord = element("span", "", { class: "word end", hidden: "" }); // what was read from the end of the sentence
  endWord.append(element("bdi", say.end), element("small"));
  find("source").append(endWord);

  // --- choosing

  function keep(choice) {
    const same = kept && kept.side === choice.side && kept.index === choice.index && kept.other === choice.other;
    kept = same ? null : choice;
    show(kept);
  }

  function show(choice) {
    const now = JSON.stringify([choice, kept]);
    if (now === seen) return;
    seen = now;
    clear();
    if (!choice) return;
    const { side, index } = choice;
    const opposite = side === "target" ? "source" : "target";
    const read = side === "target" ? source.map((_, s) => weight(index, s)) : target.map((_, t) => weight(t, index));
    buttons[side][index].classList.add("chosen");
    buttons[side][index].setAttribute("aria-pressed", String(Boolean(kept) && kept.side === side && kept.index === index));
    labels[side][index].classList.add("strong");
    read.forEach((w, other) => tint(buttons[opposite][other], w));
    if (side === "target" && shown.elsewhere) tint(endWord, shown.elsewhere[index] / 1000);
    if (choice.other !== undefined) {
      buttons[opposite][choice.other].classList.add("chosen");
      labels[opposite][choice.other].classList.add("strong");
    }
    frame(choice);
    find("readout").replaceChildren(...sentenceAbout(choice, read));
  }

  function tint(node, w) {
    node.lastChild.textContent = digits(w);
    if (w >= 0.005) node.classList.add(`w${level(w)}`, ...(level(w) < 5 ? ["low"] : []));
  }

  function clear() {
    for (const node of [...buttons.source, ...buttons.target, endWord]) {
      node.className = node === endWord ? "word end" : "word";
      node.lastChild.textContent = "";
      if (node !== endWord) node.setAttribute("aria-pressed", "false");
    }
    for (const label of [...labels.source, ...labels.target]) label.classList.remove("strong");
    focusFrame.replaceChildren();
    find("readout").replaceChildren(element("span", say.hint, { class: "muted" }));
  }

  function sentenceAbout({ side, index, other }, read) {
    const here = side === "target" ? target : source, there = side === "target" ? source : target;
    const name = (words, which, i) => element("bdi", words[i], { lang: data.langs[which][i] });
    const opposite = side === "target" ? "source" : "target";
    const parts = read.map((w, i) => ({ w, i })).filter(({ w, i }) => w >= 0.005 || i === other);
    parts.sort((a, b) => (b.i === other) - (a.i === other) || b.w - a.w);
    const chosen = element("b");
    chosen.append(name(here, side, index));
    const shares = parts.slice(0, 6).map(({ w, i }) => {
      const share = element(i === other ? "b" : "span", "", { class: "share" });
      share.append(name(there, opposite, i), ` ${w.toFixed(2)}`);
      return share;
    });
    if (side === "target" && shown.elsewhere && shown.elsewhere[index] >= 5) {
      shares.push(element("span", `${say.end} ${(shown.elsewhere[index] / 1000).toFixed(2)}`, { class: "share" }));
    }
    const list = shares.flatMap((share, n) => (n ? [" · ", share] : [share]));
    return [chosen, ` ${side === "target" ? say.reads : say.isReadBy} `, ...(list.length ? list : [say.nothing])];
  }

  // --- the heatmap

  const focusFrame = inSvg("g", { class: "focus" });
  svg.append(focusFrame);

  const box = (rect) => ["x", "y", "width", "height"].map((name) => Number(rect.getAttribute(name)));

  function between(first, last) { // a frame round everything from one cell to another
    const [x, y] = box(first), [x2, y2, width, height] = box(last);
    return inSvg("rect", { x: x - 1, y: y - 1, width: x2 + width - x + 2, height: y2 + height - y + 2 });
  }

  const row = (t) => between(cells[t * S], cells[t * S + S - 1]);
  const column = (s) => between(cells[s], cells[(T - 1) * S + s]);

  function frame({ side, index, other }) {
    focusFrame.append(side === "target" ? row(index) : column(index));
    if (other !== undefined) focusFrame.append(side === "target" ? column(other) : row(other));
  }

  function choiceAt(node) { // what lies under the pointer
    const at = cells.indexOf(node);
    if (at >= 0) return { side: "target", index: Math.floor(at / S), other: at % S };
    const end = endCells.indexOf(node);
    if (end >= 0) return { side: "target", index: end };
    for (const side of ["source", "target"]) {
      const index = labels[side].indexOf(node);
      if (index >= 0) return { side, index };
    }
    return null;
  }

  svg.addEventListener("pointermove", (event) => event.pointerType === "mouse" && show(choiceAt(event.target) || kept));
  svg.addEventListener("pointerleave", () => show(kept));
  svg.addEventListener("click", (event) => {
    const choice = choiceAt(event.target);
    if (choice) keep(choice);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    kept = null;
    show(null);
  });

  // --- which reading

  function draw(which) {
    shown = alignments[which];
    find("caption").textContent = shown.caption;
    cells.forEach((cell, at) => cell.setAttribute("class", `w${level(shown.weights[at] / 1000)}`));
    values.forEach((value, at) => {
      const w = shown.weights[at] / 1000;
      value.textContent = digits(w);
      value.setAttribute("class", `w${level(w)}`);
    });
    endCells.forEach((cell, t) => cell.setAttribute("class", `w${level(shown.elsewhere[t] / 1000)}`));
    endWord.hidden = !shown.elsewhere;
    drawLinks();
    if (find("numbers").open) tabulate();
    seen = undefined;
    show(kept);
  }

  function drawLinks() {
    const group = svg.querySelector(".links");
    const line = S > 36 || T > 36 ? 1.5 : 2.5;
    group.replaceChildren(...shown.links.map(([s, t]) => {
      const [x, y, width, height] = box(cells[t * S + s]);
      return inSvg("rect", { x: x + line / 2, y: y + line / 2, width: width - line, height: height - line, "stroke-width": line });
    }));
  }

  function tabulate() {
    const head = element("tr");
    head.append(element("td"), ...source.map((word, s) => element("th", word, { scope: "col", lang: data.langs.source[s] })));
    if (shown.elsewhere) head.append(element("th", say.end, { scope: "col" }));
    const table = element("table"), top = element("thead"), body = element("tbody");
    top.append(head);
    target.forEach((word, t) => {
      const line = element("tr"), read = shown.weights.slice(t * S, (t + 1) * S);
      if (shown.elsewhere) read.push(shown.elsewhere[t]);
      line.append(element("th", word, { scope: "row", lang: data.langs.target[t] }));
      line.append(...read.map((w) => element("td", (w / 1000).toFixed(3), { class: `w${level(w / 1000)}` })));
      body.append(line);
    });
    table.append(top, body);
    find("table").replaceChildren(table);
  }

  function begin() {
    document.documentElement.lang = isKorean ? "ko" : "en";
    for (const node of document.querySelectorAll("[data-text]")) node.textContent = say[node.dataset.text];
    figure.setAttribute("aria-label", say.heatmap);
    find("table").setAttribute("aria-label", say.numbers);
    if (isKorean) {
      for (const text of svg.querySelectorAll(".axes text, .legend text, .end-label text")) {
        text.textContent = FIGURE[text.textContent] || text.textContent;
      }
    }
    const choice = find("choice");
    choice.append(...alignments.map(({ name }, index) => element("option", name, { value: index })));
    choice.addEventListener("change", () => draw(choice.selectedIndex));
    find("chooser").hidden = alignments.length < 2;
    find("numbers").addEventListener("toggle", tabulate);
    find("numbers").hidden = find("words").hidden = false;
    draw(choice.selectedIndex < 0 ? 0 : choice.selectedIndex);
  }

  begin();
})();
