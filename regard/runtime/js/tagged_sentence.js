// Sentences of a line with tags as trees: units of text in the elements around them, and the tags between them.
import { firstOf, hasLetters, isAlnum, isSpace, lastOf, wordsOf } from "./characters.js";
import { findSpans } from "./spans.js";
import { rolesOf, tagName, tokensOf } from "./tag_roles.js";
import { CLOSING, KEPT, LONGEST_WHOLE, MOST_WORDS, PATTERNS, PUNCTUATION } from "./text_tables.js";

const ENTITIES = new Map([["&amp;", "&"], ["&lt;", "<"], ["&gt;", ">"]]);
const isPiece = (entry) => "text" in entry;

/** Split a word into punctuation before it, the word, and punctuation after it; punctuation only is all before. */
export function splitWord(word) {
  const letters = [...word];
  let start = 0;
  while (start < letters.length && PUNCTUATION.includes(letters[start])) start++;
  let end = letters.length;
  while (end > start && PUNCTUATION.includes(letters[end - 1])) end--;
  return [letters.slice(0, start), letters.slice(start, end), letters.slice(end)].map((part) => part.join(""));
}

/** Return the sentences of a line, one for each part between tags that end sentences, if it has letters. */
export function sentencesOf(text) {
  const tokens = tokensOf(text);
  const elements = { tokens, ...rolesOf(text, tokens) };
  const paragraphs = [new Paragraph(text)];
  for (let index = 0; index < tokens.length; index++) {
    const [token, role, partner] = [tokens[index], elements.roles[index], elements.partners[index]];
    const paragraph = paragraphs.at(-1);
    if (role === "break" || role === "skip") {
      paragraphs.push(new Paragraph(text));
    } else if (role === "text" || role === "lines") {
      linesOf(text, token, role).forEach(([start, end], number) => {
        if (number) paragraphs.push(new Paragraph(text));
        paragraphs.at(-1).addText(start, end);
      });
    } else if ((role === "unit" || role === "open") && addWhole(paragraph, elements, index)) {
      index = partner;
    } else {
      paragraph.addMark({ start: token.start, end: token.end, role, token: index, partner });
    }
  }
  return paragraphs.flatMap((paragraph) => paragraph.sentences());
}

/** Return the parts of a text that are translated by themselves: between line breaks, or breaks of escaped XML. */
function linesOf(text, { start, end }, role) {
  const inner = text.slice(start, end);
  const breaks = [...inner.matchAll(PATTERNS.escapedBreak), ...(role === "lines" ? inner.matchAll(PATTERNS.lineBreak) : [])];
  const places = breaks.map(({ 0: found, index }) => [start + index, start + index + found.length]).sort(([one], [other]) => one - other);
  const starts = [start, ...places.map(([, stop]) => stop)];
  return starts.map((first, i) => [first, places[i]?.[0] ?? end]);
}

/** Text and marks between two tags that end sentences. */
class Paragraph {
  constructor(text) {
    this.text = text;
    this.entries = []; // pieces {start, end, text, word, offset, whole} and marks {start, end, role, token, partner}
    this.plain = "";
    this.word = 0;
    this.isAfterSpace = false;
    this.opened = []; // the start tags that wait for their end tags: the escaped ones, by their entry and name, and elements around
  }

  /** Add text; placeholders, addresses, escaped tags and the like in it are marks, as tags are. */
  addText(start, end) {
    const [decoded, places] = decodedText(this.text, start, end);
    let at = start;
    for (const span of findSpans(decoded)) {
      if (!KEPT.includes(span.kind) || span.kind === "message") continue;
      const first = places[span.start][0];
      this.#addPlain(at, first);
      at = places[span.end - 1][1];
      this.#addEscaped(first, at, span.kind === "tag" ? tagName(span.text).toLowerCase() : "", span.text);
    }
    this.#addPlain(at, end);
  }

