// Two recurrent models that translate what is typed, in this page: one hands over its last states alone, one attends to all of them.
import { explanationData } from "../../regard/visualisation/assets/explanation_data.js";
import { mechanism } from "../../regard/visualisation/assets/mechanism.js";
import { choice, element, newId, shadeOf } from "./parts.js";

const WORDS = {
  en: {
    type: "Type a Korean sentence", count: (words) => `${words} words`, loading: "Loading the models …", reference: "Reference: ", play: "Play", pause: "Pause", back: "Step back", forth: "Step forward", step: "Step",
    without: "Without attention: one vector for all words", with: "With attention: a context for each word",
    empty: "Type a sentence, or choose one above.", wrong: ["word", "not in the reference"], missing: "missing: ", right: "as the reference",
    scores: "The bars begin 6.9 below the highest score. Lower scores are not drawn: their weights are less than a thousandth of the largest.",
    free: "For a sentence of your own there is no reference: whether the translations are right, this figure cannot know. The models know one small grammar, and may be wrong with confidence.",
    diagram: "Diagram of", sides: { without: "without attention", with: "with attention" },
    foreign: "This is not Korean: the models read Korean alone, and write at random.", unsure: ["word", "its probability is below one half"],
    unknown: (words) => `The models have never read: ${words}. A word-level model has no other way to read it.`,
    long: (most) => `The models were trained on sentences of up to ${most} words.`, parts: (most) => `The figure draws one sentence, of up to ${most} words.`,
  },
  ko: {
    type: "한국어 문장을 입력하세요", count: (words) => `${words}단어`, loading: "모델을 불러오는 중 …", reference: "정답: ", play: "재생", pause: "멈춤", back: "한 단계 뒤로", forth: "한 단계 앞으로", step: "단계",
    without: "어텐션 없음: 문장 전체가 벡터 하나", with: "어텐션 있음: 단어마다 다른 컨텍스트",
    empty: "문장을 입력하거나 위에서 고르세요.", wrong: ["단어", "정답에 없음"], missing: "빠진 단어: ", right: "정답과 같음",
    scores: "막대는 가장 높은 점수보다 6.9 낮은 곳에서 시작합니다. 그보다 낮은 점수는 가중치가 가장 큰 것의 1/1000도 되지 않아 그리지 않았습니다.",
    free: "직접 쓴 문장에는 정답이 없어서, 번역이 맞는지 이 그림은 알 수 없습니다. 모델은 작은 문법의 문장만 배웠으므로 자신 있게 틀리기도 합니다.",
    diagram: "그림에 나타낼 모델", sides: { without: "어텐션 없음", with: "어텐션 있음" },
    foreign: "한국어 문장이 아닙니다. 모델은 한국어만 읽을 줄 알아서, 번역은 아무 뜻도 없습니다.", unsure: ["단어", "확률이 절반보다 낮음"],
    unknown: (words) => `모델이 배우지 않은 단어가 있습니다: ${words}. 단어 단위 모델은 이런 단어를 읽을 수 없습니다.`,
    long: (most) => `모델은 ${most}단어까지의 문장으로 학습했습니다.`, parts: (most) => `그림은 ${most}단어까지의 한 문장만 그립니다.`,
  },
};
const NAMES = ["without", "with"];
const STEP_MS = 700, IDLE_MS = 900, UNSURE = 0.5, UNKNOWN = "<unk>", MOST_CHARACTERS = 200, LONG = 20; // LONG: characters of a word that a message repeats
const { LABELS } = mechanism;

/** Colours of a diagram by the page's variables, so that they follow its theme: weights, and signed numbers around 50. */
const shaded = (kind, n) => `var(--${kind}${5 * Math.round(n / 5)})`;
const SHADES = {
  scale: Array.from({ length: 101 }, (_, n) => shaded("w", n)),
  signed: Array.from({ length: 101 }, (_, n) => shaded(n < 50 ? "n" : "p", Math.abs(2 * n - 100))),
};

const script = (url) => new Promise((done, failed) => {
  document.head.append(Object.assign(document.createElement("script"), { src: url, onload: done, onerror: () => failed(new Error(url)) }));
});

const isDisk = globalThis.location?.protocol === "file:"; // where nothing can be fetched, and scripts hold files as text

async function fetched(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return response;
}

const inflated = async (url) => unpacked(await (await fetched(url)).blob());
const unpacked = (blob) => new Response(blob.stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
const unpackedText = (text) => unpacked(new Blob([Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))]));

