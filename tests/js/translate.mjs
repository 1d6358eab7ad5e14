// Translates lines with the JavaScript module, and answers each line of requests with a line of JSON: node translate.mjs WASM [MODEL] < {"lines", "options", "model"}
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { load } from "../../regard/runtime/js/regard.js";

const [wasmPath, usualModel] = process.argv.slice(2, 4);
const wasm = await readFile(wasmPath);
const plain = (value) => Object.entries(value ?? {}).forEach(([name, part]) => { if (part instanceof Float32Array) value[name] = [...part]; }); // −Infinity becomes null

async function answerTo({ lines, options, streamed = [], wrong = [], model = usualModel }) {
  const translator = await load({ wasm, model: await readFile(model) });
  const answers = translator.translate(lines, options);
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
  return result;
}

function failure(problem) {
  console.error(problem);
  process.exitCode = 1;
  return { failure: String(problem) };
}

for await (const request of createInterface({ input: process.stdin })) console.log(JSON.stringify(await answerTo(JSON.parse(request)).catch(failure)));
