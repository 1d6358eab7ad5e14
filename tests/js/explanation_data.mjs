// Prints what pages show of a line, as JSON: node explanation_data.mjs WASM MODEL LINE PAGE; of the library, and of the data in the file PAGE.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { load } from "../../regard/runtime/js/regard.js";

const explanationData = createRequire(import.meta.url)("../../regard/visualisation/assets/explanation_data.js");
const [wasm, model, page] = await Promise.all([2, 3, 5].map((i) => readFile(process.argv[i])));

function plain(data) { // its functions called for all that they know
  const layers = data.layers.map(({ role, name, shape, get, logSum }) => {
    const [heads, rows, columns] = shape.map((size) => [...Array(size).keys()]);
    const weights = heads.map((h) => rows.map((r) => columns.map((c) => get(h, r, c))));
    return { role, name, weights, logSums: logSum && heads.map((h) => rows.map((r) => logSum(h, r))) };
  });
  if (!data.states) return { ...data, layers };
  const { tokens, directions, encoder, decoder, initial } = data.states;
  const vectors = tokens.map((_, s) => [...Array(directions).keys()].map((k) => [...encoder(s, k).numbers]));
  const states = { ...data.states, encoder: vectors, decoder: data.tokens.map((_, t) => [...decoder(t).numbers]), initial: [...initial.numbers] };
  return { ...data, layers, states };
}

const translator = await load({ wasm, model });
const options = { nbest: 3, attention: "all", alignments: false, states: translator.recurrent.encoder, trace: true };
const [translation] = translator.translate(process.argv[4], options);
const live = explanationData.explanation(translation, translation.nbest[0], { alignment: null, languages: ["", ""] });
const words = explanationData.words(translation.nbest[0]);
const ofPage = await explanationData.ofPage(JSON.parse(page));
console.log(JSON.stringify({ live: plain(live), page: plain(ofPage), words, logProbs: translation.nbest[0].logProbs }));
