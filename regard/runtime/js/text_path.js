// The way of a line to its translation, without input or output: what is not language is taken out, letters are chosen that
// the model knows, what comes back is compared and tried again, put back, and noted. Python does the same.
import { hasLetters, lengthOf, quoted, strip, wordsOf } from "./characters.js";
import { breaches, codeSpans, describeBreaches, keepSource, particlesWritten, widened } from "./contracts.js";
import { readEscapes } from "./escapes.js";
import { restoredTokens, splitLanguageCode } from "./letter_case.js";
import { insertMnemonic, stripMnemonic } from "./mnemonics.js";
import { worstQuality } from "./quality.js";
import { Copies, disjoint, findSpans } from "./spans.js";
import { TaggedLine } from "./tagged_line.js";
import { KEPT, KEPT_ON_RETRY, MOST_COPIED, NOT_COPIED, PATTERNS } from "./text_tables.js";

const LONG = 2_000; // characters of a line from which on it is not tried again for what often is part of what a model has learnt
const NO_FIGURES = { attention: [], states: null };

/**
 * Yield requests {texts, links} of what is to be translated, if asked for with word links; take their translations, and
 * return that of the line. `rules`: `copies`, the characters of the model's copy tokens; `reader` of capitals and titles;
 * `isRaw`: the line is translated as it is; `isShown`: with copy tokens, but in the letters that it has;
 * `isFirst`: it is not tried again; `hasLinks`: words are to keep their numbers; `dialect`: of the strings of programs whose
 * contract is kept, `auto`: that of each line; `particles`: Korean ones after placeholders in `both` forms, or `as-is`.
 */
export function* linePath(line, rules) {
  if (rules.isRaw || isPlain(line, rules.reader)) {
    const [result] = yield { texts: [line], links: false };
    return marked(line, result, rules, breachesOf(line, result, rules));
  }
  const [code, given] = isOnlyText(rules) ? splitLanguageCode(line) : ["", line];
  const [label, mnemonic] = rules.isShown ? [given, ""] : stripMnemonic(given, rules.reader.encode);
  const [text, escaped] = isOnlyText(rules) ? readEscapes(label) : [label, null];
  let best = null;
  let before;
  const isQuoting = rules.dialect === "messageformat" && text !== label && label.includes("''");
  const read = isQuoting ? { ...rules, dialect: "auto" } : rules; // else its apostrophes would quote
  for (const { take, isNeeded } of roundsOf(text, read)) {
    if (best && !isNeeded(best)) continue;
    const taken = take();
    if (taken === undefined || (best && taken?.marked === before)) continue;
    before = taken?.marked;
    const outcome = yield* attempt(text, code, taken, read);
    if (!best || isBetter(outcome, best)) best = outcome;
  }
  const unescaped = escaped ? withEscapes(best.result, escaped) : best.result;
  const restored = isKorean(code, rules) && mayHaveSpans(text) ? particlesWritten(text, unescaped, rules.dialect) : unescaped;
  const result = mnemonic ? withMnemonic(restored, given, mnemonic, rules.reader.source) : restored;
  return marked(given, result, rules, best.broken);
}

/** Return whether the particles after placeholders are wanted in both forms, and the translation is Korean. */
function isKorean(code, rules) {
  const [, target = rules.reader.languages[1]] = code.match(PATTERNS.languageCode) ?? [];
  return rules.particles === "both" && isOnlyText(rules) && target.split("-")[0] === "ko";
}

const isOnlyText = ({ isFirst, isShown }) => !isFirst && !isShown; // of one hypothesis, so that a line may be translated in parts, and again

/** Return how the spans are taken out, round by round, and for which outcome a round is needed. */
function roundsOf(line, rules) {
  const { copies } = rules;
  const take = (tokens, kinds) => () => takeOut(line, tokens, kinds, rules);
  const first = { take: take(copies, KEPT) };
  const isIncomplete = ({ isComplete }) => !isComplete;
  const isNeeded = ({ broken, isComplete }) => broken.length > 0 || !isComplete;
  if (!isOnlyText(rules)) return [first];
  if (lengthOf(line) > LONG) return [first, { take: take("", KEPT), isNeeded: isIncomplete }];
  const copied = () => {
    const taken = take(copies, KEPT_ON_RETRY)();
    return taken instanceof CopiedLine ? taken : undefined;
  };
  const further = [copied, () => takeCode(line, rules, false), () => takeCode(line, rules, true)];
  return [first, ...further.map((again) => ({ take: again, isNeeded }))];
}

