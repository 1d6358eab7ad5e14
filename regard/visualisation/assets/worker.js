// Worker of the live page, behind the module of the runtime (regard.js) in one script: the page never waits for it.
"use strict";
let packed, library, translating; // translating: settled once the newest text is translated, or given up
const latest = { translate: 0, explain: 0 }; // numbers of the newest messages
const translators = [];
const SLICE = 40; // milliseconds between two looks at what the page asks for

async function unzipped(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}

async function opened(direction) {
  const model = await unzipped(packed[direction]);
  packed[direction] = null;
  return load({ model, wasm: await library });
}
const translatorOf = (direction) => (translators[direction] ??= opened(direction));

const others = new MessageChannel();
others.port1.start();
const breathe = () => new Promise((done) => { others.port1.addEventListener("message", done, { once: true }); others.port2.postMessage(0); });

/** Number a message, and return a function that says whether it is still the newest of its kind. */
function numbered(kind) {
  const own = ++latest[kind];
  return () => own === latest[kind];
}

/** Take the steps of a translation, and look at messages between slices of them. Returns null once it is not wanted any more. */
async function inSlices(steps, isWanted) {
  let start = performance.now();
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value[0];
    if (performance.now() - start < SLICE) continue;
    await breathe();
    if (!isWanted()) { steps.return(); return null; }
    start = performance.now();
  }
}

const answers = {
  async start({ wasm, models }) {
    packed = models;
    library = unzipped(wasm).then((bytes) => WebAssembly.compile(bytes));
    await translatorOf(0);
    postMessage({ kind: "ready" });
  },

  async translate({ id, direction, sentences }) { // the newest text is the one that counts
    const isWanted = numbered("translate"), translator = await translatorOf(direction);
    let results = [], start = performance.now();
    for (const sentence of sentences) {
      const result = isWanted() && await translated(translator, sentence, isWanted);
      if (!result) return;
      results.push({ sentence, ...result });
      if (performance.now() - start < SLICE) continue;
      postMessage({ kind: "translated", id, direction, results });
      await breathe();
      [results, start] = [[], performance.now()];
    }
    postMessage({ kind: "translated", id, direction, results, isDone: true });
  },

  async explain({ sentence, direction, prefix, trace }) { // null: no sentence any more
    const isWanted = numbered("explain");
    if (sentence === null) return;
    const translator = await translatorOf(direction);
    try {
      const translation = isWanted() && await explained(translator, sentence, { trace, prefix }, isWanted);
      if (translation) postMessage({ kind: "explained", direction, sentence, translation, memory: translator.memory });
    } catch (problem) {
      postMessage({ kind: "explained", direction, sentence, error: problem.message });
    }
  },

  async continuations({ id, sentence, direction, before }) { // what else could follow these tokens, likeliest first
    const translator = await translatorOf(direction);
    try {
      const [{ steps }] = translator.translate(sentence, { prefix: before, beam: 1, nbest: 1, trace: true, minLength: 0, maxLength: before.length + 1 });
      const likely = (steps[before.length]?.candidates ?? []).filter((candidate) => candidate.id !== explanationData.EOS).sort((a, b) => b.logProb - a.logProb).slice(0, explanationData.MOST_CONTINUATIONS);
      const prefixes = likely.map((candidate) => [...before, candidate.id]);
      const translations = translator.translate(likely.map(() => sentence), { prefixes, nbest: 1, attention: "none", alignments: false });
      const options = translations.map((translation, i) => ({ ...shown(translation), prefix: prefixes[i], share: Math.exp(likely[i].logProb) }));
      postMessage({ kind: "continued", id, options });
    } catch (problem) {
      postMessage({ kind: "continued", id, options: [], error: problem.message });
    }
  },
};

const shown = (translation) => ({ text: translation.text, doubtful: translation.doubtful, quality: translation.quality, notes: translation.notes, ...explanationData.words(translation) });

async function explained(translator, sentence, options, isWanted) {
  const attends = translator.layers.some(({ role }) => role === "cross"), nbest = Math.min(5, translator.options().beam);
  const steps = translator.translateInSteps(sentence, { nbest, attention: "all", alignments: attends, states: translator.recurrent.encoder, ...options });
  const first = steps.next();
  if (first.done) return first.value[0];
  if (first.value === 1) {
    const translation = await inSlices(steps, isWanted);
    return translation && { ...translation, unread: options.prefix ? [] : unread(translator, sentence, translation) };
  }
  steps.return(); // of a sentence in parts no attention is shown
  await translating;
  return isWanted() && inSlices(translator.translateInSteps(sentence, { nbest, attention: "none", alignments: false }), isWanted);
}

/** Return the indices of the words of a sentence that its translation leaves out. */
function unread(translator, sentence, translation) {
  const words = unreadWords.unattended(sentence, translation, translation, translator.card.alignment);
  const others = words.length ? translator.translate(words.map(({ text }) => text), { nbest: 1, attention: "none", alignments: false }) : [];
  return words.filter((_, i) => others[i].text === translation.text).map(({ index }) => index);
}

async function translated(translator, sentence, isWanted) {
  try {
    const translation = await inSlices(translator.translateInSteps(sentence, { nbest: 1, attention: "none", alignments: false }), isWanted);
    return translation && shown(translation);
  } catch (problem) {
    return { error: problem.message };
  }
}

onmessage = ({ data }) => {
  const answered = answers[data.kind](data).catch((problem) => postMessage({ kind: "failed", message: problem.message }));
  if (data.kind === "translate") translating = answered;
};
