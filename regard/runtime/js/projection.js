// Projection of elements: where the tags of a sentence stand in its translation, by word alignments; Python's projection.py.
import { hasLetters, lengthOf } from "./characters.js";
import { comesFromBefore, goesOn, splitWord } from "./tagged_sentence.js";
import { ENDS, PATTERNS } from "./text_tables.js";
import { completeLinks } from "./word_links.js";

const DEEPEST = 64; // mean depth of the words' elements from which on tags are spread proportionally: time stays linear
const SHALLOW = 10_000; // sum of depths that is always projected
const NO_WORD = { text: "", units: [], lead: -1, first: -1, last: -1, trail: -1 };

/**
 * Return the units of a translation, {text, word, isWord, first, last, node, isCopy}, and the order in which they, marks and
 * elements that are kept whole are written: entries {kind, number, words}.
 */
export function project(sentence, words, alignments) {
  const { nodes, marks } = sentence;
  const links = completeLinks(sentence.line.split(" "), words, alignments);
  const units = targetUnits(sentence, words, links);
  if (!marks.length && nodes.length === 1) return [units, [...units.keys()].map(unitEntry)];
  const depth = units.reduce((sum, { node }) => sum + (node >= 0 ? nodes[node].depth + 1 : 0), 0);
  if (depth > DEEPEST * (units.length + sentence.units.length) + SHALLOW) return [units, spread(sentence, units)];
  const ranges = new Ranges(sentence, units);
  ranges.placeElements();
  const positions = new Positions(sentence, units, links, words.length);
  ranges.placePoints(nodes.map((node, index) => (ranges.isEmpty(index) ? positions.of(node) : 0)));
  return [units, ordered(nodes, units, ranges)];
}

const unitEntry = (number) => ({ kind: "unit", number });
const targetUnit = (text, word, isWord, first = -1, last = -1, node = -1, isCopy = false) => ({ text, word, isWord, first, last, node, isCopy });

/** Return the units of each source word: all, the one whose element decides, and those at its ends. */
function sourceWords({ line, units, nodes }) {
  const words = line.split(" ").map((text) => ({ ...NO_WORD, text, units: [], rank: [0, 0, -1, 0, 0] }));
  units.forEach((unit, number) => {
    const word = words[unit.word];
    const node = nodes[unit.node];
    const isCore = unit.position === "core";
    const rank = [Number(isCore), Number(!node.isSymbol), node.depth, lengthOf(unit.text), -number];
    word.units.push(number);
    if (compare(rank, word.rank) > 0) word.rank = rank;
    if (!isCore) {
      word[unit.position] = number;
    } else {
      if (word.first < 0) word.first = number;
      word.last = number;
    }
  });
  return words;
}

function compare(one, other) {
  const place = one.findIndex((value, i) => value !== other[i]);
  return place < 0 ? 0 : one[place] - other[place];
}

/** Split the words of a translation as those that they are linked to. */
function targetUnits(sentence, words, links) {
  const sources = sourceWords(sentence);
  const units = words.flatMap((text, index) => {
    const linked = links.sources[index].map((word) => sources[word]);
    const same = linked.find((source) => source.text === text);
    if (same) {
      return same.units.map((number) => {
        const unit = sentence.units[number];
        return targetUnit(unit.text, index, unit.position === "core", number, number, unit.node, true);
      });
    }
    if (linked.length) return splitAs(sentence, text, index, linked, links.isGiven);
    const [lead, core, trail] = splitWord(text);
    const parts = [targetUnit(lead, index, !core), targetUnit(core, index, true), targetUnit(trail, index, false)];
    return parts.filter((part) => part.text);
  });
  return sentence.nodes.some(({ isWhole }) => isWhole) ? claimCopies(sentence, units) : units;
}