/** Load the library and its WebAssembly, which the start page has as well. */
async function library(folder) {
  if (isDisk) {
    await Promise.all([window.regard || script(new URL("regard.js", folder)), script(new URL("files.js", folder))]);
    return WebAssembly.compile(await unpackedText(window.regardFiles["regard.wasm"]));
  }
  const [wasm, code] = await Promise.all([inflated(new URL("regard.wasm.gz", folder)), window.regard || inflated(new URL("regard.js.gz", folder))]);
  if (!window.regard) await script(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  return WebAssembly.compile(wasm);
}

/** Load the runtime files of both models. */
async function models(folder) {
  if (isDisk) await script(new URL("two-models.files.js", folder));
  return Promise.all(NAMES.map(async (name) => {
    const file = `two-models.${name}.gz`;
    return isDisk ? unpackedText(window.livingFiles[file]) : inflated(new URL(file, folder));
  }));
}

/** Return the words of a reference that an output lacks, each as often as it lacks it. */
export function missingWords(reference, output) {
  const left = [...output];
  return reference.filter((word) => {
    const place = left.indexOf(word);
    if (place >= 0) left.splice(place, 1);
    return place < 0;
  });
}

/** Draw the figure. It opens with an example, on a narrow screen with the diagram of a `model`, in a step of the encoder (`read`) or else of the decoder (`word`). */
export async function draw(root, data, language, { example: opening = 0, model = "with", read, word = 2 } = {}) {
  const words = WORDS[language];
  const message = element("p", { role: "status", class: "note" }, words.loading);
  const id = newId("sentence"), input = element("input", { type: "text", id, lang: "ko", maxlength: MOST_CHARACTERS, autocomplete: "off", spellcheck: "false", input: () => typed() });
  const chips = data.examples.map(({ text }) => element("button", { type: "button", title: text, click: () => { input.value = text; typed(); } }, words.count(text.split(" ").length)));
  const reference = element("p", { class: "reference", lang: "en" }), legend = element("p", { class: "legend" }), source = element("p", { class: "source", lang: "ko" });
  const sides = NAMES.map((name) => ({ name, output: element("p", { class: "output", lang: "en" }), missing: element("p", { class: "missing" }), diagram: element("div", { class: "mechanism" }), status: element("p", { class: "note" }) }));
  const outputs = sides.map(({ name, output, missing }) => element("section", { "aria-label": words[name] }, element("p", { class: "which" }, words[name]), output, missing));
  const panes = sides.map(({ name, diagram, status }) => element("section", { "aria-label": words.sides[name], class: name }, status, diagram));
  const pair = element("div", { class: "pair", "data-shown": model }, ...panes);
  const shown = choice(words.diagram, NAMES.map((name) => [name, words.sides[name]]), model, (name) => { pair.dataset.shown = name; go(current); });
  const range = element("input", { type: "range", min: 0, value: 0, "aria-label": words.step, input: () => { stop(); go(Number(range.value)); } });
  const player = element("button", { type: "button", class: "play", click: () => (timer ? stop() : play()) }, words.play);
  const steps = element("div", { class: "steps" },
    element("button", { type: "button", "aria-label": words.back, click: () => { stop(); go(current - 1); } }, "◀"), player,
    element("button", { type: "button", "aria-label": words.forth, click: () => { stop(); go(current + 1); } }, "▶"), range);
  root.append(element("div", { class: "typing" }, element("label", { for: id }, words.type), element("div", { class: "chips" }, ...chips), input), message, reference, element("div", { class: "pair outputs" }, ...outputs), legend, shown, steps, source, pair, element("p", { class: "note" }, words.scores));
  let current = 0, timer = null, idle = null;

  const { folder } = root.dataset, [wasm, files] = await Promise.all([library(new URL("../translator/", folder)), models(folder)]);
  await Promise.all(sides.map(async (side, number) => { side.translator = await window.regard.load({ model: files[number], wasm }); }));
  input.value = data.examples[opening].text;
  translate();
  go(read === undefined ? readSteps() + Number(word) : Number(read));
  new ResizeObserver(() => go(current)).observe(pair);

  function typed() {
    stop();
    clearTimeout(idle);
    translate();
    go(readSteps() - 1);
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) idle = setTimeout(play, IDLE_MS);
  }

  function translate() {
    const text = input.value.trim();
    const example = data.examples.find((one) => one.text === text);
    const known = example?.reference.split(" ");
    reference.textContent = example ? words.reference + example.reference : "";
    for (const side of sides) {
      const [translation] = text ? side.translator.translate(text, { beam: 1, nbest: 1, attention: "cross", states: true, trace: true }) : [];
      side.data = translation ? explanationData.explanation(translation, translation, { languages: ["ko", "en"] }) : null;
      const output = translation ? translation.text.split(" ") : [];
      const isUnsure = output.map((_, place) => side.data?.steps[place] && mechanism.chosenAt(side.data, place)?.[1] < UNSURE);
      side.output.replaceChildren(...output.flatMap((word, place) => [element(known && !known.includes(word) ? "mark" : "span", { class: isUnsure[place] ? "unsure" : "" }, word), " "]));
      const missing = translation && known ? missingWords(known, output) : [];
      const isRight = example && translation?.text === example.reference;
      const lacks = missing.length ? [words.missing, element("span", { lang: "en" }, missing.map((word) => word.replace(/[.,!?]+$/, "")).join(" · "))] : [];
      side.missing.replaceChildren(...(isRight ? [words.right] : lacks));
      side.tokens = translation?.sourceTokens ?? [];
    }
    const marks = { mark: words.wrong, ".unsure": words.unsure };
    const shownMarks = Object.keys(marks).filter((kind) => sides.some(({ output }) => output.querySelector(kind)));
    legend.replaceChildren(...shownMarks.map((kind) => element("span", {}, kind === "mark" ? element("mark", {}, marks[kind][0]) : element("span", { class: "unsure" }, marks[kind][0]), ` ${marks[kind][1]}`)));
    message.textContent = remark(text, example);
  }

  function remark(text, example) {
    if (!text) return words.empty;
    if (!sides.every((side) => side.data)) return words.parts(data.longest);
    const typedWords = text.split(/\s+/), unread = typedWords.filter((_, place) => sides[0].tokens[place] === UNKNOWN);
    if (!/\p{Script=Hangul}/u.test(text)) return words.foreign;
    if (unread.length) return words.unknown(unread.map((word) => (word.length > LONG ? `${word.slice(0, LONG)}…` : word)).join(", "));
    if (typedWords.length > data.longest) return words.long(data.longest);
    return example ? "" : words.free;
  }

  function readSteps() { return sides[0].data ? sides[0].data.states.tokens.length : 0; }
  function lastStep() { return Math.max(0, ...sides.map((side) => (side.data ? readSteps() + side.data.steps.length - 1 : 0))); }

  function go(step) {
    current = Math.max(0, Math.min(lastStep(), step));
    range.max = lastStep();
    range.value = current;
    range.setAttribute("aria-valuetext", `${current + 1} / ${lastStep() + 1}`);
    const views = sides.map((side) => show(side, current, language));
    source.replaceChildren(...(views.every(Boolean) ? attended(views[1], current) : []));
  }

  function play() {
    if (current === lastStep()) go(0);
    player.textContent = words.pause;
    timer = setInterval(() => (current === lastStep() ? stop() : go(current + 1)), STEP_MS);
  }

  function stop() {
    clearInterval(timer);
    clearTimeout(idle);
    timer = null;
    player.textContent = words.play;
  }
}

