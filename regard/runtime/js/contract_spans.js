// Spans of strings of programs, by dialect; Python's dialects.py, spans.py, numbers.py and recognise.py of regard/contracts.
import { SPACES } from "./characters.js";
import { CONTRACTS } from "./contract_tables.js";

export const PLAIN = "plain";
export const STAND_IN = "\ue000"; // in the text of a message for an argument or a selector
const MASK = "\ufffc"; // in prose for one unit of a span
const LEAST = 1; // weight below which no dialect is recognised
const PRECISION = 28; // digits of Python's decimal numbers
const GROUP = /[.,'’\u00a0\u202f ]/u;
const DIGIT = /\p{Nd}/gu;
const IS_DIGIT = /^\p{Nd}/u;
const PATTERN_TOKEN = /\\.|\[|[\].$]/gsu;
const COMPILED = { g: new Map(), y: new Map() };
const DIALECTS = new Map();

/** Compile a pattern, once, that matches as in Python; `flag`: g looks for it, y reads it where `lastIndex` stands. */
export function compiled(pattern, flag = "g") {
  const patterns = COMPILED[flag];
  if (!patterns.has(pattern)) patterns.set(pattern, new RegExp(asInPython(pattern), `u${flag}`));
  return patterns.get(pattern);
}

/** Return a pattern with Python's white space, its dot, and its end of a text, which a line break may follow. */
function asInPython(pattern) {
  let isInside = false; // of a class
  return pattern.replace(PATTERN_TOKEN, (token) => {
    if (token === "[" || token === "]") isInside = token === "[";
    if (isInside) return token === "\\s" ? SPACES.slice(1, -1) : token;
    return { "\\s": SPACES, "\\S": SPACES.replace("[", "[^"), ".": "[^\\n]", $: "(?=\\n?(?![^]))" }[token] ?? token;
  });
}

/** Return the first match of a pattern in a text, or null. */
export function searched(pattern, text, start = 0) {
  const expression = compiled(pattern);
  expression.lastIndex = start;
  return expression.exec(text);
}

/** Return the match of a pattern that begins at `start`, or null. */
export function matched(pattern, text, start) {
  const expression = compiled(pattern, "y");
  expression.lastIndex = start;
  return expression.exec(text);
}

/** Return a dialect, {name, rules, pattern, grammar, raw}, by its name or the flag of a file format; undefined: there is none. */
export function dialectNamed(given) {
  const { flags, dialects } = CONTRACTS();
  const name = Object.hasOwn(flags, given) ? flags[given] : given;
  if (!DIALECTS.has(name) && Object.hasOwn(dialects, name)) DIALECTS.set(name, madeDialect(name));
  return DIALECTS.get(name);
}

function madeDialect(name) {
  const { dialects, rules: groups, grammars } = CONTRACTS();
  const { rules: own, grammar, raw = [] } = dialects[name];
  const rules = [...own, "shared"].flatMap((group) => groups[group]).map((rule, i) => ({ ...rule, group: `r${i}` }));
  const pattern = rules.map(({ group, pattern: one }) => `(?<${group}>${one})`).join("|");
  return { name, rules, pattern, grammar: grammars[grammar], raw };
}

/** Return the name of the dialect that most speaks for in a line. */
export function recognised(line) {
  let [best, most] = [PLAIN, 0];
  for (const [name, { evidence = [] }] of Object.entries(CONTRACTS().dialects)) {
    const score = evidence.reduce((sum, [pattern, weight]) => (searched(pattern, line) ? sum + weight : sum), 0);
    if (score > most) [best, most] = [name, score];
  }
  return most >= LEAST ? best : PLAIN;
}

/** Return the spans of a text in their order, {rule, kind, key, text, start, end, name}, and with them `objects`, which are in it. */
export function scan(text, { rules, pattern }, objects = []) {
  const spans = [...objects];
  let count = 0; // of arguments
  for (let match = searched(pattern, text); match; match = searched(pattern, text, match.index + (match[0].length || 1))) {
    const { index: start, groups } = match;
    const end = start + match[0].length;
    const rule = rules.find(({ group }) => groups[group] !== undefined);
    const own = matched(rule.pattern, text, start); // alone, where it matches among others
    if (rule.position !== undefined) count++;
    let key = keyOf(rule, own, count);
    if (rule.kind === "number") key = numberValue(key, text, end);
    const name = rule.name ? own[rule.name] : rule.role === "toggle" ? key : "";
    spans.push({ rule, kind: rule.kind, key, text: match[0].replaceAll(STAND_IN, "{…}"), start, end, name });
  }
  return spans.sort((one, other) => one.start - other.start);
}

/** Return what is equal of equal spans; `number` counts arguments without a number. */
function keyOf({ identity = [], ignore, position }, match, number) {
  let text = identity.length ? identity.map((group) => match[group] ?? "").join("") : match[0];
  if (ignore) text = text.replace(compiled(ignore), "");
  if (position === undefined) return text;
  const given = position ? match[position] : undefined;
  return `${text} of argument ${given || number}`;
}

/** Return a text of the same length without its spans; numbers stay. */
export function masked(text, spans) {
  const units = text.split("");
  for (const { kind, start, end } of spans) if (kind !== "number") units.fill(MASK, start, end);
  return units.join("");
}

/** Replace the digits of all scripts by those of ASCII. */
export function toAsciiDigits(text) {
  return text.replace(DIGIT, (digit) => {
    const code = digit.codePointAt(0);
    let before = 0; // digits of a script follow each other, from zero to nine
    while (IS_DIGIT.test(String.fromCodePoint(code - before - 1))) before++;
    return String(before % 10);
  });
}

/** Return the value of a number that ends in a text at `end`: 1,000 = 1.000 = 1 000 = 1천. One that begins with several zeros is a name, such as 007. */
function numberValue(number, text, end) {
  if (/^00(?=0*[1-9])[0-9]+$/u.test(number)) return number;
  const { multipliers } = CONTRACTS();
  const groups = number.split(GROUP);
  const last = groups.at(-1);
  const isGrouped = last.length === 3 && (number.length < 8 || groups.length > 2);
  const factor = matched(`\\s?(${Object.keys(multipliers).join("|")})`, text, end);
  const decimals = groups.length > 1 && !isGrouped ? last.length : 0;
  return decimal(BigInt(groups.join("")), (factor ? multipliers[factor[1]] : 0) - decimals);
}

/** Write a number times a power of ten without zeros at its end, rounded as Python does. */
function decimal(number, exponent) {
  const surplus = Math.max(0, String(number).length - PRECISION);
  const unit = 10n ** BigInt(surplus);
  const [whole, twice] = [number / unit, (2n * (number % unit))];
  const rounded = whole + (twice > unit || (twice === unit && whole % 2n) ? 1n : 0n);
  const digits = String(rounded).replace(/0+$/, "");
  if (!digits) return "0";
  const power = exponent + surplus + String(rounded).length - digits.length;
  if (power >= 0) return digits + "0".repeat(power);
  const padded = digits.padStart(1 - power, "0");
  return `${padded.slice(0, power)}.${padded.slice(power)}`;
}