/** Let elements that are kept whole stand for their copies, rather than for words that are linked to them. */
function claimCopies({ units: sources, nodes }, units) {
  const keyOf = ({ node, text }) => `${node} ${text}`;
  const wholes = sources.filter(({ node }) => nodes[node].isWhole);
  const numbers = new Set(wholes.filter(({ node, text }) => nodes[node].isSymbol && /\p{Nd}/u.test(text)).map(({ node }) => node));
  const wanted = new Set(wholes.map(keyOf));
  const owned = new Map(units.filter((unit) => wanted.has(keyOf(unit))).map((unit) => [keyOf(unit), unit.node]));
  const free = freeTexts(units.map((unit) => (wanted.has(keyOf(unit)) || unit.isCopy ? null : unit.text)));
  const claims = new Map();
  for (const whole of [...wholes].reverse()) {
    const isEnd = whole === sources.at(-1) && units.length > 0 && ENDS.includes(whole.text) && ENDS.includes(units.at(-1).text);
    const [known = [], end] = [free.get(whole.text), isEnd ? [units.length - 1] : []];
    const copies = known.length ? known : end;
    if (!copies.length) continue;
    const isWord = lengthOf(whole.text) === 1 && hasLetters(whole.text) && units[copies.at(-1)].node !== whole.node;
    if (!claims.has(copies.at(-1)) && !owned.has(keyOf(whole)) && !isWord) claims.set(copies.pop(), whole);
  }
  const claimed = new Set([...owned.values(), ...[...claims.values()].map(({ node }) => node)]);
  return units.flatMap((unit, index) => {
    const isNumber = numbers.has(unit.node) && !claimed.has(unit.node) && isWholeNumber(unit.text);
    const isWrong = claimed.has(unit.node) || (unit.node >= 0 && nodes[unit.node].isSymbol && !isNumber);
    const node = isWrong && !owned.has(keyOf(unit)) ? -1 : unit.node;
    const whole = claims.get(index);
    if (!whole) return [{ ...unit, node }];
    const copy = unit.text.includes(whole.text) ? whole.text : unit.text;
    const at = unit.text.lastIndexOf(copy);
    const before = { ...unit, text: unit.text.slice(0, at), isWord: false, node };
    const behind = { ...unit, text: unit.text.slice(at + copy.length), isWord: false, node };
    return [before, { ...unit, text: copy, node: whole.node }, behind].filter((part) => part.text);
  });
}

const isWholeNumber = (text) => text.match(PATTERNS.separatedNumber)?.[0] === text;

/** Return the numbers of the units in which each text stands: the unit itself, Latin letters in it, and numbers. */
function freeTexts(texts) {
  const free = new Map();
  texts.forEach((text, index) => {
    if (text === null) return;
    const inside = new Set([text, ...(text.match(/[!-~]+/g) ?? []), ...(text.match(PATTERNS.separatedNumber) ?? [])]);
    for (const part of inside) free.set(part, [...(free.get(part) ?? []), index]);
  });
  return free;
}

/** Split a target word into punctuation and core; its units stand for those of the first and last word that it is linked to. */
function splitAs(sentence, text, word, linked, isGiven) {
  const best = linked.reduce((one, other) => (compare(other.rank, one.rank) > 0 ? other : one));
  const deciding = sentence.units[-best.rank.at(-1)];
  let [lead, core, trail] = splitWord(text);
  if (!core && linked[0].lead >= 0 && linked[0].first < 0 && linked[0].trail >= 0) {
    const letters = [...lead]; // quotes around an element without words
    const half = Math.floor(letters.length / 2);
    [lead, trail] = [letters.slice(0, half).join(""), letters.slice(half).join("")];
  } else if (!core && sentence.units[linked.at(-1).trail]?.text === lead) {
    [lead, trail] = ["", lead]; // punctuation that the translation writes by itself
  } else if (!core) {
    [lead, core] = ["", text];
  }
  const [first, last] = isGiven ? [linked[0], linked.at(-1)] : [NO_WORD, NO_WORD];
  const nodeOf = (numbers) => sentence.units[numbers.find((number) => number >= 0)]?.node ?? -1;
  return [
    targetUnit(lead, word, false, first.lead, last.lead, nodeOf(linked.map((one) => one.lead))),
    targetUnit(core, word, true, first.first, last.last, deciding.node),
    targetUnit(trail, word, false, first.trail, last.trail, nodeOf(linked.map((one) => one.trail).reverse())),
  ].filter((part) => part.text);
}

/** Return the sums of numbers before each place, and of all. */
function sumsOf(numbers) {
  const sums = [0];
  for (const number of numbers) sums.push(sums.at(-1) + number);
  return sums;
}

