// Mnemonics of labels: letters with a mark, by which keys open menus, as in _File, E&xit and 열기(_O).
import { firstOf, isLower, isUpper, lengthOf, wordsOf } from "./characters.js";
import { findSpans } from "./spans.js";
import { FEW_WORDS, KEPT, LONGEST_LABEL, PATTERNS, SMALL_WORDS } from "./text_tables.js";

const AROUND_WORDS = "()[]\"'“”‘’,:;.…";

const isKept = ({ kind }) => KEPT.includes(kind);

/** Return a label without the mark of its mnemonic, and the mark with the letter; any other line, and nothing. */
export function stripMnemonic(line, encode) {
  if (line.search(PATTERNS.mark) < 0 || lengthOf(line) > LONGEST_LABEL) return [line, ""];
  const marks = outsideSpans(PATTERNS.mark, line);
  if (marks.length !== 1) return [line, ""];
  for (const { 0: text, 1: mark, 2: letter, index } of line.matchAll(PATTERNS.markAtEnd)) {
    return [line.slice(0, index) + line.slice(index + text.length), mark + letter];
  }
  const match = [...line.matchAll(PATTERNS.markWithin)].find(({ 1: head, index }) => index + head.length === marks[0]);
  if (!match || !isLabel(match, encode)) return [line, ""];
  if (match.index > 0 && line.search(PATTERNS.noLatin) >= 0) return [line, ""]; // such labels have their mark in brackets, or before all else
  return [line.slice(0, marks[0]) + line.slice(marks[0] + 1), match[2] + firstOf(match[3])];
}

function isLabel(match, encode) {
  const [, head, mark, tail] = match;
  if (head) {
    const isWord = isUpper(firstOf(head)) && isLower(firstOf(tail)) && lengthOf(head + tail) > 2;
    return isWord && encode(head + tail).length < encode(head).length + encode(tail).length; // E&xit, not R&D
  }
  const isCapital = isUpper(firstOf(tail));
  if (lengthOf(tail) < 2 || (mark === "~" && !isCapital)) return false;
  if (wordsOf(match.input).length <= FEW_WORDS) return true;
  return isCapital && mark !== "~" && isTitle(match);
}

/** Return whether a line of many words is no prose: its first word has the mark, or it is written as titles are. */
function isTitle({ 0: text, index, input: line }) {
  if (line.search(PATTERNS.labelEnd) >= 0) return false;
  const before = wordsOf(line.slice(0, index));
  if (!before.length) return true;
  const others = [...before.slice(1), ...wordsOf(line.slice(index + text.length))].map(bare);
  const small = others.filter((word) => isLower(firstOf(word)));
  const capitals = others.filter((word) => isUpper(firstOf(word)));
  return small.every((word) => SMALL_WORDS.includes(word)) || capitals.length > small.length;
}

function bare(word) {
  const letters = [...word];
  while (letters.length && AROUND_WORDS.includes(letters[0])) letters.shift();
  while (letters.length && AROUND_WORDS.includes(letters.at(-1))) letters.pop();
  return letters.join("");
}

/** Return where a pattern matches outside of what is kept, such as placeholders. */
function outsideSpans(pattern, line) {
  const spans = findSpans(line).filter(isKept);
  const starts = [...line.matchAll(pattern)].map(({ index }) => index);
  return starts.filter((place) => !spans.some(({ start, end }) => start <= place && place < end));
}

/** Return a translation with a mark and its letter, before a word that begins with it, else before its first letter. */
export function insertMnemonic(text, [mark, letter], rules) {
  if (text.search(PATTERNS.noLatin) < 0) {
    const beginning = new RegExp(`(?<![\\p{L}\\p{N}])${letter}`, "giu");
    const places = [...outsideSpans(beginning, text), ...outsideSpans(PATTERNS.letter, text)];
    if (places.length) return text.slice(0, places[0]) + mark + text.slice(places[0]);
  }
  const end = text.replace(/[ .:…]+$/, "").length;
  const gap = findSpans(text).some((span) => isKept(span) && span.end === end) ? " " : ""; // brackets would go on with it
  return `${text.slice(0, end)}${gap}(${mark}${rules.upper(letter)})${text.slice(end)}`;
}
