// Brings a story to life: point at, tap or focus a word and see what it reads; play how the translation was written.
"use strict";
(() => {
  const ENGLISH = {
    role: "Reads", layer: "Layer", head: "Head", row: "Row", view: "View", numbers: "All numbers", weight: "attention weight",
    link: "link", mean: "mean", heat: "heat", arcs: "arcs", nowhere: "(no word)", figure: "What was looked at",
    cross: "target → source", encoder: "source → source", decoder: "target → target", mattered: "what mattered",
    before: "as it was predicted", after: "after it was written", source: "Source", target: "Target",
    hint: "Point at a word, tap it, or walk with the arrow keys: its weights appear. Enter keeps it, Escape lets go.",
    reads: "reads", isReadBy: "is read by", nothing: "nothing", words: "words", other: "한국어",
    player: "How it was written, piece by piece", first: "To the beginning", back: "One step back", play: "Play", pause: "Pause",
    forth: "One step forward", step: "Step", speed: "Speed", looks: "It looks at the source",
    context: "What it reads forms one context", candidates: "What may come next", written: "Written so far",
    tree: "The search: beginnings kept, ended and given up", wins: "the translation", kept: "kept", ended: "ended",
    pruned: "given up", end: "(end)", rest: "rest", of: "of", writes: "writes", ends: "ends the sentence", chance: "probability",
    edit: "Another sentence", translate: "Translate and compare", asking: "Asking the server …", was: "before", is: "now",
    show: "Look at this one", shown: "Shown below", failed: "The server did not answer as hoped:", empty: "Write a sentence first.",
    trust: (read, parts) => `Attention shows where the model looked, not what its words hang on. Asked what mattered, by rank correlation with ${read}: ${parts}. (1: the same order, 0: none; “what mattered” shows the measures.)`,
    unknown: "unknown", gradient: "gradient × input", omission: "leaving words out",
    pictured: { // what is said otherwise of a caption
      source: "Picture", target: "Caption", cross: "caption → picture", decoder: "caption → caption", looks: "It looks at the picture",
      hint: "Point at a word, tap it, or walk with the arrow keys: where it looked lights up; point at the picture for the words that looked there. Cells are row·column. Enter keeps it, Escape lets go.",
      wins: "the caption", heat: "one word", sheet: "every word",
    },
  };
  const KOREAN = {
    role: "읽기", layer: "층", head: "헤드", row: "행", view: "모양", numbers: "모든 수치", weight: "어텐션 가중치",
    link: "정렬", mean: "평균", heat: "열지도", arcs: "연결선", nowhere: "(단어 없음)", figure: "무엇을 보았는가",
    cross: "번역문 → 원문", encoder: "원문 → 원문", decoder: "번역문 → 번역문", mattered: "실제로 중요했던 것",
    before: "예측할 때", after: "쓰고 난 뒤", source: "원문", target: "번역문",
    hint: "단어를 가리키거나 누르거나 화살표 키로 옮겨 가면 가중치가 나타납니다. Enter로 고정하고 Esc로 풉니다.",
    reads: "→ 읽은 곳:", isReadBy: "← 읽은 단어:", nothing: "없음", words: "단어", other: "English",
    player: "한 조각씩 쓰는 과정", first: "처음으로", back: "한 단계 뒤로", play: "재생", pause: "멈춤",
    forth: "한 단계 앞으로", step: "단계", speed: "속도", looks: "원문을 봅니다",
    context: "읽은 것이 하나의 문맥이 됩니다", candidates: "다음에 올 수 있는 것", written: "지금까지 쓴 것",
    tree: "탐색: 남긴 것, 끝난 것, 버린 것", wins: "번역문", kept: "남김", ended: "끝남",
    pruned: "버림", end: "(끝)", rest: "나머지", of: "/", writes: "씀:", ends: "문장을 끝냄", chance: "확률",
    edit: "다른 문장", translate: "번역해서 비교", asking: "서버에 묻는 중 …", was: "이전", is: "지금",
    show: "이것을 보기", shown: "아래에 표시됨", failed: "서버가 바라던 답을 하지 않았습니다:", empty: "먼저 문장을 쓰세요.",
    trust: (read, parts) => `어텐션은 모델이 어디를 보았는지 말할 뿐, 번역이 무엇에 달려 있는지 말하지 않습니다. 실제로 중요했던 것과 ${read}의 순위 상관: ${parts}. (1: 같은 순서, 0: 무관; “실제로 중요했던 것”에서 볼 수 있습니다.)`,
    unknown: "알 수 없음", gradient: "기울기 × 입력", omission: "단어 빼기",
    pictured: {
      source: "그림", target: "설명", cross: "설명 → 그림", decoder: "설명 → 설명", looks: "그림을 봅니다",
      hint: "단어를 가리키거나 누르거나 화살표 키로 옮겨 가면 그 단어가 본 곳이 밝아집니다. 그림을 가리키면 그곳을 본 단어가 나타납니다. 칸은 행·열입니다. Enter로 고정하고 Esc로 풉니다.",
      wins: "설명", heat: "한 단어", sheet: "모든 단어",
    },
  };
  const CEILINGS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1];

  const find = (id) => document.getElementById(id);
  const first = JSON.parse(find("data").textContent);
  const { palette, endpoint, veil } = first;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let say = (navigator.language || "").toLowerCase().startsWith("ko") ? KOREAN : ENGLISH;
  let story; // what is shown
  let photo; // its picture, where a caption is told
  let at = { role: "cross", block: 0, head: null, after: false, view: "heat" };
  let kept = null; // the choice that stays: {side, index, other}
  let seen; // what show() showed last
  let reading; // the matrix that is shown: {rows, columns, weights, elsewhere, ceiling}
  let buttons = { queries: [], columns: [] };

  // --- small helpers

  function element(name, text = "", attributes = {}) {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function inSvg(name, attributes, text = "") {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    return made;
  }

  const colours = () => palette[dark.matches ? "dark" : "light"];
  const level = (w, ceiling) => Math.min(100, Math.max(0, Math.round((100 * w) / ceiling)));
  const digits = (w) => (w >= 0.005 ? w.toFixed(2) : "");
  const percent = (p) => (p >= 0.0005 ? `${(100 * p).toFixed(1)} %` : "< 0.1 %");

  function tint(node, w, ceiling) {
    const place = level(w, ceiling);
    node.style.background = place ? colours().scale[place] : "";
    node.style.color = place >= 5 ? colours().text[place] : "";
  }

  // --- the numbers

  async function develop(told) { // the picture of a caption, ready to be painted
    if (!told.seen) return;
    told.photo = element("img", "", { src: told.seen.address });
    await told.photo.decode();
  }

  async function unpack(told) { // see `_packed` in story.py
    const { pack, blocks, steps } = told;
    await develop(told);
    const raw = Uint8Array.from(atob(pack), (c) => c.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const fine = steps > 255, count = fine ? bytes.length / 2 : bytes.length;
    let start = 0;
    for (const block of blocks) {
      const [H, R, C] = block.shape, from = start;
      block.get = (h, r, c) => {
        const i = from + (h * R + r) * (C + 1) + c;
        return (fine ? bytes[i] + 256 * bytes[count + i] : bytes[i]) / steps;
      };
      start += H * R * (C + 1);
    }
  }

  function row(block, head, r) { // columns, then what fell on no word
    const [H, , C] = block.shape, heads = head === null ? [...Array(H).keys()] : [head];
    return Array.from({ length: C + 1 }, (_, c) => heads.reduce((sum, h) => sum + block.get(h, r, c), 0) / heads.length);
  }

  function matrix() { // what is shown, between words
    const block = story.blocks[at.block], isCross = block.role === "cross";
    const rows = at.role === "encoder" ? story.source : story.target;
    const columns = at.role === "decoder" ? story.target : story.source;
    const R = block.shape[1];
    const lines = rows.map((_, t) => {
      if (!isCross) return row(block, at.head, t);
      const own = story.words.flatMap((word, p) => (word === t ? [Math.min(R - 1, p + (at.after ? 1 : 0))] : []));
      const parts = own.map((p) => row(block, at.head, p));
      return parts[0].map((_, c) => parts.reduce((sum, part) => sum + part[c], 0) / parts.length);
    });
    const most = Math.max(...lines.map((line) => Math.max(...line)));
    const ceiling = CEILINGS.find((end) => most <= end) || 1;
    return { rows, columns, weights: lines, elsewhere: lines.map((line) => line[columns.length]), ceiling, some: lines.some((line) => line[columns.length] > 0.0005) };
  }

  const said = (key) => (story.seen && say.pictured[key]) || say[key];
  const isPictured = () => Boolean(story.seen) && at.role === "cross";

  // --- words as buttons

  const sides = () => ({ columns: at.role === "decoder" ? "target" : "source", queries: at.role === "encoder" ? "source" : "target" });

  function wordButton(side, word, index, lang) {
    const button = element("button", "", { type: "button", class: "word", "aria-pressed": "false", tabindex: index ? -1 : 0 });
    button.append(element("bdi", word, { lang }), element("small", "", { "aria-hidden": "true" }));
    button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && show({ side, index }));
    button.addEventListener("pointerleave", () => show(kept));
    button.addEventListener("focus", () => button.matches(":focus-visible") && show({ side, index }));
    button.addEventListener("click", () => keep({ side, index }));
    return button;
  }

  function sentence(side) {
    const name = sides()[side], words = story[name], area = find(side), rtl = story.rtl[name];
    find(`${side}-name`).textContent = said(name);
    find(`${side}-name`).parentNode.hidden = side === "columns" && isPictured();
    area.setAttribute("aria-label", `${said(name)}: ${say.words}`);
    buttons[side] = words.map((word, index) => wordButton(side, word, index, story.langs[name][index]));
    area.replaceChildren(...buttons[side]);
    area.dir = rtl ? "rtl" : "ltr";
    area.onkeydown = (event) => walk(event, buttons[side], rtl);
    if (side === "columns") {
      nowhere = element("span", "", { class: "word nowhere" });
      nowhere.append(element("bdi", say.nowhere), element("small"));
      nowhere.hidden = !reading.some;
      area.append(nowhere);
    }
  }
  let nowhere;

  function walk(event, some, isRtl) { // one tab stop a sentence; arrow keys inside
    const here = some.indexOf(document.activeElement), ahead = isRtl ? -1 : 1;
    const to = { ArrowRight: here + ahead, ArrowLeft: here - ahead, ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: some.length - 1 }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (!some[to]) return;
    some[here].tabIndex = -1;
    some[to].tabIndex = 0;
    some[to].focus();
  }

  // --- choosing a word

  function keep(choice) {
    const same = kept && kept.side === choice.side && kept.index === choice.index && kept.other === choice.other;
    kept = same ? null : choice;
    show(kept);
  }

  function show(choice) {
    const now = JSON.stringify([choice, kept]);
    if (now === seen) return;
    seen = now;
    for (const node of [...buttons.queries, ...buttons.columns, nowhere]) {
      node.classList.remove("chosen");
      node.style.background = node.style.color = node.lastChild.textContent = "";
      if (node !== nowhere) node.setAttribute("aria-pressed", "false");
    }
    if (choice) mark(choice);
    find("readout").replaceChildren(...(choice ? about(choice) : [element("span", isPictured() ? say.pictured.hint : say.hint, { class: "muted" })]));
    draw(choice);
  }

  function mark({ side, index, other }) {
    const opposite = side === "queries" ? "columns" : "queries";
    buttons[side][index].classList.add("chosen");
    buttons[side][index].setAttribute("aria-pressed", String(Boolean(kept) && kept.side === side && kept.index === index));
    const read = readOf(side, index);
    read.forEach((w, i) => shade(buttons[opposite][i], w));
    if (side === "queries") shade(nowhere, reading.elsewhere[index]);
    if (other !== undefined) buttons[opposite][other].classList.add("chosen");
  }

  function shade(node, w) {
    node.lastChild.textContent = digits(w);
    if (w >= 0.005) tint(node, w, reading.ceiling);
  }

  const readOf = (side, index) => side === "queries"
    ? reading.columns.map((_, s) => reading.weights[index][s]) : reading.rows.map((_, t) => reading.weights[t][index]);

  function about({ side, index, other }) {
    const names = sides(), opposite = side === "queries" ? "columns" : "queries";
    const name = (which, i) => element("bdi", story[names[which]][i], { lang: story.langs[names[which]][i] });
    const parts = readOf(side, index).map((w, i) => ({ w, i })).filter(({ w, i }) => w >= 0.005 || i === other);
    parts.sort((a, b) => (b.i === other) - (a.i === other) || b.w - a.w);
    const chosen = element("b");
    chosen.append(name(side, index));
    const shares = parts.slice(0, 6).map(({ w, i }) => {
      const share = element(i === other ? "b" : "span", "", { class: "share" });
      share.append(name(opposite, i), ` ${w.toFixed(2)}`);
      return share;
    });
    if (side === "queries" && reading.elsewhere[index] >= 0.005) {
      shares.push(element("span", `${say.nowhere} ${reading.elsewhere[index].toFixed(2)}`, { class: "share" }));
    }
    const list = shares.flatMap((share, n) => (n ? [" · ", share] : [share]));
    return [chosen, ` ${side === "queries" ? say.reads : say.isReadBy} `, ...(list.length ? list : [say.nothing])];
  }

  // --- the picture: heat or arcs, on a canvas, so that two hundred words stay quick

  const canvas = find("canvas"), pen = canvas.getContext("2d");
  const FONT = getComputedStyle(document.body).fontFamily;
  let lies = () => null; // which choice lies under a point

  function sized(width, height) {
    const scale = Math.min(devicePixelRatio || 1, Math.sqrt(30e6 / (width * height)));
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.fillStyle = colours().paper;
    pen.fillRect(0, 0, width, height);
    pen.textBaseline = "middle";
  }

  function elided(text, most) {
    if (pen.measureText(text).width <= most) return text;
    let end = text.length;
    while (end > 1 && pen.measureText(`${text.slice(0, end)}…`).width > most) end--;
    return `${text.slice(0, end)}…`;
  }

  function write(text, x, y, { align = "left", strong = false, muted = false, size = 13, turn = 0, most = 160 } = {}) {
    pen.save();
    pen.translate(x, y);
    if (turn) pen.rotate(-turn);
    pen.font = `${strong ? "700 " : ""}${size}px ${FONT}`;
    pen.fillStyle = muted ? colours().muted : colours().ink;
    pen.textAlign = align;
    pen.fillText(elided(text, most), 0, 0);
    pen.restore();
  }

  const wide = (words, size, most) => {
    pen.font = `${size}px ${FONT}`;
    return Math.min(most, Math.max(...words.map((word) => pen.measureText(word).width)));
  };

  function draw(choice) {
    const how = isPictured() ? { heat: drawPicture, sheet: drawSheet } : { heat: drawHeat, arcs: drawArcs };
    (how[at.view] || drawHeat)(choice);
    canvas.setAttribute("aria-label", `${say.figure}: ${said(at.role)}`);
  }

  // --- a picture: what was not looked at lies under a dark veil

  function light(brush, weights, x, y, width, height) {
    const columns = story.seen.grid[1], most = Math.max(...weights, 1e-9), [red, green, blue, density] = veil;
    const across = story.seen.across.map((edge) => Math.round(x + edge * width)), down = story.seen.down.map((edge) => Math.round(y + edge * height));
    brush.imageSmoothingEnabled = true;
    brush.drawImage(photo, x, y, width, height);
    weights.forEach((w, s) => {
      const r = Math.floor(s / columns), c = s % columns;
      brush.fillStyle = `rgba(${red},${green},${blue},${density * (1 - w / most)})`;
      brush.fillRect(across[c], down[r], across[c + 1] - across[c], down[r + 1] - down[r]);
    });
    ring(brush, weights.indexOf(Math.max(...weights)), x, y, width, height, colours().link);
  }

  function ring(brush, s, x, y, width, height, colour) { // one cell outlined
    const { grid: [, columns], across, down } = story.seen, r = Math.floor(s / columns), c = s % columns;
    const left = x + across[c] * width, top = y + down[r] * height, w = (across[c + 1] - across[c]) * width, h = (down[r + 1] - down[r]) * height;
    brush.strokeStyle = colour;
    brush.lineWidth = 2;
    brush.strokeRect(left + 1, top + 1, w - 2, h - 2);
    if (Math.min(w, h) <= 8) return;
    brush.strokeStyle = colours().paper; // a line between, where the cell has the colour of its outline
    brush.lineWidth = 1;
    brush.strokeRect(left + 2.5, top + 2.5, w - 5, h - 5);
  }

  const shape = (longer) => {
    const [X, Y] = story.seen.size, most = Math.max(X, Y);
    return [(longer * X) / most, (longer * Y) / most];
  };
  const cellsOf = (t) => reading.columns.map((_, s) => reading.weights[t][s]);

  function drawPicture(choice) { // large, for one word; or which words looked at a cell
    const [width, height] = shape(Math.min(420, find("figure").clientWidth - 4)), { across, down } = story.seen;
    sized(width, height);
    pen.drawImage(photo, 0, 0, width, height);
    const word = choice && (choice.side === "queries" ? choice.index : choice.other);
    const cell = choice && (choice.side === "columns" ? choice.index : choice.other);
    if (Number.isInteger(word)) light(pen, cellsOf(word), 0, 0, width, height);
    if (Number.isInteger(cell)) ring(pen, cell, 0, 0, width, height, dark.matches ? "#ffffff" : "#000000");
    lies = (x, y) => {
      const r = down.findLastIndex((edge) => y >= edge * height), c = across.findLastIndex((edge) => x >= edge * width);
      return r >= 0 && r < down.length - 1 && c >= 0 && c < across.length - 1 ? { side: "columns", index: r * (across.length - 1) + c } : null;
    };
  }

  function drawSheet(choice) { // small, one a word
    const room = Math.max(280, find("figure").clientWidth - 4), GAP = 12, HIGH = 22;
    const [width, height] = shape(Math.min(150, (room - GAP) / 2)), across = Math.max(1, Math.min(reading.rows.length, Math.floor((room + GAP) / (width + GAP))));
    sized(across * (width + GAP) - GAP, Math.ceil(reading.rows.length / across) * (height + HIGH + GAP));
    const place = (t) => [(t % across) * (width + GAP), Math.floor(t / across) * (height + HIGH + GAP)];
    reading.rows.forEach((word, t) => {
      const [x, y] = place(t), own = cellsOf(t), strong = choice && choice.side === "queries" && choice.index === t;
      write(word, x, y + HIGH / 2, { strong, most: width - 34 });
      write(Math.max(...own).toFixed(2), x + width, y + HIGH / 2, { align: "right", muted: true, size: 11 });
      light(pen, own, x, y + HIGH, width, height);
    });
    lies = (x, y) => {
      const t = reading.rows.findIndex((_, n) => x >= place(n)[0] && x < place(n)[0] + width && y >= place(n)[1] && y < place(n)[1] + HIGH + height);
      return t < 0 ? null : { side: "queries", index: t };
    };
  }

  function drawHeat(choice) {
    const { rows, columns, weights, elsewhere, ceiling, some } = reading;
    const room = Math.max(280, find("figure").clientWidth), phone = room < 500;
    const most = phone ? 90 : 180, T = rows.length, S = columns.length;
    let size = 13;
    const left = Math.ceil(wide(rows, size, most)) + 12;
    const cell = Math.max(phone ? 20 : 13, Math.min(44, Math.floor(Math.min((room - left - 70) / (S + (some ? 1 : 0)), 900 / T))));
    size = Math.max(10, Math.min(13, 0.8 * cell));
    const longest = wide(columns, size, most), flat = longest + 8 <= cell, width = cell;
    const turn = flat ? 0 : cell >= 20 ? Math.PI / 4 : Math.PI / 2;
    const lift = turn === Math.PI / 2 ? longest : Math.max(size, longest * Math.sin(turn));
    const top = Math.ceil(lift) + 14, end = left + S * width + 8, narrow = Math.max(10, Math.round(cell * 0.5));
    const over = turn === Math.PI / 4 ? longest * 0.75 : 0;
    sized(Math.ceil((some ? end + narrow : left + S * width) + over + 6), top + T * cell + 4);
    const right = some ? end + narrow : left + S * width;
    columns.forEach((word, s) => {
      const strong = choice && ((choice.side === "columns" && choice.index === s) || (choice.side === "queries" && choice.other === s));
      const x = left + (s + 0.5) * width;
      write(word, x, top - 9, flat ? { align: "center", strong, size, most } : { turn, strong, size, most });
    });
    if (some) write(say.nowhere, end + narrow / 2, top - 9, { turn: turn || Math.PI / 4, muted: true, size: Math.min(size, 11), most });
    rows.forEach((word, t) => {
      const y = top + (t + 0.5) * cell;
      const strong = choice && ((choice.side === "queries" && choice.index === t) || (choice.side === "columns" && choice.other === t));
      write(word, left - 8, y, { align: "right", strong, size, most });
      for (let s = 0; s <= S; s++) {
        if (s === S && !some) continue;
        const w = s === S ? elsewhere[t] : weights[t][s], x = s === S ? end : left + s * width, place = level(w, ceiling);
        pen.fillStyle = place ? colours().scale[place] : colours().paper;
        pen.fillRect(x, top + t * cell, (s === S ? narrow : width) - 1, cell - 1);
        if (!place) { pen.strokeStyle = colours().lattice; pen.lineWidth = 1; pen.strokeRect(x + 0.5, top + t * cell + 0.5, (s === S ? narrow : width) - 2, cell - 2); }
        if (cell >= 38 && s < S && w >= 0.005) {
          pen.font = `12px ${FONT}`;
          pen.fillStyle = colours().text[place];
          pen.textAlign = "center";
          pen.fillText(w.toFixed(2), x + width / 2, y);
        }
      }
    });
    frames(choice, left, top, width, cell, right);
    lies = (x, y) => {
      const s = Math.floor((x - left) / width), t = Math.floor((y - top) / cell);
      const inRows = t >= 0 && t < T, inColumns = s >= 0 && s < S;
      if (inRows && inColumns) return { side: "queries", index: t, other: s };
      if (inRows && (x < left || (x >= end && x < right))) return { side: "queries", index: t };
      return inColumns && y < top && turn !== Math.PI / 4 ? { side: "columns", index: s } : null;
    };
  }

  function frames(choice, left, top, width, cell, right) {
    const box = (x, y, w, h, colour, line) => {
      pen.strokeStyle = colour;
      pen.lineWidth = line;
      pen.strokeRect(x - 0.5, y - 0.5, w, h);
    };
    if (at.role === "cross") for (const [s, t] of story.links) box(left + s * width + 1, top + t * cell + 1, width - 2, cell - 2, colours().link, 2);
    if (!choice) return;
    const { side, index, other } = choice, T = reading.rows.length, S = reading.columns.length;
    const line = (t) => box(left - 0.5, top + t * cell - 0.5, right - left + 1, cell + 1, colours().ink, 2);
    const column = (s) => box(left + s * width - 0.5, top - 0.5, width + 1, T * cell + 1, colours().ink, 2);
    (side === "queries" ? line : column)(index);
    if (other !== undefined && other < S) (side === "queries" ? column : line)(other);
  }

  function drawArcs(choice) {
    const { rows, columns, weights, ceiling } = reading, T = rows.length, S = columns.length;
    const room = Math.max(280, Math.min(760, find("figure").clientWidth - 2)), line = Math.max(T, S) > 60 ? 20 : 26, size = 14;
    const most = room * 0.34, left = Math.ceil(wide(columns, size, most)) + 14, right = Math.ceil(wide(rows, size, most)) + 14;
    const height = Math.max(T, S) * line + 8, gap = [(height - S * line) / 2, (height - T * line) / 2];
    sized(room, height);
    const y = (side, i) => gap[side] + (i + 0.5) * line;
    const touched = (t, s) => choice && (choice.side === "queries" ? choice.index === t : choice.index === s);
    const strongest = (t, s, w) => w >= 0.02 && (T * S < 10000 || w >= 0.1 || touched(t, s));
    for (const wanted of [false, true]) {
      rows.forEach((_, t) => columns.forEach((_, s) => {
        const w = weights[t][s];
        if (!strongest(t, s, w) || Boolean(touched(t, s)) !== wanted) return;
        pen.beginPath();
        pen.moveTo(left, y(0, s));
        pen.bezierCurveTo(room / 2, y(0, s), room / 2, y(1, t), room - right, y(1, t));
        pen.strokeStyle = wanted ? colours().link : colours().scale[75];
        pen.globalAlpha = Math.min(1, w / ceiling) * (choice && !wanted ? 0.15 : 0.85);
        pen.lineWidth = 1 + 5 * (w / ceiling);
        pen.stroke();
      }));
    }
    pen.globalAlpha = 1;
    const strong = (side, i) => choice && ((choice.side === side && choice.index === i) || (choice.side !== side && choice.other === i));
    columns.forEach((word, s) => write(word, left - 8, y(0, s), { align: "right", strong: strong("columns", s), size, most }));
    rows.forEach((word, t) => write(word, room - right + 8, y(1, t), { strong: strong("queries", t), size, most }));
    lies = (x, top) => {
      const side = x < room / 2 ? "columns" : "queries", which = side === "columns" ? 0 : 1;
      const index = Math.floor((top - gap[which]) / line);
      return index >= 0 && index < (which ? T : S) ? { side, index } : null;
    };
  }

  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    return lies(event.clientX - box.left, event.clientY - box.top);
  };
  canvas.addEventListener("pointermove", (event) => event.pointerType === "mouse" && show(under(event) || kept));
  canvas.addEventListener("pointerleave", () => show(kept));
  canvas.addEventListener("click", (event) => {
    const choice = under(event);
    if (choice) keep(choice);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    kept = null;
    show(null);
  });

  // --- which read

  function fill(id, options, value) {
    const select = find(id);
    select.replaceChildren(...options.map(([key, text]) => element("option", text, { value: key })));
    select.value = value;
    if (id !== "view") select.parentNode.hidden = options.length < 2;
  }

  const named = (name) => say[{ "gradient × input": "gradient", "leaving words out": "omission" }[name]] || name;

  function choose(changes) {
    const before = sides();
    at = { ...at, ...changes };
    const roles = ["cross", "encoder", "decoder", "mattered"].filter((role) => story.blocks.some((block) => block.role === role));
    if (!roles.includes(at.role)) at.role = roles[0];
    const own = story.blocks.flatMap((block, i) => (block.role === at.role ? [i] : []));
    if (!own.includes(at.block)) at = { ...at, block: own[own.length - 1], head: null };
    const H = story.blocks[at.block].shape[0];
    if (H === 1 || at.head >= H) at.head = H === 1 ? 0 : null;
    if (at.role !== "cross") at.after = false;
    fill("role", roles.map((role) => [role, said(role)]), at.role);
    fill("layer", own.map((i) => [i, named(story.blocks[i].name)]), at.block);
    fill("head", H > 1 ? [["mean", say.mean], ...[...Array(H).keys()].map((h) => [h, String(h + 1)])] : [[0, "1"]], at.head === null ? "mean" : at.head);
    fill("row", at.role === "cross" && story.pieces.length > story.target.length ? [["before", say.before], ["after", say.after]] : [["before", say.before]], at.after ? "after" : "before");
    const views = isPictured() ? ["heat", "sheet"] : ["heat", "arcs"];
    if (!views.includes(at.view)) at.view = "heat";
    fill("view", views.map((view) => [view, (isPictured() && said(view)) || say[view]]), at.view);
    reading = matrix();
    find("scale").hidden = isPictured();
    if (JSON.stringify(before) !== JSON.stringify(sides()) || !buttons.queries.length || changes.fresh) {
      kept = null;
      sentence("columns");
      sentence("queries");
    }
    nowhere.hidden = !reading.some;
    find("ceiling").textContent = reading.ceiling;
    find("bar").style.background = `linear-gradient(to right, ${[0, 20, 40, 60, 80, 100].map((n) => colours().scale[n]).join(",")})`;
    find("linked").hidden = !(story.links.length && at.role === "cross" && at.view === "heat");
    if (find("numbers").open) tabulate();
    seen = undefined;
    show(kept);
    if (story.player.length) step(moment);
  }

  find("role").onchange = (event) => choose({ role: event.target.value });
  find("layer").onchange = (event) => choose({ block: Number(event.target.value) });
  find("head").onchange = (event) => choose({ head: event.target.value === "mean" ? null : Number(event.target.value) });
  find("row").onchange = (event) => choose({ after: event.target.value === "after" });
  find("view").onchange = (event) => choose({ view: event.target.value });

  function tabulate() {
    const names = sides(), { rows, columns, weights, some } = reading;
    const head = element("tr"), table = element("table"), top = element("thead"), body = element("tbody");
    head.append(element("td"), ...columns.map((word, s) => element("th", word, { scope: "col", lang: story.langs[names.columns][s] })));
    if (some) head.append(element("th", say.nowhere, { scope: "col" }));
    top.append(head);
    rows.forEach((word, t) => {
      const line = element("tr");
      line.append(element("th", word, { scope: "row", lang: story.langs[names.queries][t] }));
      line.append(...weights[t].slice(0, columns.length + (some ? 1 : 0)).map((w) => {
        const cell = element("td", w.toFixed(3));
        tint(cell, w, reading.ceiling);
        return cell;
      }));
      body.append(line);
    });
    table.append(top, body);
    find("table").replaceChildren(table);
  }
  find("numbers").addEventListener("toggle", () => find("numbers").open && tabulate());

  // --- the player

  let moment = 0, timer = null;
  const last = () => story.player.length - 1;
  const crossBlock = () => story.blocks[at.block].role === "cross" ? [at.block, at.head] : [story.chosen[0], story.chosen[1]];

  function step(to) {
    moment = Math.min(last(), Math.max(0, to));
    const [b, head] = crossBlock(), block = story.blocks[b];
    const read = row(block, block.shape[0] > 1 ? head : 0, Math.min(block.shape[1] - 1, moment)), S = story.source.length;
    const most = Math.max(...read, 0.001), options = story.player[moment].options, taken = options.find((option) => option[2]);
    find("step").max = last();
    find("step").value = moment;
    find("first").disabled = find("back").disabled = moment === 0;
    find("forth").disabled = moment === last();
    const strongest = read.map((w, s) => ({ w, s })).sort((one, other) => other.w - one.w);
    const word = (s) => (s === S ? say.nowhere : story.source[s]);
    tell(taken, strongest, word);
    find("looks").replaceChildren(...(story.seen ? [scene(read.slice(0, S))] : story.source.map((text, s) => {
      const token = element("span", text, { class: "token", lang: story.langs.source[s] });
      tint(token, read[s], Math.max(0.5, most));
      return token;
    })));
    find("context").parentNode.hidden = Boolean(story.seen);
    flow(strongest.filter(({ w }) => w >= 0.04), word);
    find("context-told").textContent = strongest.slice(0, 4).filter(({ w }) => w >= 0.005).map(({ w, s }) => `${word(s)} ${w.toFixed(2)}`).join(" + ");
    find("options").replaceChildren(...options.map(([piece, chance, isTaken]) => {
      const line = element("div", "", { class: `option${isTaken ? " taken" : ""}`, role: "listitem" });
      const bar = element("div", "", { class: "chance" });
      bar.style.width = `${100 * chance}%`;
      const holder = element("div");
      holder.append(bar);
      line.append(element("bdi", piece.trim() || say.end), holder, element("span", percent(chance), { class: "share" }));
      return line;
    }));
    find("written").replaceChildren(...story.pieces.slice(0, last()).map((piece, p) => {
      const state = p < moment ? "" : p === moment ? " now" : " todo";
      return element("span", piece.trim() || "␣", { class: `token${state}`, style: piece.startsWith(" ") ? "" : "margin-left:-9px" });
    }));
    grow();
  }

  function scene(weights) { // the picture as it is looked at in this step
    const [width, height] = shape(260), sheet = element("canvas", "", { class: "scene", role: "img", "aria-label": said("looks") }), scale = Math.min(3, devicePixelRatio || 1);
    sheet.width = Math.round(width * scale);
    sheet.height = Math.round(height * scale);
    sheet.style.width = `${width}px`;
    sheet.style.height = `${height}px`;
    const brush = sheet.getContext("2d");
    brush.scale(scale, scale);
    light(brush, weights, 0, 0, width, height);
    return sheet;
  }

  function tell(taken, strongest, word) {
    const now = taken ? taken[0].trim() : "", isEnd = moment === last();
    const what = isEnd ? say.ends : `${say.writes} ${now || "␣"}`;
    find("moment").textContent = `${say.step} ${moment + 1} ${say.of} ${last() + 1}: ${what}${taken ? `, ${say.chance} ${percent(taken[1])}` : ""}; ${say.reads} ${word(strongest[0].s)} ${strongest[0].w.toFixed(2)}`;
  }

  function flow(parts, word) { // segments keep their places, so that they can be seen to grow and shrink
    const context = find("context"), rest = Math.max(0, 1 - parts.reduce((sum, { w }) => sum + w, 0));
    const all = [...parts.sort((one, other) => one.s - other.s).map(({ w, s }) => [word(s), w]), ...(rest > 0.005 ? [[say.rest, rest]] : [])];
    while (context.children.length > all.length) context.lastChild.remove();
    while (context.children.length < all.length) context.append(element("span"));
    all.forEach(([text, w], i) => {
      const part = context.children[i], isRest = i === all.length - 1 && rest > 0.005;
      part.textContent = w >= 0.09 ? text : "";
      part.title = `${text} ${w.toFixed(2)}`;
      part.style.flexBasis = `${100 * w}%`;
      const place = isRest ? 0 : level(w, 1);
      part.style.background = isRest ? "" : colours().scale[Math.max(12, place)];
      part.style.color = isRest ? colours().muted : colours().text[Math.max(12, place)];
    });
  }

  function grow() { // the tree of beginnings, as far as it has grown
    const steps = story.player.slice(0, moment + 1), WIDE = 92, HIGH = 24, places = [];
    const most = Math.max(...story.player.map((each) => each.nodes.length));
    find("search").hidden = most === 0;
    if (!most) return;
    const svg = inSvg("svg", { width: 20 + steps.length * WIDE, height: most * HIGH + 12, role: "img", "aria-label": say.tree });
    const lines = inSvg("g", {}), marks = inSvg("g", {});
    steps.forEach(({ nodes }, t) => {
      places.push(nodes.map((_, i) => [12 + t * WIDE, 18 + i * HIGH]));
      nodes.forEach(([parent, piece, chance, , fate, wins], i) => {
        const [x, y] = places[t][i], [px, py] = t ? [places[t - 1][parent][0] + textWide(steps[t - 1].nodes[parent]), places[t - 1][parent][1]] : [0, 18];
        const kind = `${fate}${wins ? " wins" : ""}`;
        lines.append(inSvg("path", { class: kind, d: `M${px} ${py}C${(px + x) / 2} ${py} ${(px + x) / 2} ${y} ${x - 2} ${y}` }));
        const group = inSvg("g", { class: `${kind}${wins && t === moment ? " now" : ""}` }), text = labelOf(piece, fate);
        group.append(inSvg("title", {}, `${piece.trim() || say.end} · ${percent(chance)} · ${say[fate]}`));
        group.append(inSvg("rect", { x: x - 1, y: y - 11, width: textWide([0, piece, 0, 0, fate]) + 2, height: 22, rx: 5 }));
        group.append(inSvg("text", { x: x + 3, y: y + 4.5 }, text));
        marks.append(group);
      });
    });
    svg.append(lines, marks);
    find("tree").replaceChildren(svg);
    find("tree").scrollLeft = svg.width.baseVal.value;
  }

  const labelOf = (piece, fate) => {
    const text = fate === "ended" ? "■" : piece.trim() || "␣";
    return text.length > 9 ? `${text.slice(0, 8)}…` : text;
  };
  const textWide = ([, piece, , , fate]) => {
    pen.font = `700 13px ${FONT}`;
    return Math.min(84, pen.measureText(labelOf(piece, fate)).width + 6);
  };

  function play(on) {
    clearInterval(timer);
    timer = null;
    find("play").textContent = on ? say.pause : say.play;
    if (!on) return;
    if (moment === last()) step(0);
    timer = setInterval(() => (moment < last() ? step(moment + 1) : play(false)), 1100 / Number(find("speed").value));
  }

  find("play").onclick = () => play(timer === null);
  find("first").onclick = () => { play(false); step(0); };
  find("back").onclick = () => { play(false); step(moment - 1); };
  find("forth").onclick = () => { play(false); step(moment + 1); };
  find("step").oninput = (event) => { play(false); step(Number(event.target.value)); };
  find("speed").onchange = () => timer !== null && play(true);
  find("player").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    if (event.target.id === "step" && event.key !== " ") return;
    if (event.key === " " && event.target.tagName === "BUTTON") return;
    const act = {
      " ": () => play(timer === null), ArrowRight: () => { play(false); step(moment + 1); }, ArrowLeft: () => { play(false); step(moment - 1); },
      Home: () => { play(false); step(0); }, End: () => { play(false); step(last()); },
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  // --- another sentence, where a server answers

  let versions = [];

  async function ask(event) {
    event.preventDefault();
    const text = find("text").value.trim();
    if (!text) { find("told").textContent = say.empty; return; }
    find("told").textContent = say.asking;
    try {
      const answer = await fetch(endpoint, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text }) });
      const told = await answer.json();
      if (!answer.ok) throw new Error(told.error || answer.statusText);
      await unpack(told);
      find("told").textContent = "";
      versions = [story, told];
      take(told);
    } catch (problem) {
      find("told").textContent = `${say.failed} ${problem.message}`;
    }
  }

  function compare() {
    find("both").hidden = versions.length < 2;
    find("both").replaceChildren(...versions.map((version, i) => {
      const other = versions[1 - i], box = element("section", "", { class: version === story ? "shown" : "" });
      box.append(element("h2", i ? say.is : say.was));
      for (const side of ["source", "target"]) {
        const line = element("p", "", { dir: "auto", class: side === "source" ? "muted" : "" }), same = common(version[side], other[side]);
        version[side].forEach((word, n) => line.append(element(same.has(n) ? "span" : "mark", word), " "));
        box.append(line);
      }
      const button = element("button", version === story ? say.shown : say.show, { type: "button" });
      button.disabled = version === story;
      button.onclick = () => take(version);
      box.append(button);
      return box;
    }));
  }

  function common(words, others) { // the places of a longest common subsequence
    const best = Array.from({ length: words.length + 1 }, () => new Uint16Array(others.length + 1));
    for (let i = words.length - 1; i >= 0; i--) for (let j = others.length - 1; j >= 0; j--) {
      best[i][j] = words[i] === others[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
    const places = new Set();
    for (let i = 0, j = 0; i < words.length && j < others.length;) {
      if (words[i] === others[j]) { places.add(i++); j++; } else if (best[i + 1][j] >= best[i][j + 1]) i++; else j++;
    }
    return places;
  }

  // --- beginning

  function take(told) { // show another story
    story = told;
    photo = told.photo;
    play(false);
    moment = 0;
    const [block, head, after] = story.chosen;
    find("title").textContent = story.title;
    find("player").hidden = !story.player.length;
    find("text").value = story.seen ? "" : story.source.join(" ");
    words();
    choose({ role: story.blocks[block].role, block, head, after, fresh: true });
    compare();
  }

  function readName() { // the read that was compared with what mattered
    const [block, head] = story.chosen;
    return `${say.layer} ${story.blocks[block].name}, ${head === null ? say.mean : `${say.head} ${head + 1}`}`;
  }

  function words() { // everything that is said in one of two languages
    document.documentElement.lang = say === KOREAN ? "ko" : "en";
    for (const node of document.querySelectorAll("[data-text]")) node.textContent = said(node.dataset.text);
    find("language").textContent = say.other;
    find("language").lang = say === KOREAN ? "en" : "ko";
    for (const name of ["first", "back", "forth", "step"]) find(name).setAttribute("aria-label", say[name]);
    find("play").textContent = timer === null ? say.play : say.pause;
    find("figure").setAttribute("aria-label", say.figure);
    find("tree").setAttribute("aria-label", say.tree);
    find("table").setAttribute("aria-label", say.numbers);
    const trust = story.trust;
    find("trust").hidden = !trust;
    if (trust) {
      const parts = trust.agreement.map(([name, value]) => `${named(name)} ${value === null ? say.unknown : value.toFixed(2).replace("-", "−")}`);
      find("trust").textContent = say.trust(readName(), parts.join(", "));
    }
  }

  async function begin() {
    await unpack(first);
    for (const id of ["words", "figure", "scale", "numbers", "language"]) find(id).hidden = false;
    if (endpoint && !first.seen && location.protocol.startsWith("http")) {
      find("edit").hidden = false;
      find("edit").onsubmit = ask;
    }
    find("language").onclick = () => {
      say = say === KOREAN ? ENGLISH : KOREAN;
      words();
      choose({ fresh: true });
      compare();
    };
    take(first);
    const again = () => { seen = undefined; choose({}); };
    dark.addEventListener("change", again);
    let room = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== room) { room = innerWidth; again(); } });
    document.fonts.ready.then(again);
    document.documentElement.dataset.ready = "yes";
  }

  requestAnimationFrame(() => setTimeout(begin)); // first the title, then the numbers
})();