/** Return the step of the encoder, and that of the decoder (null before it), of a step of a model; one that is done keeps its last. */
function places({ states, steps }, step) {
  const S = states.tokens.length;
  return [Math.min(step, S - 1), step < S ? null : Math.min(step - S, steps.length - 1)];
}

/** Draw a step of one model: tokens that are read, then tokens that are written. Return what was drawn. */
function show({ data, diagram, status }, step, language) {
  if (!data) {
    for (const part of [diagram, status]) part.replaceChildren();
    return null;
  }
  const [e, t] = places(data, step), labels = LABELS[language];
  const layer = data.layers.find(({ role }) => role === "cross");
  const weightsAt = layer && ((row) => Array.from({ length: layer.shape[2] + 1 }, (_, column) => layer.get(0, row, column)));
  const view = { data, labels, shades: SHADES, layer, head: 0, weightsAt, isByPiece: true, isWhole: true };
  status.textContent = view.status = describe(view, e, t);
  mechanism.draw(diagram, view, e, t);
  return view;
}

/** Return all words of the source, which a narrow diagram shortens: those that are being read, and later the weights of the step. */
function attended({ data, weightsAt }, step) {
  const [e, t] = places(data, step), { words, tokens } = data.states, read = t === null ? [words[e], words[tokens.length - 1 - e]] : [], weights = t === null ? [] : weightsAt?.(t) ?? [];
  return data.source.flatMap((word, place) => [element("span", { class: [shadeOf(weights[place] ?? 0), read.includes(place) ? "read" : ""].join(" ").trim() }, word), " "]);
}

/** Return a sentence on a step. */
function describe(view, e, t) {
  const { data, labels, weightsAt } = view;
  if (t === null) {
    const { tokens } = data.states, S = tokens.length, names = tokens.map((token) => mechanism.tokenLabel(labels, token));
    return e === S - 1 ? labels.allRead : labels.readsToken(names[e], names[S - 1 - e]);
  }
  const isEnd = t === data.steps.length - 1, weights = weightsAt?.(t) ?? [], best = weights.indexOf(Math.max(...weights));
  const chosen = mechanism.chosenAt(data, t);
  const attended = weightsAt ? [data.source[best] ?? labels.end, weights[best].toFixed(2)] : [""];
  return labels.writes(isEnd ? "" : mechanism.joined(view, t), chosen ? mechanism.percent(labels, chosen[1]) : "", ...attended);
}
