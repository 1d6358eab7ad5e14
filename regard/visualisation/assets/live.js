// The live page: translates as one types, sentence by sentence, and shows what the current sentence attends to.
// Who translates is a worker (offline.js), or what takes the same messages and asks a server (server_client.js).
const livePage = (() => {
  const ENGLISH = {
    heading: "Translate", private: "Translates on this device. Nothing is sent, nothing is stored.", placeholder: "Type or paste text here", copy: "Copy",
    copied: "Copied", switch: "Switch the direction", translation: "Translation", about: "About the model", how: "How it works", loading: "Opening the model …",
    alternatives: (count) => `Translations of this sentence, best first (${count})`, score: "score",
    done: (count, all) => `${count} of ${all} sentences translated`, broken: (message) => `The translator stopped: ${message}. Load the page again.`,
    split: "This sentence was translated in parts, because it is longer than any in training; of parts no attention is shown.",
    repeats: (text, times) => `“${text}” is repeated ${times} times: the translation is probably wrong.`,
    unsure: "Underline unsure words", levels: ["below 70 %", "below 40 %", "below 20 %"],
    probability: "probability", unsureHint: "By the probability that the model gives each word after those before it. It may be sure and wrong.",
    examples: "It knows sentences such as these:", unlearnt: "What is marked as doubtful is probably wrong.",
    doubtful: "doubtful", doubtfulHint: "This translation is probably wrong, or the sentence has words or forms that the model has not seen.",
    quality: (percent) => `Good with a probability of ${percent} %.`, qualities: { high: "probably good (80 % or more)", middle: "unsure", low: "doubtful" },
    wordsOf: "Translation of this sentence, word by word", continuations: (word) => `Other continuations from “${word}”`, current: "as it is",
    undo: "Undo the choice", choose: "Click a sentence, then one of its words, to see what else could stand there.",
    replaced: (text) => `Now: ${text}`, steps: "Step by step: the search", hide: "Close the search",
    facts: { precision: "weights", parameters: "parameters", size: "size", languages: "languages", fingerprint: "fingerprint", regard: "exported by Regard", engine: "engine" },
  };
  const KOREAN = {
    heading: "번역", private: "이 기기에서 번역합니다. 아무것도 보내거나 저장하지 않습니다.", placeholder: "글을 입력하거나 붙여 넣으세요", copy: "복사",
    copied: "복사됨", switch: "방향 바꾸기", translation: "번역문", about: "모델 정보", how: "어떻게 번역했나", loading: "모델을 여는 중 …",
    alternatives: (count) => `이 문장의 번역 후보, 좋은 것부터 (${count})`, score: "점수",
    done: (count, all) => `문장 ${all}개 가운데 ${count}개 번역됨`, broken: (message) => `번역기가 멈췄습니다: ${message}. 페이지를 다시 여세요.`,
    split: "학습 때 본 어떤 문장보다 길어서 나누어 번역했습니다. 나눈 문장의 어텐션은 표시하지 않습니다.",
    repeats: (text, times) => `같은 말(“${text}”)이 ${times}번 되풀이됩니다. 번역이 틀렸을 수 있습니다.`,
    unsure: "불확실한 단어에 밑줄", levels: ["70 % 미만", "40 % 미만", "20 % 미만"],
    probability: "확률", unsureHint: "앞 단어들 다음에 모델이 그 단어에 준 확률에 따릅니다. 확신하면서도 틀릴 수 있습니다.",
    examples: "이런 문장을 압니다:", unlearnt: "의심스럽다고 표시된 번역은 아마 틀렸을 것입니다.",
    doubtful: "의심스러움", doubtfulHint: "아마 틀린 번역이거나, 문장에 모델이 본 적 없는 말이나 어형이 있습니다.",
    quality: (percent) => `좋은 번역일 확률: ${percent} %.`, qualities: { high: "아마 좋음(80 % 이상)", middle: "확실하지 않음", low: "의심스러움" },
    wordsOf: "이 문장의 번역문, 단어별", continuations: (word) => `“${word}”부터 다르게 이어 쓰기`, current: "지금 그대로",
    undo: "선택 되돌리기", choose: "문장을 누른 다음 그 단어를 누르면 그 자리에 올 수 있는 다른 말이 나타납니다.",
    replaced: (text) => `바뀐 번역: ${text}`, steps: "한 단계씩: 탐색 과정", hide: "탐색 과정 닫기",
    facts: { precision: "가중치", parameters: "매개변수", size: "크기", languages: "언어", fingerprint: "지문", regard: "내보낸 Regard", engine: "엔진" },
  };
  const HOVER = 120, QUIET = 900; // milliseconds
  const MANY = 30; // sentences, from which on progress is shown
  const LONG = 200; // paragraphs, from which on those out of sight are not laid out
  const SLICE = 30, TOGETHER = 300; // milliseconds of work, and paragraphs, between two looks at the keyboard
  const BEGINNING = 6; // characters that a sentence still has while it is edited
  const MAX_KEPT = 20000; // translations
  const GOOD = 0.8; // quality of a sentence from which on it is probably good
  const UNSURE = [0.7, 0.4, 0.2]; // probabilities of a word below which it is underlined, each time more clearly

  const find = (id) => document.getElementById(id);
  const { element, moveFocus } = explanationPage, words = () => explanationPage.labels();
  const { typing: TYPING = 90, ...initial } = JSON.parse(find("data").textContent); // milliseconds
  let models = initial.models; // of the languages [source, target]
  const input = find("input"), output = find("translation");
  const kept = new Map(); // translations by direction and sentence
  const spans = new Map(); // where each sentence is shown
  let waiting = new Set(); // sentences that are not translated yet
  let direction = 0, latest = 0, worker, isPaused = false, isStale = false, paragraphs = [], current = null, pinned = false, shownLanguage;
  let pending = { typing: 0, hover: 0, quiet: 0 };
  let wanted = null; // the sentence's element whose words are opened once they are there: {span, hasFocus}
  let opened = null; // the pinned sentence's element, and its words as buttons: {span, sentence, buttons}
  let asked = 0, choices = null; // the list of other continuations: {word, options}

  let on = { settled() {}, turned() {}, traced() {} }; // what the page of the server wants to know

  const keyOf = (sentence) => `${direction}\n${sentence}`;
  const later = (name, delay, run) => { clearTimeout(pending[name]); pending[name] = setTimeout(run, delay); };

  // --- text: paragraphs and sentences

  let split; // made when the first text is typed; a browser without lookbehind in patterns cannot make it
  function sentencesOf(paragraph) {
    try {
      split ??= sentenceRules(initial.sentences);
    } catch {
      split = (text) => (text.match(/[^.!?…。！？]*[.!?…。！？]+["'”’»)\]]*\s*|[^.!?…。！？]+$/gu) || []).map((sentence) => sentence.trim()).filter(Boolean);
    }
    return split(paragraph);
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

  async function update() { // what was translated before is kept; the rest is asked for, the current sentence first
    if (isPaused || !models.length) return;
    const own = ++latest, built = await build(input.value.split("\n"), own);
    if (!built) return; // something newer is there
    paragraphs = built;
    spans.clear();
    for (const { sentences, node } of paragraphs) [...node.children].forEach((span, i) => {
      if (spans.has(sentences[i])) spans.get(sentences[i]).push(span);
      else spans.set(sentences[i], [span]);
    });
    if (!await place(paragraphs.map(({ node }) => node), own)) return;
    isStale = false;
    waiting = new Set([...spans.keys()].filter((sentence) => !kept.has(keyOf(sentence))));
    const wanted = [...waiting], caret = sentenceAtCaret();
    if (wanted.includes(caret)) wanted.unshift(...wanted.splice(wanted.indexOf(caret), 1));
    worker.postMessage({ kind: "translate", id: latest, direction, sentences: wanted });
    output.setAttribute("aria-busy", String(wanted.length > 0));
    if (pinned && !spans.has(current)) unpin();
    if (!pinned && caret !== current) select(caret);
    else mark();
    progress();
    oneTabStop();
  }

  const breathe = () => new Promise((done) => { setTimeout(done); });

  async function build(texts, own) { // the paragraphs, in slices: the page answers between them. Returns null once something newer is there
    const before = paragraphs, built = [];
    let start = performance.now();
    output.setAttribute("aria-busy", "true");
    for (const [n, text] of texts.entries()) {
      const same = before[n] && before[n].text === text ? before[n] : { text, sentences: sentencesOf(text), node: null };
      if (!same.node) same.node = paragraphNode(same.sentences, before[n]);
      built.push(same);
      if (performance.now() - start < SLICE) continue;
      await breathe();
      if (own !== latest) return null;
      start = performance.now();
    }
    return built;
  }

  async function place(nodes, own) { // only what has changed: of a long text nearly all stays. Returns false once something newer is there
    const stays = new Set(nodes);
    output.classList.toggle("long", nodes.length > LONG);
    for (const node of [...output.children]) if (!stays.has(node)) node.remove();
    let there = output.firstElementChild, placed = 0;
    for (const node of nodes) {
      if (there === node) { there = there.nextElementSibling; continue; }
      output.insertBefore(node, there);
      if (++placed % TOGETHER) continue;
      await breathe();
      if (own !== latest) return false;
    }
    return true;
  }

  function paragraphNode(sentences, old) {
    const node = element("p", "", { dir: "auto" }); // of its own: the direction of the whole would be looked for at every change
    sentences.forEach((sentence, i) => {
      const span = element("span", "", { class: "line-of-text pending", role: "button", tabindex: "-1", "aria-pressed": "false", lang: models[direction].languages[1] });
      const isEdited = old && old.sentences[i] && old.sentences[i].slice(0, BEGINNING) === sentence.slice(0, BEGINNING);
      span.textContent = isEdited ? old.node.children[i].textContent : "…"; // until there is a new one
      fill(span, kept.get(keyOf(sentence)));
      node.append(span, " ");
    });
    return node;
  }

  const unsureClass = (share) => (find("unsure").checked && UNSURE.some((limit) => share < limit) ? `unsure-${UNSURE.filter((limit) => share < limit).length}` : "");

  const isDoubtful = (result) => (result.choice || result).doubtful;

  function fill(span, result) {
    if (!result) return;
    const { text, words: texts = [], shares } = result.choice || result, doubtful = isDoubtful(result);
    span.classList.remove("pending");
    span.classList.toggle("failed", Boolean(result.error));
    const { quality } = result.choice || result, isKnown = Number.isFinite(quality);
    const level = (doubtful && "low") || (quality >= GOOD ? "high" : "middle");
    const title = [doubtful && words().doubtfulHint, isKnown && words().quality(Math.round(100 * quality))].filter(Boolean).join(" ");
    for (const [name, value] of [["data-doubt", doubtful && words().doubtful], ["data-quality", isKnown && level], ["title", title]]) value ? span.setAttribute(name, value) : span.removeAttribute(name);
    if (texts.length && shares.some((share) => unsureClass(share))) {
      span.replaceChildren(...texts.flatMap((word, i) => [i ? " " : "", unsureClass(shares[i]) ? element("span", word, { class: unsureClass(shares[i]) }) : word]));
    } else {
      span.textContent = text || result.error || "–";
    }
  }

  function progress() {
    const all = spans.size, count = all - waiting.size;
    const text = all >= MANY && count < all ? words().done(count, all) : "";
    if (find("progress").textContent !== text) find("progress").textContent = text;
    find("unlearnt").hidden = !output.querySelector("[data-doubt]");
    find("qualities").hidden = !output.querySelector("[data-quality]");
  }

  function receive({ id, direction: of, results, isDone }) {
    for (const { sentence, ...result } of results) kept.set(`${of}\n${sentence}`, { ...result, past: [] });
    if (of !== direction) return;
    for (const { sentence } of results) waiting.delete(sentence);
    for (const { sentence } of results) for (const span of spans.get(sentence) || []) fill(span, kept.get(keyOf(sentence)));
    progress();
    if (!isDone || id !== latest || isStale) return;
    output.setAttribute("aria-busy", "false");
    if (kept.size > MAX_KEPT) for (const key of [...kept.keys()].slice(0, kept.size - MAX_KEPT)) if (!spans.has(key.slice(key.indexOf("\n") + 1))) kept.delete(key);
    on.settled();
    later("quiet", QUIET, () => { // read out by screen readers once typing pauses
      const result = kept.get(keyOf(current));
      const { text } = result?.choice || result || {};
      if (result) find("spoken").textContent = text ? `${text}${isDoubtful(result) ? ` (${words().doubtful})` : ""}` : result.error;
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
    for (const span of output.querySelectorAll(".current")) if (!own.includes(span)) press(span, false);
    for (const span of own) press(span, true);
  }

  function press(span, isCurrent) {
    span.classList.toggle("current", isCurrent);
    if (span.getAttribute("role") === "button") span.setAttribute("aria-pressed", String(isCurrent));
  }

  function unpin() {
    closeWords();
    pinned = false;
    wanted = null;
  }

  function select(sentence) {
    if (opened && opened.sentence !== sentence) closeWords();
    current = sentence;
    mark();
    if (!sentence) showNothing();
    askExplanation();
  }

  function leaveText() { // it is another one from now on: of the old one nothing is shown
    unpin();
    select(null);
    isStale = true; // until the new one is laid out
  }

  const askExplanation = () => worker.postMessage({ kind: "explain", direction, sentence: current, prefix: kept.get(keyOf(current))?.choice?.prefix, trace: isTraced });

  function showNothing() {
    explained = null;
    find("alternatives").hidden = find("undo").hidden = find("open-player").hidden = true;
    find("notes").textContent = "";
    explanationPage.hide();
  }

  let explained = null; // the translation of the current sentence

  function explain({ sentence, direction: of, translation, error }) {
    if (sentence !== current || of !== direction) return; // something newer is wanted
    if (error || !translation.nbest.length) return showNothing();
    explained = { ...translation, sentence };
    showAlternatives();
    if (wanted && (spans.get(current) || []).includes(wanted.span)) openWords(wanted);
  }

  const shownHypothesis = () => explained.nbest.find(({ text }) => text === kept.get(keyOf(current))?.choice?.text) || explained.nbest[0];

  function showAlternatives() {
    const { nbest, parts } = explained, chosen = shownHypothesis(), result = kept.get(keyOf(current));
    find("alternatives").hidden = nbest.length < 2;
    find("alternatives-name").textContent = words().alternatives(nbest.length);
    find("ranked").replaceChildren(...nbest.map((hypothesis) => {
      const item = element("li"), button = element("button", "", { type: "button", "aria-pressed": String(hypothesis === chosen) });
      button.append(element("span", hypothesis.text || "–", { dir: "auto", lang: models[direction].languages[1] }), element("span", hypothesis.score.toFixed(2).replace("-", "−"), { class: "share", title: words().score }));
      button.onclick = () => chooseRanked(hypothesis);
      item.append(button);
      return item;
    }));
    const { repetition } = chosen, more = [...(parts.length > 1 ? [words().split] : []), ...(repetition ? [words().repeats(repetition.text, repetition.times)] : [])];
    const { notes = explained.notes } = (!result?.choice && result) || {}; // what is shown may have come by a second try
    find("notes").textContent = [...more, ...notes.filter((note) => !note.startsWith("the translation repeats "))].join(" ");
    find("undo").hidden = !result?.past.length;
    find("open-player").hidden = parts.length !== 1;
    const data = explanationData.explanation(explained, chosen, models[direction]);
    if (data) explanationPage.show(data);
    else explanationPage.hide();
  }

  function chooseRanked(hypothesis) { // another one of the beam: it is explained already
    const focused = [...find("ranked").querySelectorAll("button")].indexOf(document.activeElement);
    replace({ text: hypothesis.text, ...explanationData.words(hypothesis), prefix: kept.get(keyOf(current))?.choice?.prefix });
    showAlternatives();
    find("ranked").querySelectorAll("button")[focused]?.focus();
  }

  function replace(choice) { // the translation of the current sentence, wherever it stands; what it was can be brought back
    const result = kept.get(keyOf(current));
    result.past.push(result.choice);
    show(choice);
  }

  function show(choice) {
    const result = kept.get(keyOf(current)), span = opened && opened.span;
    closeWords();
    result.choice = choice;
    for (const own of spans.get(current) || []) fill(own, result);
    find("spoken").textContent = words().replaced((choice || result).text);
    if (span) wanted = { span, hasFocus: false };
  }

  function undo() {
    const result = kept.get(keyOf(current));
    if (!result?.past.length) return;
    show(result.past.pop());
    askExplanation();
  }
  find("undo").onclick = () => { undo(); find("undo").focus(); };

  // --- the words of the pinned sentence, and what else could stand at one of them

  function openWords({ span, hasFocus, index = 0 }) {
    const hypothesis = shownHypothesis(), result = kept.get(keyOf(current)), { words: texts = [], shares = [] } = result.choice || result;
    wanted = null;
    closeWords();
    if (explained.parts.length !== 1 || !texts.length || texts.join(" ") !== hypothesis.text) return;
    hasFocus ||= document.activeElement === span;
    for (const name of ["tabindex", "aria-pressed"]) span.removeAttribute(name);
    span.setAttribute("role", "group");
    span.setAttribute("aria-label", words().wordsOf);
    const own = texts.map((word, i) => element("span", word, {
      class: `word-of-text ${unsureClass(shares[i])}`, role: "button", tabindex: i === index ? 0 : -1, "aria-haspopup": "listbox", "aria-expanded": "false", title: `${words().probability}: ${percent(shares[i])}`,
    }));
    span.replaceChildren(...own.flatMap((word, i) => (i ? [" ", word] : [word])));
    opened = { span, sentence: current, buttons: own };
    if (hasFocus) (own[index] || own[0]).focus({ preventScroll: true });
  }

  function closeWords() {
    closeChoices();
    if (!opened) return;
    const { span } = opened, hasFocus = span.contains(document.activeElement), isOnlyStop = !buttons().some((other) => other.tabIndex === 0);
    opened = null;
    span.setAttribute("role", "button");
    span.removeAttribute("aria-label");
    span.setAttribute("tabindex", hasFocus || isOnlyStop ? "0" : "-1");
    press(span, span.classList.contains("current"));
    fill(span, kept.get(keyOf(current)));
    if (hasFocus) span.focus({ preventScroll: true });
  }

  function askContinuations(button) {
    const index = opened.buttons.indexOf(button), { ids, targetWords } = shownHypothesis(), first = targetWords.ofTokens.indexOf(index);
    if (choices && choices.index === index) { closeChoices(); return; }
    closeChoices();
    asked++;
    choices = { index, button, token: ids[first], before: ids.slice(0, first) };
    worker.postMessage({ kind: "continuations", id: asked, sentence: current, direction, before: choices.before });
  }

  function showContinuations({ id, options }) {
    if (id !== asked || !choices || !opened || choices.options) return; // something newer is wanted
    const { index, button, token, before } = choices, own = kept.get(keyOf(current)), now = own.choice || own;
    const others = options.filter((option) => option.words.length && option.text !== now.text && option.prefix[before.length] !== token);
    const itself = options.find((option) => option.prefix[before.length] === token), hypothesis = shownHypothesis();
    const share = itself ? itself.share : Math.exp(hypothesis.logProbs[before.length]);
    const distinct = others.filter((option, i) => others.findIndex(({ text }) => text === option.text) === i && (i < 3 || option.share >= 0.01));
    choices.options = [{ ...now, share, isCurrent: true }, ...distinct].sort((a, b) => b.share - a.share);
    const list = find("choices");
    list.replaceChildren(...choices.options.map((option) => continuation(option, now.words, index)));
    list.setAttribute("aria-label", words().continuations(now.words[index]));
    find("choices-name").textContent = words().continuations(now.words[index]);
    button.setAttribute("aria-expanded", "true");
    find("choices-box").hidden = false;
    placeUnder(button);
    const selected = list.querySelector("[aria-selected=true]");
    selected.tabIndex = 0;
    selected.focus({ preventScroll: true });
  }

  function continuation(option, now, index) { // from the first word that differs, which may be the one before: a word that goes on
    const differs = option.isCurrent ? index : option.words.findIndex((word, i) => word !== now[i]), from = Math.max(0, Math.min(index, differs < 0 ? index : differs));
    const item = element("div", "", { role: "option", tabindex: "-1", "aria-selected": String(Boolean(option.isCurrent)) });
    const text = element("span", "", { class: "continued", lang: models[direction].languages[1], dir: "auto" });
    text.append(element("b", option.words[from] ?? ""), ` ${option.words.slice(from + 1).join(" ")}`);
    item.append(text, element("span", percent(option.share), { class: "share" }));
    item.onclick = () => chooseContinuation(option);
    return item;
  }

  function chooseContinuation(option) {
    const { index } = choices, { span } = opened;
    closeChoices();
    if (option.isCurrent) { opened.buttons[index].focus(); return; }
    replace({ text: option.text, words: option.words, shares: option.shares, prefix: option.prefix });
    wanted = { span, hasFocus: true, index: Math.min(index, option.words.length - 1) };
    askExplanation();
  }

  function closeChoices() {
    if (!choices) return;
    const { button } = choices, hasFocus = find("choices").contains(document.activeElement);
    choices = null;
    find("choices-box").hidden = true;
    button.setAttribute("aria-expanded", "false");
    if (hasFocus) button.focus({ preventScroll: true });
  }

  function placeUnder(button) { // under the word, inside the column
    const box = find("choices-box"), area = find("translated").getBoundingClientRect(), word = button.getBoundingClientRect();
    box.style.top = `${word.bottom - area.top + 4}px`;
    box.style.left = `${Math.max(0, Math.min(word.left - area.left - 8, area.width - box.offsetWidth))}px`;
  }

  const percent = (share) => (share >= 0.995 ? "> 99 %" : share >= 0.01 ? `${Math.round(100 * share)} %` : "< 1 %");

  find("choices").addEventListener("keydown", (event) => {
    const options = [...find("choices").children];
    if (["Enter", " "].includes(event.key)) { event.preventDefault(); document.activeElement.click(); return; }
    if (event.key === "Tab" || event.key === "Escape") { event.preventDefault(); event.stopPropagation(); closeChoices(); return; }
    moveFocus(event, options, false);
  });
  document.addEventListener("pointerdown", (event) => { if (choices && !find("choices-box").contains(event.target) && !choices.button.contains(event.target)) closeChoices(); });
  output.addEventListener("scroll", closeChoices);

  find("unsure").onchange = () => {
    if (opened) closeWords();
    for (const [sentence, own] of spans) for (const span of own) if (!span.classList.contains("pending")) fill(span, kept.get(keyOf(sentence)));
  };

  // --- the search, if its view is open

  let isTraced = false;
  find("open-player").onclick = () => {
    isTraced = !isTraced;
    showToggle();
    if (isPaused) on.traced();
    else if (current) askExplanation();
  };

  function showToggle() {
    find("open-player").setAttribute("aria-expanded", String(isTraced));
    find("open-player").textContent = isTraced ? words().hide : words().steps;
  }

  // --- what the reader does

  input.addEventListener("input", () => {
    if (!isPaused && models.length) {
      leaveText();
      output.setAttribute("aria-busy", "true");
    }
    later("typing", TYPING, update);
  });
  document.addEventListener("selectionchange", () => {
    if (document.activeElement !== input || pinned || isPaused || isStale) return;
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
    if (sentence && span.matches(":focus-visible") && sentence !== current) { pinned = true; wanted = null; select(sentence); }
  });
  output.addEventListener("click", (event) => {
    const word = event.target.closest(".word-of-text"), span = spanAt(event), sentence = span && sentenceOf(span);
    if (word) { askContinuations(word); return; }
    if (!sentence) { unpin(); return; }
    if (opened && opened.span === span) return;
    clearTimeout(pending.hover);
    pinned = true;
    wanted = { span, hasFocus: document.activeElement === span };
    if (sentence !== current) select(sentence);
    else if (explained && explained.sentence === sentence) openWords(wanted);
  });
  output.addEventListener("keydown", (event) => {
    const isRtl = getComputedStyle(event.target).direction === "rtl";
    if (["Enter", " "].includes(event.key) && spanAt(event)) { event.preventDefault(); event.target.click(); return; }
    if (event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); undo(); return; }
    moveFocus(event, opened && opened.span.contains(event.target) ? opened.buttons : buttons(), isRtl);
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") unpin(); });

  const translation = () => paragraphs.map(({ node }) => [...node.children].map((span) => span.textContent).join(" ")).join("\n");

  find("switch").onclick = () => { // the translation becomes the text
    const text = translation();
    choose(opposite());
    on.turned(direction);
    put(text);
  };

  /** The model of the opposite direction; −1: there is none. */
  function opposite() {
    const [from, to] = models[direction].languages;
    if (!models[direction].name) return models.length > 1 ? 1 - direction : -1; // a page of two directions
    return from && to ? models.findIndex(({ languages }) => languages[0] === to && languages[1] === from) : -1;
  }

  function choose(index) { // another model: nothing of the old one stays
    unpin();
    direction = index;
    paragraphs = [];
    current = null;
    showNothing();
    showDirection();
  }

  function put(text) {
    input.value = text;
    leaveText();
    update();
  }

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
    const names = initial.names ?? models.find((model) => model.names?.[code])?.names; // the page of the server has all
    const known = names?.[code]?.[Number(document.documentElement.lang === "ko")];
    if (known) return known;
    try {
      const name = new Intl.DisplayNames([document.documentElement.lang], { type: "language" }).of(code);
      return name.charAt(0).toLocaleUpperCase() + name.slice(1);
    } catch {
      return code;
    }
  }

  function showDirection() {
    const { languages } = models[direction], [from, to] = languages;
    find("from").textContent = languageName(from, words().source);
    find("to").textContent = languageName(to, words().translation);
    find("title").textContent = from && to ? `${find("from").textContent} → ${find("to").textContent}` : words().heading;
    document.title = find("title").textContent;
    input.placeholder = words().placeholder;
    input.lang = from;
    output.setAttribute("aria-label", words().translation);
    find("switch").setAttribute("aria-label", words().switch);
    find("switch").title = words().switch;
    find("switch").hidden = opposite() < 0;
    const proposed = models[direction].examples ?? [];
    find("examples").hidden = proposed.length < 2;
    find("examples").replaceChildren(find("examples").firstElementChild, ...proposed.map((text) => {
      const chip = element("button", text, { type: "button", class: "chip", dir: "auto", lang: from });
      chip.onclick = () => put(text);
      return chip;
    }));
    find("undo").setAttribute("aria-label", words().undo);
    find("undo").title = words().undo;
    find("hint-words").textContent = words().choose;
    find("confidence").title = words().unsureHint;
    find("levels").replaceChildren(...words().levels.map((text, i) => element("span", text, { class: `unsure-${i + 1}` })));
    find("qualities").replaceChildren(...Object.entries(words().qualities).map(([level, text]) => element("span", text, { "data-quality": level })));
    showToggle();
    showAbout(models[direction]);
    if (!find("failed").hidden) find("failed").textContent = words().broken(failure);
  }

  function showAbout({ facts, greeting = "", readme }) { // at the foot of the page, and the greeting at its head
    find("greeting").replaceChildren(...modelCard(greeting));
    find("greeting").hidden = !greeting;
    find("facts").replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [element("dt", words().facts[name] || name), element("dd", value)]));
    find("readme").replaceChildren(...modelCard(readme));
    find("readme").setAttribute("aria-label", words().about);
    find("readme").hidden = !readme;
  }

  explanationPage.addLabels(ENGLISH, KOREAN, () => {
    if (isPaused || !models.length) return;
    if (shownLanguage === document.documentElement.lang) return;
    shownLanguage = document.documentElement.lang;
    showDirection();
    find("unsure").onchange();
    progress();
    closeChoices();
    if (explained && current) showAlternatives();
  });

  // --- who translates

  let failure = "";
  function stop(message) {
    failure = message;
    find("failed").hidden = false;
    find("failed").textContent = words().broken(message);
  }

  /**
   * Take the messages of a worker, and ask it. `listeners`: `settled` is called whenever the whole text is translated, `turned` with
   * the new direction at a switch, `traced` if the view of the search is opened or closed during a pause.
   */
  function start(translator, listeners = {}) {
    worker = translator;
    on = { ...on, ...listeners };
    const actions = {
      ready: () => { document.documentElement.dataset.loaded = "yes"; }, translated: receive, explained: explain, continued: showContinuations, failed: ({ message }) => stop(message),
    };
    worker.onmessage = ({ data }) => actions[data.kind](data);
    if (input.value || !models[0]?.examples?.length) return;
    input.value = models[0].examples[0];
    input.addEventListener("focus", () => input.select(), { once: true }); // so that typing replaces the example
  }

  /** Offer other models, and forget what the old ones have translated. */
  function setModels(others) {
    models = others;
    kept.clear();
  }

  /** Show nothing and take no part until the next `resume`. */
  function pause() {
    unpin();
    clearTimeout(pending.typing);
    isPaused = true;
    showNothing();
  }

  function resume(index) {
    isPaused = false;
    shownLanguage = document.documentElement.lang;
    choose(index);
    update();
  }

  return {
    languageName, pause, put, resume, setModels, showAbout, start, stop, update,
    showToggle, state: () => ({ text: input.value, translation: translation(), isTraced }),
  };
})();