/** The range of target units of each node, and what is needed to find it. */
class Ranges {
  constructor({ nodes, units: sources }, units) {
    this.nodes = nodes;
    this.starts = nodes.map(() => 0);
    this.ends = nodes.map((_, index) => (index ? 0 : units.length));
    this.children = nodes.map(() => []);
    nodes.forEach(({ parent }, index) => { if (index) this.children[parent].push(index); });
    this.values = units.map(({ isWord }) => Number(isWord));
    this.counts = sumsOf(units.map(({ isWord, node }) => Number(isWord && node >= 0)));
    this.fixed = sumsOf(units.map(({ isWord, node }) => Number(isWord || node >= 0)));
    const free = units.map(({ isWord, node }) => isWord && !nodes[node]?.isWhole); // words that no element kept whole replaces
    this.lastWord = [-1]; // the last free word before each unit
    free.forEach((isFree, index) => this.lastWord.push(isFree ? index : this.lastWord[index]));
    this.nextWord = [...free, units.length]; // the first one from each unit on
    for (let index = units.length - 1; index >= 0; index--) this.nextWord[index] = free[index] ? index : this.nextWord[index + 1];
    this.heldText = nodes.map(() => false);
    for (const { position, node } of sources) {
      if (position !== "core" || nodes[node].isWhole) continue;
      for (let holder = node; !this.heldText[holder]; holder = Math.max(0, nodes[holder].parent)) this.heldText[holder] = true;
    }
    this.owned = nodes.map(() => []); // [unit, child that it is in], by node
    units.forEach(({ node }, position) => {
      for (let child = node; child > 0; child = nodes[child].parent) this.owned[nodes[child].parent].push([position, child]);
    });
  }

  /** Return whether a node has no unit of its own, or held text and has no word of its own. */
  isEmpty(index) {
    const [start, end] = [this.starts[index], this.ends[index]];
    const hasChildren = this.children[index].some((child) => this.starts[child] < this.ends[child]);
    return start === end || (this.heldText[index] && this.nextWord[start] >= end && !hasChildren);
  }

  /** Find the range of each node that owns units, outer nodes first. */
  placeElements() {
    this.nodes.forEach((_, index) => {
      const [start, end] = [this.starts[index], this.ends[index]];
      const owned = this.owned[index].filter(([unit]) => start <= unit && unit < end);
      for (const [child, best] of this.#bestRuns(owned)) {
        this.starts[child] = best.start;
        this.ends[child] = best.end;
      }
      for (const child of this.children[index]) {
        if (comesFromBefore(this.nodes[child])) {
          this.starts[child] = start;
          this.ends[child] = start + this.#bestLength(owned, child, start);
        } else if (goesOn(this.nodes[child])) {
          this.starts[child] = end - this.#bestLength([...owned].reverse(), child, end);
          this.ends[child] = end;
        }
      }
    });
  }

