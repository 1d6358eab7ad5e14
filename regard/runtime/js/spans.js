// Spans of a line that are not language, such as placeholders, and copy tokens in their place.
import { firstOf, isAlnum, isSpace, lastOf } from "./characters.js";
import { COPY_CHARACTERS, OPENING, PATTERNS } from "./text_tables.js";

export const COPIES = [...COPY_CHARACTERS];
const JOINED = /\p{M}|[\u1160-\u11ff]/u; // NFC may join it to the character before: a mark, or a later letter of Hangul

/** Return the spans of a line in order, {start, end, kind, text}; they are found in the line as NFC composes it. */
export function findSpans(line) {
  const composed = line.normalize("NFC");
  const spans = spansOf(composed);
  if (composed !== line && spans.length) return inGiven(spans, line);
  return spans.map((span) => ({ ...span, text: line.slice(span.start, span.end) }));
}

function spansOf(line) {
  const spans = [];
  let at = 0;
  let messages = 0; // that are open
  let match = { start: -1 };
  let part = { start: -1 };
  while (at < line.length) {
    if (match && match.start < at) match = nextSpan(line, at, PATTERNS.spans);
    if (messages && part && part.start < at) part = nextSpan(line, at, PATTERNS.messagePart);
    const isPart = messages > 0 && part && !(match && match.start < part.start);
    const span = isPart ? part : match;
    if (!span) break;
    if (isPart) messages -= line[span.end - 1] === "}" ? 1 : 0;
    else messages += span.kind === "message" ? 1 : 0;
    spans.push(span);
    at = span.end;
  }
  return spans;
}

function nextSpan(line, at, pattern) {
  pattern.lastIndex = at;
  const match = pattern.exec(line);
  if (!match) return null;
  const [kind] = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined) ?? ["message"];
  return { start: match.index, end: match.index + match[0].length, kind };
}

/** Return spans of a composed line where they stand in the line as it was given. */
function inGiven(spans, line) {
  const places = [];
  let start = 0;
  for (const part of Array.from(line).reduce(clusters, [])) {
    const end = start + part.length;
    for (let i = part.normalize("NFC").length; i > 0; i--) places.push([start, end]);
    start = end;
  }
  const given = [];
  let end = 0;
  for (const span of spans) {
    const first = Math.max(end, places[span.start][0]); // a letter and its mark, of which two spans have a part, stay together
    end = Math.max(end, places[span.end - 1][1]);
    if (first < end) given.push({ start: first, end, kind: span.kind, text: line.slice(first, end) });
  }
  return given;
}

function clusters(parts, character) {
  if (parts.length && JOINED.test(character)) parts.push(parts.pop() + character);
  else parts.push(character);
  return parts;
}

/** Return spans of a line of this length in order, without those that overlap earlier ones of the list. */
export function disjoint(spans, length) {
  const isTaken = Array(length).fill(false);
  const kept = spans.filter(({ start, end }) => {
    if (isTaken.slice(start, end).includes(true)) return false;
    isTaken.fill(true, start, end);
    return true;
  });
  return kept.sort((one, other) => one.start - other.start);
}

/** Return whether two characters are of scripts with spaces, and neither is one. */
export const hasSpaces = (left, right) => ![left, right].some((text) => isSpace(text) || text.match(PATTERNS.unspaced));

const TIGHT = [..."([<“‘„‚«‹¿¡=+-–—"]; // edges of code that no space parts from a letter
const isHangul = (text) => /^[가-힣]/.test(text);

/** Return whether a space must part the edge of code from the letter beside it; `original` stood there in the source. */
export function partsLetter(edge, letter, original, isBehind) {
  if (!edge || !isAlnum(letter) || !hasSpaces(edge, letter)) return false;
  if (TIGHT.includes(edge) || (isBehind && isHangul(letter))) return false; // Korean particles follow without a space
  if (!isAlnum(original) || original.match(PATTERNS.unspaced)) return true;
  return isHangul(letter) !== isHangul(original);
}

/** Return whether a space must part code from a letter in the place of one of another script. */
export const replacesLetter = (edge, letter, original, isBehind) => isAlnum(original) && partsLetter(edge, letter, original, isBehind);

/** A line with copy characters in the place of its spans, `marked`, and what puts the spans back into a translation. */
export class Copies {
  #of = new Map();

  constructor(line, spans, copies) {
    const parts = [];
    let end = 0;
    let last = "";
    spans.forEach(({ start, end: stop, text }, i) => {
      const gap = line.slice(end, start).replace(/ $/, ""); // the space would be a token of its own
      const before = lastOf(line.slice(0, start));
      this.#of.set(copies[i], { text, before, behind: firstOf(line.slice(stop)), beforeCopy: lastOf(gap) || last });
      parts.push(gap, copies[i]);
      last = copies[i];
      end = stop;
    });
    this.marked = parts.join("") + line.slice(end);
  }

  /** Return a text with the spans in the place of their characters, parted from what stands beside them. */
  restore(text) {
    const parts = [];
    let end = 0;
    let last = "";
    for (const { 0: character, index } of text.matchAll(PATTERNS.copies)) {
      const gap = text.slice(end, index);
      const { text: span = character, before = "", behind = "", beforeCopy } = this.#of.get(character) ?? {};
      if (gap) parts.push(this.#isPartedBehind(last, firstOf(gap)) ? " " : "", gap);
      const edge = lastOf(this.#of.get(last)?.text ?? last);
      let isParted = Boolean(last) && ([before, before || behind].includes(" ") || (isAlnum(before) && hasSpaces(edge, firstOf(span)))); // at the start, or behind another span
      if (gap) isParted = isPartedBefore(before, lastOf(gap), span);
      if ((lastOf(gap) || last) === beforeCopy) isParted = before === " "; // it stands there as in its line
      parts.push(isParted ? " " : "", span);
      last = character;
      end = index + character.length;
    }
    const rest = text.slice(end);
    return [...parts, this.#isPartedBehind(last, firstOf(rest)) ? " " : "", rest].join("");
  }

  /** Return for each word of a text the numbers of the words of the restored text that it becomes part of, or is made of. */
  restoredWords(text) {
    const restored = this.restore(text);
    const starts = [...restored.matchAll(PATTERNS.givenWord)].map(({ index }) => index);
    const wordAt = (place) => starts.filter((start) => start <= place).length - 1;
    let at = 0;
    return (text.match(PATTERNS.givenWord) ?? []).map((word) => {
      const pieces = Array.from(word, (character) => this.#of.get(character)?.text ?? character);
      const first = wordAt(restored.indexOf(pieces[0], at));
      for (const piece of pieces) at = restored.indexOf(piece, at) + piece.length; // nothing but spaces has come between them
      return Array.from({ length: wordAt(at - 1) - first + 1 }, (_, i) => first + i);
    });
  }

  /** Return whether a space is missing behind a span, if there is one, before a letter. */
  #isPartedBehind(character, following) {
    const own = this.#of.get(character);
    return Boolean(own) && partsLetter(lastOf(own.text), following, own.behind, true);
  }
}

function isPartedBefore(before, last, span) {
  if (!hasSpaces(last, firstOf(span))) return false;
  return ["", " "].includes(before) ? !OPENING.includes(last) : partsLetter(firstOf(span), last, before, false);
}
