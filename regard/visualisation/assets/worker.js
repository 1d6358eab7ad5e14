// Worker of the live page, behind the module of the runtime (regard.js) in one script: the page never waits for it.
"use strict";
let packed, library, latest = 0;
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
const breathe = () => new Promise((done) => { others.port1.onmessage = done; others.port2.postMessage(0); });

const answers = {
  async start({ wasm, models }) {
    packed = models;
    library = unzipped(wasm).then((bytes) => WebAssembly.compile(bytes));
    await translatorOf(0);
    postMessage({ kind: "ready" });
  },

  async translate({ id, direction, sentences }) { // the newest text is the one that counts
    latest = id;
    const translator = await translatorOf(direction);
    let results = [], start = performance.now();
    for (const sentence of sentences) {
      if (latest !== id) return;
      results.push({ sentence, ...translated(translator, sentence) });
      if (performance.now() - start < SLICE) continue;
      postMessage({ kind: "translated", id, direction, results });
      await breathe();
      [results, start] = [[], performance.now()];
    }
    postMessage({ kind: "translated", id, direction, results, isDone: true });
  },

  async explain({ sentence, direction, prefix, trace }) {
    const translator = await translatorOf(direction), beam = translator.options().beam, attends = translator.layers.some(({ role }) => role === "cross");
    try {
      const [translation] = translator.translate(sentence, { nbest: Math.min(5, beam), attention: "all", alignments: attends, states: translator.recurrent.encoder, trace, prefix });
      postMessage({ kind: "explained", direction, sentence, translation, memory: translator.memory });
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

const shown = (translation) => ({ text: translation.text, doubtful: translation.doubtful, notes: translation.notes, ...explanationData.words(translation) });

function translated(translator, sentence) {
  try {
    const [translation] = translator.translate(sentence, { nbest: 1, attention: "none", alignments: false });
    return shown(translation);
  } catch (problem) {
    return { error: problem.message };
  }
}

onmessage = ({ data }) => answers[data.kind](data).catch((problem) => postMessage({ kind: "failed", message: problem.message }));