  /** Return for each child the range in which its units most outnumber the others (Kadane's algorithm). */
  #bestRuns(owned) {
    const best = new Map();
    let [value, start, last, previous] = [0, 0, 0, -1];
    for (const [unit, child] of owned) {
      const { isWhole } = this.nodes[child]; // takes the place of its units, so there must be no others between
      const counts = isWhole ? this.fixed : this.counts;
      const cost = child === previous ? counts[unit] - counts[last + 1] : 0;
      if (child === previous && cost <= (isWhole ? 0 : value)) value += this.values[unit] - cost;
      else [value, start] = [this.values[unit], unit];
      [last, previous] = [unit, child];
      const run = { rank: [value, last + 1 - start, -start, last + 1], start, end: last + 1 };
      const { rank = [-1, 0, 0, 0] } = best.get(child) ?? {};
      if (compare(run.rank, rank) > 0) best.set(child, run);
    }
    return best;
  }

  /** Return the length of the best range at a border, from which `owned` leads away. */
  #bestLength(owned, child, border) {
    let [value, best, length, last] = [0, 0, 0, border];
    for (const [unit, owner] of owned) {
      if (owner !== child) break;
      const [near, far] = unit >= border ? [unit, unit + 1] : [unit + 1, unit];
      value += this.values[unit] - Math.abs(this.counts[near] - this.counts[last]);
      last = far;
      if (value >= best) [best, length] = [value, Math.abs(far - border)];
    }
    return length;
  }

  /** Give the nodes without units their positions, in their parents and beside their siblings; those that held text take a word there. */
  placePoints(positions) {
    this.children.forEach((children, index) => {
      const taken = children.filter((child) => !this.isEmpty(child)).map((child) => [this.starts[child], this.ends[child], child]).sort(compare);
      const before = children.filter((child) => comesFromBefore(this.nodes[child])).map((child) => this.ends[child]);
      const after = children.filter((child) => goesOn(this.nodes[child])).map((child) => this.starts[child]);
      const low = Math.max(this.starts[index], ...before);
      const high = Math.min(this.ends[index], ...after);
      for (const child of children) {
        const node = this.nodes[child];
        if (!this.isEmpty(child) || comesFromBefore(node) || goesOn(node)) continue;
        let position = Math.min(Math.max(positions[child], low), high);
        const around = taken.findLast(([start]) => start <= position);
        if (around && position < around[1]) position = position - around[0] < around[1] - position ? around[0] : around[1];
        this.starts[child] = this.ends[child] = position;
        if (this.heldText[child]) this.#takeWord(child, position, taken, [low, high]);
      }
      children.sort((one, other) => this.starts[one] - this.starts[other] || this.ends[one] - this.ends[other] || one - other);
    });
  }

  /** Give a node the free word nearest to its position, else that beside it of a sibling that has more. */
  #takeWord(child, position, taken, bounds) {
    const number = indexFrom(taken, position);
    const low = Math.max(bounds[0], taken[number - 1]?.[1] ?? 0);
    const high = Math.min(bounds[1], taken[number]?.[0] ?? bounds[1]);
    const [before, after] = [this.lastWord[position], this.nextWord[position]];
    let word = after < high ? after : -1;
    if (low <= before && (word < 0 || position - before <= after - position)) word = before;
    if (word < 0) word = this.#wordOfSibling(taken, number);
    if (word < 0) return;
    [this.starts[child], this.ends[child]] = [word, word + 1];
    taken.splice(indexFrom(taken, word), 0, [word, word + 1, child]);
  }

  /** Take the last word of the sibling before a number, or the first of that at it, unless it has no other; −1 if there is none. */
  #wordOfSibling(taken, number) {
    for (const index of [number - 1, number]) {
      if (!taken[index]) continue;
      const [start, end, sibling] = taken[index];
      const node = this.nodes[sibling];
      const [first, last] = [this.nextWord[start], this.lastWord[end]];
      if (node.isWhole || comesFromBefore(node) || goesOn(node) || this.children[sibling].length || first >= last) continue;
      if (index < number) this.ends[sibling] = last;
      else this.starts[sibling] = first + 1;
      taken[index] = [this.starts[sibling], this.ends[sibling], sibling];
      return index < number ? last : first;
    }
    return -1;
  }
}

/** Return the index of the first range that starts at a position or after it. */
function indexFrom(ranges, position) {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[middle][0] < position) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Positions of nodes without units: next to the translation of the words that they stand at. */
class Positions {
  constructor(sentence, units, links, words) {
    Object.assign(this, { sentence, units, links });
    this.copies = new Map(units.map(({ first, isCopy }, index) => [isCopy ? first : -2, index]).reverse());
    this.wordStarts = Array(words + 1).fill(units.length);
    this.cores = Array(words).fill(-1);
    for (let index = units.length - 1; index >= 0; index--) {
      const { word, isWord } = units[index];
      this.wordStarts[word] = index;
      if (isWord || this.cores[word] < 0) this.cores[word] = index;
    }
    for (let word = words - 1; word >= 0; word--) this.wordStarts[word] = Math.min(this.wordStarts[word], this.wordStarts[word + 1]);
    const last = units.at(-1);
    this.end = units.length - Number(Boolean(last) && !last.isWord && !splitWord(last.text)[1]);
    const count = links.targets.length;
    this.before = Array(count);
    this.after = Array(count);
    for (let word = 0; word < count; word++) this.before[word] = links.targets[word].length ? word : this.before[word - 1] ?? -1;
    for (let word = count - 1; word >= 0; word--) this.after[word] = links.targets[word].length ? word : this.after[word + 1] ?? count;
  }

  /** Return the target position of a node without units. */
  of(node) {
    const { units: source } = this.sentence;
    const { targets } = this.links;
    const count = this.after.length;
    const own = node.start < node.end && !node.isSymbol ? this.after[source[node.start].word] : count;
    if (own < count && own <= source[node.end - 1].word) return this.wordStarts[targets[own].at(-1) + 1];
    const [left, right] = [node.start - 1, node.end];
    if (right === source.length && !splitWord(source.at(-1).text)[1]) return this.units.length;
    let position = -1;
    if (left >= 0 && right < source.length && source[left].word === source[right].word) position = this.#insideWord(left, right);
    if (position < 0) position = this.#betweenWords(node, left, right);
    return Math.min(position, this.end);
  }

