// The diagram of a step of a model, one that stays whole while each step lights its parts: for the player (explanation_page.js) and for figures.
// mechanism.py draws the same for figures without JavaScript.
"use strict";
const mechanism = (() => {
  const LABELS = {
    en: {
      candidates: "Candidates for the next token",
      sourceRow: "words", stateRow: "states h", scoreRow: "scores e", barsFrom: (score) => `bars from ${score}`, weightRow: "weights α", contextRow: "context c",
      startMark: "⟨start⟩", query: "query", own: "state", ownBefore: "state before", outputLayer: "output, softmax", nextWord: "next word", wordBefore: "word before",
      encoderLayers: (count) => `encoder: ${count} layers of self-attention`, decoderLayers: (count) => (count ? `decoder: ${count} layers` : "decoder"), ofHeads: (count) => `${count} heads: softmax, mean`,
      end: "⟨end⟩",
      percent: " %",
      stepOf: (step, count) => `Step ${step} of ${count}: `,
      writes: (word, p, name, weight) => `${word ? `predicts ${word.replace(/,$/, "")}` : "ends the sentence"}${p && `, probability ${p}`}${name && `; attends to ${name} ${weight}`}`,
      encoding: "Encoder",
      readsToken: (forth, back) => (back === undefined ? `the encoder reads ${forth}` : `the encoder reads ${forth} and, from the end, ${back}`),
      allRead: "all is read, and the decoder begins",
    },
    ko: {
      candidates: "다음 토큰 후보",
      sourceRow: "단어", stateRow: "상태 h", scoreRow: "점수 e", barsFrom: (score) => `막대: ${score}부터`, weightRow: "가중치 α", contextRow: "컨텍스트 c",
      startMark: "⟨시작⟩", query: "쿼리", own: "상태", ownBefore: "앞 상태", outputLayer: "출력층, softmax", nextWord: "다음 단어", wordBefore: "앞 단어",
      encoderLayers: (count) => `인코더: 셀프 어텐션 ${count}층`, decoderLayers: (count) => (count ? `디코더 ${count}층` : "디코더"), ofHeads: (count) => `헤드 ${count}개: softmax, 평균`,
      end: "⟨끝⟩",
      percent: "%",
      stepOf: (step, count) => `${count}단계 중 ${step}단계: `,
      writes: (word, p, name, weight) => `${word ? `‘${word}’` : "문장 끝"} 예측${p && `(확률 ${p})`}${name && `, ‘${name}’에 주목(${weight})`}`,
      encoding: "인코더",
      readsToken: (forth, back) => (back === undefined ? `인코더가 읽는 토큰: ${forth}` : `인코더가 읽는 토큰: 앞에서 ${forth}, 뒤에서 ${back}`),
      allRead: "다 읽었습니다. 이제 디코더가 시작합니다",
    },
  };

  const SLANTED = 48, FEW = 3, LEAST = -6.9, CLOSE = 12; // height of slanted words; candidates of a diagram with all words; where bars of scores begin below the highest (a weight a thousandth of the largest); pixels that rows are closer in a diagram with all words

  function inSvg(name, attributes, text = "") {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text) node.textContent = text;
    return node;
  }

  const level = (w, ceiling) => Math.min(100, Math.max(0, Math.round((100 * w) / ceiling)));
  const digits = (w) => (w >= 0.005 ? w.toFixed(2) : "");
  const percent = (labels, p) => (p >= 0.0005 ? `${(100 * p).toFixed(1)} %` : "< 0.1 %").replace(" %", labels.percent);
  const tokenLabel = (labels, token) => (["</s>", "(end)"].includes(token) ? labels.end : token.trim() || "␣");

  const pen = document.createElement("canvas").getContext("2d");
  function widthOf(font, text) {
    pen.font = font;
    return pen.measureText(text).width;
  }

  function elided(font, text, limit) {
    if (widthOf(font, text) <= limit) return text;
    let end = text.length;
    while (end > 1 && widthOf(font, `${text.slice(0, end)}…`) > limit) end--;
    return `${text.slice(0, end)}…`;
  }

  // --- steps of an output: its words, or their pieces

  const goesOn = ({ target_words: words }, t) => words[t] >= 0 && words[t] === words[t + 1];
  const stops = (data, isByPiece) => [...data.steps.keys()].filter((t) => isByPiece || !t || !goesOn(data, t - 1)); // the first tokens
  const endOf = (data, t, isByPiece) => { while (!isByPiece && goesOn(data, t)) t++; return t; };
  const chosenAt = (data, t) => data.steps[t].candidates.find((candidate) => candidate[2]);
  const joined = ({ data, labels, isByPiece }, t) => tokenLabel(labels, data.tokens.slice(t, endOf(data, t, isByPiece) + 1).join(""));

  /** The source words of the diagram, the strongest of all steps: [index, text, its tokens]; the end is −1. */
  function sourceColumns({ data, labels, weightsAt, isWhole }, fit, weights, at) {
    const { states } = data, ofTokens = states ? states.words : [];
    const columns = data.source.map((text, s) => [s, text, ofTokens.flatMap((word, token) => (word === s ? [token] : []))]);
    const hasEnd = states?.is_all || (weightsAt && data.steps.some((_, t) => weightsAt(t).at(-1) >= 0.005));
    if (hasEnd) columns.push([-1, labels.end, ofTokens.flatMap((word, token) => (word < 0 ? [token] : []))]);
    if (isWhole || columns.length <= fit) return columns;
    const now = Math.max(0, columns.findIndex(([, , tokens]) => tokens.includes(at)));
    const strength = ([s], i) => (states?.is_all && i % (columns.length - 1) === 0 ? Infinity : weights ? (data.image ? weights.at(s) : Math.max(...data.steps.map((_, t) => weightsAt(t).at(s)))) : -Math.abs(i - now));
    return columns.map((column, i) => [strength(column, i), i]).sort((a, b) => b[0] - a[0]).slice(0, fit).map(([, i]) => i).sort((a, b) => a - b).map((i) => columns[i]);
  }

  /**
   * Draw the model in step e of the encoder, or in step t of the decoder (null before it): words, states, scores, softmax, Σ, next word.
   *
   * `view`: `data` of explanationData; `layer` of cross-attention and `head` (null: their mean), none of a model without attention, and
   * `weightsAt(t)`, its weights; `labels`; `shades`, the colours of a theme; `isByPiece`; `status`, what the step does;
   * `isWhole`: draw all words, slanted where they have no room, so that nothing moves between steps; without it, those that have room.
   */
  function draw(area, view, e, t) {
    const { data, labels, shades, layer, head, weightsAt, isByPiece, isWhole, status } = view, { states } = data, isDecoding = t !== null, cross = Boolean(layer), isBefore = cross && states?.order === "bahdanau";
    const W = Math.max(340, Math.min(880, area.clientWidth - 2)), isNarrow = W < 520, GUTTER = isNarrow ? 0 : 76, RIGHT = isNarrow ? 146 : 190, x0 = W - RIGHT, middle = x0 + 10 + RIGHT / 2, room = x0 - (isNarrow ? 14 : 46) - GUTTER;
    const H = cross ? layer.shape[0] : 0, lastOf = (at) => endOf(data, at, isByPiece), wordAt = (at) => joined(view, at);
    const weights = cross && isDecoding ? weightsAt(t) : null;
    const fit = Math.floor(room / (GUTTER ? 46 : 38)), columns = sourceColumns(view, fit, weights, e), hidden = data.source.length - columns.filter(([s]) => s >= 0).length;
    const wide = Math.min(96, room / columns.length), xOf = (i) => GUTTER + (i + 0.5) * wide, end = GUTTER + columns.length * wide;
    const K = states ? states.directions : 1, font = `13px ${getComputedStyle(area).fontFamily}`;
    const isSlanted = isWhole && columns.some(([, word]) => widthOf(font, word) > wide - 4), raised = isSlanted ? SLANTED : 0, slant = wide < 18 ? 70 : 50; // degrees: steep where words are close
    const half = Math.min(14, wide / 2 - 1), stripWidth = Math.max(0.6 * wide, wide - 14), isClear = (w, most) => wide > 30 || w === most;
    const listed = (at) => data.steps[at].candidates.slice(0, isWhole ? FEW : undefined);
    const yState = raised + (states ? 38 : 74), bottom = yState + (states ? K * 17 : 18), isHead = H === 1 || (cross && head !== null), near = isWhole && cross ? CLOSE : 0, yScore = bottom + 44 - near, ySoft = isHead ? yScore + 62 : bottom + 40, yWeight = ySoft + 34 - near, ySum = cross ? yWeight + 84 - near : bottom + 44;
    const yQuery = isHead ? yScore - 12 : ySoft + 10, yOwn = cross ? yQuery - 13 : ySum - 13, yNew = isBefore ? ySum + 32 : null, yOut = (yNew ?? ySum) + 38, yNext = yOut + 34 + Math.max(...data.steps.map((_, at) => listed(at).length)) * 21;
    const svg = inSvg("svg", { width: W, height: yNext + 34, viewBox: `0 0 ${W} ${yNext + 34}`, role: "img" });
    let group;
    const stage = (number, isLit) => {
      svg.append(group = inSvg("g", { class: isLit ? "lit" : "dim" }));
      group.style.setProperty("--stage", number);
    };
    const text = (x, y, content, attributes = {}) => group.append(inSvg("text", { x, y, "text-anchor": "middle", ...attributes }, content));
    const box = (x, y, width, height, kind = "") => group.append(inSvg("rect", { x, y, width, height, rx: 5, class: kind }));
    const wire = (d, kind = "") => group.append(inSvg("path", { d, class: `wire ${kind}` }));
    const arrow = (kind, ...points) => { // each point beside or below the one before
      const [[x1, y1], [x, y]] = points.slice(-2), dx = 3 * Math.sign(x - x1), dy = 3 * Math.sign(y - y1);
      wire(`M${points.map((point) => point.join(" ")).join("L")}`, kind);
      wire(`M${x - 2 * dx - dy} ${y - 2 * dy + dx}L${x} ${y}L${x - 2 * dx + dy} ${y - 2 * dy - dx}z`, `${kind} tip`);
    };
    const figure = (x, y, content) => text(Math.max(x, GUTTER + widthOf(font, content) / 2), y, content, { class: "number" }); // within the diagram where bars are close to its edge
    const name = (x, y, content, anchor = "start") => text(x, y, content, { "text-anchor": anchor, class: "name" });
    const named = (y, content, isShort = true) => (isNarrow ? isWhole && isShort && name(end + 8, y, content) : name(0, y, content)); // on a narrow screen rows have no room on their left
    const beside = (y, height, content, anchor = "end") => (isNarrow ? isWhole && name(anchor === "end" ? middle - 5 : middle + 5, y - 5, content, anchor) : name(x0 + 24, y + height - 1, content, "end"));
    const fitted = (content, width) => elided(font, content, width);
    const stripAt = ({ numbers, largest }, x, y, width, height) => {
      const cell = width / numbers.length;
      numbers.forEach((value, n) => group.append(inSvg("rect", { x: x + n * cell, y, width: cell + 0.3, height, fill: shades.signed[Math.round(50 * (value / largest + 1))], stroke: "none" })));
      group.append(inSvg("rect", { x, y, width, height, class: "frame" }));
    };

    // the encoder: words, and a state of each
    stage(0, true);
    const more = hidden > 0 ? ` (+${hidden})` : "";
    named(18, (data.image ? labels.caption.sourceRow : labels.sourceRow) + more, false);
    if (isNarrow) text(end + 15, 18, more, { class: "name" });
    columns.forEach(([s, word], i) => {
      const attributes = s >= 0 ? { lang: data.langs.source[s] } : { class: "name" }, x = xOf(i), y = 18 + raised;
      if (isSlanted) text(x + 4, y, fitted(word, SLANTED / Math.sin((slant * Math.PI) / 180)), { ...attributes, "text-anchor": "start", transform: `rotate(-${slant} ${x + 4} ${y})`, style: slant > 50 ? "font-size: 11px" : "" });
      else text(x, y, fitted(word, wide - 2), attributes);
    });
    named(yState + 13, labels.stateRow);
    if (!states) {
      const layers = data.layers.filter(({ role }) => role === "encoder").length;
      box(GUTTER, 34, end - GUTTER, 24, "source");
      text((GUTTER + end) / 2, 50, fitted(layers ? labels.encoderLayers(layers) : labels.encoding, end - GUTTER - 8));
    }
    columns.forEach(([, , tokens], i) => {
      const x = xOf(i), S = states ? states.tokens.length : 0, w = stripWidth;
      stage(0, true);
      if (!states) {
        wire(`M${x} 24V34`);
        arrow("", [x, 58], [x, yState]);
        box(x - 16, yState, 32, 18, "source");
        return;
      }
      arrow("", [x, 24 + raised], [x, yState - 1]);
      for (let k = 0; k < K; k++) { // after the word's last token in this direction
        const token = k ? tokens[0] : tokens[tokens.length - 1], isRead = isDecoding || (k ? token >= S - 1 - e : token <= e), y = yState + 17 * k;
        stage(0, isRead);
        if (isRead) stripAt(states.encoder(token, k), x - w / 2, y, w, 13);
        else box(x - w / 2, y, w, 13);
        const ends = [[x + w / 2, y + 6], [x + wide - w / 2, y + 6]];
        if (i + 1 < columns.length) arrow("", ...(k ? ends.reverse() : ends));
      }
    });

    // attention: scores on the wires, softmax, weights, their sum
    if (cross) {
      const top = weights ? Math.max(...weights) : 1, highest = weights && isHead && layer.logSum ? Math.log(top) + layer.logSum(head ?? 0, t) : 0;
      const signed = (score) => (Math.abs(score) < 0.05 ? "0" : score.toFixed(1).replace("-", "−"));
      stage(1, isDecoding);
      if (isHead) {
        named(yScore + 12, labels.scoreRow);
        if (isWhole && weights) name(end + 8, yScore + 38, labels.barsFrom(signed(highest + LEAST)));
      }
      arrow("query", [x0 + 29, yQuery], [isHead ? GUTTER : end, yQuery]);
      if (!isNarrow) text(end + 8, yQuery - 6, labels.query, { class: "symbol", "text-anchor": "start" });
      columns.forEach(([s], i) => {
        const x = xOf(i), w = weights ? weights.at(s) : 0, score = w > 0 ? Math.log(w / top) : -Infinity;
        stage(1, isDecoding);
        arrow("", [x, bottom + 2], [x, isHead ? yScore - 2 : ySoft]);
        if (isHead) {
          const high = Math.max(1, 34 * (1 - Math.max(LEAST, score) / LEAST));
          group.append(inSvg("rect", { x: x - half, y: yScore + 34 - high, width: 2 * half, height: weights ? high : 1, class: "score" }));
          if (weights && isClear(w, top) && !(isWhole && score <= LEAST)) figure(x, yScore + 48, (score > LEAST ? "" : "< ") + signed(Math.max(LEAST, score) + highest));
          wire(`M${x} ${yScore + 52}V${ySoft - 2}`);
        }
        stage(2, isDecoding);
        wire(`M${x} ${ySoft + 20}V${yWeight + 40 - 40 * w}`);
        group.append(inSvg("rect", { x: x - half, y: yWeight + 40 - Math.max(1, 40 * w), width: 2 * half, height: Math.max(1, 40 * w), fill: shades.scale[Math.max(12, level(w, 1))], stroke: "none" }));
        if (isClear(w, top)) figure(x, yWeight + 53, digits(w));
        stage(3, isDecoding);
        if (w < 0.005) return;
        wire(`M${x} ${yWeight + 58}C${x} ${ySum} ${x} ${ySum} ${end + 10} ${ySum}`, "value");
        Object.assign(group.lastChild.style, { strokeWidth: 0.6 + 6 * w, opacity: 0.2 + 0.8 * w });
      });
      stage(2, isDecoding);
      box(GUTTER, ySoft, end - GUTTER, 20, "soft");
      text((GUTTER + end) / 2, ySoft + 14, isHead ? "softmax" : fitted(labels.ofHeads(H), end - GUTTER - 8));
      named(yWeight + 32, labels.weightRow);
      stage(3, isDecoding);
      group.append(inSvg("circle", { cx: end + 20, cy: ySum, r: 11, class: "sum" }));
      text(end + 20, ySum + 5, "Σ");
      arrow("value", [end + 31, ySum], [isBefore ? middle : middle - 11, ySum]);
      text(Math.max(end + 40, (end + 31 + x0) / 2), ySum - 6, "c", { class: "symbol" });
      named(ySum + 4, labels.contextRow, false);
      if (weights) {
        const parts = [...weights].map((w, s) => [w, s]).sort((a, b) => b[0] - a[0]).filter(([w], i) => i < 3 && w >= 0.005);
        const sumOf = (count) => { // of the largest weights
          const rest = 1 - parts.slice(0, count).reduce((sum, [w]) => sum + w, 0) >= 0.005 ? " + …" : "";
          return `c = ${parts.slice(0, count).map(([w, s]) => `${w.toFixed(2)} h(\u2068${data.source[s] ?? labels.end}\u2069)`).join(" + ")}${count ? rest : "…"}`;
        };
        const room = x0 - GUTTER - 30, count = [3, 2].find((one) => widthOf(font, sumOf(one)) <= room) ?? 1;
        text(GUTTER, ySum + 46, fitted(sumOf(Math.min(count, parts.length)), room), { "text-anchor": "start", id: "context-text" });
      }
    } else if (states) { // the last states alone
      stage(1, isDecoding || e === states.tokens.length - 1);
      for (let k = 0; k < K; k++) {
        const x = k ? xOf(0) : xOf(columns.length - 1);
        arrow("value", [x, yState + 17 * k + 15], [x, ySum], [x0 + 29, ySum]);
        box(x - stripWidth / 2 - 2, yState + 17 * k - 2, stripWidth + 4, 17, "handed");
      }
    }

    // the decoder: the word before, its state, the next word
    const own = (y, title, place, width = RIGHT - 40, height = 26) => {
      const state = states && (place >= 0 ? states.decoder(place) : place === -1 && states.initial);
      if (state) stripAt(state, x0 + 30, y, width, height);
      else box(x0 + 30, y, width, height, "target");
      beside(y, height, title, title === labels.own ? "start" : "end");
      if (!states) text(middle, y + 18, labels.decoderLayers(data.layers.filter(({ role }) => role === "decoder").length));
    };
    const before = isDecoding && t > 0 ? wordAt(stops(data, isByPiece).findLast((stop) => stop < t)) : labels.startMark;
    stage(0, isDecoding);
    beside(isNarrow ? 44 : 4, 16, labels.wordBefore);
    box(x0 + 30, 4, RIGHT - 40, 22, "target");
    text(middle, 19, fitted(before, RIGHT - 50));
    if (isBefore) {
      arrow("", [W - 10, 15], [W - 2, 15], [W - 2, yNew + 13], [W - 9, yNew + 13]);
      own(yOwn, labels.ownBefore, isDecoding ? t - 1 : -2);
      stage(3, isDecoding);
      arrow("", [middle, yOwn + 26], [middle, yNew - 1]);
      own(yNew, labels.own, isDecoding ? t : -2);
    } else {
      arrow("", [middle, 27], [middle, yOwn - 1]);
      own(yOwn, labels.own, isDecoding ? t : -2);
      if (states) { // the recurrence
        own(yOwn - 30, labels.ownBefore, isDecoding ? t - 1 : -2, RIGHT / 2 - 26, 13);
        arrow("", [x0 + 60, yOwn - 17], [x0 + 60, yOwn - 1]);
      }
      if (cross) {
        arrow("", [middle, yOwn + 26], [middle, ySum - 11]);
        stage(3, isDecoding);
        group.append(inSvg("circle", { cx: middle, cy: ySum, r: 11, class: "sum" }));
        text(middle, ySum + 5, "+");
      }
    }
    stage(4, isDecoding);
    arrow("", [middle, yNew ? yNew + 26 : cross ? ySum + 11 : ySum + 13], [middle, yOut - 1]);
    box(x0 + 30, yOut, RIGHT - 40, 22, "target");
    text(middle, yOut + 15, labels.outputLayer);
    const candidates = isDecoding ? listed(t) : [];
    candidates.forEach(([token, probability, isChosen], i) => {
      const y = yOut + 30 + i * 21;
      text(x0 + 74, y + 12, fitted(tokenLabel(labels, token) + (isChosen && lastOf(t) > t ? "-" : ""), 70), { "text-anchor": "end", class: `candidate${isChosen ? " chosen" : ""}` });
      group.append(inSvg("rect", { x: x0 + 80, y, width: Math.max(1, probability * (RIGHT - 134)), height: 15, rx: 2, stroke: "none", fill: shades.scale[isChosen ? 70 : 30] }));
      text(W - 8, y + 12, percent(labels, probability), { class: "number", "text-anchor": "end" });
    });
    stage(5, isDecoding);
    box(x0 + 30, yNext, RIGHT - 40, 26, "next");
    const factors = isDecoding ? data.steps.slice(0, lastOf(t) + 1).map((_, i) => chosenAt(data, i)?.[1]) : [];
    if (factors.length && factors.every(Boolean)) { // the probability of the output so far, and its loss
      const loss = -factors.reduce((sum, p) => sum + Math.log(p), 0), product = Math.exp(-loss).toPrecision(3);
      const ofLast = (count) => `p = ${factors[count] ? "… × " : ""}${factors.slice(-count).map((p) => p.toFixed(3)).join(" × ")}${factors[1] ? ` = ${product}` : ""}`;
      const products = [ofLast(2), ofLast(1), `p = ${product}`], shown = products.find((one) => widthOf(font, one) <= x0 + 22 - GUTTER) ?? products[2];
      text(GUTTER, yNext - 2, shown, { "text-anchor": "start", id: "product" });
      text(GUTTER, yNext + 18, `−ln p = ${Math.abs(loss).toFixed(2)}`, { "text-anchor": "start" });
    }
    text(middle, yNext + 18, isDecoding ? fitted(wordAt(t), RIGHT - 50) : labels.nextWord, { class: "chosen" });
    const spoken = candidates.map(([token, probability]) => `${tokenLabel(labels, token)} ${percent(labels, probability)}`);
    svg.setAttribute("aria-label", [status, ...(spoken.length ? [`${labels.candidates}: ${spoken.join(", ")}`] : [])].join(". "));
    area.replaceChildren(svg);
  }

  return { LABELS, chosenAt, digits, draw, elided, endOf, goesOn, inSvg, joined, level, percent, stops, tokenLabel };
})();
