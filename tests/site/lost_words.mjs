// Prints of each line whether the start page marks its translation, as JSON: node lost_words.mjs WASM MODEL SCRIPT < lines; SCRIPT is the regard.js that the site has.
import { readFile } from "node:fs/promises";
import { runInThisContext } from "node:vm";

const [wasm, model, script] = await Promise.all(process.argv.slice(2, 5).map((path) => readFile(path)));
globalThis.window = {};
globalThis.location = { href: "" };
runInThisContext(script.toString("utf8"));
const { load, unreadWords } = globalThis.window.regard;
const input = [];
for await (const part of process.stdin) input.push(part);
const translator = await load({ wasm, model });
const results = JSON.parse(Buffer.concat(input).toString("utf8")).map((line) => {
  const [translation] = translator.translate(line, { attention: "cross", alignments: true });
  const words = unreadWords.unattended(line, translation, translation, translator.card.alignment);
  const others = translator.translate(words.map(({ text }) => text), { nbest: 1 });
  return { text: translation.text, doubtful: translation.doubtful, unread: words.filter((_, i) => others[i].text === translation.text).map(({ index }) => line.split(" ")[index]) };
});
console.log(JSON.stringify(results));
