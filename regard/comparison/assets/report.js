// Makes the report interactive: attention of the examples on demand, the table of all sentences, the language.
"use strict";
(() => {
  const PAGE = 50;
  const TEXTS = {
    en: {
      other: "한국어", number: "Number", length: "Length in words", spread: "Spread of scores", score: "Score", words: "Words", texts: "Texts",
      source: "Source", reference: "Reference", image: "Image", up: "Ascending ▲", down: "Descending ▼", back: "Previous page", forth: "Next page",
      of: (first, last, count) => `${first}–${last} of ${count}`, none: "No sentence has this text.", list: "All sentences",
      map: "Attention in percent: a row for each word of the output", cell: (target, source, p) => `${target} → ${source}: ${p} %`,
      cells: (word, parts) => `${word}: ${parts.join("; ")}`, place: (p, row, column) => `${p} % on row ${row}, column ${column}`,
      old: "This browser cannot unpack the sentences; all are in the JSON file beside this report.",
    },
    ko: {
      other: "English", number: "번호", length: "단어 수", spread: "점수 차이 폭", score: "점수", words: "단어", texts: "텍스트",
      source: "원문", reference: "참조", image: "이미지", up: "오름차순 ▲", down: "내림차순 ▼", back: "이전 쪽", forth: "다음 쪽",
      of: (first, last, count) => `${count}개 중 ${first}–${last}`, none: "이 텍스트가 있는 문장이 없습니다.", list: "모든 문장",
      map: "어텐션(백분율): 한 행이 출력 단어 하나", cell: (target, source, p) => `${target} → ${source}: ${p} %`,
      cells: (word, parts) => `${word}: ${parts.join("; ")}`, place: (p, row, column) => `${row}행 ${column}열 ${p} %`,
      old: "이 브라우저는 문장을 풀 수 없습니다. 모든 문장은 보고서 옆의 JSON 파일에 있습니다.",
    },
  };
  const find = (id) => document.getElementById(id);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let language = "en", data, rows, shown = [], page = 0, isDescending = false;
  const label = (key) => TEXTS[language][key];

  function element(name, text = "", attributes = {}) {
    const node = document.createElement(name);
    node.textContent = text;
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  }

  const isKorean = (text) => /[\uac00-\ud7a3\u3131-\u318e]/.test(text);

  function quoted(name, text, attributes = {}) { // a text from the data
    const node = element(name, text, name === "bdi" ? attributes : { dir: "auto", ...attributes });
    if (isKorean(text)) node.lang = "ko";
    return node;
  }

  async function unpack() {
    const bytes = Uint8Array.from(atob(find("data").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  // --- language

  function translate() {
    document.documentElement.lang = language;
    for (const node of document.querySelectorAll("[data-ko]")) {
      node.dataset.en ??= node.textContent;
      node.textContent = node.dataset[language];
    }
    for (const node of document.querySelectorAll("[data-ko-label]")) {
      node.dataset.enLabel ??= node.getAttribute("aria-label");
      node.setAttribute("aria-label", language === "ko" ? node.dataset.koLabel : node.dataset.enLabel);
    }
    find("language").textContent = label("other");
    find("language").lang = language === "ko" ? "en" : "ko";
    if (!data) return;
    drawControls();
    drawList();
    for (const node of document.querySelectorAll(".attention[open]")) drawAttention(node);
  }

  // --- attention of an example

  function drawAttention(node) {
    const map = data.examples[node.dataset.example][node.dataset.run];
    const name = `${label("map")} (${Number(node.dataset.example) + 1}, ${data.runs[node.dataset.run]})`;
    node.lastElementChild.replaceChildren(...(map.grid ? overlay(node, map) : [heatmap(map, name)]));
  }

  function heatmap({ source, target, percent }, name) {
    const { scale, text } = data.palette[dark.matches ? "dark" : "light"]; // six digits for each colour
    const colour = (codes, n) => `#${codes.slice(6 * n, 6 * n + 6)}`;
    const ceiling = Math.max(20, ...percent.map((row) => Math.max(0, ...row)));
    const box = element("div", "", { class: "scroll map", tabindex: 0, role: "region", "aria-label": name });
    const table = element("table"), head = element("tr"), body = element("tbody");
    head.append(element("td"), ...source.map((word) => {
      const cell = element("th", "", { scope: "col" }), span = quoted("span", word, { title: word });
      cell.append(span);
      return cell;
    }));
    percent.forEach((weights, t) => {
      const line = element("tr"), name = element("th", "", { scope: "row" });
      name.append(quoted("bdi", target[t]));
      line.append(name, ...weights.map((p, s) => {
        const cell = element("td", p ? String(p) : "", { title: label("cell")(target[t], source[s], p) });
        const level = Math.min(100, Math.round((100 * p) / ceiling));
        cell.style.background = colour(scale, level);
        cell.style.color = colour(text, level);
        return cell;
      }));
      body.append(line);
    });
    const top = element("thead");
    top.append(head);
    table.append(top, body);
    box.append(table);
    return box;
  }

  function overlay(node, { target, percent, grid: [height, width] }) { // the image, dark where a word did not look
    const image = node.closest(".example").querySelector("img"), [red, green, blue, opacity] = data.veil;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), readout = element("p", "", { role: "status" });
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("shape-rendering", "crispEdges");
    const cells = Array.from({ length: width * height }, (_, i) => {
      const cell = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      for (const [key, value] of Object.entries({ x: i % width, y: Math.floor(i / width), width: 1, height: 1, fill: `rgb(${red},${green},${blue})` })) cell.setAttribute(key, value);
      svg.append(cell);
      return cell;
    });
    const buttons = target.map((word, t) => {
      const button = element("button", "", { type: "button" });
      button.append(quoted("bdi", word));
      button.onclick = () => choose(t);
      return button;
    });
    const choose = (chosen) => {
      const weights = percent[chosen], most = Math.max(1, ...weights);
      buttons.forEach((button, t) => button.setAttribute("aria-pressed", String(t === chosen)));
      cells.forEach((cell, i) => cell.setAttribute("fill-opacity", opacity * (1 - (weights[i] || 0) / most)));
      const best = weights.map((p, i) => [p, i]).sort((a, b) => b[0] - a[0]).slice(0, 3);
      const parts = best.map(([p, i]) => label("place")(p, Math.floor(i / width) + 1, (i % width) + 1));
      readout.textContent = label("cells")(target[chosen], parts);
    };
    const list = element("div", "", { class: "words", role: "group", "aria-label": label("words") }), over = element("div", "", { class: "over" });
    list.append(...buttons);
    if (image) over.append(element("img", "", { src: image.src, alt: image.alt }), svg);
    if (target.length) choose(0);
    return [list, over, readout];
  }

  // --- all sentences

  const text = (index) => data.texts[index];
  const wordCount = (string) => string.split(/\s+/).filter(Boolean).length;

  // As it is shown: spreads that look equal keep the order of the sentences.
  const spreadOf = (scores) => Number((Math.max(...scores) - Math.min(...scores)).toFixed(data.digits));

  function makeRows() {
    return data.sources.map((source, index) => {
      const scores = data.scores.map((several) => several[index]), known = scores.filter((score) => score !== null);
      const references = data.references[index];
      const length = data.images ? Math.round(references.reduce((sum, item) => sum + wordCount(text(item)), 0) / references.length) : wordCount(text(source));
      return { index, length, scores, spread: known.length ? spreadOf(known) : 0 };
    });
  }

  function select() { // the rows that have the text, in order
    const wanted = find("search").value.normalize("NFC").toLowerCase().trim(), key = find("sort").value;
    const value = (row) => (key.startsWith("run") ? row.scores[Number(key.slice(3))] ?? -1 : row[key]);
    let matching = null;
    if (wanted) matching = new Set(data.texts.flatMap((item, i) => (item.toLowerCase().includes(wanted) ? [i] : [])));
    const has = ({ index }) => matching.has(data.sources[index]) || data.references[index].some((i) => matching.has(i)) || data.outputs.some((outputs) => matching.has(outputs[index]));
    shown = matching ? rows.filter(has) : [...rows];
    const sign = isDescending ? -1 : 1;
    shown.sort((a, b) => sign * (value(a) - value(b)) || a.index - b.index);
    page = 0;
    drawList();
  }

  function marked(name, string, attributes) { // a text with what was searched for
    const node = quoted(name, string, attributes), wanted = find("search").value.normalize("NFC").toLowerCase().trim();
    const lower = string.toLowerCase();
    if (!wanted || lower.length !== string.length || !lower.includes(wanted)) return node;
    node.textContent = "";
    let start = 0;
    for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, start)) {
      node.append(string.slice(start, at), element("mark", string.slice(at, at + wanted.length)));
      start = at + wanted.length;
    }
    node.append(string.slice(start));
    return node;
  }

  function listRow({ index, length, spread, scores }) {
    const row = element("tr"), cell = element("td", "", { class: "text" }), texts = element("dl", "", { class: "texts" });
    const add = (name, score, string) => texts.append(
      name, element("dd", score === null ? "" : score.toFixed(data.digits), { class: "score" }), marked("dd", string, { class: "value" }));
    add(element("dt", data.images ? label("image") : label("source")), null, text(data.sources[index]));
    for (const item of data.references[index]) add(element("dt", label("reference")), null, text(item));
    data.runs.forEach((name, r) => {
      const term = element("dt");
      term.append(quoted("bdi", name));
      add(term, scores[r], text(data.outputs[r][index]));
    });
    cell.append(texts);
    row.append(
      element("th", String(index + 1), { scope: "row", "data-label": label("number") }),
      element("td", String(length), { "data-label": label("words") }),
      element("td", spread.toFixed(data.digits), { "data-label": label("spread") }), cell);
    return row;
  }

  function drawList() {
    const first = page * PAGE, part = shown.slice(first, first + PAGE), table = element("table"), body = element("tbody");
    const head = element("tr"), top = element("thead"), number = (n) => n.toLocaleString("en");
    find("shown").textContent = part.length ? label("of")(number(first + 1), number(first + part.length), number(shown.length)) : label("none");
    find("back").disabled = page === 0;
    find("forth").disabled = first + PAGE >= shown.length;
    const columns = [["№", "number"], [label("words"), "length"], [label("spread"), "spread"], [label("texts"), ""]];
    for (const [name, key] of columns) {
      const cell = element("th", name, { scope: "col", ...(key ? {} : { class: "text" }) });
      if (key === "number") cell.setAttribute("aria-label", label("number"));
      const isSorted = find("sort").value === (key === "number" ? "index" : key);
      if (isSorted) cell.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
      head.append(cell);
    }
    top.append(head);
    body.append(...part.map(listRow));
    table.append(element("caption", label("list"), { class: "spoken" }), top, body);
    find("list").replaceChildren(...(part.length ? [table] : []));
  }

  function drawControls() {
    const chosen = find("sort").value || "index";
    const options = [["index", label("number")], ["length", label("length")], ["spread", label("spread")], ...data.runs.map((name, r) => [`run${r}`, `${label("score")} (${data.score}): ${name}`])];
    find("sort").replaceChildren(...options.map(([value, name]) => element("option", name, { value })));
    find("sort").value = chosen;
    find("direction").textContent = label(isDescending ? "down" : "up");
    for (const name of ["back", "forth"]) find(name).setAttribute("aria-label", label(name));
  }

  function turn(step) {
    page += step;
    drawList();
    find("sentences").scrollIntoView();
  }

  // --- start

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details[data-print]:not([open])")];
    for (const node of opened) node.open = true;
  });
  addEventListener("afterprint", () => opened.forEach((node) => { node.open = false; }));

  async function start() {
    find("language").hidden = false;
    find("language").onclick = () => {
      language = language === "ko" ? "en" : "ko";
      translate();
    };
    if ((navigator.language || "").toLowerCase().startsWith("ko")) language = "ko";
    translate();
    try {
      data = await unpack();
    } catch {
      find("list").textContent = label("old");
      return;
    }
    rows = makeRows();
    drawControls();
    select();
    find("controls").hidden = false;
    let timer = 0;
    find("search").oninput = () => {
      clearTimeout(timer);
      timer = setTimeout(select, 120);
    };
    find("sort").onchange = select;
    find("direction").onclick = () => {
      isDescending = !isDescending;
      find("direction").textContent = label(isDescending ? "down" : "up");
      select();
    };
    find("back").onclick = () => turn(-1);
    find("forth").onclick = () => turn(1);
    for (const node of document.querySelectorAll(".attention")) node.addEventListener("toggle", () => node.open && drawAttention(node));
    dark.addEventListener("change", () => document.querySelectorAll(".attention[open]").forEach(drawAttention));
    document.documentElement.dataset.ready = "yes";
  }

  requestAnimationFrame(() => setTimeout(start)); // paint the report before unpacking the sentences
})();
