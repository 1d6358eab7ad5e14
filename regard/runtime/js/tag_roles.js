// Tags of a line, whose text is escaped, and their roles in its sentences; Python's tags.py and elements.py do it for all XML.
import { strip } from "./characters.js";

const TAG_START = /<[\p{L}\p{No}\p{Nl}_:/]/gu;
const VALUE_OR_END = /=\s*|>/gu;
const NAME = /[^\s/>]+/uy;
const ATTRIBUTE = /([^\s=>/"']+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>]+))?/gu;
export const PART = "kept-part"; // parts sentences

function execAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** Return the name of the element that a tag begins or ends. */
export const tagName = (tag) => execAt(NAME, tag, tag.startsWith("</") ? 2 : 1)?.[0] ?? "";

/** Return the tokens of a text in order, {kind, start, end, name}: text, open, close or empty. */
export function tokensOf(text) {
  const tokens = [];
  let start = 0;
  for (let match = execAt(TAG_START, text, 0); match; match = execAt(TAG_START, text, start)) {
    const { index } = match;
    const end = tagEnd(text, index);
    if (!end) break; // no > follows outside of quotes: the rest is text
    if (index > start) tokens.push({ kind: "text", start, end: index, name: "" });
    tokens.push({ kind: tagKind(text, index, end), start: index, end, name: tagName(text.slice(index, end)) });
    start = end;
  }
  if (start < text.length) tokens.push({ kind: "text", start, end: text.length, name: "" });
  return tokens;
}

function tagKind(text, start, end) {
  if (text[start + 1] === "/") return "close";
  return text[end - 2] === "/" ? "empty" : "open";
}

/** Return the offset after the > of a tag; quotes count after = only, and only if they are closed. 0: none. */
function tagEnd(text, start) {
  if (text[start + 1] === "/") return text.indexOf(">", start) + 1;
  let position = start + 1;
  for (let match = execAt(VALUE_OR_END, text, position); match; match = execAt(VALUE_OR_END, text, position)) {
    position = match.index + match[0].length;
    if (match[0] === ">") return position;
    const quote = text[position];
    if (quote === '"' || quote === "'") position = text.indexOf(quote, position + 1) + 1 || position;
  }
  return 0;
}

function attributesOf(text, { start, end, name }) {
  const named = {};
  for (const { 1: key, 2: value = "" } of text.slice(start + 1 + name.length, end - 1).matchAll(ATTRIBUTE)) {
    const isQuoted = value[0] === '"' || value[0] === "'";
    named[key.toLowerCase()] ??= isQuoted ? value.slice(1, -1) : value;
  }
  return named;
}

/** Pair start and end tags: an end tag closes the nearest start tag of its name, and the elements open in it. */
function paired(text, tokens) {
  const [parents, partners, stack] = [[], tokens.map(() => -1), []];
  const mixed = new Set(); // elements with text directly in them
  tokens.forEach((token, index) => {
    const start = token.kind === "close" ? stack.findLast((open) => tokens[open].name === token.name) : undefined;
    if (start !== undefined) {
      stack.length = stack.indexOf(start);
      partners[start] = index;
      partners[index] = start;
    }
    parents.push(stack.at(-1) ?? -1);
    if (token.kind === "open") stack.push(index);
    else if (token.kind === "text" && strip(text.slice(token.start, token.end))) mixed.add(parents[index]);
  });
  return { parents, partners, mixed };
}

/** Return the role of each token, and the token that closes or opens the same element, −1: none. */
export function rolesOf(text, tokens) {
  const { parents, partners, mixed } = paired(text, tokens);
  const [blocks, silent, lines, broken] = [new Set(), new Set(), new Set(), new Set()];
  tokens.forEach((token, index) => {
    const parent = parents[index];
    if (token.kind === "open" || token.kind === "empty") {
      const isInside = parent >= 0 && !blocks.has(parent);
      if (token.name === PART || (!isInside && !mixed.has(parent))) blocks.add(index);
      const named = attributesOf(text, token);
      if (lines.has(parent) || named["xml:space"] === "preserve") lines.add(index);
      if (isSilent(named, silent.has(parent))) silent.add(index);
    }
    if (blocks.has(index) || (token.kind === "open" && !silent.has(index))) {
      for (let around = parent; silent.has(around) && !broken.has(around); around = parents[around]) broken.add(around);
    }
  });
  const roles = [];
  tokens.forEach(({ kind, name }, index) => {
    const parent = parents[index];
    const partner = partners[index];
    if (kind === "text") roles.push(silent.has(parent) ? "skip" : lines.has(parent) ? "lines" : "text");
    else if (kind === "close" && partner >= 0) roles.push(roles[partner] === "open" ? "close" : "break");
    else if (kind === "close") roles.push(name === PART ? "break" : "point");
    else if (blocks.has(index) || broken.has(index)) roles.push("break");
    else if (kind === "empty") roles.push("point");
    else if (silent.has(index)) roles.push(partner < 0 || silent.has(parent) ? "break" : "unit");
    else roles.push(partner >= 0 ? "open" : "point");
  });
  return { roles, partners };
}

function isSilent(named, isInside) {
  const wish = named.translate?.toLowerCase();
  if ((named.class ?? "").split(/\s+/).includes("notranslate")) return true;
  return ["yes", "no", ""].includes(wish) ? wish === "no" : isInside;
}
