// Contracts of lines: the code that a translation has to keep, and what it has broken of it; Python's regard/text/contracts.py.
import { hasLetters, strip, wordsOf } from "./characters.js";
import { compiled, dialectNamed, recognised, scan } from "./contract_spans.js";
import { CONTRACTS } from "./contract_tables.js";
import { breaksProgram, judgeCode } from "./judge.js";
import { splitLanguageCode } from "./letter_case.js";
import { syntaxOf } from "./messages.js";
import { worstQuality } from "./quality.js";
import { bothParticles } from "./particles.js";
import { disjoint, findSpans } from "./spans.js";
import { APART_CLOSING, APART_OPENING, FEWEST, JOINED_CODE, KEPT, PATTERNS, SHOWN, WORDLESS } from "./text_tables.js";

const AUTO = "auto"; // the dialect that each line speaks for by itself
const [NUMBER, SIGN, KEY, NAME] = ["number", "symbol", "key", "name"];
const DOUBLED_QUOTE = "''"; // apostrophe of a message in text

/** Return the name of a dialect, or `auto`. Throws an Error for other names. */
export function checkedDialect(given) {
  if (given === AUTO) return given;
  const dialect = dialectNamed(given);
  if (!dialect) throw new Error(`option dialect: wanted auto, or one of ${Object.keys(CONTRACTS().dialects).sort().join(", ")}, got ${given}`);
  return dialect.name;
}

const dialectOf = (line, dialect) => (dialect === AUTO ? recognised(line) : dialect);

/** Return the faults by which a translation breaks the contract of its line; in a line without code, numbers and signs are words. */
export function breaches(line, translation, dialect) {
  const faults = judgeCode(line, translation, dialectOf(line, dialect));
  const breaking = faults.length && !codeSpans(line, dialect).length ? faults.filter(breaksProgram) : faults;
  const [given, result] = [line.normalize("NFC"), translation.normalize("NFC")];
  return [...breaking, ...unknownFaults(given, result, dialect), ...wordFaults(given, result, dialect)];
}

/** Return a fault if of a line with words and code only code is left. */
function wordFaults(line, translation, dialect) {
  const words = wordsOf(translation);
  if (!words.length || words.some((word) => hasLetters(word) && !line.includes(word))) return [];
  const spans = codeSpans(line, dialect);
  if (!spans.length) return [];
  let [rest, left] = [line, translation];
  for (const { start, end, text } of spans.reverse()) {
    rest = `${rest.slice(0, start)} ${rest.slice(end)}`;
    left = left.replaceAll(text, " ");
  }
  const letters = Array.from(rest).filter(hasLetters).length;
  return letters >= FEWEST && !hasLetters(left) ? [{ kind: WORDLESS, what: words.join(" "), detail: "has none of its words", span: "" }] : [];
}

const isUseless = (fault) => breaksProgram(fault) || fault.kind === WORDLESS; // a program may fail, or the translation says nothing

/** Return the lost spans that are hidden from the model but unknown to the dialect, and keys and names, which have to stay as they are. */
function unknownFaults(line, translation, dialect) {
  const kinds = new Map();
  for (const { start, end, kind } of [...findSpans(line), ...names(line)]) {
    if (KEPT.includes(kind) || kind === KEY || kind === NAME) kinds.set(line.slice(start, end), kind);
  }
  const count = (text, part) => text.split(part).length;
  const lost = [...kinds.keys()].filter((text) => count(translation, text) < count(line, text));
  if (!lost.length) return [];
  const rules = dialectNamed(dialectOf(line, dialect));
  const known = [...syntaxOf(line, rules), ...scan(line, rules).filter(({ kind }) => kind !== KEY)];
  const isKnown = (text) => {
    const first = line.indexOf(text);
    const last = first + text.length;
    return known.some(({ start, end }) => (start <= first && first < end) || (first <= start && end <= last));
  };
  return lost.filter((text) => !isKnown(text)).map((what) => ({ kind: "lost", what, detail: "occurs less often than in the source", span: kinds.get(what) }));
}

const breaksCode = (line, translation, dialect) => breaches(line, translation, dialect).some(isUseless);

/** Say in a note what is broken. */
export function describeBreaches(faults) {
  const shown = faults.slice(0, SHOWN).map(({ what, detail }) => `${what} ${detail}`).join("; ");
  const rest = faults.length > SHOWN ? `; and ${faults.length - SHOWN} more` : "";
  return `the translation does not keep what its line has: ${shown}${rest}; mend it by hand`;
}

/**
 * Return the code of a line in order, {start, end, kind, text, pair, closes}: what the contracts of its dialect know, then what
 * `findSpans` finds, `foreign` words that the model cannot read, and single signs. Signs beside a number are part of it. `pair`
 * numbers the pair that a span opens or closes.
 */
