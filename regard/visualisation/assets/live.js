// The live page: translates as one types, in a worker, sentence by sentence, and shows what the current sentence attends to.
(() => {
  const ENGLISH = {
    heading: "Translate", private: "Translates on this device. Nothing is sent, nothing is stored.", placeholder: "Type or paste text here", copy: "Copy",
    copied: "Copied", switch: "Switch the direction", translation: "Translation", about: "About the model", loading: "Opening the model …",
    alternatives: (count) => `Translations of this sentence, best first (${count})`, score: "score",
    done: (count, all) => `${count} of ${all} sentences translated`, broken: (message) => `The translator stopped: ${message}. Load the page again.`,
    split: "This sentence was translated in parts, because it is longer than any in training; of parts no attention is shown.",
    repeats: (text, times) => `“${text}” is repeated ${times} times: the translation is probably wrong.`,
    facts: { precision: "weights", parameters: "parameters", size: "size", languages: "languages", fingerprint: "fingerprint", regard: "exported by Regard" },
  };
  const KOREAN = {
    heading: "번역", private: "이 기기에서 번역합니다. 아무것도 보내거나 저장하지 않습니다.", placeholder: "글을 입력하거나 붙여 넣으세요", copy: "복사",
    copied: "복사됨", switch: "방향 바꾸기", translation: "번역문", about: "모델 정보", loading: "모델을 여는 중 …",
    alternatives: (count) => `이 문장의 번역 후보, 좋은 것부터 (${count})`, score: "점수",
    done: (count, all) => `문장 ${all}개 가운데 ${count}개 번역됨`, broken: (message) => `번역기가 멈췄습니다: ${message}. 페이지를 다시 여세요.`,
    split: "학습 때 본 어떤 문장보다 길어서 나누어 번역했습니다. 나눈 문장의 어텐션은 표시하지 않습니다.",
    repeats: (text, times) => `“${text}”이(가) ${times}번 되풀이됩니다. 번역이 틀렸을 수 있습니다.`,
    facts: { precision: "가중치", parameters: "매개변수", size: "크기", languages: "언어", fingerprint: "지문", regard: "내보낸 Regard" },
  };
  const TYPING = 90, HOVER = 120, QUIET = 900; // milliseconds
  const MANY = 30; // sentences, from which on progress is shown
  const LONG = 200; // paragraphs, from which on those out of sight are not laid out
  const BEGINNING = 6; // characters that a sentence still has while it is edited
  const MAX_KEPT = 20000; // translations
  const ABBREVIATION = /(?:^|[\s("'])(?:Mr|Mrs|Ms|Dr|Prof|St|vs|etc|Nr|bzw|ca|e\.g|i\.e|z\.\s?B|d\.\s?h)\.\s*$/i;

  const find = (id) => document.getElementById(id);
  const { element, moveFocus } = explanationPage, words = () => explanationPage.labels();
  const { models } = JSON.parse(find("data").textContent), input = find("input"), output = find("translation");
  const kept = new Map(); // translations by direction and sentence
  const spans = new Map(); // where each sentence is shown
  let waiting = new Set(); // sentences that are not translated yet
  let direction = 0, latest = 0, worker, paragraphs = [], current = null, pinned = false, shownLanguage;
  let pending = { typing: 0, hover: 0, quiet: 0 };

  const keyOf = (sentence) => `${direction}\n${sentence}`;
  const later = (name, delay, run) => { clearTimeout(pending[name]); pending[name] = setTimeout(run, delay); };

  // --- text: paragraphs and sentences

  const segmenters = {};
  function segments(paragraph) {
    if (!Intl.Segmenter) return paragraph.match(/[^.!?…。！？]*[.!?…。！？]+["'”’»)\]]*\s*|[^.!?…。！？]+$/gu) || [];
    const code = models[direction].languages[0] || "en";
    segmenters[code] ??= new Intl.Segmenter(code, { granularity: "sentence" });
    return [...segmenters[code].segment(paragraph)].map(({ segment }) => segment);
  }

  function sentencesOf(paragraph) { // an abbreviation ends no sentence
    const sentences = [];
    let begun = "";
    for (const segment of segments(paragraph)) {
      begun += segment;
      if (ABBREVIATION.test(begun)) continue;
      if (begun.trim()) sentences.push(begun.trim());
      begun = "";
    }
    if (begun.trim()) sentences.push(begun.trim());
    return sentences;
  }

  function sentenceAtCaret() {
    const before = input.value.slice(0, input.selectionStart), number = before.split("\n").length - 1, paragraph = paragraphs[number];
    if (!paragraph) return null;
    let at = before.length - (before.lastIndexOf("\n") + 1), from = 0;
    for (const sentence of paragraph.sentences) {
      from = paragraph.text.indexOf(sentence, from) + sentence.length;
      if (at <= from) return sentence;
    }
    return paragraph.sentences[paragraph.sentences.length - 1] ?? null;
  }

  // --- translation

  function update() { // what was translated before is kept; the rest is asked for, the current sentence first
    const before = paragraphs;
    spans.clear();
    paragraphs = input.value.split("\n").map((text, n) => {
      const same = before[n] && before[n].text === text ? before[n] : { text, sentences: sentencesOf(text), node: null };
      if (!same.node) same.node = paragraphNode(same.sentences, before[n]);
      [...same.node.children].forEach((span, i) => spans.set(same.sentences[i], [...(spans.get(same.sentences[i]) || []), span]));
      return same;
    });
    place(paragraphs.map(({ node }) => node));
    waiting = new Set([...spans.keys()].filter((sentence) => !kept.has(keyOf(sentence))));
    const wanted = [...waiting], caret = sentenceAtCaret();
    if (wanted.includes(caret)) wanted.unshift(...wanted.splice(wanted.indexOf(caret), 1));
    latest++;
    worker.postMessage({ kind: "translate", id: latest, direction, sentences: wanted });
    output.setAttribute("aria-busy", String(wanted.length > 0));
    pinned = pinned && spans.has(current);
    if (!pinned && caret !== current) select(caret);
    else mark();
    progress();
    oneTabStop();
  }

  function place(nodes) { // only what has changed: of a long text nearly all stays
    const stays = new Set(nodes);
    for (const node of [...output.children]) if (!stays.has(node)) node.remove();
    let there = output.firstElementChild;
    for (const node of nodes) {
      if (there === node) there = there.nextElementSibling;
      else output.insertBefore(node, there);
    }
    output.classList.toggle("long", nodes.length > LONG);
  }

  function paragraphNode(sentences, old) {
    const node = element("p");
    sentences.forEach((sentence, i) => {
      const span = element("span", "", { class: "line-of-text pending", role: "button", tabindex: "-1", "aria-pressed": "false", lang: models[direction].languages[1] });
      const isEdited = old && old.sentences[i] && old.sentences[i].slice(0, BEGINNING) === sentence.slice(0, BEGINNING);
      span.textContent = isEdited ? old.node.children[i].textContent : "…"; // until there is a new one
      fill(span, kept.get(keyOf(sentence)));
      node.append(span, " ");
    });
    return node;
  }

  function fill(span, result) {
    if (!result) return;
    span.className = `line-of-text${result.error ? " failed" : ""}`;
    span.textContent = result.chosen || result.text || result.error || "–";
  }

  function progress() {
    const all = spans.size, count = all - waiting.size;
    const text = all >= MANY && count < all ? words().done(count, all) : "";
    if (find("progress").textContent !== text) find("progress").textContent = text;
  }

  function receive({ id, direction: of, results, isDone }) {
    for (const { sentence, ...result } of results) kept.set(`${of}\n${sentence}`, result);
    if (of !== direction) return;
    for (const { sentence } of results) waiting.delete(sentence);
    for (const { sentence } of results) for (const span of spans.get(sentence) || []) fill(span, kept.get(keyOf(sentence)));
    progress();
    if (!isDone || id !== latest) return;
    output.setAttribute("aria-busy", "false");
    if (kept.size > MAX_KEPT) for (const key of [...kept.keys()].slice(0, kept.size - MAX_KEPT)) if (!spans.has(key.slice(2))) kept.delete(key);
    later("quiet", QUIET, () => { // read out by screen readers once typing pauses
      const result = kept.get(keyOf(current));
      if (result) find("spoken").textContent = result.text || result.error;
    });
  }

  // --- the current sentence: alternatives and attention

  const buttons = () => [...output.querySelectorAll(".line-of-text")];

  function oneTabStop() {
    const all = buttons();
    if (all.length && !all.some((span) => span.tabIndex === 0)) all[0].tabIndex = 0;
  }

  function mark() {
    const own = spans.get(current) || [];
    for (const span of output.querySelectorAll("[aria-pressed=true]")) if (!own.includes(span)) span.setAttribute("aria-pressed", "false");
    for (const span of own) span.setAttribute("aria-pressed", "true");
  }

  function select(sentence) {
    current = sentence;
    mark();
    if (!sentence) return showNothing();
    worker.postMessage({ kind: "explain", direction, sentence });
  }

  function showNothing() {
    find("alternatives").hidden = true;
    find("notes").textContent = "";
    explanationPage.hide();
  }

  let explained; // the translation of the current sentence

  function explain({ sentence, direction: of, translation, error }) {
    if (sentence !== current || of !== direction) return; // something newer is wanted
    if (error || !translation.nbest.length) return showNothing();
    explained = translation;
    showAlternatives();
  }

  function showAlternatives() {
    const { nbest, parts, notes } = explained, result = kept.get(keyOf(current)) || {}, best = nbest[0];
    const chosen = nbest.find(({ text }) => text === result.chosen) || best;
    find("alternatives").hidden = nbest.length < 2;
    find("alternatives-name").textContent = words().alternatives(nbest.length);
    find("ranked").replaceChildren(...nbest.map((hypothesis) => {
      const item = element("li"), button = element("button", "", { type: "button", "aria-pressed": String(hypothesis === chosen) });
      button.append(element("span", hypothesis.text || "–", { dir: "auto", lang: models[direction].languages[1] }), element("span", hypothesis.score.toFixed(2).replace("-", "−"), { class: "share", title: words().score }));
      button.onclick = () => choose(hypothesis.text);
      item.append(button);
      return item;
    }));
    const { repetition } = chosen, more = [...(parts > 1 ? [words().split] : []), ...(repetition ? [words().repeats(repetition.text, repetition.times)] : [])];
    find("notes").textContent = [...more, ...notes].join(" ");
    const data = dataOf(explained, chosen);
    if (data) explanationPage.show(data);
    else explanationPage.hide();
  }

  function choose(text) {
    const sentence = current;
    kept.set(keyOf(sentence), { ...kept.get(keyOf(sentence)), chosen: text });
    for (const span of spans.get(sentence) || []) fill(span, kept.get(keyOf(sentence)));
    const focused = [...find("ranked").querySelectorAll("button")].indexOf(document.activeElement);
    showAlternatives();
    find("ranked").querySelectorAll("button")[focused]?.focus();
  }

  /** The data that the page of an explanation shows: explanation_data.py of one translation, its weights not packed. */
  function dataOf({ sourceWords, parts }, { tokens, targetWords, attention, alignments }) {
    const source = sourceWords.texts, target = targetWords.texts;
    if (parts !== 1 || !source.length || !target.length || !attention.some(({ role }) => role === "cross")) return null;
    const layers = ["cross", "encoder", "decoder"].flatMap((role) => attention.filter((layer) => layer.role === role).map((layer, n) => wordLayer(layer, n + 1, sourceWords, targetWords)));
    const { alignment, languages } = models[direction], cross = attention.filter(({ role }) => role === "cross").map(({ name }) => name);
    const named = alignment ? cross.indexOf(alignment.layer) : -1, rtl = (texts) => /^[^A-Za-z]*[\u0590-\u08ff]/.test(texts.join(" "));
    return {
      title: "", source, target, tokens: [...tokens.map((token) => token.replaceAll("▁", " ")), "</s>"], target_words: targetWords.ofTokens, layers,
      langs: { source: source.map(() => languages[0]), target: target.map(() => languages[1]) }, rtl: { source: rtl(source), target: rtl(target) },
      shown_head: named < 0 ? [cross.length - 1, null, false] : [named, alignment.head, alignment.shifted],
      steps: [], states: null, agreement: null, links: alignments || [], facts: {}, image: null,
    };
  }

  function wordLayer({ role, heads, rows, columns, weights }, number, sourceWords, targetWords) { // sums over the tokens of a column's word, means over those of a row's
    const fed = [-1, ...targetWords.ofTokens.slice(0, -1)], ofColumns = role === "decoder" ? fed : sourceWords.ofTokens;
    const ofRows = role === "cross" ? [...Array(rows).keys()] : role === "encoder" ? sourceWords.ofTokens : targetWords.ofTokens;
    const C = Math.max(...ofColumns) + 1, R = Math.max(...ofRows) + 1, counts = new Array(R).fill(0), sums = new Float64Array(heads * R * (C + 1));
    for (const r of ofRows) if (r >= 0) counts[r]++;
    for (let h = 0; h < heads; h++) for (let t = 0; t < rows; t++) {
      const r = ofRows[t];
      if (r < 0) continue;
      for (let s = 0; s < columns; s++) {
        const c = ofColumns[s] < 0 ? C : ofColumns[s];
        sums[(h * R + r) * (C + 1) + c] += weights[(h * rows + t) * columns + s] / counts[r];
      }
    }
    return { role, name: String(number), shape: [heads, R, C], get: (h, r, c) => sums[(h * R + r) * (C + 1) + c] };
  }

  // --- what the reader does

  input.addEventListener("input", () => { pinned = false; later("typing", TYPING, update); });
  input.addEventListener("focus", () => input.select(), { once: true }); // so that typing replaces the example
  document.addEventListener("selectionchange", () => {
    if (document.activeElement !== input || pinned) return;
    const sentence = sentenceAtCaret();
    if (sentence !== current && spans.has(sentence)) select(sentence);
  });

  const sentenceOf = (span) => [...spans].find(([, all]) => all.includes(span))?.[0];
  const spanAt = (event) => event.target.closest?.(".line-of-text");

  output.addEventListener("pointerover", (event) => {
    const span = spanAt(event);
    if (!span || event.pointerType !== "mouse" || pinned) return;
    later("hover", HOVER, () => { const sentence = sentenceOf(span); if (sentence && sentence !== current) select(sentence); });
  });
  output.addEventListener("pointerleave", () => clearTimeout(pending.hover));
  output.addEventListener("focusin", (event) => {
    const span = spanAt(event), sentence = span && sentenceOf(span);
    if (sentence && span.matches(":focus-visible") && sentence !== current) { pinned = true; select(sentence); }
  });
  output.addEventListener("click", (event) => {
    const span = spanAt(event), sentence = span && sentenceOf(span);
    if (!sentence) return;
    clearTimeout(pending.hover);
    pinned = !(pinned && sentence === current);
    if (sentence !== current) select(sentence);
  });
  output.addEventListener("keydown", (event) => {
    const span = spanAt(event);
    if (span && ["Enter", " "].includes(event.key)) { event.preventDefault(); span.click(); return; }
    moveFocus(event, buttons(), getComputedStyle(output).direction === "rtl");
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") pinned = false; });

  const translation = () => paragraphs.map(({ node }) => [...node.children].map((span) => span.textContent).join(" ")).join("\n");

  find("switch").onclick = () => { // the translation becomes the text
    const text = translation();
    direction = 1 - direction;
    paragraphs = [];
    current = null;
    input.value = text === "" ? "" : text;
    pinned = false;
    showDirection();
    update();
  };

  find("copy").onclick = async () => {
    try {
      await navigator.clipboard.writeText(translation());
      find("copy").textContent = words().copied;
      setTimeout(() => { find("copy").textContent = words().copy; }, 1500);
    } catch { // not allowed: select it, so that the reader can
      getSelection().selectAllChildren(output);
    }
  };

  addEventListener("beforeprint", () => { find("printed").textContent = input.value; });

  // --- names and labels

  function languageName(code, otherwise) {
    if (!code) return otherwise;
    try {
      const name = new Intl.DisplayNames([document.documentElement.lang], { type: "language" }).of(code);
      return name.charAt(0).toLocaleUpperCase() + name.slice(1);
    } catch {
      return code;
    }
  }

  function showDirection() {
    const { languages, facts, readme } = models[direction], [from, to] = languages;
    find("from").textContent = languageName(from, words().source);
    find("to").textContent = languageName(to, words().translation);
    find("title").textContent = from && to ? `${find("from").textContent} → ${find("to").textContent}` : words().heading;
    document.title = find("title").textContent;
    input.placeholder = words().placeholder;
    input.lang = from;
    output.setAttribute("aria-label", words().translation);
    find("switch").setAttribute("aria-label", words().switch);
    find("switch").title = words().switch;
    find("switch").hidden = models.length < 2;
    find("facts").replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [element("dt", words().facts[name] || name), element("dd", value)]));
    find("readme").textContent = readme;
    find("readme").setAttribute("aria-label", words().about);
    find("readme").hidden = !readme;
    if (!find("failed").hidden) find("failed").textContent = words().broken(failure);
  }

  explanationPage.addLabels(ENGLISH, KOREAN, () => {
    if (shownLanguage === document.documentElement.lang) return;
    shownLanguage = document.documentElement.lang;
    showDirection();
    progress();
    if (explained && current) showAlternatives();
  });

  // --- the worker

  let failure = "";
  function stop(message) {
    failure = message;
    find("failed").hidden = false;
    find("failed").textContent = words().broken(message);
  }

  function start() {
    const url = URL.createObjectURL(new Blob([find("worker").textContent], { type: "text/javascript" }));
    worker = new Worker(url);
    const actions = {
      ready: () => { document.documentElement.dataset.loaded = "yes"; }, translated: receive, explained: explain, failed: ({ message }) => stop(message),
    };
    worker.onmessage = ({ data }) => actions[data.kind](data);
    worker.onerror = (event) => stop(event.message || "worker");
    const files = [...document.querySelectorAll("script.file")];
    const [wasm, ...packed] = files.map((node) => node.textContent.trim());
    files.forEach((node) => node.remove()); // the worker has them
    worker.postMessage({ kind: "start", wasm, models: packed });
    if (!input.value) input.value = models[0].example;
    update();
  }

  if (find("unsupported").hidden) start();
})();
