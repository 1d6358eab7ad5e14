// Answers questions on texts by the modules of the runtime, as JSON: node text_rules.mjs < {"codes", "words", "lines", "texts", "copied", "tagged", "particles"}
import { readFileSync } from "node:fs";
import { CaseReader, letterCase, restoredTokens } from "../../regard/runtime/js/letter_case.js";
import { insertMnemonic, stripMnemonic } from "../../regard/runtime/js/mnemonics.js";
import { bothParticles } from "../../regard/runtime/js/particles.js";
import { COPIES, Copies, findSpans } from "../../regard/runtime/js/spans.js";
import { TaggedLine } from "../../regard/runtime/js/tagged_line.js";
import { KEPT, KEPT_ON_RETRY, NOT_COPIED } from "../../regard/runtime/js/text_tables.js";

const { codes, words, lines, texts, copied, tagged, particles } = JSON.parse(readFileSync(0, "utf8"));

function encode(text) { // as in test_js_text_rules.py
  const letters = [...text];
  const ids = [];
  for (let start = 0; start < letters.length; start += 3) {
    ids.push(letters.slice(start, start + 3).reduce((sum, letter) => (31 * sum + letter.codePointAt(0)) % 997, 7));
  }
  return ids;
}

function read(reader, line) {
  const known = reader.read(line);
  const restore = known.restore ?? ((text) => text);
  const restoreSource = known.restoreSource ?? ((text) => text);
  return [known.line, restore(line), restoreSource(known.line), restoredTokens([...line].slice(0, 9), restore)];
}

function labelled(line, rules) {
  const [label, mnemonic] = stripMnemonic(line, encode);
  return [label, mnemonic, mnemonic && insertMnemonic(line, mnemonic, rules)];
}

const answers = {
  names: codes.map((code) => letterCase(code).constructor.name),
  words: words.map(([code, word]) => {
    const rules = letterCase(code);
    return [rules.upper(word), rules.lower(word), rules.initial(word), rules.spellings(word)];
  }),
  lines: lines.map(([source, target, line]) => {
    const reader = new CaseReader([source, target], encode);
    return [read(reader, line), labelled(line, reader.source)];
  }),
  spans: texts.map((line) => findSpans(line).map(({ kind, text }) => [kind, text])),
  copied: copied.map(([line, text]) => {
    const spans = findSpans(line).filter(({ kind }) => KEPT.includes(kind) && !NOT_COPIED.includes(kind));
    const own = new Copies(line, spans, COPIES);
    return [own.marked, own.restore(text), own.restoredWords(own.marked), own.restoredWords(text)];
  }),
  particles: particles.map(([text, spans]) => {
    const letters = [...text];
    const offset = (count) => letters.slice(0, count).join("").length; // Python counts whole characters
    return bothParticles(text, spans.map(([start, end]) => [offset(start), offset(end)]));
  }),
  tagged: tagged.map(([line, translations]) => {
    const taken = new TaggedLine(line, findSpans(line).filter(({ kind }) => KEPT_ON_RETRY.includes(kind)));
    return [taken.lines, taken.render(translations.map(([text, alignments]) => ({ text, alignments })))];
  }),
};
console.log(JSON.stringify(answers));