/** Translate the parts of a line, in letters that the model knows, each after the code of the target language. */
function* attempt(line, code, taken, rules) {
  const { reader, isShown } = rules;
  const texts = (taken ? taken.lines : [line]).map((text) => code + text);
  const known = texts.map((text) => (isShown ? { line: text } : reader.read(text)));
  const read = texts.length ? yield { texts: known.map((one) => one.line), links: Boolean(taken?.needsLinks) } : [];
  const results = read.map((result, i) => inLetters(result, known[i], texts[i]));
  const parts = results.map((one) => (code ? withoutCode(one) : one));
  const result = taken ? joined(taken, parts, linksOf(line, taken, rules)) : parts[0];
  const isComplete = results.every((one) => one.isComplete);
  return { result, isComplete, broken: breachesOf(line, result, rules) };
}

/** Return a translation whose links do not count the word of the language code. */
function withoutCode(result) {
  const counted = (one) => ({ ...one, alignments: one.alignments?.filter(([source]) => source > 0).map(([source, target]) => [source - 1, target]) ?? null });
  return { ...counted(result), nbest: result.nbest.map(counted) };
}

/** Return whether an outcome has fewer faults than another, or as many and was not cut. */
function isBetter(outcome, other) {
  const fewer = other.broken.length - outcome.broken.length;
  return fewer > 0 || (fewer === 0 && outcome.isComplete && !other.isComplete);
}

const mayHaveSpans = (line) => line.search(PATTERNS.spanSign) >= 0;

/** Return whether the model reads a line unchanged: it has no span, no mnemonic, no capitals and no foreign words. */
const isPlain = (line, reader) => !mayHaveSpans(line) && !reader.foreignWords(line).length && reader.read(line).line === line;

/** Return the faults by which a translation breaks the contract of its line. */
function breachesOf(given, { text }, { dialect }) {
  const [, line] = splitLanguageCode(given);
  return mayHaveSpans(line) || mayHaveSpans(text) ? breaches(line, text, dialect) : [];
}

/** Return a line as the model reads it at first, and what brings back its translation, or the beginning of that, for streams. */
export function firstReading(line, { copies, reader }) {
  const taken = line === line.replace(PATTERNS.invisible, "") ? takeOut(line, copies, KEPT, { reader, isFirst: true }) : null;
  const isCopied = taken?.lines.length === 1;
  const { line: text, restore = same } = reader.read(isCopied ? taken.lines[0] : line);
  return { text, restore: isCopied ? (translation) => taken.copied.restore(restore(translation)) : restore };
}

/** Take the spans out of a line, of these kinds: copy tokens stand for few of them that are no tags. null: it has none. */
function takeOut(given, copies, kinds, { reader, isFirst, isShown }) {
  const line = given.replace(PATTERNS.invisible, ""); // beside a span they would count as letters
  const hidden = findSpans(line).filter(({ kind }) => kinds.includes(kind));
  const spans = disjoint([...hidden, ...reader.foreignWords(line)], line.length);
  const areCopied = spans.length <= Math.min(MOST_COPIED, copies.length) && !spans.some(({ kind }) => NOT_COPIED.includes(kind));
  if (!spans.length || (!areCopied && (isFirst || isShown))) return null;
  return areCopied ? new CopiedLine(line, spans, copies) : new TaggedLine(line, spans);
}

/** Take all code out of a line, by the contract of its dialect; `areApart`: what is between is translated by itself. null: it has none. */
function takeCode(given, { dialect, reader }, areApart) {
  const line = given.replace(PATTERNS.invisible, "");
  const spans = codeSpans(line, dialect, reader.foreignWords(line));
  return spans.length ? new TaggedLine(line, areApart ? widened(line, spans) : spans, areApart) : null;
}

/** A line with copy tokens in the place of its spans, `marked`; `lines` are what is to be translated. */
class CopiedLine {
  #gaps;

  constructor(line, spans, copies) {
    this.copied = new Copies(line, spans, copies);
    this.marked = this.copied.marked;
    const layout = layOut(this.marked);
    this.lines = layout.lines;
    this.#gaps = layout.gaps;
  }

