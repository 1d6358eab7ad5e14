// Prints what the page that translates shows of a line, as JSON: node live_data.mjs WASM MODEL LINE
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { load } from "../../regard/runtime/js/regard.js";

const liveData = createRequire(import.meta.url)("../../regard/visualisation/assets/live_data.js");
const [wasm, model] = await Promise.all(process.argv.slice(2, 4).map((path) => readFile(path)));
const translator = await load({ wasm, model });
const options = { nbest: 3, attention: "all", alignments: false, states: translator.recurrent.encoder, trace: true };
const [translation] = translator.translate(process.argv[4], options);
const data = liveData.explanation(translation, translation.nbest[0], { alignment: null, languages: ["", ""], trust: null });

const layers = data.layers.map(({ role, name, shape, get, logSum }) => {
  const [heads, rows, columns] = shape.map((size) => [...Array(size).keys()]);
  const weights = heads.map((h) => rows.map((r) => columns.map((c) => get(h, r, c))));
  return { role, name, weights, logSums: logSum && heads.map((h) => rows.map((r) => logSum(h, r))) };
});
let states = null;
if (data.states) {
  const { tokens, directions, encoder, decoder, initial } = data.states;
  const vectors = tokens.map((_, s) => [...Array(directions).keys()].map((k) => [...encoder(s, k).numbers]));
  states = { ...data.states, encoder: vectors, decoder: data.tokens.map((_, t) => [...decoder(t).numbers]), initial: [...initial.numbers] };
}
const words = liveData.words(translation.nbest[0]);
console.log(JSON.stringify({ ...data, layers, states, words, logProbs: translation.nbest[0].logProbs }));
