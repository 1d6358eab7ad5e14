// Contracts of lines: the code that a translation has to keep, and what it has broken of it; Python's regard/text/contracts.py.
import { SPACES, strip } from "./characters.js";
import { dialectNamed, recognised, scan } from "./contract_spans.js";
import { CONTRACTS } from "./contract_table.js";
import { judgeCode } from "./judge.js";
import { findSpans } from "./spans.js";

const AUTO = "auto"; // the dialect that each line speaks for by itself
const [NUMBER, SIGN] = ["number", "symbol"];
const JOINED = [NUMBER, SIGN, "unit"]; // kinds of spans that are one if they stand beside a number
const CODE = new RegExp(`[^\\p{Nd}${SPACES.slice(1, -1)}.,'’:/-]`, "u"); // a sign that numbers do not have
const SHOWN = 3; // faults that a note names

/** Return the name of a dialect, `auto`, or nothing. Throws an Error for other names. */
export function checkedDialect(given) {
  if (given === "" || given === AUTO) return given;
  const dialect = dialectNamed(given);
  if (!dialect) throw new Error(`option dialect: wanted auto, or one of ${Object.keys(CONTRACTS().dialects).sort().join(", ")}, got ${given}`);
  return dialect.name;
}

const dialectOf = (line, dialect) => (dialect === AUTO ? recognised(line) : dialect);

/** Return the faults by which a translation breaks the contract of its line; none if the line has no code. */
export function breaches(line, translation, dialect) {
  return codeSpans(line, dialect).length ? judgeCode(line, translation, dialectOf(line, dialect)) : [];
}

const isOfNumber = ({ what }) => !CODE.test(what);

const breaksCode = (line, translation, dialect) => !breaches(line, translation, dialect).every(isOfNumber);

function describeBreaches(faults) {
  const shown = faults.slice(0, SHOWN).map(({ what, detail }) => `${what} ${detail}`).join("; ");
  const rest = faults.length > SHOWN ? `; and ${faults.length - SHOWN} more` : "";
  return `the translation does not keep what its line has: ${shown}${rest}`;
}

/**
 * Return the code of a line in order, {start, end, kind, text, pair, closes}: what the contracts of its dialect know, then what
 * `findSpans` finds, then single signs. Signs beside a number are part of it. `pair` numbers the pair that a span opens or closes.
 */
export function codeSpans(line, dialect) {
  const rules = dialectNamed(dialectOf(line, dialect));
  const contract = scan(line, rules).filter(({ start, end, rule }) => end > start && !rule.free);
  const spans = [...paired(contract), ...findSpans(line)];
  const signs = new Set(Object.keys(CONTRACTS().signs));
  if (rules.grammar?.counted.length) signs.add("#");
  else signs.delete("#");
  for (let start = 0; start < line.length; start++) if (signs.has(line[start])) spans.push({ start, end: start + 1, kind: SIGN });
  const isTaken = Array(line.length).fill(false);
  const free = spans.filter(({ start, end }) => {
    if (isTaken.slice(start, end).includes(true)) return false;
    isTaken.fill(true, start, end);
    return true;
  });
  const joined = withSigns(free.sort((one, other) => one.start - other.start));
  return joined.map((span) => ({ ...span, text: line.slice(span.start, span.end) }));
}

/** Join signs and units with the number beside them. */
function withSigns(spans) {
  const joined = [];
  for (const span of spans) {
    const last = joined.at(-1);
    const kinds = [last?.kind, span.kind];
    if (last?.end === span.start && kinds.includes(NUMBER) && kinds.every((kind) => JOINED.includes(kind))) {
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

/**
 * Return a translation that breaks the contract of its line, marked; the parts whose code it would break stand as they were.
 * Where numbers alone differ, the translation stands, since it breaks no program. `isDoubtful` tells by a source and its score.
 */
export function markBroken(given, line, { dialect, isDoubtful }, faults) {
  const result = { ...given, broken: true, notes: [...given.notes, describeBreaches(faults)] };
  if (faults.every(isOfNumber)) return result;
  const whole = strip(line);
  const parts = result.parts.map((part) => (breaksCode(part.source, part.text, dialect) ? { ...part, text: strip(part.source) } : part));
  const text = withTexts(result, parts);
  if (text !== null && !breaksCode(whole, text, dialect)) return withText(result, text, parts);
  const doubtful = isDoubtful(whole, result.score);
  return { ...withText(result, whole, [{ source: whole, text: whole, score: result.score, doubtful }]), doubtful };
}

function withText(result, text, parts) {
  const best = { text, tokens: [] };
  return { ...result, ...best, parts, nbest: result.nbest.map((hypothesis) => ({ ...hypothesis, ...best })) };
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