  /** Return the line with translations in the place of its lines, and its spans. */
  render(translations) {
    return this.copied.restore(this.#gaps.map((gap, i) => gap + (translations[i]?.text ?? "")).join(""));
  }
}

/** Return the lines of a text that have letters, and what is before, between and behind them. */
function layOut(text) {
  const [lines, gaps] = [[], []];
  let [start, end] = [0, 0];
  const add = (stop) => {
    const line = strip(text.slice(start, stop));
    if (!hasLetters(line)) return;
    const at = text.indexOf(line, start);
    gaps.push(text.slice(end, at));
    lines.push(line);
    end = at + line.length;
  };
  for (const { 0: lineBreak, index } of text.matchAll(PATTERNS.lineBreak)) {
    add(index);
    start = index + lineBreak.length;
  }
  add(text.length);
  return { lines, gaps: [...gaps, text.slice(end)] };
}

/** Return the translation of a line that was read in known letters in those of the line. */
function inLetters(result, { line: read, restore = same, restoreSource = same }, line) {
  if (read === line) return result;
  const sources = result.parts.length === 1 ? [strip(line)] : result.parts.map(({ source }) => restoreSource(source));
  const hypothesis = (one) => withTexts(one, restore, (tokens) => restoredTokens(tokens, restore));
  const parts = result.parts.map((part, i) => ({ ...part, source: sources[i], text: restore(part.text) }));
  return { ...hypothesis(result), nbest: result.nbest.map(hypothesis), parts };
}

const same = (text) => text;

/** Return a hypothesis with each of its texts changed. */
function withTexts(one, change, ofTokens = (tokens) => tokens.map(change)) {
  const { texts, ofTokens: words } = one.targetWords;
  return { ...one, text: change(one.text), tokens: ofTokens(one.tokens), targetWords: { texts: texts.map(change), ofTokens: words } };
}

/** Return the translation of a line whose parts were translated, with its spans; `links` returns the links of its hypotheses. */
function joined(taken, results, links) {
  const restore = taken.copied ? (text) => taken.copied.restore(text) : same;
  const inner = results.flatMap(({ parts }) => parts.map((part) => ({ ...part, source: restore(part.source), text: restore(part.text) })));
  const ranks = Math.max(1, ...results.map(({ nbest }) => nbest.length));
  const nbest = Array.from({ length: ranks }, (_, rank) => {
    return joinedHypothesis(taken, results.map(({ nbest: all }) => all[Math.min(rank, all.length - 1)]), restore, links);
  });
  const { text } = nbest[0];
  const steps = results.flatMap((result) => result.steps.map(({ prefixes, candidates }) => {
    return { prefixes, candidates: candidates.map((candidate) => ({ ...candidate, token: restore(candidate.token) })) };
  }));
  return {
    ...nbest[0],
    sourceTokens: results.flatMap(({ sourceTokens }) => sourceTokens.map(restore)),
    sourceWords: joinedWords(results.map((result) => result.sourceWords), restore),
    nbest,
    parts: results.length ? inner : [{ source: text, text, score: 0, doubtful: false }],
    doubtful: inner.some(({ doubtful }) => doubtful),
    quality: worstQuality(inner),
    notes: [...new Set(results.flatMap(({ notes }) => notes.map(restore)))],
    steps,
  };
}

function joinedHypothesis(taken, hypotheses, restore, links) {
  const { attention, states } = hypotheses.length === 1 ? hypotheses[0] : NO_FIGURES; // as of a line that was split
  const all = (name) => hypotheses.flatMap((one) => one[name]);
  return {
    text: strip(taken.render(hypotheses)),
    score: hypotheses.reduce((sum, { score }) => sum + score, 0),
    tokens: all("tokens").map(restore),
    ids: all("ids"),
    logProbs: all("logProbs"),
    targetWords: joinedWords(all("targetWords"), restore),
    alignments: links(hypotheses),
    attention,
    states,
    repetition: hypotheses.find(({ repetition }) => repetition)?.repetition ?? null,
    isComplete: hypotheses.every(({ isComplete }) => isComplete),
  };
}

function joinedWords(sides, restore) {
  const words = { texts: [], ofTokens: [] };
  for (const { texts, ofTokens } of sides) {
    const count = words.texts.length;
    words.ofTokens.push(...ofTokens.map((word) => (word < 0 ? word : word + count)));
    words.texts.push(...texts.map(restore));
  }
  return words;
}

/** Return what makes the links of a line of those of its parts: figures show the words that the model reads. */
function linksOf(line, taken, { isShown, hasLinks }) {
  if (hasLinks) return (hypotheses) => restoredLinks(taken, hypotheses, line);
  return ([first]) => (isShown && first ? first.alignments : null);
}

/** Return links that count the words of the line as it was given, and of its translation with the spans. */
function restoredLinks({ copied, lines }, hypotheses, given) {
  const words = (given.match(PATTERNS.givenWord) ?? []).flatMap((word, i) => (word.replace(PATTERNS.invisible, "") ? [i] : []));
  const links = [];
  let [source, target] = [0, 0];
  hypotheses.forEach(({ alignments, text }, i) => {
    const [sources, targets] = [copied.restoredWords(lines[i]), copied.restoredWords(text)];
    for (const [s, t] of alignments) {
      for (const own of sources[s]) links.push(...targets[t].map((word) => [words[source + own], target + word]));
    }
    source += (sources.at(-1)?.at(-1) ?? -1) + 1;
    target += (targets.at(-1)?.at(-1) ?? -1) + 1;
  });
  return distinctLinks(links);
}

function distinctLinks(links) {
  const sorted = links.sort(([s, t], [other, second]) => s - other || t - second);
  return sorted.filter(([s, t], i) => !i || s !== sorted[i - 1][0] || t !== sorted[i - 1][1]);
}

/** Return a translation whose links count the words of its line as it was given, not those of the clean line. */
export function withGivenWords(translation, line) {
  const words = line.match(PATTERNS.givenWord) ?? [];
  const positions = words.flatMap((word, i) => wordsOf(word.replace(PATTERNS.invisible, "")).map(() => i));
  if (positions.length === words.length && positions.every((word, i) => word === i)) return translation;
  const known = ([source]) => source < positions.length;
  const counted = (one) => ({
    ...one, alignments: one.alignments && distinctLinks(one.alignments.filter(known).map(([s, t]) => [positions[s], t])),
  });
  return { ...counted(translation), nbest: translation.nbest.map(counted) };
}

/**
 * Return a translation with its notes, `broken` if it breaks the contract of its line; if nothing but its text is wanted, the line
 * stands then, or those of its sentences that would break.
 */
function marked(line, result, rules, faults) {
  const { repetition } = result;
  const repeats = repetition && `the translation repeats ${quoted(repetition.text)} ${repetition.times} times and is probably wrong; \`no_repeat_ngram=4\` prevents that`;
  const notes = [...result.notes, repeats, faults.length > 0 && describeBreaches(faults)].filter(Boolean);
  const noted = { ...result, broken: faults.length > 0, notes };
  return noted.broken && !rules.isRaw && isOnlyText(rules) ? keepSource(noted, line, rules.dialect, faults) : noted;
}

/** Return the translation of a line that was read without escapes, with them. */
function withEscapes(result, escaped) {
  const written = (one) => ({ ...one, text: escaped(one.text) });
  const parts = result.parts.map((part) => ({ ...written(part), source: escaped(part.source) }));
  return { ...written(result), nbest: result.nbest.map(written), parts };
}

/** Return the translation of a label with its mnemonic; its only part has it, too. */
function withMnemonic(result, line, mnemonic, rules) {
  const marked = (one) => ({ ...one, text: insertMnemonic(one.text, mnemonic, rules) });
  const parts = result.parts.length === 1 ? [{ ...marked(result.parts[0]), source: strip(line) }] : result.parts;
  return { ...marked(result), nbest: result.nbest.map(marked), parts };
}

/** Translate lines along their paths, those of each round in one call of the generator `translate(texts, owners, links)`. */
export function* translateAlong(paths, translate) {
  const steps = paths.map((path) => path.next());
  for (;;) {
    const waiting = [...steps.keys()].filter((n) => !steps[n].done);
    if (!waiting.length) return steps.map(({ value }) => value);
    const links = waiting.every((n) => steps[n].value.links);
    const group = waiting.filter((n) => steps[n].value.links === links);
    const texts = group.flatMap((n) => steps[n].value.texts);
    const owners = group.flatMap((n) => steps[n].value.texts.map(() => n));
    const translations = yield* translate(texts, owners, links);
    for (const n of group) steps[n] = paths[n].next(translations.splice(0, steps[n].value.texts.length));
  }
}