  /** Return the position inside of the translation of a word; −1 if it has none. */
  #insideWord(left, right) {
    if (this.copies.has(right)) return this.copies.get(right);
    const unit = this.sentence.units[left];
    const targets = this.links.targets[unit.word];
    return targets.length ? this.cores[targets.at(-1)] + Number(unit.position !== "lead") : -1;
  }

  /** Return the position before the translation of the next word or after that of the last: the nearer one. */
  #betweenWords(node, left, right) {
    const { units: source, marks } = this.sentence;
    const { targets } = this.links;
    const count = this.before.length;
    const before = source[left]?.word ?? -1;
    const after = source[right]?.word ?? -1;
    const mark = marks[node.opener];
    const touchesLeft = Boolean(mark) && left >= 0 && source[left].end === mark.start;
    const touchesRight = Boolean(mark) && right < source.length && source[right].start === mark.end;
    const linkedBefore = before >= 0 ? this.before[before] : -1;
    const linkedAfter = after >= 0 ? this.after[after] : count;
    const toLeft = linkedBefore >= 0 ? before - linkedBefore : count;
    const toRight = linkedAfter < count ? linkedAfter - after : count;
    const isLeft = toLeft < toRight || (toLeft === toRight && toRight < count && touchesLeft && !touchesRight);
    if (isLeft) return this.wordStarts[targets[linkedBefore].at(-1) + 1];
    if (toRight === count) return 0;
    const last = toLeft === 0 ? targets[linkedBefore].at(-1) : -1;
    const own = targets[linkedAfter];
    const target = own.find((word) => word > last) ?? own[0];
    // what had a word before it does not come first, but follows an article if there is one
    const isInner = right < source.length && source[right].node === node.parent;
    const follows = isInner && target === 0 && (own.includes(1) || (linkedBefore >= 0 && before === after));
    return this.wordStarts[target + Number(follows)];
  }
}

/** Return units and marks in the order of writing; a node that is kept whole takes the place of its units. */
function ordered(nodes, units, ranges) {
  const entries = [];
  let position = 0;
  const visit = (index) => {
    for (const child of ranges.children[index]) {
      const { isWhole, opener } = nodes[child];
      entries.push(...unitEntries(nodes, units, position, ranges.starts[child]));
      position = isWhole ? ranges.ends[child] : ranges.starts[child];
      if (!isWhole) {
        if (opener >= 0) entries.push({ kind: "mark", number: opener });
        visit(child);
        continue;
      }
      const inside = units.slice(ranges.starts[child], position);
      entries.push({ kind: "whole", number: child, words: inside.length ? [inside[0].word, inside.at(-1).word] : [-1, -2] });
    }
    entries.push(...unitEntries(nodes, units, position, ranges.ends[index]));
    position = ranges.ends[index];
    if (nodes[index].closer >= 0) entries.push({ kind: "mark", number: nodes[index].closer });
  };
  visit(0);
  return entries;
}

/** Return the units of a range but for those that elements kept whole take the place of. */
function unitEntries(nodes, units, start, end) {
  const numbers = Array.from({ length: Math.max(0, end - start) }, (_, i) => start + i);
  return numbers.filter((number) => !nodes[units[number].node]?.isWhole).map(unitEntry);
}

/** Put marks in proportion, in their order. */
function spread({ nodes, gaps, units: sources }, units) {
  const wholes = [...nodes.keys()].filter((index) => nodes[index].isWhole).map((index) => [nodes[index].start, 1, index]);
  const marks = [...gaps].flatMap(([gap, indices]) => indices.map((index) => [gap, 0, index]));
  const entries = [];
  let position = 0;
  for (const [gap, isWhole, number] of [...wholes, ...marks].sort(compare)) {
    const end = Math.floor((gap * units.length) / sources.length);
    entries.push(...unitEntries(nodes, units, position, end), { kind: isWhole ? "whole" : "mark", number, words: [-1, -2] });
    position = end;
  }
  return [...entries, ...unitEntries(nodes, units, position, units.length)];
}