  /** Add a span of text as a mark; an escaped end tag and its start tag become an element, if they are nested. */
  #addEscaped(start, end, name, text) {
    const number = this.entries.length;
    let mark = { start, end, role: "point", token: -1, partner: -1 };
    if (name && text.startsWith("</")) {
      if (this.opened.at(-1)?.name === name) {
        const { entry } = this.opened.pop();
        this.entries[entry] = { ...this.entries[entry], role: "open", token: -2 - entry, partner: -2 - number };
        mark = { start, end, role: "close", token: -2 - number, partner: -2 - entry };
      }
    } else if (name && !text.endsWith("/>")) {
      this.opened.push({ entry: number, name });
    }
    this.entries.push(mark);
  }

  #addPlain(start, end) {
    for (const { 0: raw, index } of this.text.slice(start, end).matchAll(PATTERNS.atom)) {
      if (isSpace(raw)) this.isAfterSpace = true;
      else this.addPiece(start + index, start + index + raw.length, ENTITIES.get(raw) ?? raw);
    }
  }

  /** Add a word or a part of one; a mark of punctuation right after a tag belongs to the word before that. */
  addPiece(start, end, text, whole = -1) {
    const last = this.entries.at(-1);
    const followsMark = last && !isPiece(last) && last.end === start;
    const isClosing = followsMark && CLOSING.includes(firstOf(text)) && !splitWord(text)[1];
    if (this.isAfterSpace && this.plain && !isClosing) {
      this.plain += " ";
      this.word++;
    }
    this.isAfterSpace = false;
    this.entries.push({ start, end, text, word: this.word, offset: this.plain.length, whole });
    this.plain += text;
  }

  addMark(mark) {
    this.entries.push(mark);
    if (mark.role === "open") this.opened.push({ entry: -1, name: "" });
    if (mark.role === "close") while (this.opened.length && this.opened.pop().name); // an escaped start tag in an element has no end tag outside of it
    if (mark.role === "visible") this.isAfterSpace = true;
  }

  /** Return the sentence, with the tags that stand in it, if it has anything to translate. */
  sentences() {
    const { entries } = this;
    const places = [...entries.keys()].filter((index) => isPiece(entries[index]));
    const pieces = places.map((index) => entries[index]);
    if (!pieces.some(({ whole, text }) => whole < 0 && hasLetters(text))) return [];
    const [start, stop] = withTags(entries, places[0], places.at(-1));
    return [sentenceOf(entries.slice(start, stop + 1), this.plain)];
  }
}

/** Decode the entities of text; also return where each character stands in the markup. */
function decodedText(text, start, end) {
  const places = [];
  const decoded = text.slice(start, end).replace(/&(?:amp|lt|gt);|[^]/g, (raw, index) => {
    places.push([start + index, start + index + raw.length]);
    return ENTITIES.get(raw) ?? raw;
  });
  return [decoded, places];
}

/** Add an element that is kept whole or has no letters, as words or as a mark; return whether it is one of these. */
function addWhole(paragraph, { tokens, roles, partners }, index) {
  const [partner, role, { name, start }] = [partners[index], roles[index], tokens[index]];
  const { end } = tokens[partner];
  const inside = new Paragraph(paragraph.text);
  const isShort = end - start < 20 * LONGEST_WHOLE;
  if (isShort) for (const token of tokens.slice(index + 1, partner)) if (token.kind === "text") inside.addText(token.start, token.end);
  const { plain } = inside;
  if (role === "open" && (!isShort || hasLetters(plain) || roles.slice(index, partner).includes("break"))) return false;
  const words = wordsOf(plain);
  const isFollowed = isAlnum(firstOf(paragraph.text.slice(end, end + 2)));
  const before = paragraph.isAfterSpace ? "" : lastOf(paragraph.plain);
  const isGlued = name !== "sub" && !isFollowed && (isAlnum(before) || (before !== "" && CLOSING.includes(before)));
  const isNote = name === "sup" || plain[0] === "[" || isGlued || !/\p{Nd}/u.test(plain);
  const isPunctuation = plain !== "" && !splitWord(plain)[1]; // it may end a sentence, so a model has to see it
  const isSign = isNote && !isPunctuation && !hasLetters(plain);
  if (isSign || words.length > MOST_WORDS || plain.length > LONGEST_WHOLE) {
    const isVisible = inside.isAfterSpace || (plain && isFollowed);
    paragraph.addMark({ start, end, role: isVisible ? "visible" : "point", token: index, partner: -1 });
    return true;
  }
  words.forEach((word, number) => {
    paragraph.isAfterSpace ||= number > 0;
    paragraph.addPiece(start, end, word, index);
  });
  return true;
}

