// Answers questions on strings of programs by the modules of the runtime, as JSON: node contract_rules.mjs < {"cases", "paths"}
import { readFileSync } from "node:fs";
import { lengthOf } from "../../regard/runtime/js/characters.js";
import { dialectNamed, recognised, scan } from "../../regard/runtime/js/contract_spans.js";
import { CONTRACTS } from "../../regard/runtime/js/contract_table.js";
import { breaches, codeSpans } from "../../regard/runtime/js/contracts.js";
import { CaseReader } from "../../regard/runtime/js/letter_case.js";
import { linePath } from "../../regard/runtime/js/text_path.js";
import { COPY_CHARACTERS } from "../../regard/runtime/js/text_tables.js";

const GREEK = (code) => code >= 0x370 && code < 0x400; // letters that the fake model does not know
const { cases, paths } = JSON.parse(readFileSync(0, "utf8"));
const reader = new CaseReader(["", ""], (text) => Array.from(text, (letter) => letter.codePointAt(0)).flatMap((code) => Array(GREEK(code) ? 3 : 1).fill(code)));

/** Translate as `fake_translation` of test_js_contracts.py does. */
function fakeTranslation(text, hasLinks) {
  const words = text.split(" ");
  const hash = Array.from(text).reduce((sum, letter) => (31 * sum + letter.codePointAt(0)) % 1009, 7);
  const at = hash % words.length;
  const changes = [
    words, words, words.filter((_, i) => i !== at), [...words].reverse(), [...words, "{x}"], [...words.slice(0, at), ...words.slice(at - words.length)],
    words.map((word, i) => (i === at ? "Xy" : word)), words.map((word) => word.replace(/[a-z]/g, "o")), [...words.slice(0, at), "%", ...words.slice(at - words.length)],
  ];
  const target = changes[hash % changes.length];
  const links = Array.from({ length: Math.min(words.length, target.length) }, (_, i) => [i, i]);
  return { text: target.join(" "), links: hasLinks && hash % 5 ? links : null };
}

function resultOf(source, hasLinks) {
  const { text, links } = fakeTranslation(source, hasLinks);
  const none = { texts: [], ofTokens: [] };
  const best = { text, score: 0, tokens: [], ids: [], logProbs: [], targetWords: none, alignments: links, attention: [], states: null, repetition: null, isComplete: true };
  const parts = [{ source, text, score: 0, doubtful: false }];
  return { ...best, sourceTokens: [], sourceWords: none, nbest: [best], parts, doubtful: false, notes: [], steps: [] };
}

function pathOf([line, dialect, copies]) {
  const path = linePath(line, { copies: [...COPY_CHARACTERS].slice(0, copies), reader, dialect });
  const asked = [];
  let step = path.next();
  while (!step.done) {
    const { texts, links } = step.value;
    asked.push(texts);
    step = path.next(texts.map((one) => resultOf(one, links)));
  }
  const { text, broken, notes, parts } = step.value;
  return { text, broken, notes, parts: parts.map((part) => [part.source, part.text]), asked };
}

function caseOf([line, translation, dialect]) {
  const offsets = Array.from(line).flatMap((letter, i) => Array(letter.length).fill(i)); // in characters, as Python counts
  const offset = (index) => offsets[index] ?? lengthOf(line);
  const code = codeSpans(line, dialect).map(({ start, end, kind, pair = null, closes = false }) => [offset(start), offset(end), kind, pair, closes]);
  const spans = dialect === "auto" ? [] : scan(line, dialectNamed(dialect)).map(({ kind, key, text, start, end, name }) => [kind, key, text, offset(start), offset(end), name]);
  const faults = breaches(line, translation, dialect).map(({ kind, what, detail, span }) => [kind, what, detail, span]);
  return { code, spans, faults, recognised: recognised(line) };
}

console.log(JSON.stringify({ table: CONTRACTS(), cases: cases.map(caseOf), paths: paths.map(pathOf) }));