export function codeSpans(line, dialect, foreign = []) {
  const rules = dialectNamed(dialectOf(line, dialect));
  const contract = scan(line, rules).filter(({ start, end, kind, rule }) => end > start && !rule.free && kind !== NUMBER);
  const spans = [...messageSpans(line, rules), ...paired(contract), ...names(line), ...findSpans(line), ...foreign];
  const { signs } = CONTRACTS();
  for (let start = 0; start < line.length; start++) { // # is written before numbers as a word is
    if (line[start] !== "#" && Object.hasOwn(signs, line[start])) spans.push({ start, end: start + 1, kind: SIGN });
  }
  return withSigns(disjoint(spans, line.length)).map((span) => ({ ...span, text: line.slice(span.start, span.end) }));
}

/** Return the names of products and the like, which people may translate, and models mangle. */
function names(line) {
  return Array.from(line.matchAll(compiled(CONTRACTS().names)), ({ 0: text, index: start }) => ({ start, end: start + text.length, kind: NAME }));
}

/** Return the syntax of a message with branches or arguments as spans. */
function messageSpans(line, rules) {
  const syntax = syntaxOf(line, rules).filter(({ start, end }) => line.slice(start, end) !== DOUBLED_QUOTE);
  return syntax.map(({ start, end, divides }) => ({ start, end, kind: divides ? "message" : "placeholder" }));
}

/** Join signs and units with the number beside them. */
function withSigns(spans) {
  const joined = [];
  for (const span of spans) {
    const last = joined.at(-1);
    const kinds = [last?.kind, span.kind];
    if (last?.end === span.start && kinds.includes(NUMBER) && kinds.every((kind) => JOINED_CODE.includes(kind))) {
      joined[joined.length - 1] = { start: last.start, end: span.end, kind: NUMBER };
    } else {
      joined.push(span);
    }
  }
  return joined;
}

/** Return spans with the number of the pair that each opens or closes. */
function paired(spans) {
  const partners = new Map();
  const opened = [];
  spans.forEach(({ name, rule: { role } }, number) => {
    const isOpen = opened.length > 0 && spans[opened.at(-1)].name === name;
    if (role === "close" || (role === "toggle" && isOpen)) {
      if (!isOpen) return;
      const pair = opened.pop();
      partners.set(pair, { pair, closes: false });
      partners.set(number, { pair, closes: true });
    } else if (role) {
      opened.push(number);
    }
  });
  return spans.map(({ start, end, kind }, number) => {
    if (kind === "block") return { start, end, kind: "message", closes: partners.get(number)?.closes ?? false };
    return { start, end, kind, ...partners.get(number) };
  });
}

/** Return spans with the brackets, quotes and the like beside them, which belong to no text. */
export function widened(line, spans) {
  let last = 0;
  return spans.map((span, i) => {
    let { start, end } = span;
    const limit = spans[i + 1]?.start ?? line.length;
    while (start > last && APART_OPENING.includes(line[start - 1])) start--;
    while (end < limit && APART_CLOSING.includes(line[end])) end++;
    last = end;
    return { ...span, start, end, text: line.slice(start, end) };
  });
}

/**
 * Return a Korean translation with the particles after placeholders in both forms, but not after terms of Fluent and quoted braces,
 * which are constant.
 */
export function particlesWritten(line, result, dialect) {
  const own = dialectOf(line, dialect);
  const written = (text) => {
    const spans = codeSpans(text, own).filter(({ kind, text: code }) => kind === "placeholder" && !PATTERNS.constant.test(code));
    return bothParticles(text, spans.map(({ start, end }) => [start, end]));
  };
  const change = (one) => ({ ...one, text: written(one.text) });
  return { ...change(result), parts: result.parts.map(change), nbest: result.nbest.map(change) };
}

/**
 * Return a translation in which the parts whose code it breaks stand as they were, and those of which only code is left. One that
 * breaks no program, since only numbers, signs or names differ, stands.
 */
export function keepSource(result, line, dialect, faults) {
  if (!faults.some(isUseless)) return result;
  const whole = strip(line);
  const parts = result.parts.map((part) => unbroken(part, dialect));
  const text = withTexts(result, parts);
  if (text !== null && !breaksCode(whole, text, dialect)) return withText(result, text, parts);
  return withText(result, whole, [{ source: whole, text: whole, score: result.score, doubtful: false, quality: 0 }]);
}

/** Return a part as it was if its translation would break its code. */
function unbroken(part, dialect) {
  const [, source] = splitLanguageCode(part.source);
  return breaksCode(source, part.text, dialect) ? { ...part, text: strip(source), quality: 0 } : part;
}

function withText(result, text, parts) {
  const best = { text, tokens: [], alignments: null };
  return { ...result, ...best, parts, quality: worstQuality(parts), nbest: result.nbest.map((hypothesis) => ({ ...hypothesis, ...best })) };
}

/** Return the text of a translation with other texts of its parts; null: these do not follow each other in it. */
function withTexts(result, parts) {
  const pieces = [];
  let end = 0;
  for (const [i, old] of result.parts.entries()) {
    const start = result.text.indexOf(old.text, end);
    if (start < 0) return null;
    pieces.push(result.text.slice(end, start), parts[i].text);
    end = start + old.text.length;
  }
  return pieces.join("") + result.text.slice(end);
}