/** Widen a sentence by tags beside it whose other tag is in it. */
function withTags(entries, first, last) {
  const tags = new Map(entries.flatMap((entry, index) => (isPiece(entry) ? [] : [[entry.token, index]])));
  let [start, stop] = [first, last];
  for (const { role, partner } of entries.slice(first, last + 1)) {
    if (role !== "open" && role !== "close") continue;
    const other = tags.get(partner) ?? -1;
    if (other >= 0 && other < start) start = other;
    else if (other > stop) stop = other;
  }
  return [start, stop];
}

/**
 * Return the tree of a sentence: `units` {start, end, text, word, position, node}, `marks`, `gaps`, the numbers of the marks
 * before each unit, and `nodes` {parent, depth, opener, closer, start, end, token, isPoint, isWhole, isSymbol}.
 */
function sentenceOf(entries, line) {
  const sentence = { start: entries[0].start, end: entries.at(-1).end, line, units: [], marks: [], gaps: new Map(), nodes: [] };
  const { nodes, units } = sentence;
  addNode(sentence, -1, -1);
  const opened = new Set(entries.filter(({ role }) => role === "open").map(({ token }) => token));
  const stack = [0];
  for (const { role, partner } of [...entries].reverse()) {
    if (role === "close" && !opened.has(partner)) stack.push(addNode(sentence, stack.at(-1), partner));
  }
  const pieces = entries.filter(isPiece);
  let [index, whole] = [0, -1];
  for (const entry of entries) {
    if (!isPiece(entry)) {
      addMark(sentence, entry, stack);
      continue;
    }
    let node = stack.at(-1);
    if (entry.whole >= 0 && entry.whole === whole) node = nodes.length - 1;
    else if (entry.whole >= 0) {
      node = addNode(sentence, node, entry.whole);
      nodes[node].isWhole = nodes[node].isSymbol = true;
    }
    ({ whole } = entry);
    nodes[node].isSymbol &&= !hasLetters(entry.text);
    const [isFirst, isLast] = [pieces[index - 1]?.word !== entry.word, pieces[index + 1]?.word !== entry.word];
    addUnits(units, entry, entry.word - pieces[0].word, node, isFirst, isLast);
    index++;
    if (nodes[node].isWhole) nodes[node].end = units.length;
  }
  for (const node of stack) nodes[node].end = units.length;
  return sentence;
}

function addNode({ nodes, units }, parent, token) {
  const depth = parent < 0 ? 0 : nodes[parent].depth + 1;
  const [start, end] = [units.length, units.length];
  return nodes.push({ parent, depth, opener: -1, closer: -1, start, end, token, isPoint: false, isWhole: false, isSymbol: false }) - 1;
}

function addMark(sentence, mark, stack) {
  const { marks, gaps, units, nodes } = sentence;
  const index = marks.push(mark) - 1;
  gaps.set(units.length, [...(gaps.get(units.length) ?? []), index]);
  if (mark.role === "close") {
    Object.assign(nodes[stack.pop()], { closer: index, end: units.length });
    return;
  }
  const number = addNode(sentence, stack.at(-1), mark.token);
  nodes[number].opener = index;
  if (mark.role === "open") stack.push(number);
  else nodes[number].isPoint = true;
}

/** Add the units of a piece: punctuation at the ends of a word by itself, unless it is an entity. */
function addUnits(units, piece, word, node, isFirst, isLast) {
  const { text } = piece;
  const isPlain = text.length === piece.end - piece.start && piece.whole < 0;
  const [lead, core] = splitWord(text);
  let leadEnd = isFirst ? lead.length : 0;
  let coreEnd = isLast ? lead.length + core.length : text.length;
  if ((piece.whole >= 0 && core) || (!core && isFirst && isLast) || (core && !isPlain)) [leadEnd, coreEnd] = [0, text.length];
  else if (!core) [leadEnd, coreEnd] = isFirst ? [text.length, text.length] : [0, isLast ? 0 : text.length];
  for (const [start, end, position] of [[0, leadEnd, "lead"], [leadEnd, coreEnd, "core"], [coreEnd, text.length, "trail"]]) {
    if (start >= end) continue;
    const place = isPlain ? { start: piece.start + start, end: piece.start + end } : { start: piece.start, end: piece.end };
    units.push({ ...place, text: text.slice(start, end), word, position, node });
  }
}

/** Return whether an element begins before the sentence. */
export const comesFromBefore = ({ closer, opener, isPoint }) => closer >= 0 && opener < 0 && !isPoint;

/** Return whether an element ends after the sentence. */
export const goesOn = ({ closer, opener, isPoint }) => opener >= 0 && closer < 0 && !isPoint;
