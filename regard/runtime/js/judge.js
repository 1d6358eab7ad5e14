// The judge of the code of translated strings: does what came out keep what went in? Python's judge.py and codes.py of regard/contracts.
import { firstOf, isAlnum, isBlank, lastOf, quoted } from "./characters.js";
import { compiled, dialectNamed, matched, searched } from "./contract_spans.js";
import { CONTRACTS } from "./contract_tables.js";
import { readMessage } from "./messages.js";
import { BREAKING, GLUED } from "./text_tables.js";

const HALF_DAY = /[0-9] ?[ap]\.?m(?![\p{L}\p{N}_])|오전|오후/iu;
const HOURS = 12; // of half a day
const LARGEST = 100; // number that may be written as a word
const NUMBER = /^[0-9]+$/;
const LETTER_I = /i/gi;
const WORDS = new Map(); // patterns of the words of numbers

/** Return the faults, {kind, what, detail, span}, of the code of a translation, without those of its words; `span`: the kind of the span. */
export function judgeCode(source, target, dialect) {
  const wanted = readMessage(source, dialectNamed(dialect));
  const given = readMessage(target, wanted.dialect);
  if (given.problem && !wanted.problem) return [fault("malformed", target, given.problem)];
  const pairs = [[wanted, given]];
  const faults = new Map();
  const add = (one) => faults.set(JSON.stringify(one), one);
  while (pairs.length) {
    const [sourcePart, targetPart] = pairs.pop();
    codeFaults(sourcePart, targetPart).forEach(add);
    for (const [theirs, ours] of partners(sourcePart, targetPart)) [...branchFaults(theirs, ours, pairs)].forEach(add);
  }
  return [...faults.values()];
}

const fault = (kind, what, detail, span = "") => ({ kind, what, detail, span });

/** Return whether a program that shows the translation may fail, or show its code. */
export const breaksProgram = ({ kind, span }) => BREAKING.includes(kind) || CONTRACTS().breaking.includes(span);

/** Return the selectors of equal heads; what lacks a partner is a fault of spans. */
function partners(source, target) {
  const ours = new Map();
  for (const { head } of target.selectors) ours.set(head, []);
  for (const selector of [...target.selectors].reverse()) ours.get(selector.head).push(selector);
  return source.selectors.filter(({ head }) => ours.has(head)).map((selector) => [selector, ours.get(selector.head).pop()]).filter(([, own]) => own);
}

/** Yield the lost and invented branches, and add those to compare to `pairs`. */
function* branchFaults(source, target, pairs) {
  const categories = new Set(CONTRACTS().categories.filter((category) => category !== source.last));
  const [wanted, given] = [new Map(source.branches), new Map(target.branches)];
  for (const key of wanted.keys()) {
    if (!given.has(key) && !categories.has(key)) yield fault("branch", key, `is a branch of ${source.head} that is lost`);
  }
  for (const [key, part] of given) {
    if (categories.has(key)) {
      const last = wanted.get(source.last);
      const other = wanted.get(key) ?? last;
      const isCloser = other !== last && codeFaults(last, part).length < codeFaults(other, part).length;
      pairs.push([isCloser ? last : other, part]);
    } else if (wanted.has(key)) {
      pairs.push([wanted.get(key), part]);
    } else {
      yield fault("branch", key, `is a branch that ${source.head} does not have`);
    }
  }
}

const codeFaults = (source, target) => [
  ...countFaults(source, target), ...pairFaults(source, target), ...glueFaults(source, target), ...placeFaults(source, target),
  ...rawFaults(source, target), ...signFaults(source.prose, target.prose),
  ...quotationFaults(source.prose, target.prose),
];

/** Counts of pairs of texts, in the order in which they came. */
class Counts {
  #rows = new Map();

  add(first, second, count = 1) {
    const key = `${first}\0${second}`;
    const row = this.#rows.get(key);
    if (row) row.count += count;
    else this.#rows.set(key, { first, second, count });
  }

