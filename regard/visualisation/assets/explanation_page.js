// Makes the explanation page interactive: hover, tap or focus a word for its attention weights; play the search step by step.
// The live page (live.js) shows its sentences by the same code: what it needs is returned at the end.
"use strict";
const explanationPage = (() => {
  const ENGLISH = {
    ...mechanism.LABELS.en,
    role: "Attention", layer: "Layer", head: "Head", row: "Row", view: "View", numbers: "All weights", weight: "attention weight",
    link: "link", mean: "mean", heat: "heatmap", arcs: "arcs", heads: "all heads of a word", all: "all layers and heads", special: "start and end", figure: "Attention weights",
    cross: "target → source", encoder: "source → source", decoder: "target → target", attribution: "attribution", measure: "Measure", share: "share of the attribution",
    predicting: "when the word was predicted", shifted: "one step later", source: "Source", target: "Target",
    hint: "Point at a word, tap it, or move with the arrow keys to see its weights. Enter pins it, Escape unpins it.",
    attends: "attends to", attended: "is attended by", nothing: "nothing", words: "words", other: "한국어",
    player: "Step by step: the encoder reads, the decoder writes", first: "First step", back: "Previous step", play: "Play", pause: "Pause",
    forth: "Next step", step: "Step", speed: "Speed", more: "more", pieces: "pieces of words", attention: "Attention to the source",
    output: "Output so far",
    scoreNote: "Bars show how far a score is below the highest: softmax depends on differences alone.",
    tree: "Search tree: hypotheses kept, ended and pruned", wins: "the translation", kept: "kept", ended: "ended",
    pruned: "pruned", inLayer: (layer, head) => `Layer ${layer}, ${head === null ? "mean" : `Head ${head + 1}`}`,
    edit: "Another sentence", translate: "Translate and compare", waiting: "Waiting for the server …", before: "before", after: "now",
    show: "Show this one", shown: "Shown below", failed: "The server answered with an error:", empty: "Enter a sentence first.",
    trust: "Attention shows where the model looked, not what its output depends on.",
    agreement: (head, parts) => `How far it agrees with what the output depends on (${head}): ${parts}. (1: same order, 0: unrelated; “attribution” shows the measures.)`,
    measured: (head, parts, count) => `How far it agrees with what the output depends on (${head}, measured on ${count} other sentences when this page was made): ${parts}. (1: same order, 0: unrelated.)`,
    reads: "attends", isRead: "is attended to",
    layerReads: (layer, count) => `encoder layer ${layer} of ${count}: each word attends to the others`,
    handed: (count) => (count > 1 ? "What is handed over: the last state of each direction, all that the decoder gets of the source" : "What is handed over: the last state, one vector, all that the decoder gets of the source"),
    headsHint: "Colours are heads; lines are as wide and bars as high as the weight.",
    unread: "Probably lost, as no word attends to it and the translation is the same without it:",
    unknown: "unknown", gradient: "gradient × input", erasure: "word erasure",
    caption: { // labels that differ for a caption
      source: "Image", target: "Caption", cross: "caption → image", decoder: "caption → caption", attention: "Attention to the image",
      hint: "Point at a word, tap it, or move with the arrow keys: the cells it attends to light up; point at the image for the words that attend to a cell. Cells are row·column. Enter pins, Escape unpins.",
      wins: "the caption", sourceRow: "cells", heat: "one word", sheet: "every word",
    },
  };
  const KOREAN = {
    ...mechanism.LABELS.ko,
    role: "어텐션", layer: "층", head: "헤드", row: "행", view: "보기", numbers: "모든 가중치", weight: "어텐션 가중치",
    link: "정렬", mean: "평균", heat: "히트맵", arcs: "연결선", heads: "한 단어의 모든 헤드", all: "모든 층과 헤드", special: "시작과 끝", figure: "어텐션 가중치",
    cross: "번역문 → 원문", encoder: "원문 → 원문", decoder: "번역문 → 번역문", attribution: "기여도", measure: "측정값", share: "기여도의 비율",
    predicting: "단어를 예측할 때", shifted: "한 단계 뒤", source: "원문", target: "번역문",
    hint: "단어를 가리키거나 누르거나 화살표 키로 옮겨 가면 가중치가 나타납니다. Enter로 고정하고 Esc로 풉니다.",
    attends: "→ 주목한 곳:", attended: "← 주목한 단어:", nothing: "없음", words: "단어", other: "English",
    player: "한 단계씩: 인코더가 읽고 디코더가 쓰기", first: "처음으로", back: "이전 단계", play: "재생", pause: "멈춤",
    forth: "다음 단계", step: "단계", speed: "속도", more: "더 보기", pieces: "단어 조각", attention: "원문에 대한 어텐션",
    output: "지금까지의 출력",
    scoreNote: "막대는 가장 높은 점수와의 차이를 나타냅니다. softmax 값은 점수의 차이에만 좌우됩니다.",
    tree: "탐색 트리: 유지, 완료, 제거된 가설", wins: "번역문", kept: "유지", ended: "완료",
    pruned: "제거", inLayer: (layer, head) => `${layer}층(${head === null ? "헤드 평균" : `헤드 ${head + 1}`})`,
    edit: "다른 문장", translate: "번역해서 비교", waiting: "서버 응답을 기다리는 중 …", before: "이전", after: "지금",
    show: "이것을 보기", shown: "아래에 표시됨", failed: "서버가 오류로 응답했습니다:", empty: "먼저 문장을 입력하세요.",
    trust: "어텐션은 모델이 주목한 곳을 보여 줄 뿐, 출력이 무엇에 좌우되는지는 알려 주지 않습니다.",
    agreement: (head, parts) => `${head}의 어텐션과 기여도의 순위 상관: ${parts}. 1이면 순서가 같고 0이면 관계가 없습니다. 기여도는 보기에서 “기여도”를 고르면 볼 수 있습니다.`,
    measured: (head, parts, count) => `${head}의 어텐션과 기여도의 순위 상관(이 페이지를 만들 때 다른 문장 ${count}개로 잰 값): ${parts}. 1이면 순서가 같고 0이면 관계가 없습니다.`,
    reads: "주목하는 쪽", isRead: "주목받는 쪽",
    layerReads: (layer, count) => `인코더 ${layer}층(전체 ${count}층): 단어마다 다른 단어에 주목합니다`,
    handed: (count) => (count > 1 ? "넘어가는 것: 두 방향의 마지막 상태. 디코더가 원문에 대해 받는 전부입니다" : "넘어가는 것: 마지막 상태, 벡터 하나. 디코더가 원문에 대해 받는 전부입니다"),
    headsHint: "색은 헤드이고, 가중치가 클수록 선은 굵고 막대는 높습니다.",
    unread: "빠졌을 말(주목하는 단어가 없고, 빼도 번역이 같음):",
    unknown: "알 수 없음", gradient: "기울기 × 입력", erasure: "단어 제거",
    caption: {
      source: "이미지", target: "캡션", cross: "캡션 → 이미지", decoder: "캡션 → 캡션", attention: "이미지에 대한 어텐션",
      hint: "단어를 가리키거나 누르거나 화살표 키로 옮겨 가면 그 단어가 주목한 칸이 밝아집니다. 이미지를 가리키면 그 칸에 주목한 단어가 나타납니다. 칸은 행·열입니다. Enter로 고정하고 Esc로 풉니다.",
      wins: "캡션", sourceRow: "칸", heat: "한 단어", sheet: "모든 단어",
    },
  };
  const CEILINGS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1];

  const find = (id) => document.getElementById(id);
  const initial = JSON.parse(find("data").textContent);
  const { palette, endpoint, veil } = initial, isLive = Boolean(initial.models);
  for (const theme of Object.values(palette)) {
    for (const name of ["scale", "text", "signed", "series"]) theme[name] = theme[name].match(/.{6}/g).map((code) => `#${code}`);
  }
  const dark = matchMedia("screen and (prefers-color-scheme: dark)"); // printed pages are light
  let labels = (initial.language || navigator.language || "").toLowerCase().startsWith("ko") ? KOREAN : ENGLISH;
  let data; // the explanation that is shown
  let bitmap; // its image, if it explains a caption
  let selection = { role: "cross", layer: 0, head: null, shifted: false, view: "heat" };
  let pinned = null; // the choice that stays: {side, index, other}
  let lastShown; // what show() showed last
  let matrix; // the weights that are shown: {rows, columns, weights, special, ceiling, hasSpecial}
  let buttons = { queries: [], columns: [] };

  // --- small helpers

  function element(name, text = "", attributes = {}) {
    const node = document.createElement(name);
    node.textContent = text;
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  }

  const colours = () => palette[dark.matches ? "dark" : "light"];
  const { digits, elided, inSvg, level } = mechanism;
  const tokenLabel = (token) => mechanism.tokenLabel(labels, token);
  const percent = (p) => mechanism.percent(labels, p);

  function tint(node, w, ceiling) {
    const index = level(w, ceiling);
    node.style.background = index ? colours().scale[index] : "";
    node.style.color = index >= 5 ? colours().text[index] : "";
  }

  // --- weights

  /** The data of a page or of an answer: its numbers unpacked, its image decoded. */
  async function unpack(answer) {
    const unpacked = await explanationData.ofPage(answer);
    if (unpacked.image) {
      unpacked.bitmap = element("img", "", { src: unpacked.image.url });
      await unpacked.bitmap.decode();
    }
    return unpacked;
  }

  function attentionRow(layer, head, r) { // columns, then the weight on special tokens
    const [H, , C] = layer.shape, heads = head === null ? [...Array(H).keys()] : [head];
    return Array.from({ length: C + 1 }, (_, c) => heads.reduce((sum, h) => sum + layer.get(h, r, c), 0) / heads.length);
  }

  function wordRows(rows, head, number = selection.layer) { // of each word, of a head or of the mean
    const layer = data.layers[number], isCross = layer.role === "cross", R = layer.shape[1];
    return rows.map((_, t) => {
      if (!isCross) return attentionRow(layer, head, t);
      const steps = data.target_words.flatMap((word, p) => (word === t ? [Math.min(R - 1, p + (selection.shifted ? 1 : 0))] : []));
      const parts = steps.map((p) => attentionRow(layer, head, p));
      return parts[0].map((_, c) => parts.reduce((sum, part) => sum + part[c], 0) / parts.length);
    });
  }

  function selectedMatrix() { // rows and columns are words
    const rows = selection.role === "encoder" ? data.source : data.target;
    const columns = selection.role === "decoder" ? data.target : data.source;
    const lines = wordRows(rows, selection.head), H = data.layers[selection.layer].shape[0];
    const heads = selection.view === "heads" ? [...Array(H).keys()].map((h) => wordRows(rows, h)) : [];
    const largest = Math.max(...lines.map((line) => Math.max(...line)));
    const ceiling = CEILINGS.find((end) => largest <= end) || 1, special = lines.map((line) => line[columns.length]);
    return { rows, columns, weights: lines, heads, special, ceiling, hasSpecial: special.some((w) => w > 0.0005) };
  }

  const label = (key) => (data && data.image && labels.caption[key]) || labels[key];
  const isOverImage = () => Boolean(data.image) && selection.role === "cross";

  // --- words as buttons

  const sides = () => ({ columns: selection.role === "decoder" ? "target" : "source", queries: selection.role === "encoder" ? "source" : "target" });

  function wordButton(side, word, index, lang) {
    const button = element("button", "", { type: "button", class: "word", "aria-pressed": "false", tabindex: index ? -1 : 0 });
    button.append(element("bdi", word, { lang }), element("small", "", { "aria-hidden": "true" }));
    button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && show({ side, index }));
    button.addEventListener("pointerleave", () => show(pinned));
    button.addEventListener("focus", () => button.matches(":focus-visible") && show({ side, index }));
    button.addEventListener("click", () => pin({ side, index }));
    return button;
  }

  function sentence(side) {
    const name = sides()[side], words = data[name], area = find(side), rtl = data.rtl[name];
    find(`${side}-name`).textContent = label(name);
    find(`${side}-name`).parentNode.hidden = side === "columns" && isOverImage();
    area.setAttribute("aria-label", `${label(name)}: ${labels.words}`);
    buttons[side] = words.map((word, index) => wordButton(side, word, index, data.langs[name][index]));
    if (name === "source") for (const index of data.unread) buttons[side][index].classList.add("unread");
    area.replaceChildren(...buttons[side]);
    area.dir = rtl ? "rtl" : "ltr";
    area.onkeydown = (event) => moveFocus(event, buttons[side], rtl);
    if (side === "columns") {
      specialButton = element("span", "", { class: "word special" });
      specialButton.append(element("bdi", labels.special), element("small"));
      specialButton.hidden = !matrix.hasSpecial;
      area.append(specialButton);
    }
  }
  let specialButton;

  function moveFocus(event, sentenceButtons, isRtl) { // one tab stop per sentence; arrow keys inside
    const here = sentenceButtons.indexOf(document.activeElement), ahead = isRtl ? -1 : 1;
    const to = { ArrowRight: here + ahead, ArrowLeft: here - ahead, ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: sentenceButtons.length - 1 }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (!sentenceButtons[to]) return;
    sentenceButtons[here].tabIndex = -1;
    sentenceButtons[to].tabIndex = 0;
    sentenceButtons[to].focus();
  }

  // --- choosing a word

  function pin(choice) {
    const same = pinned && pinned.side === choice.side && pinned.index === choice.index && pinned.other === choice.other;
    pinned = same ? null : choice;
    show(pinned);
  }

  function show(choice) {
    if (!data) return; // the pointer leaves what has just been hidden
    const state = JSON.stringify([choice, pinned]);
    if (state === lastShown) return;
    lastShown = state;
    for (const node of [...buttons.queries, ...buttons.columns, specialButton]) {
      node.classList.remove("chosen");
      node.style.background = node.style.color = node.lastChild.textContent = "";
      if (node !== specialButton) node.setAttribute("aria-pressed", "false");
    }
    if (choice) mark(choice);
    find("readout").replaceChildren(...(choice ? about(choice) : []));
    draw(choice);
  }

  function mark({ side, index, other }) {
    const opposite = side === "queries" ? "columns" : "queries";
    buttons[side][index].classList.add("chosen");
    buttons[side][index].setAttribute("aria-pressed", String(Boolean(pinned) && pinned.side === side && pinned.index === index));
    const read = readOf(side, index);
    read.forEach((w, i) => shade(buttons[opposite][i], w));
    if (side === "queries") shade(specialButton, matrix.special[index]);
    if (other !== undefined) buttons[opposite][other].classList.add("chosen");
  }

  function shade(node, w) {
    node.lastChild.textContent = digits(w);
    if (w >= 0.005) tint(node, w, matrix.ceiling);
  }

  const readOf = (side, index) => side === "queries"
    ? matrix.columns.map((_, s) => matrix.weights[index][s]) : matrix.rows.map((_, t) => matrix.weights[t][index]);

  function about({ side, index, other }) {
    const names = sides(), opposite = side === "queries" ? "columns" : "queries";
    const name = (which, i) => element("bdi", data[names[which]][i], { lang: data.langs[names[which]][i] });
    const parts = readOf(side, index).map((w, i) => ({ w, i })).filter(({ w, i }) => w >= 0.005 || i === other);
    parts.sort((a, b) => (b.i === other) - (a.i === other) || b.w - a.w);
    const chosen = element("b");
    chosen.append(name(side, index));
    const shares = parts.slice(0, 6).map(({ w, i }) => {
      const share = element(i === other ? "b" : "span", "", { class: "share" });
      share.append(name(opposite, i), ` ${w.toFixed(2)}`);
      return share;
    });
    if (side === "queries" && matrix.special[index] >= 0.005) {
      shares.push(element("span", `${labels.special} ${matrix.special[index].toFixed(2)}`, { class: "share" }));
    }
    const list = shares.flatMap((share, n) => (n ? [" · ", share] : [share]));
    return [chosen, ` ${side === "queries" ? labels.attends : labels.attended} `, ...(list.length ? list : [labels.nothing])];
  }

  // --- the figure: heatmap or arcs, on a canvas, so that two hundred words stay quick

  const canvas = find("canvas"), pen = canvas.getContext("2d");
  const FONT = getComputedStyle(document.body).fontFamily;
  let hitTest = () => null; // the choice at a point of the canvas

  function brushOf(sheet, width, height) { // of a canvas that is made as sharp as the screen
    const scale = Math.min(devicePixelRatio || 1, Math.sqrt(30e6 / (width * height))), brush = sheet.getContext("2d");
    sheet.width = Math.round(width * scale);
    sheet.height = Math.round(height * scale);
    Object.assign(sheet.style, { width: `${width}px`, height: `${height}px` });
    brush.setTransform(scale, 0, 0, scale, 0, 0);
    brush.textBaseline = "middle";
    return brush;
  }

  function sized(width, height) {
    brushOf(canvas, width, height).fillStyle = colours().paper;
    pen.fillRect(0, 0, width, height);
  }

  function drawText(text, x, y, { align = "left", strong = false, muted = false, size = 13, turn = 0, limit = 160 } = {}) {
    pen.save();
    pen.translate(x, y);
    if (turn) pen.rotate(-turn);
    pen.font = `${strong ? "700 " : ""}${size}px ${FONT}`;
    pen.fillStyle = muted ? colours().muted : colours().ink;
    pen.textAlign = align;
    pen.fillText(elided(pen.font, text, limit), 0, 0);
    pen.restore();
  }

  const widest = (words, size, limit) => {
    pen.font = `700 ${size}px ${FONT}`; // those of the choice are bold
    return Math.min(limit, Math.max(...words.map((word) => pen.measureText(word).width)));
  };

  function draw(choice) {
    const how = isOverImage() ? { heat: drawImageView, sheet: drawSheet } : { heat: drawHeat, arcs: drawArcs, heads: drawHeads, all: drawAll };
    (how[selection.view] || drawHeat)(choice);
    canvas.setAttribute("aria-label", `${labels.figure}: ${label(selection.role)}`);
  }

  // --- an image: cells with little weight lie under a dark veil

  function drawVeiled(brush, weights, x, y, width, height) {
    const columns = data.image.grid[1], largest = Math.max(...weights, 1e-9), [red, green, blue, opacity] = veil;
    const xs = data.image.column_edges.map((edge) => Math.round(x + edge * width)), ys = data.image.row_edges.map((edge) => Math.round(y + edge * height));
    brush.imageSmoothingEnabled = true;
    brush.drawImage(bitmap, x, y, width, height);
    weights.forEach((w, s) => {
      const r = Math.floor(s / columns), c = s % columns;
      brush.fillStyle = `rgba(${red},${green},${blue},${opacity * (1 - w / largest)})`;
      brush.fillRect(xs[c], ys[r], xs[c + 1] - xs[c], ys[r + 1] - ys[r]);
    });
    outlineCell(brush, weights.indexOf(Math.max(...weights)), x, y, width, height, colours().link);
  }

  function outlineCell(brush, s, x, y, width, height, colour) {
    const { grid: [, columns], column_edges: xs, row_edges: ys } = data.image, r = Math.floor(s / columns), c = s % columns;
    const left = x + xs[c] * width, top = y + ys[r] * height, w = (xs[c + 1] - xs[c]) * width, h = (ys[r + 1] - ys[r]) * height;
    brush.strokeStyle = colour;
    brush.lineWidth = 2;
    brush.strokeRect(left + 1, top + 1, w - 2, h - 2);
    if (Math.min(w, h) <= 8) return;
    brush.strokeStyle = colours().paper; // an inner line, in case the cell has the colour of the outline
    brush.lineWidth = 1;
    brush.strokeRect(left + 2.5, top + 2.5, w - 5, h - 5);
  }

  const imageSize = (longer) => {
    const [X, Y] = data.image.size;
    return [(longer * X) / Math.max(X, Y), (longer * Y) / Math.max(X, Y)];
  };
  const rowWeights = (t) => matrix.columns.map((_, s) => matrix.weights[t][s]);

  function drawImageView(choice) { // large, for one word; or the words that attend to a cell
    const [width, height] = imageSize(Math.min(420, find("figure").clientWidth - 4)), { column_edges: xs, row_edges: ys } = data.image;
    sized(width, height);
    pen.drawImage(bitmap, 0, 0, width, height);
    const word = choice && (choice.side === "queries" ? choice.index : choice.other);
    const cell = choice && (choice.side === "columns" ? choice.index : choice.other);
    if (Number.isInteger(word)) drawVeiled(pen, rowWeights(word), 0, 0, width, height);
    if (Number.isInteger(cell)) outlineCell(pen, cell, 0, 0, width, height, dark.matches ? "#ffffff" : "#000000");
    hitTest = (x, y) => {
      const r = ys.findLastIndex((edge) => y >= edge * height), c = xs.findLastIndex((edge) => x >= edge * width);
      return r >= 0 && r < ys.length - 1 && c >= 0 && c < xs.length - 1 ? { side: "columns", index: r * (xs.length - 1) + c } : null;
    };
  }

  function drawSheet(choice) { // small, one per word
    const room = Math.max(280, find("figure").clientWidth - 4), GAP = 12, HIGH = 22;
    const [width, height] = imageSize(Math.min(150, (room - GAP) / 2)), across = Math.max(1, Math.min(matrix.rows.length, Math.floor((room + GAP) / (width + GAP))));
    sized(across * (width + GAP) - GAP, Math.ceil(matrix.rows.length / across) * (height + HIGH + GAP));
    const panelAt = (t) => [(t % across) * (width + GAP), Math.floor(t / across) * (height + HIGH + GAP)];
    matrix.rows.forEach((word, t) => {
      const [x, y] = panelAt(t), weights = rowWeights(t), strong = choice && choice.side === "queries" && choice.index === t;
      drawText(word, x, y + HIGH / 2, { strong, limit: width - 34 });
      drawText(Math.max(...weights).toFixed(2), x + width, y + HIGH / 2, { align: "right", muted: true, size: 11 });
      drawVeiled(pen, weights, x, y + HIGH, width, height);
    });
    hitTest = (x, y) => {
      const t = matrix.rows.findIndex((_, n) => x >= panelAt(n)[0] && x < panelAt(n)[0] + width && y >= panelAt(n)[1] && y < panelAt(n)[1] + HIGH + height);
      return t < 0 ? null : { side: "queries", index: t };
    };
  }

  function drawHeat(choice) {
    const { rows, columns, weights, special, ceiling, hasSpecial } = matrix;
    const room = Math.max(280, find("figure").clientWidth), phone = room < 500;
    const limit = phone ? 90 : 180, T = rows.length, S = columns.length;
    let size = Math.max(T, S) <= 10 && !phone ? 16 : 13;
    const besideRows = () => Math.ceil(widest(rows, size, limit)) + 12;
    let left = besideRows();
    const cell = Math.max(phone ? 20 : 13, Math.min(104, Math.floor(Math.min((room - left - 70) / (S + (hasSpecial ? 1 : 0)), Math.max(420, 0.68 * innerHeight) / T))));
    size = Math.max(10, Math.min(cell >= 80 ? 18 : cell >= 54 ? 16 : 13, 0.8 * cell));
    left = besideRows(); // of the type as it is now; 70 pixels were left over for it
    const longest = widest(columns, size, limit), flat = longest + 8 <= cell, width = cell;
    const turn = flat ? 0 : cell >= 20 ? Math.PI / 4 : Math.PI / 2;
    const lift = turn === Math.PI / 2 ? longest : Math.max(size, longest * Math.sin(turn));
    const hasNumbers = cell >= 38, end = left + S * width + 8, narrow = hasNumbers ? Math.min(cell, 44) : Math.max(10, Math.round(cell * 0.5));
    const over = turn === Math.PI / 4 ? longest * 0.75 : 0, specialSize = Math.min(size, 12), specialTurn = turn || Math.PI / 4;
    const specialLength = hasSpecial ? widest([labels.special], specialSize, limit) : 0, specialOver = end + narrow / 2 + specialLength * Math.cos(specialTurn) + 8;
    const top = Math.max(Math.ceil(lift), Math.ceil(specialLength * Math.sin(specialTurn))) + 14;
    sized(Math.ceil(Math.max((hasSpecial ? end + narrow : left + S * width) + over + 6, hasSpecial ? specialOver : 0)), top + T * cell + 4);
    const right = hasSpecial ? end + narrow : left + S * width;
    columns.forEach((word, s) => {
      const strong = choice && ((choice.side === "columns" && choice.index === s) || (choice.side === "queries" && choice.other === s));
      const x = left + (s + 0.5) * width;
      drawText(word, x, top - 9, flat ? { align: "center", strong, size, limit } : { turn, strong, size, limit });
    });
    if (hasSpecial) drawText(labels.special, end + narrow / 2, top - 9, { turn: specialTurn, muted: true, size: specialSize, limit });
    rows.forEach((word, t) => {
      const y = top + (t + 0.5) * cell;
      const strong = choice && ((choice.side === "queries" && choice.index === t) || (choice.side === "columns" && choice.other === t));
      drawText(word, left - 8, y, { align: "right", strong, size, limit });
      for (let s = 0; s <= S; s++) {
        if (s === S && !hasSpecial) continue;
        const w = s === S ? special[t] : weights[t][s], x = s === S ? end : left + s * width, shadeIndex = level(w, ceiling);
        pen.fillStyle = shadeIndex ? colours().scale[shadeIndex] : colours().paper;
        pen.fillRect(x, top + t * cell, (s === S ? narrow : width) - 1, cell - 1);
        if (!shadeIndex) { pen.strokeStyle = colours().grid; pen.lineWidth = 1; pen.strokeRect(x + 0.5, top + t * cell + 0.5, (s === S ? narrow : width) - 2, cell - 2); }
        if (hasNumbers && w >= 0.005) {
          pen.font = `${cell >= 80 && s < S ? 15 : 12}px ${FONT}`;
          pen.fillStyle = colours().text[shadeIndex];
          pen.textAlign = "center";
          pen.fillText(w.toFixed(2), x + (s === S ? narrow : width) / 2, y);
        }
      }
    });
    drawOutlines(choice, left, top, width, cell, right);
    hitTest = (x, y) => {
      const s = Math.floor((x - left) / width), t = Math.floor((y - top) / cell);
      const inRows = t >= 0 && t < T, inColumns = s >= 0 && s < S;
      if (inRows && inColumns) return { side: "queries", index: t, other: s };
      if (inRows && (x < left || (x >= end && x < right))) return { side: "queries", index: t };
      return inColumns && y < top && turn !== Math.PI / 4 ? { side: "columns", index: s } : null;
    };
  }

  function drawOutlines(choice, left, top, width, cell, right) {
    const box = (x, y, w, h, colour, line) => {
      pen.strokeStyle = colour;
      pen.lineWidth = line;
      pen.strokeRect(x - 0.5, y - 0.5, w, h);
    };
    if (selection.role === "cross") for (const [s, t] of data.links) box(left + s * width + 1, top + t * cell + 1, width - 2, cell - 2, colours().link, 2);
    if (!choice) return;
    const { side, index, other } = choice, T = matrix.rows.length, S = matrix.columns.length;
    const line = (t) => box(left - 0.5, top + t * cell - 0.5, right - left + 1, cell + 1, colours().ink, 2);
    const column = (s) => box(left + s * width - 0.5, top - 0.5, width + 1, T * cell + 1, colours().ink, 2);
    (side === "queries" ? line : column)(index);
    if (other !== undefined && other < S) (side === "queries" ? column : line)(other);
  }

  function drawArcs(choice) {
    const { rows, columns, weights, ceiling } = matrix, T = rows.length, S = columns.length;
    const room = Math.max(280, Math.min(760, find("figure").clientWidth - 2)), line = Math.max(T, S) > 60 ? 20 : 26, size = 14;
    const limit = room * 0.34, left = Math.ceil(widest(rows, size, limit)) + 14, right = Math.ceil(widest(columns, size, limit)) + 14;
    const height = Math.max(T, S) * line + 8, gap = [(height - T * line) / 2, (height - S * line) / 2];
    sized(room, height);
    const y = (side, i) => gap[side] + (i + 0.5) * line;
    const isChosen = (t, s) => choice && (choice.side === "queries" ? choice.index === t : choice.index === s);
    const isDrawn = (t, s, w) => w >= 0.02 && (T * S < 10000 || w >= 0.1 || isChosen(t, s));
    for (const highlighted of [false, true]) {
      rows.forEach((_, t) => columns.forEach((_, s) => {
        const w = weights[t][s];
        if (!isDrawn(t, s, w) || Boolean(isChosen(t, s)) !== highlighted) return;
        pen.beginPath();
        pen.moveTo(left, y(0, t));
        pen.bezierCurveTo(room / 2, y(0, t), room / 2, y(1, s), room - right, y(1, s));
        pen.strokeStyle = highlighted ? colours().link : colours().scale[75];
        pen.globalAlpha = Math.min(1, w / ceiling) * (choice && !highlighted ? 0.15 : 0.85);
        pen.lineWidth = 1 + 5 * (w / ceiling);
        pen.stroke();
      }));
    }
    pen.globalAlpha = 1;
    const strong = (side, i) => choice && ((choice.side === side && choice.index === i) || (choice.side !== side && choice.other === i));
    rows.forEach((word, t) => drawText(word, left - 8, y(0, t), { align: "right", strong: strong("queries", t), size, limit }));
    columns.forEach((word, s) => drawText(word, room - right + 8, y(1, s), { strong: strong("columns", s), size, limit }));
    hitTest = (x, top) => {
      const which = x < room / 2 ? 0 : 1, index = Math.floor((top - gap[which]) / line);
      return index >= 0 && index < (which ? S : T) ? { side: which ? "columns" : "queries", index } : null;
    };
  }

  // all heads of one word at once, in colours

  const headColour = (h, H) => (H <= colours().series.length ? colours().series[h] : `hsl(${Math.round((360 * h) / H)} 65% ${dark.matches ? 68 : 40}%)`);

  function drawHeads(choice) {
    const { rows, columns, heads } = matrix, H = heads.length, T = rows.length, S = columns.length, size = 15, SQUARE = 11;
    const room = Math.max(280, Math.min(900, find("figure").clientWidth - 2)), line = Math.max(T, S) > 60 ? 20 : Math.max(T, S) > 12 ? 28 : 40;
    const squares = Math.min(H, 16) * SQUARE + 8, limit = Math.max(60, room * 0.3 - squares / 2);
    const side = choice ? choice.side : "queries", index = choice ? choice.index : 0;
    const isRow = side === "queries", left = Math.ceil(widest(rows, size, limit)) + 14 + (isRow ? 0 : squares);
    const right = Math.ceil(widest(columns, size, limit)) + 14 + (isRow ? squares : 0);
    const TOP = 30, height = TOP + Math.max(T, S) * line + 8, gap = [TOP + (height - TOP - T * line) / 2, TOP + (height - TOP - S * line) / 2];
    sized(room, height);
    const y = (which, i) => gap[which] + (i + 0.5) * line, weight = (h, i) => (isRow ? heads[h][index][i] : heads[h][i][index]);
    heads.forEach((_, h) => {
      pen.fillStyle = headColour(h, H);
      pen.fillRect(4 + h * 34, 8, SQUARE, SQUARE);
      drawText(String(h + 1), 4 + h * 34 + SQUARE + 4, 14, { muted: true, size: 12 });
    });
    const opposite = isRow ? columns : rows;
    opposite.forEach((_, i) => heads.forEach((__, h) => {
      const w = weight(h, i), own = y(isRow ? 0 : 1, index), other = y(isRow ? 1 : 0, i);
      const shift = (h - (H - 1) / 2) * Math.min(4, (line - 16) / H), start = (isRow ? own : other) + shift, end = (isRow ? other : own) + shift;
      if (w >= 0.02) {
        pen.beginPath();
        pen.moveTo(left, start);
        pen.bezierCurveTo(room / 2, start, room / 2, end, room - right, end);
        pen.strokeStyle = headColour(h, H);
        pen.globalAlpha = 0.15 + 0.85 * w;
        pen.lineWidth = 1 + 4 * w;
        pen.stroke();
      }
      pen.globalAlpha = Math.min(1, w);
      pen.fillStyle = headColour(h, H);
      const x = (isRow ? room - right + 8 : left - squares) + h * SQUARE;
      if (h < 16) pen.fillRect(x, other - SQUARE / 2, SQUARE - 1, SQUARE);
      pen.globalAlpha = 1;
    }));
    rows.forEach((word, t) => drawText(word, left - 8 - (isRow ? 0 : squares), y(0, t), { align: "right", strong: isRow && t === index, size, limit }));
    columns.forEach((word, s) => drawText(word, room - right + 8 + (isRow ? squares : 0), y(1, s), { strong: !isRow && s === index, size, limit }));
    hitTest = (x, top) => {
      const which = x < room / 2 ? 0 : 1, i = Math.floor((top - gap[which]) / line);
      return i >= 0 && i < (which ? S : T) ? { side: which ? "columns" : "queries", index: i } : null;
    };
  }

  function drawAll() { // a small heatmap of every layer (down) and head (across); a click opens one
    const { rows, columns } = matrix, S = columns.length, H = data.layers[selection.layer].shape[0], LEFT = 26, TOP = 22;
    const layers = [...data.layers.keys()].filter((i) => data.layers[i].role === selection.role);
    const side = Math.min(180, (Math.max(280, find("figure").clientWidth - 2) - LEFT) / H), cell = (side - 8) / Math.max(S, rows.length), high = rows.length * cell + 8;
    sized(LEFT + H * side, TOP + layers.length * high);
    for (let h = 0; h < H; h++) drawText(String(h + 1), LEFT + h * side + (S * cell) / 2, 10, { align: "center", muted: true });
    layers.forEach((number, l) => {
      drawText(data.layers[number].name, 4, TOP + l * high + (high - 8) / 2, { muted: true });
      for (let h = 0; h < H; h++) {
        const x = LEFT + h * side, y = TOP + l * high;
        if (h >= data.layers[number].shape[0]) continue;
        wordRows(rows, h, number).forEach((line, t) => line.slice(0, S).forEach((w, s) => {
          pen.fillStyle = colours().scale[level(w, 1)];
          pen.fillRect(x + s * cell, y + t * cell, cell + 0.3, cell + 0.3);
        }));
        pen.strokeStyle = colours().rule;
        pen.strokeRect(x, y, S * cell, high - 8);
      }
    });
    hitTest = (x, y) => {
      const head = Math.floor((x - LEFT) / side), layer = layers[Math.floor((y - TOP) / high)];
      return head >= 0 && head < H && layer !== undefined ? { layer, head } : null;
    };
  }

  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    return hitTest(event.clientX - box.left, event.clientY - box.top);
  };
  canvas.addEventListener("pointermove", (event) => event.pointerType === "mouse" && selection.view !== "all" && show(under(event) || pinned));
  canvas.addEventListener("pointerleave", () => show(pinned));
  canvas.addEventListener("click", (event) => {
    const choice = under(event);
    if (choice && selection.view === "all") choose({ ...choice, view: "heat" });
    else if (choice) pin(choice);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !data) return;
    pinned = null;
    show(null);
  });

  // --- choosing role, layer, head and row

  function fill(id, options, value) {
    const select = find(id);
    select.replaceChildren(...options.map(([key, text]) => element("option", text, { value: key })));
    select.value = value;
    if (id !== "view") select.parentNode.hidden = options.length < 2;
  }

  const layerName = (name) => labels[{ "gradient × input": "gradient", "word erasure": "erasure" }[name]] || name;

  function choose(changes) {
    if (!data.layers.length) { // a model without attention: there is only the player
      step(current);
      return;
    }
    const before = sides();
    selection = { ...selection, ...changes };
    const roles = ["cross", "encoder", "decoder", "attribution"].filter((role) => data.layers.some((layer) => layer.role === role));
    if (!roles.includes(selection.role)) selection.role = roles[0];
    const layers = data.layers.flatMap((layer, i) => (layer.role === selection.role ? [i] : []));
    if (!layers.includes(selection.layer)) selection = { ...selection, layer: layers[layers.length - 1], head: null };
    const H = data.layers[selection.layer].shape[0];
    if (H === 1 || selection.head >= H) selection.head = H === 1 ? 0 : null;
    if (selection.role !== "cross") selection.shifted = false;
    fill("role", roles.map((role) => [role, label(role)]), selection.role);
    fill("layer", layers.map((i) => [i, layerName(data.layers[i].name)]), selection.layer);
    fill("head", H > 1 ? [["mean", labels.mean], ...[...Array(H).keys()].map((h) => [h, String(h + 1)])] : [[0, "1"]], selection.head === null ? "mean" : selection.head);
    fill("row", selection.role === "cross" && data.tokens.length > data.target.length ? [["predicting", labels.predicting], ["shifted", labels.shifted]] : [["predicting", labels.predicting]], selection.shifted ? "shifted" : "predicting");
    find("more").hidden = find("rows").hidden;
    const views = isOverImage() ? ["heat", "sheet"] : ["heat", "arcs", ...(H > 1 ? ["heads"] : []), ...(H * layers.length > 1 && selection.role !== "attribution" ? ["all"] : [])];
    if (!views.includes(selection.view)) selection.view = "heat";
    fill("view", views.map((view) => [view, (isOverImage() && label(view)) || labels[view]]), selection.view);
    find("hint").textContent = isOverImage() ? labels.caption.hint : selection.view === "heads" ? `${labels.hint} ${labels.headsHint}` : labels.hint;
    find("heads").hidden = H === 1 || ["heads", "all"].includes(selection.view);
    matrix = selectedMatrix();
    find("scale").hidden = isOverImage() || selection.view === "heads";
    find("layer").parentNode.hidden ||= selection.view === "all";
    if (JSON.stringify(before) !== JSON.stringify(sides()) || !buttons.queries.length || changes.fresh) {
      pinned = null;
      sentence("columns");
      sentence("queries");
    }
    specialButton.hidden = !matrix.hasSpecial;
    find("ceiling").textContent = matrix.ceiling;
    const isMeasured = selection.role === "attribution";
    find("layer-name").textContent = isMeasured ? labels.measure : labels.layer;
    find("weight-name").textContent = isMeasured ? labels.share : labels.weight;
    find("bar").style.background = `linear-gradient(to right, ${[0, 20, 40, 60, 80, 100].map((n) => colours().scale[n]).join(",")})`;
    find("linked").hidden = !(data.links.length && selection.role === "cross" && selection.view === "heat");
    if (find("numbers").open) tabulate();
    lastShown = undefined;
    show(pinned);
    if (data.steps.length) step(current);
  }

  find("role").onchange = (event) => choose({ role: event.target.value });
  find("layer").onchange = (event) => choose({ layer: Number(event.target.value) });
  find("head").onchange = (event) => choose({ head: event.target.value === "mean" ? null : Number(event.target.value) });
  find("row").onchange = (event) => choose({ shifted: event.target.value === "shifted" });
  find("view").onchange = (event) => choose({ view: event.target.value });

  function tabulate() {
    const names = sides(), { rows, columns, weights, hasSpecial } = matrix;
    const head = element("tr"), table = element("table"), top = element("thead"), body = element("tbody");
    head.append(element("td"), ...columns.map((word, s) => element("th", word, { scope: "col", lang: data.langs[names.columns][s] })));
    if (hasSpecial) head.append(element("th", labels.special, { scope: "col" }));
    top.append(head);
    rows.forEach((word, t) => {
      const line = element("tr");
      line.append(element("th", word, { scope: "row", lang: data.langs[names.queries][t] }));
      line.append(...weights[t].slice(0, columns.length + (hasSpecial ? 1 : 0)).map((w) => {
        const cell = element("td", w.toFixed(3));
        tint(cell, w, matrix.ceiling);
        return cell;
      }));
      body.append(line);
    });
    table.append(top, body);
    find("table").replaceChildren(table);
  }
  find("numbers").addEventListener("toggle", () => find("numbers").open && tabulate());

  // --- the player

  let current = 0, timer = null; // steps of the encoder, then one for each word of the output
  let isByPiece = false; // then one for each token
  const stops = () => mechanism.stops(data, isByPiece);
  const endOf = (t) => mechanism.endOf(data, t, isByPiece);
  const now = () => stops()[current - encoding()];
  const chosenAt = (t) => mechanism.chosenAt(data, t);
  const joined = (t) => mechanism.joined({ data, labels, isByPiece }, t);
  const encoding = () => (data.states ? data.states.tokens.length : data.layers.filter(({ role }) => role === "encoder").length);
  const last = () => encoding() + stops().length - 1;
  const hasCross = () => data.layers.some(({ role }) => role === "cross");
  const crossLayer = () => data.layers[selection.layer].role === "cross" ? [selection.layer, selection.head] : [data.shown_head[0], data.shown_head[1]];

  function step(to) {
    if (!data.steps.length) return;
    current = Math.min(last(), Math.max(0, to));
    find("step").max = last();
    find("step").value = current;
    find("first").disabled = find("back").disabled = current === 0;
    find("forth").disabled = current === last();
    const isEncoding = current < encoding();
    find("encoding").hidden = !isEncoding || Boolean(data.states);
    document.querySelector(".stage").hidden = isEncoding;
    find("search").hidden = isEncoding;
    if (isEncoding) showEncoder(current);
    else showDecoder(now());
    const isAll = Boolean(data.states?.is_all), isOneHead = hasCross() && (data.layers[crossLayer()[0]].shape[0] === 1 || crossLayer()[1] !== null);
    find("step-note").hidden = isEncoding || !(isAll || isOneHead);
    find("step-note").textContent = isAll ? labels.handed(data.states.directions) : labels.scoreNote;
    const [index, head] = hasCross() ? crossLayer() : [], status = find("step-status").textContent;
    const view = { data, labels, isByPiece, status, head, layer: data.layers[index], weightsAt: hasCross() && stepWeights, shades: colours() };
    mechanism.draw(find("mechanism"), view, isEncoding ? current : encoding() - 1, isEncoding ? null : now());
  }

  const stepName = () => labels.stepOf(current + 1, last() + 1);

  // --- the player: the encoder

  function writeOn(brush, text, x, y, { align = "left", muted = false, size = 14 } = {}) {
    brush.font = `${size}px ${FONT}`;
    brush.fillStyle = muted ? colours().muted : colours().ink;
    brush.textAlign = align;
    brush.fillText(text, x, y);
  }

  function showEncoder(e) {
    if (!data.states) { showReading(e); return; }
    const { tokens, directions: K } = data.states, S = tokens.length, words = tokens.map(tokenLabel);
    find("step-status").textContent = stepName() + (e === S - 1 ? labels.allRead : labels.readsToken(words[e], K > 1 ? words[S - 1 - e] : undefined));
  }

  function showReading(e) { // each word (left) reads words (right), by the mean of the heads
    const layers = data.layers.filter(({ role }) => role === "encoder"), words = data.source, S = words.length, HIGH = S > 40 ? 22 : 32, TOP = 26;
    find("step-status").textContent = stepName() + labels.layerReads(e + 1, layers.length);
    const room = Math.max(280, Math.min(720, find("encoding").clientWidth - 4)), side = Math.ceil(Math.max(widest(words, 15, room * 0.32), widest([labels.reads, labels.isRead], 12, 140))) + 14;
    const brush = brushOf(find("encoding-canvas"), room, TOP + S * HIGH + 4), y = (i) => TOP + (i + 0.5) * HIGH;
    find("encoding-canvas").setAttribute("aria-label", find("step-status").textContent);
    const rows = words.map((_, t) => attentionRow(layers[e], null, t)), top = Math.max(...rows.map((row) => Math.max(...row.slice(0, S))), 0.001);
    writeOn(brush, labels.reads, side - 8, 10, { align: "right", muted: true, size: 12 });
    writeOn(brush, labels.isRead, room - side + 8, 10, { muted: true, size: 12 });
    rows.forEach((row, t) => words.forEach((_, s) => {
      if (row[s] < 0.02) return;
      brush.beginPath();
      brush.moveTo(side, y(t));
      brush.bezierCurveTo(room / 2, y(t), room / 2, y(s), room - side, y(s));
      brush.strokeStyle = colours().scale[75];
      brush.globalAlpha = 0.12 + 0.75 * (row[s] / top);
      brush.lineWidth = 0.8 + 4.5 * (row[s] / top);
      brush.stroke();
    }));
    brush.globalAlpha = 1;
    pen.font = `15px ${FONT}`;
    words.forEach((word, i) => {
      const text = elided(pen.font, word, room * 0.32);
      writeOn(brush, text, side - 8, y(i), { align: "right", size: 15 });
      writeOn(brush, text, room - side + 8, y(i), { size: 15 });
    });
  }

  // --- the player: the decoder

  function showDecoder(t) {
    const S = data.source.length, cross = hasCross(), word = (s) => (s === S ? labels.special : data.source[s]);
    find("step-attention").hidden = !data.image;
    const weights = cross ? stepWeights(t) : null, best = cross ? weights.indexOf(Math.max(...weights)) : -1;
    if (data.image) find("step-source").replaceChildren(stepImage(cross ? weights.slice(0, S) : null));
    describeStep(t, best < 0 ? null : { s: best, w: weights[best] }, word);
    find("output").replaceChildren(...stops().slice(0, -1).map((p) => {
      const state = p < t ? "" : p === t ? " current" : " future";
      return element("span", joined(p), { class: `token${state}${data.tokens[p].startsWith(" ") ? "" : " joined"}` });
    }));
    drawTree(endOf(t));
  }

  function stepWeights(t) { // source words, then special tokens
    const [index, head] = crossLayer(), layer = data.layers[index];
    return attentionRow(layer, layer.shape[0] > 1 ? head : 0, Math.min(layer.shape[1] - 1, t));
  }

  function stepImage(weights) { // the image under the attention of this step; as it is without attention
    const [width, height] = imageSize(260), sheet = element("canvas", "", { class: "step-image", role: "img", "aria-label": label("attention") }), brush = brushOf(sheet, width, height);
    if (weights) drawVeiled(brush, weights, 0, 0, width, height);
    else brush.drawImage(bitmap, 0, 0, width, height);
    return sheet;
  }

  function describeStep(t, strongest, word) {
    const pieces = data.steps.slice(t, endOf(t) + 1).map((_, i) => chosenAt(t + i)), isEnd = t === data.steps.length - 1;
    const p = pieces.reduce((product, piece) => product * piece?.[1], 1);
    const each = pieces.length > 1 && p ? ` (${pieces.map(([token, own]) => `${tokenLabel(token)} ${percent(own)}`).join(" × ")})` : "";
    const attended = strongest ? [word(strongest.s), strongest.w.toFixed(2)] : [""];
    find("step-status").textContent = stepName() + labels.writes(isEnd ? "" : joined(t), p >= 0 ? percent(p) + each : "", ...attended);
  }


  function drawTree(now) { // the search tree up to this step, in the place of the whole, so that nothing moves
    const steps = data.steps.slice(0, now + 1), WIDTH = 92, HEIGHT = 24, positions = [];
    const rows = Math.max(...data.steps.map(({ nodes }) => nodes.length));
    find("search").hidden = rows === 0;
    if (!rows) return;
    const svg = inSvg("svg", { width: 20 + data.steps.length * WIDTH, height: rows * HEIGHT + 12, role: "img", "aria-label": labels.tree });
    const lines = inSvg("g", {}), marks = inSvg("g", {});
    steps.forEach(({ nodes }, t) => {
      positions.push(nodes.map((_, i) => [12 + t * WIDTH, 18 + i * HEIGHT]));
      nodes.forEach(([parent, token, probability, , fate, wins], i) => {
        const [x, y] = positions[t][i], [px, py] = t ? [positions[t - 1][parent][0] + nodeWidth(steps[t - 1].nodes[parent]), positions[t - 1][parent][1]] : [0, 18];
        const kind = `${fate}${wins ? " wins" : ""}`;
        lines.append(inSvg("path", { class: kind, d: `M${px} ${py}C${(px + x) / 2} ${py} ${(px + x) / 2} ${y} ${x - 2} ${y}` }));
        const group = inSvg("g", { class: `${kind}${wins && t === now ? " current" : ""}` }), text = nodeLabel(token, fate);
        group.append(inSvg("title", {}, `${token.trim() || labels.end} · ${percent(probability)} · ${labels[fate]}`));
        group.append(inSvg("rect", { x: x - 1, y: y - 11, width: nodeWidth([0, token, 0, 0, fate]) + 2, height: 22, rx: 5 }));
        group.append(inSvg("text", { x: x + 3, y: y + 4.5 }, text));
        marks.append(group);
      });
    });
    svg.append(lines, marks);
    const area = find("tree"), scrolled = area.scrollLeft, right = 20 + (now + 1) * WIDTH;
    area.replaceChildren(svg);
    const room = area.clientWidth;
    area.scrollLeft = right < room ? 0 : right > scrolled + room || right - WIDTH < scrolled ? right - room / 2 : scrolled;
  }

  const nodeLabel = (token, fate) => {
    const text = fate === "ended" ? "■" : tokenLabel(token);
    return text.length > 9 ? `${text.slice(0, 8)}…` : text;
  };
  const nodeWidth = ([, token, , , fate]) => {
    pen.font = `700 13px ${FONT}`;
    return Math.min(84, pen.measureText(nodeLabel(token, fate)).width + 6);
  };

  function play(on) {
    clearTimeout(timer);
    timer = null;
    find("play").textContent = on ? labels.pause : labels.play;
    find("mechanism").classList.toggle("plays", on);
    if (!on) return;
    if (current === last()) step(0);
    const next = () => { // the encoder goes twice as fast
      timer = setTimeout(() => {
        if (current === last()) { play(false); return; }
        step(current + 1);
        next();
      }, (current < encoding() ? 550 : 1100) / Number(find("speed").value));
    };
    next();
  }

  find("play").onclick = () => play(timer === null);
  find("first").onclick = () => { play(false); step(0); };
  find("back").onclick = () => { play(false); step(current - 1); };
  find("forth").onclick = () => { play(false); step(current + 1); };
  find("step").oninput = (event) => { play(false); step(Number(event.target.value)); };
  find("pieces").onchange = ({ target }) => {
    const t = now();
    isByPiece = target.checked;
    step(t === undefined ? current : encoding() + stops().filter((stop) => stop <= t).length - 1);
  };
  find("speed").onchange = () => timer !== null && play(true);
  find("player").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    if (event.target.matches("#pieces, summary") || event.target.id === "step" && event.key !== " ") return;
    if (event.key === " " && event.target.tagName === "BUTTON") return;
    const act = {
      " ": () => play(timer === null), ArrowRight: () => { play(false); step(current + 1); }, ArrowLeft: () => { play(false); step(current - 1); },
      Home: () => { play(false); step(0); }, End: () => { play(false); step(last()); },
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  // --- another sentence, if a server answers

  let versions = [];

  async function ask(event) {
    event.preventDefault();
    const text = find("text").value.trim();
    if (!text) { find("status").textContent = labels.empty; return; }
    find("status").textContent = labels.waiting;
    try {
      const response = await fetch(endpoint, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text }) });
      const answer = await response.json();
      if (!response.ok) throw new Error(answer.error || response.statusText);
      const shown = await unpack(answer);
      find("status").textContent = "";
      versions = [data, shown];
      showData(shown);
    } catch (problem) {
      find("status").textContent = `${labels.failed} ${problem.message}`;
    }
  }

  function compare() {
    find("comparison").hidden = versions.length < 2;
    find("comparison").replaceChildren(...versions.map((version, i) => {
      const other = versions[1 - i], box = element("section", "", { class: version === data ? "shown" : "" });
      box.append(element("h2", i ? labels.after : labels.before));
      for (const side of ["source", "target"]) {
        const line = element("p", "", { dir: "auto", class: side === "source" ? "muted" : "" }), same = common(version[side], other[side]);
        version[side].forEach((word, n) => line.append(element(same.has(n) ? "span" : "mark", word), " "));
        box.append(line);
      }
      const button = element("button", version === data ? labels.shown : labels.show, { type: "button" });
      button.disabled = version === data;
      button.onclick = () => showData(version);
      box.append(button);
      return box;
    }));
  }

  function common(words, others) { // indices of a longest common subsequence
    const best = Array.from({ length: words.length + 1 }, () => new Uint16Array(others.length + 1));
    for (let i = words.length - 1; i >= 0; i--) for (let j = others.length - 1; j >= 0; j--) {
      best[i][j] = words[i] === others[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
    const indices = new Set();
    for (let i = 0, j = 0; i < words.length && j < others.length;) {
      if (words[i] === others[j]) { indices.add(i++); j++; } else if (best[i + 1][j] >= best[i][j + 1]) i++; else j++;
    }
    return indices;
  }

  // --- start

  function showData(answer) {
    data = answer;
    bitmap = answer.bitmap;
    play(false);
    current = 0;
    if (!isLive) showHeading();
    const hasAttention = data.layers.length > 0;
    for (const id of ["attention", "figure", "scale", "numbers"]) find(id).hidden = !hasAttention;
    find("panes").classList.toggle("both", hasAttention && data.steps.length > 0);
    find("player").hidden = find("search").hidden = !data.steps.length;
    find("by-piece").hidden = ![...data.steps.keys()].some((t) => mechanism.goesOn(data, t));
    updateLabels();
    const [layer, head, shifted] = data.shown_head, keeps = isLive && isShown; // what the reader has chosen stays
    choose({ ...(hasAttention && !keeps ? { role: data.layers[layer].role, layer, head, shifted } : {}), fresh: hasAttention });
    isShown = isShown || hasAttention;
  }
  let isShown = false;

  function showHeading() {
    const source = data.source.join(" ");
    find("title").textContent = data.target.join(" ");
    find("title").classList.toggle("long", find("title").textContent.length > 80);
    find("title").dir = data.rtl.target ? "rtl" : "ltr";
    find("source-line").textContent = source;
    find("source-line").hidden = Boolean(data.image);
    find("name").textContent = data.title;
    find("name").hidden = [source, data.target.join(" ")].includes(data.title);
    find("text").value = data.image ? "" : source;
    compare();
  }

  function shownHeadName() {
    const [layer, head] = data.shown_head;
    return labels.inLayer(data.layers[layer].name, head);
  }

  function updateLabels() { // all texts, in the chosen language
    document.documentElement.lang = labels === KOREAN ? "ko" : "en";
    for (const node of document.querySelectorAll("[data-text]")) node.textContent = label(node.dataset.text);
    find("language").textContent = labels.other;
    find("language").lang = labels === KOREAN ? "en" : "ko";
    for (const changed of onLanguage) changed();
    if (!data) return;
    for (const name of ["first", "back", "forth", "step"]) find(name).setAttribute("aria-label", labels[name]);
    find("play").textContent = timer === null ? labels.play : labels.pause;
    find("figure").setAttribute("aria-label", labels.figure);
    find("tree").setAttribute("aria-label", labels.tree);
    find("table").setAttribute("aria-label", labels.numbers);
    find("unread").hidden = !data.unread.length;
    find("unread").textContent = `${labels.unread} ${data.unread.map((index) => data.source[index]).join(", ")}`;
    find("agreement").hidden = !data.agreement && !(isLive && hasCross());
    find("agreement").textContent = labels.trust;
    const agreement = data.agreement || data.measured?.agreement; // of this sentence, or of others
    if (agreement) {
      const parts = agreement.map(([name, value]) => `${layerName(name)} ${value === null ? labels.unknown : value.toFixed(2).replace("-", "−")}`);
      const sentence = data.agreement ? labels.agreement(shownHeadName(), parts.join(", ")) : labels.measured(shownHeadName(), parts.join(", "), data.measured.sentences);
      find("agreement").textContent += ` ${sentence}`;
    }
  }

  async function start() {
    const unpacked = isLive ? null : await unpack(initial);
    find("language").hidden = false;
    if (endpoint && !initial.image && location.protocol.startsWith("http")) {
      find("edit").hidden = false;
      find("edit").onsubmit = ask;
    }
    find("language").onclick = () => {
      labels = labels === KOREAN ? ENGLISH : KOREAN;
      updateLabels();
      if (data) choose({ fresh: true });
      if (!isLive) compare();
    };
    if (isLive) updateLabels();
    else showData(unpacked);
    dark.addEventListener("change", redraw);
    let room = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== room) { room = innerWidth; redraw(); } });
    document.fonts.ready.then(redraw);
    document.documentElement.dataset.ready = "yes";
  }

  /** Draw again what is shown, in the room that there is now. */
  function redraw() {
    if (!data) return;
    lastShown = undefined;
    choose({});
  }

  function hide() { // there is nothing to show of this sentence
    data = undefined;
    for (const id of ["attention", "figure", "scale", "numbers", "agreement", "player", "search"]) find(id).hidden = true;
  }

  /** Add labels in English and Korean, and call a function whenever the language changes. */
  function addLabels(english, korean, changed) {
    Object.assign(ENGLISH, english);
    Object.assign(KOREAN, korean);
    onLanguage.push(changed);
  }
  const onLanguage = [];

  requestAnimationFrame(() => setTimeout(start)); // paint the title before decoding the weights
  /** Forget which layer, head and view the reader has chosen: another model has others. */
  function reset() {
    isShown = false;
    selection.view = "heat";
  }

  return { addLabels, element, hide, labels: () => labels, moveFocus, redraw, reset, show: showData, unpack };
})();
