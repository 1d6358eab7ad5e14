// Lines whose spans are put back by word links, as the tags of markup are; Python's protected_line.py and writing.py.
import { SPACES, firstOf, isAlnum, isSpace, lastOf } from "./characters.js";
import { project } from "./projection.js";
import { hasSpaces, partsLetter, replacesLetter } from "./spans.js";
import { PART, tagName } from "./tag_roles.js";
import { sentencesOf } from "./tagged_sentence.js";
import { BLOCKS, LINE_TAGS, PATTERNS } from "./text_tables.js";

const BEFORE = /[(\[{"“„‚‘«‹¿¡]/;
const BEHIND = new RegExp(`[${SPACES.slice(1, -1)}.,;:!?…)\\]}"”’“»›]`, "u"); // punctuation, and white space, that parts an element from the words around it, wherever it comes to stand
const STOPS = [".", ","];
const SAME = /['*/_-]/; // marks that are the same on both sides of what they enclose: before or behind it if they stand at a word's edge
const ELEMENT = /^<\/?[A-Za-z_:]/; // tags of other forms would be text in XML
const NOT_XML = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;
const ENTITIES = [["\u00a0", ["&#160;", "&#xa0;", "&#xA0;"]], ['"', ["&quot;", "&#34;", "&#x22;"]], ["'", ["&apos;", "&#39;", "&#x27;"]]];

const KEPT = /^<kept-(?:span|part) id="(\d+)"\/>$/;
const TAG = /^<\/?[\p{L}\p{N}_][^<>]*>$/u;
const NO_WORD = new RegExp(`^(?:${SPACES}*(?:<[^<>]*>${SPACES}*$|[&\\\\}])|[^\\p{L}\\p{N}_]*$|.*\\{${SPACES}*$)`, "u"); // tags, entities, escapes, signs, and the syntax of messages

const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const unescape = (text) => text.replaceAll("&gt;", ">").replaceAll("&lt;", "<").replaceAll("&amp;", "&");

/** A line with a tag for each of its spans, `marked`; `lines` are what is to be translated: `areApart`, each text between two spans. */
export class TaggedLine {
  #sentences;
  #source;
  #spans;
  #pairs = new Map(); // spans that open or close a pair, by their tags

  constructor(line, spans, areApart = false) {
    const parts = [];
    let end = 0;
    spans.forEach((span, number) => {
      const mark = markOf(span, number, areApart);
      if (span.pair !== undefined) this.#pairs.set(mark, span.text);
      parts.push(escape(line.slice(end, span.start)), mark);
      ({ end } = span);
    });
    this.marked = parts.join("") + escape(line.slice(end));
    this.needsLinks = !areApart;
    this.#spans = spans;
    this.#source = new Source(this.marked, spans);
    this.#sentences = sentencesOf(this.marked);
    this.lines = this.#sentences.map((sentence) => sentence.line);
  }

  /** Return the line with translations, {text, alignments}, in the place of its lines, and each span where its tag stands then. */
  render(translations) {
    const parts = [];
    let end = 0;
    this.#sentences.forEach((sentence, i) => {
      const [left, right] = this.#spaces(i, translations[i].text);
      parts.push(this.marked.slice(end, sentence.start), left, this.#rendered(sentence, translations[i]), right);
      ({ end } = sentence);
    });
    const text = parts.join("") + this.marked.slice(end);
    return text.replace(/<kept-(?:span|part) id="(\d+)"\/>|(<[^<>]+>)|[^<]+|</gu, (found, number, tag) => {
      if (tag) return this.#pairs.get(tag) ?? tag;
      return number === undefined ? unescape(found) : this.#spans[number].text;
    });
  }

  #rendered(sentence, { text, alignments }) {
    if (text === sentence.line) return this.marked.slice(sentence.start, sentence.end);
    const [units, entries] = project(sentence, text.split(" "), alignments);
    return written(this.#source, sentence, units, entries);
  }

  /** Return the spaces that part the translation of a line from the code before and behind it. */
  #spaces(i, text) {
    const { line, start, end } = this.#sentences[i];
    if (text === line) return ["", ""];
    const before = this.#source.edgeBefore(start, this.#sentences[i - 1]?.end ?? 0);
    const behind = this.#source.edgeBehind(end, this.#sentences[i + 1]?.start ?? this.marked.length);
    const isLeft = replacesLetter(before, firstOf(text), firstOf(line), true);
    return [isLeft ? " " : "", replacesLetter(behind, lastOf(text), lastOf(line), false) ? " " : ""];
  }
}

/** Return code if readers see a word of it, else an empty text. */
const wordOf = (code) => (NO_WORD.test(code) ? "" : code);

/** A line with tags, and the spans that its tags `kept-span` and `kept-part` stand for. */
class Source {
  constructor(text, spans) {
    Object.assign(this, { text, spans });
  }

  #code(start, end) {
    const raw = this.text.slice(start, end);
    const kept = raw.match(KEPT);
    return kept ? this.spans[kept[1]].text : raw;
  }

  /** Return the code between two offsets if readers see a word of it, else an empty text. */
  shown(start, end) {
    return wordOf(this.#code(start, end));
  }

  #isInner(start, end) {
    const code = this.#code(start, end);
    return TAG.test(code) && !BLOCKS.includes(tagName(code).toLowerCase());
  }

  /** Return the last character of the code that ends at an offset, but for inner tags; empty if there is none from a limit on. */
  edgeBefore(offset, limit) {
    while (offset > limit && this.text[offset - 1] === ">") {
      const start = Math.max(0, this.text.lastIndexOf("<", offset - 1));
      if (!this.#isInner(start, offset)) return lastOf(this.shown(start, offset));
      offset = start;
    }
    return offset > limit ? lastOf(this.text.slice(0, offset)) : "";
  }

  /** Return the first character of the code that begins at an offset, but for inner tags; empty if there is none before a limit, or if it is punctuation. */
  edgeBehind(offset, limit) {
    while (offset < limit && this.text[offset] === "<") {
      const end = this.text.slice(0, limit).indexOf(">", offset) + 1;
      if (!end || !this.#isInner(offset, end)) return firstOf(this.shown(offset, end));
      offset = end;
    }
    const edge = offset < limit ? firstOf(this.text.slice(offset)) : "";
    return BEHIND.test(edge) ? "" : edge;
  }
}

/** Return the tag that stands for a span: what stands on the sides of some is translated by itself. */
function markOf({ kind, text, pair, closes }, number, isApart) {
  const name = kind === "tag" && ELEMENT.test(text) ? tagName(text).toLowerCase() : "";
  if (isApart || kind === "message" || LINE_TAGS.includes(name)) return `<${PART} id="${number}"/>`;
  if (pair !== undefined) return `<${closes ? "/" : ""}pair-${pair}>`;
  return name && !name.startsWith("kept-") ? text : `<kept-span id="${number}"/>`;
}

/** Escape & < > and what the source writes as entities, too. */
function escapedAs(source, text) {
  let result = escape(text);
  for (const [character, names] of ENTITIES) {
    const used = names.find((name) => source.includes(name));
    if (used) result = result.replaceAll(character, used);
  }
  return result.replace(NOT_XML, "\ufffd");
}

/** Return the translation of a sentence with its tags. What stands side by side in the source too is written as it has it. */
function written(marked, sentence, units, entries) {
  const source = marked.text;
  const writer = new Writer(marked, sentence);
  for (const { kind, number, words } of entries) {
    if (kind === "mark") {
      writer.marks.push(number);
    } else if (kind === "unit") {
      const { text, word, isWord, first, last, isCopy } = units[number];
      const copied = isCopy ? source.slice(sentence.units[first].start, sentence.units[first].end) : "<";
      const isBehind = !isWord && number > 0 && units[number - 1].word === word; // it stays behind whatever stands there now
      writer.add(copied.includes("<") ? escapedAs(source, text) : copied, [first, last], [isBehind ? writer.lastWord : word, word]);
      writer.isOpened = !isWord && units[number + 1]?.word === word;
    } else {
      const { start, end } = sentence.nodes[number];
      const raw = sentence.units[start];
      const shown = wordOf(sentence.units.slice(start, end).map((unit) => unit.text).join(""));
      writer.add(source.slice(raw.start, raw.end), [start, end - 1], words, { text: shown, start: raw.start, end: raw.end });
    }
  }
  return writer.finish();
}

/** Return what readers see of a translated text, which has no bounds in the source. */
const translated = (text) => ({ text, start: -1, end: -1 });

/** Follow an offset to others until there is none. */
function follow(offsets, offset) {
  while (offsets.has(offset)) offset = offsets.get(offset);
  return offset;
}

/** Writer of one sentence; `marks` wait for the text after them. `isOpened`: punctuation before its word was written last. */
class Writer {
  constructor(marked, sentence) {
    Object.assign(this, { marked, source: marked.text, sentence, parts: [], lastUnit: -1, lastShown: translated(""), lastWord: -1, isOpened: false, marks: [] });
    const bounds = sentence.marks.map(({ start, end }) => [start, end]).filter(([start, end]) => !marked.shown(start, end));
    this.tagEnds = new Map(bounds); // of marks that show nothing
    this.tagStarts = new Map(bounds.map(([start, end]) => [end, start]));
  }

  /** Write text, after the marks before it. `units`: the first and last source unit, `words`: target words; `shown`: what readers see of it. */
  add(text, units, words, shown = translated(text)) {
    const { units: all, start } = this.sentence;
    const [before, after] = [all[units[0] - 1], all[units[0]]];
    const isAlone = words[1] < words[0] && before && before.end === after.start; // kept whole at a word, where it stands again
    const [first, last] = isAlone ? [this.lastWord, this.lastWord] : words;
    let gap = "";
    let isSpaced = true;
    if (!this.parts.length) {
      gap = this.#gap(0, start, all[0].start) || this.#whiteSpace(0, start, all[0].start) + this.#arrange(false, true, false);
    } else {
      const previous = all[this.lastUnit]; // no space parts a mark from an element kept whole, if none did in the source
      const isBeforeMark = this.sentence.nodes[previous?.node]?.isWhole && all[this.lastUnit + 1]?.word === previous.word;
      isSpaced = this.lastWord !== first && !this.isOpened && !(isBeforeMark && STOPS.includes(text));
      const isNext = before && this.lastUnit + 1 === units[0] && isSpaced === (before.word !== after.word);
      gap = (isNext && this.#gap(units[0], before.end, after.start)) || this.#arrange(true, isSpaced || !BEHIND.test(text[0]), isSpaced);
    }
    this.parts.push(this.#spaced(gap, shown, isSpaced), text);
    Object.assign(this, { lastShown: shown, lastUnit: units[1], lastWord: last, isOpened: false, marks: [] });
  }

  /** Write the marks that are left, and return all. */
  finish() {
    const { units, start, end } = this.sentence;
    const hasText = this.parts.length > 0;
    const from = units.at(-1).end;
    const head = hasText ? "" : this.#whiteSpace(0, start, units[0].start);
    const tail = (hasText && this.#gap(units.length, from, end)) || this.#arrange(hasText, false, false) + this.#whiteSpace(units.length, from, end);
    return [head, ...this.parts, this.#spaced(tail, translated(""), true)].join("");
  }

  /** Return a gap, written before a text, with a space between code and each letter that it would be glued to; `isSpaced`: the gap is not in a word. */
  #spaced(gap, following, isSpaced) {
    const parts = [];
    let end = 0;
    let before = this.lastShown;
    let opened = -1; // a space stands before the tags that open elements around a word
    for (const number of [...this.marks, -1]) {
      const mark = this.sentence.marks[number];
      const raw = mark ? this.source.slice(mark.start, mark.end) : "";
      const start = mark ? gap.indexOf(raw, end) : gap.length;
      if (start > end) {
        parts.push(gap.slice(end, start));
        before = translated("");
        opened = -1;
      }
      end = start + raw.length;
      const word = mark ? { text: this.marked.shown(mark.start, mark.end), start: mark.start, end: mark.end } : following;
      if (mark?.role === "open" && opened < 0) opened = parts.length;
      if (word.text) {
        if (this.#isGlued(before, word, isSpaced)) parts.splice(opened < 0 ? parts.length : opened, 0, " ");
        before = word;
        opened = -1;
      }
      parts.push(raw);
    }
    return parts.join("");
  }

  /** Return whether two words of which one is kept are neighbours, unlike in the source. */
  #isGlued(left, right, isSpaced) {
    const isParted = isSpaced ? partsLetter : replacesLetter;
    if (left.end < 0 && right.start < 0) return false;
    const behind = follow(this.tagEnds, left.end);
    if (left.end >= 0 && behind === right.start) return false;
    const edges = [lastOf(left.text), firstOf(right.text)];
    if (left.end >= 0 && right.start >= 0 && isAlnum(firstOf(this.source.slice(behind)))) return hasSpaces(...edges);
    if (left.end >= 0 && isParted(...edges, firstOf(this.source.slice(behind)), true)) return true;
    const before = follow(this.tagStarts, right.start);
    return right.start >= 0 && isParted(...edges.reverse(), lastOf(this.source.slice(0, before)), false);
  }

  /** Return a gap of the source as it is if the marks that wait are those in it, else nothing. */
  #gap(index, start, end) {
    const own = this.sentence.gaps.get(index) ?? [];
    const isSame = own.length === this.marks.length && own.every((mark) => this.marks.includes(mark));
    if (!isSame) return "";
    this.marks = [...own];
    return this.source.slice(start, end);
  }

  /** Return a gap of the source without its marks. */
  #whiteSpace(index, start, end) {
    const parts = [];
    let at = start;
    for (const number of this.sentence.gaps.get(index) ?? []) {
      const mark = this.sentence.marks[number];
      parts.push(this.source.slice(at, mark.start));
      at = mark.end;
    }
    return parts.join("") + this.source.slice(at, end);
  }

  /** Return the marks that wait, with a space if words have to be parted, and those that they had themselves. */
  #arrange(hasLeft, hasRight, isSpaced) {
    const { source } = this;
    const parts = [];
    const mayBegin = hasLeft && (isSpaced || !hasRight);
    const mayEnd = hasRight && (isSpaced || !hasLeft);
    let isAfterSpace = false;
    for (const number of this.marks) {
      const { start, end, role } = this.sentence.marks[number];
      const isPoint = role !== "open" && role !== "close";
      const edge = source.slice(0, start).slice(-1);
      const opens = SAME.test(edge) && (start < 2 || isSpace(source[start - 2]));
      const isEnclosed = BEFORE.test(edge) || opens;
      const followsSpace = isPoint && mayBegin && (isSpace(edge) || (isSpaced && isEnclosed));
      const isFirstOpened = role === "open" && isSpaced && !parts.includes(" ");
      if ((followsSpace && !isAfterSpace) || isFirstOpened) {
        parts.push(" ");
        isAfterSpace = true;
      }
      parts.push(source.slice(start, end));
      isAfterSpace &&= role === "open";
      const following = source.slice(end, end + 1);
      const closes = SAME.test(following) && (end + 1 >= source.length || isSpace(source[end + 1]));
      if (isPoint && mayEnd && (BEHIND.test(following) || closes)) {
        parts.push(" ");
        isAfterSpace = true;
      }
    }
    if (isSpaced && !parts.includes(" ")) parts.push(" ");
    return parts.join("");
  }
}