  count(first, second) { return this.#rows.get(`${first}\0${second}`)?.count ?? 0; }
  delete(first, second) { this.#rows.delete(`${first}\0${second}`); }
  get rows() { return [...this.#rows.values()]; }

  /** Return each pair as often as it is counted. */
  get elements() { return this.rows.flatMap((row) => Array(row.count).fill(row)); }

  minus(other) { return this.#changed((row, count) => row.count - count, other); }
  shared(other) { return this.#changed((row, count) => Math.min(row.count, count), other); }

  #changed(counted, other) {
    const result = new Counts();
    for (const row of this.rows) {
      const count = counted(row, other.count(row.first, row.second));
      if (count > 0) result.add(row.first, row.second, count);
    }
    return result;
  }
}

function countsOf(spans) {
  const counts = new Counts();
  for (const { kind, key, rule } of spans) if (!rule.free) counts.add(kind, key);
  return counts;
}

function* countFaults(source, target) {
  const [wanted, given] = [countsOf(source.spans), countsOf(target.spans)];
  const [lost, extra] = [wanted.minus(given), given.minus(wanted)];
  excuseNumbers(source, target, lost, extra);
  excuseNumbers(target, source, extra, lost);
  const [gone, come] = [textsOf(source, lost), textsOf(target, extra)];
  for (const { first: kind, second } of gone.shared(come).rows) yield fault("moved", second, "stands for another argument than in the source", kind);
  const known = new Set(source.spans.map(({ text }) => text));
  for (const kind of new Set([...gone.rows, ...come.rows].map(({ first }) => first))) {
    const [former, later] = [gone.minus(come), come.minus(gone)].map(({ elements }) => elements.filter(({ first }) => first === kind));
    for (let i = 0; i < Math.max(former.length, later.length); i++) {
      const [one, other] = [former[i]?.second, later[i]?.second];
      if (one && other) yield fault("altered", one, `has become ${other}`, kind);
      else if (one) yield fault("lost", one, "occurs less often than in the source", kind);
      else if (known.has(other)) yield fault("doubled", other, "occurs more often than in the source", kind);
      else yield fault("invented", other, "does not occur in the source", kind);
    }
  }
}

/** Count the kinds and texts of the spans with some keys. */
function textsOf({ spans }, keys) {
  const texts = new Map(spans.map(({ kind, key, text }) => [`${kind}\0${key}`, text]));
  const counts = new Counts();
  for (const { first, second, count } of keys.rows) counts.add(first, texts.get(`${first}\0${second}`), count);
  return counts;
}

/** Return whether a text has one of the words of a number. */
function hasWord(text, number) {
  if (!WORDS.has(number)) {
    const words = (CONTRACTS().number_words[number] ?? ["(?!)"]).join("|").replace(LETTER_I, "[iİı]"); // as Python compares letters
    WORDS.set(number, new RegExp(`(?<![A-Za-zİı가-힣])(?:${words})(?![İı])${CONTRACTS().number_end}`, "iu"));
  }
  return WORDS.get(number).test(text);
}

/** Take out the numbers of one part that the other has as words, or by another clock. */
function excuseNumbers(one, other, missing, given) {
  const isClock = HALF_DAY.test(one.text) || HALF_DAY.test(other.text);
  for (const { first: kind, second: number } of missing.rows) {
    if (kind !== "number" || !NUMBER.test(number) || Number(number) > LARGEST) continue;
    const later = String((Number(number) + HOURS) % (2 * HOURS));
    const isOfClock = isClock && given.count(kind, later) > 0;
    if (hasWord(other.prose, number)) {
      missing.delete(kind, number);
    } else if (isOfClock) {
      missing.delete(kind, number);
      given.delete(kind, later);
    }
  }
}

/** Return spans with the pair that encloses each, those without a partner, and empty pairs. */
function nest({ spans, text }) {
  const enclosing = new Counts();
  const [unpaired, opened] = [[], []];
  const empty = new Set();
  for (const span of spans) {
    const { role = "", free } = span.rule;
    const closes = opened.length > 0 && opened.at(-1).name === span.name;
    if (role === "close" || (role === "toggle" && closes)) {
      if (!closes) {
        unpaired.push(span);
        continue;
      }
      const start = opened.pop();
      if (isBlank(text.slice(start.end, span.start))) empty.add(start.key);
      continue;
    }
    if (span.kind !== "number" && !free) enclosing.add(span.key, opened.at(-1)?.key ?? "");
    if (role) opened.push(span);
  }
  return { enclosing, unpaired: [...unpaired, ...opened], empty };
}

function* pairFaults(source, target) {
  const wanted = nest(source);
  if (wanted.unpaired.length) return;
  const given = nest(target);
  for (const span of given.unpaired) yield fault("unpaired", span.text, "has no partner, or crosses another pair");
  for (const key of given.empty) if (!wanted.empty.has(key)) yield fault("unpaired", key, "has nothing between it and its partner");
  if (given.unpaired.length) return;
  const lost = new Set(wanted.enclosing.minus(given.enclosing).rows.map(({ first }) => first));
  for (const { first: key, second: pair } of given.enclosing.minus(wanted.enclosing).rows) {
    const position = pair ? `stands inside ${pair}` : "stands outside its pair";
    if (lost.has(key)) yield fault("moved", key, `${position}, unlike in the source`, "tag");
  }
}

/** Yield key, text, side and letter of each span beside a letter that needs a space there. */
function* glued({ spans, prose }) {
  const { before, after } = CONTRACTS().joined;
  const opened = new Set();
  for (const { key, kind, text, start, end, rule } of spans) {
    let { role } = rule;
    if (role === "toggle") {
      role = opened.has(key) ? "close" : "open";
      if (!opened.delete(key)) opened.add(key);
    }
    const [left, right] = [lastOf(prose.slice(0, start)), firstOf(prose.slice(end, end + 2))];
    if (!GLUED.includes(kind) || rule.free) continue;
    if (isAlnum(left) && role !== "close" && !matched(before, left, 0)) yield { key, text, side: "before", letter: left };
    if (isAlnum(right) && role !== "open" && !matched(after, right, 0)) yield { key, text, side: "after", letter: right };
  }
}

function* glueFaults(source, target) {
  const usual = new Set(Array.from(glued(source), ({ key, side }) => `${side} ${key}`));
  const keys = new Set(source.spans.map(({ key }) => key));
  for (const { key, text, side, letter } of glued(target)) {
    if (keys.has(key) && !usual.has(`${side} ${key}`)) yield fault("glued", text, `has ${quoted(letter)} directly ${side} it`);
  }
}

/** Return the marks, by their keys, at the beginning that have to stand there. */
function firstsOf({ spans, text }) {
  return new Map(spans.filter(({ rule, start }) => rule.anchor && isBlank(text.slice(0, start))).map((span) => [span.key, span]));
}

function* placeFaults(source, target) {
  const firsts = firstsOf(target);
  for (const [key, { text, kind }] of firstsOf(source)) if (!firsts.has(key)) yield fault("moved", text, "has to stand at the beginning", kind);
}

function* rawFaults(source, target) {
  for (const [escaped, raw] of target.dialect.raw) {
    const match = searched(raw, target.prose);
    if (match && source.text.includes(escaped) && !searched(raw, source.prose)) {
      yield fault("escape", match[0], `needs an escape, as in the source${escaped ? `; write ${escaped}` : ""}`, "escape");
    }
  }
}

function* signFaults(source, target) {
  const { signs, code_signs: ofCode } = CONTRACTS();
  for (const [sign, words] of Object.entries(signs)) {
    const [wanted, given] = [timesIn(source, sign), timesIn(target, sign)];
    if (given < wanted && given + sumIn(target, words) < wanted) yield fault("lost", sign, "is a sign that the source has");
    const isCounted = wanted || ofCode.includes(sign);
    if (isCounted && given > wanted && given > wanted + sumIn(source, words)) yield fault("invented", sign, "is a sign that the source has not");
  }
}

/** Yield the lost quotation marks and ellipses, and quotation marks around nothing. */
function* quotationFaults(source, target) {
  const { quotation, ellipsis } = CONTRACTS();
  const count = (pattern, text) => Array.from(text.matchAll(compiled(pattern))).length;
  const marks = count(quotation.marks, source);
  // One alone may be the sign of inches.
  if (marks > 1 && count(quotation.any, target) < marks) yield fault("lost", '"', "is a quotation mark that the source has");
  const pair = searched(quotation.empty, target);
  if (pair && !searched(quotation.empty, source)) yield fault("invented", pair[0], "stands around nothing");
  if (count(ellipsis, target) < count(ellipsis, source)) yield fault("lost", "…", "is an ellipsis that the source has");
}

const timesIn = (text, part) => (text.includes(part) ? text.split(part).length - 1 : 0);
const sumIn = (text, parts) => parts.reduce((sum, part) => sum + timesIn(text, part), 0);
