// Runs the worker of the live page over a translator that counts its steps, and prints what it did: node worker.mjs < {"messages", "parts"}
// `parts`: of each sentence. A message arrives after an entry of the log, while the worker is busy.
import { readFile } from "node:fs/promises";
import { runInNewContext } from "node:vm";
import { gzipSync } from "node:zlib";

const assets = new URL("../../regard/visualisation/assets/", import.meta.url);
const scripts = await Promise.all(["explanation_data.js", "unread.js", "worker.js"].map((name) => readFile(new URL(name, assets), "utf8")));
const input = [];
for await (const part of process.stdin) input.push(part);
const { messages, parts } = JSON.parse(Buffer.concat(input).toString("utf8"));
const entries = [];
let time = 0;

function log(entry) {
  entries.push(entry);
  const message = messages.find(({ after }) => after === entry);
  if (message) setImmediate(() => worker.onmessage({ data: message }));
}

function* translateInSteps(sentence, { attention, nbest }) { // a step for each part
  const name = `${sentence}, ${nbest} best, attention ${attention}`;
  try {
    for (let open = parts[sentence]; open > 0; open--) {
      log(`${open} of ${name}`);
      yield open;
    }
    const hypothesis = { text: sentence.toUpperCase(), targetWords: { texts: [], ofTokens: [] }, sourceWords: { texts: [] }, attention: [], steps: [], logProbs: [] };
    return [{ ...hypothesis, nbest: [hypothesis] }];
  } finally {
    log(`end of ${name}`);
  }
}

class Channel { // whose message arrives after those that are on their way
  port1 = Object.assign(new EventTarget(), { start() {} });
  port2 = { postMessage: () => setImmediate(() => this.port1.dispatchEvent(new Event("message"))) };
}

const worker = {
  load: async () => ({ translateInSteps, card: {}, layers: [], recurrent: {}, options: () => ({ beam: 3 }) }),
  postMessage({ kind, results = [], translation }) {
    if (kind === "ready") log(kind);
    for (const { text } of translation ? [translation] : results) log(`${kind} ${text}`);
  },
  performance: { now: () => (time += 1000) }, // each step is a slice of its own
  MessageChannel: Channel, WebAssembly: { compile: async () => null }, atob, Blob, DecompressionStream, Response, Uint8Array,
};
runInNewContext(scripts.join("\n"), worker);
const nothing = gzipSync("").toString("base64");
worker.onmessage({ data: { kind: "start", wasm: nothing, models: [nothing] } });
process.on("exit", () => console.log(JSON.stringify(entries)));
