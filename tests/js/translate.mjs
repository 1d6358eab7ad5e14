// Translates lines with the JavaScript module, and prints the results as JSON: node translate.mjs WASM MODEL < {"lines", "options"}
import { readFile } from "node:fs/promises";
import { load } from "../../regard/runtime/js/regard.js";

const [wasm, model] = await Promise.all(process.argv.slice(2, 4).map((path) => readFile(path)));
const input = [];
for await (const part of process.stdin) input.push(part);
const { lines, options, streamed = [], wrong = [] } = JSON.parse(Buffer.concat(input).toString("utf8"));
const translator = await load({ wasm, model });
const answers = translator.translate(lines, options);
const plain = (value) => Object.entries(value ?? {}).forEach(([name, part]) => { if (part instanceof Float32Array) value[name] = [...part]; }); // −Infinity becomes null
for (const answer of answers) for (const hypothesis of answer.nbest) [...hypothesis.attention, hypothesis.states].forEach(plain);
const errors = wrong.map(([method, ...given]) => {
  try {
    const result = translator[method](...given);
    return method === "stream" ? [...result].length : "no error";
  } catch (problem) {
    return problem.constructor.name === "Error" ? problem.message : String(problem.stack);
  }
});
const result = { answers, errors, card: translator.card, layers: translator.layers, recurrent: translator.recurrent, options: translator.options(), streams: streamed.map((line) => [...translator.stream(line)]), ids: lines.map((line) => translator.encode(line)) };
translator.close();
translator.close();
try { translator.translate("x"); } catch (problem) { result.closed = problem.message; }
console.log(JSON.stringify(result));
