// Upper and lower case by the rules of a language, and lines in capitals and titles read in the letters that a model knows.
import { firstOf, hasLetters, isCased, isUpper, lengthOf } from "./characters.js";
import {
  GREEK_DROPPED, LETTER_CASES, LONGEST_WORD, PARTED_SYLLABLES, PATTERNS, SCRIPTS, TITLE_LETTERS, TITLE_SHARE, TITLE_WORDS,
} from "./text_tables.js";

const [TONOS, DIALYTIKA] = ["\u0301", "\u0308"];
const MOST_KNOWN = 10_000; // words whose known letters are kept

/** Return the code of the target language at the beginning of a line, with the space after it, and the rest of the line. */
export function splitLanguageCode(line) {
  const [code] = line.match(PATTERNS.languageCode) ?? [""];
  return [code, line.slice(code.length)];
}

const distinct = (items) => [...new Set(items)];
const inserted = (text, mark, place) => text.slice(0, place) + mark + text.slice(place);

/** Return a text as words begin in titles: Python's `str.title` of one word. */
function titled(text) {
  let isInside = false;
  return Array.from(text, (letter) => {
    const form = isInside ? letter.toLowerCase() : TITLE_LETTERS[letter] ?? letter.toUpperCase();
    isInside = isCased(letter);
    return form;
  }).join("");
}

/** The rules of most languages. A word in capitals may have several spellings in small letters, as ΑΛΛΑ has. */
class LetterCase {
  upper(text) { return text.toUpperCase(); }
  lower(text) { return text.replaceAll("İ", "i").toLowerCase(); } // Unicode's own rule leaves a dot beside the i
  spellings(word) { return [this.lower(word)]; } // the likeliest first
  titlecase(letter) { return titled(letter); }

  /** Return a text with a capital at its start, if a letter stands there, or an apostrophe and a letter. */
  initial(text) {
    const [letter] = text.match(PATTERNS.initial) ?? [""];
    return this.titlecase(letter) + text.slice(letter.length);
  }
}

/** Latin letters with two kinds of i: İ and i have a dot, I and ı have none. */
class Turkic extends LetterCase {
  upper(text) { return text.replaceAll("i", "İ").toUpperCase(); }
  lower(text) { return text.replaceAll("İ", "i").replaceAll("I", "ı").toLowerCase(); }
  titlecase(letter) { return titled(letter.replaceAll("i", "İ")); }
}

/** An i or j under an accent shows its dot, which Unicode writes as a mark of its own; a capital has none. */
class Lithuanian extends LetterCase {
  upper(text) { return text.normalize("NFD").replace(PATTERNS.dotted, "$1").toUpperCase().normalize("NFC"); }
  lower(text) { return text.normalize("NFD").replace(PATTERNS.accented, "$1\u0307").normalize("NFC").toLowerCase(); }
  titlecase(letter) { return this.upper(letter); }
}

/** The letters ij are one, and begin a word as IJ; the 's of 's avonds never has a capital. */
class Dutch extends LetterCase {
  initial(text) {
    const [clitic] = text.match(PATTERNS.clitic) ?? [""];
    const rest = text.slice(clitic.length);
    const [digraph] = rest.match(PATTERNS.digraph) ?? [""];
    return clitic.toLowerCase() + (digraph ? digraph.toUpperCase() + rest.slice(digraph.length) : super.initial(rest));
  }

  spellings(word) {
    const small = this.lower(word);
    return distinct([small.replaceAll("ĳ", "ij"), small]);
  }
}

/** Capitals have no accents and breathings, but the dialytika, also where an accent has shown that vowels part. */
class Greek extends LetterCase {
  upper(text) {
    const parted = text.normalize("NFD").replace(PATTERNS.greekOr, "Ή").replace(PATTERNS.parted, `$1${DIALYTIKA}`);
    const bare = (marked) => Array.from(marked).filter((mark) => !GREEK_DROPPED.includes(mark)).join("");
    return parted.replace(PATTERNS.marked, bare).toUpperCase().normalize("NFC");
  }

  /** Return the word with an accent on each of its last three syllables, on those that may have parted vowels too. */
  spellings(word) {
    const small = this.lower(word).normalize("NFD");
    if (small === "η") return [small]; // the article: "or" keeps its accent in capitals
    if (small.includes(TONOS) || lengthOf(small) > LONGEST_WORD) return [small.normalize("NFC")];
    const syllables = [...small.matchAll(PATTERNS.syllable)];
    const pairs = syllables.slice(-PARTED_SYLLABLES).filter(([text]) => text.length > 1 && /[ιυ]$/u.test(text));
    const parted = pairs.map(({ 0: text, index }) => inserted(small, DIALYTIKA, index + text.length));
    const joined = small.replaceAll(DIALYTIKA, ""); // ΡΟΪΔΙ may be ρόιδι
    const accented = [small, ...parted, joined].flatMap((base) => this.accented(base));
    const forms = syllables.length < 2 ? [small, ...accented] : [...accented, small];
    return distinct(forms.map((form) => form.normalize("NFC")));
  }

  /** Return a word with each accent that it may have, and with two, as όνομά in το όνομά μου. */
  accented(word) {
    const syllables = [...word.matchAll(PATTERNS.syllable)].slice(-3);
    const ends = syllables.map(({ 0: text, index }) => index + text.length);
    const diphthongs = syllables.filter(([text]) => text.length > 1 && /[ιυ]$/u.test(text));
    const places = [...ends.slice(-2), ...ends.slice(0, -2), ...diphthongs.map(({ index }) => index + 1)];
    const forms = places.map((place) => inserted(word, TONOS, place));
    if (ends.length === 3) forms.push(inserted(inserted(word, TONOS, ends[2]), TONOS, ends[0]));
    return forms;
  }
}

/** In capitals ß is SS, unless somebody writes ẞ. */
class German extends LetterCase {
  spellings(word) {
    const small = this.lower(word);
    const places = [...small.matchAll(/ss/g)].slice(0, 3).map(({ index }) => index);
    return [small, ...places.map((place) => `${small.slice(0, place)}ß${small.slice(place + 2)}`)];
  }
}

/** The ligature և, which is a word as well, is ԵՎ in capitals. */
class Armenian extends LetterCase {
  upper(text) { return text.replaceAll("և", "ԵՎ").toUpperCase(); }
  titlecase(letter) { return titled(letter.replaceAll("և", "Եվ")); }

  spellings(word) {
    const small = this.lower(word);
    return distinct([small.replaceAll("եվ", "և"), small]);
  }
}

const PLAIN = new LetterCase();
const RULES = {
  Turkic: new Turkic(), Lithuanian: new Lithuanian(), Dutch: new Dutch(), Greek: new Greek(), German: new German(), Armenian: new Armenian(),
};

/** Return the rules of a language, whose code may have any form, such as kk-Latn or OPUS-MT's kaz_Latn. */
export function letterCase(code) {
  const parts = code.toLowerCase().replace("@latin", "-latn").replace(/[@.].*/, "").split(/[_-]/);
  while (parts.length) {
    const rules = RULES[LETTER_CASES[parts.join("-")]];
    if (rules) return rules;
    parts.pop();
  }
  return PLAIN;
}

/** Reads lines in capitals, and titles, for a model of these languages; `encode` returns the token ids of a text. */
export class CaseReader {
  #knownWords = new Map();
  #foreignLetters = new Map();

  constructor(languages, encode) {
    this.encode = encode;
    this.languages = languages;
    [this.source, this.target] = languages.map(letterCase);
  }

  /**
   * Return a line of capitals, or a title, with each word in known letters; any other line as it is. `restore` returns
   * a text of the translation in capitals, and `restoreSource` one of the line, if the line was in capitals.
   */
  read(line) {
    const [code, language] = line.match(PATTERNS.languageCode) ?? [""];
    const rest = line.slice(code.length);
    const words = rest.match(PATTERNS.word) ?? [];
    const areCased = words.every((word) => word.toLowerCase() !== word.toUpperCase()); // 한글 has no capitals
    const areUpper = isUpper(rest) || (rest.includes("ß") && isUpper(rest.replaceAll("ß", ""))); // STRAßE
    const isCapital = areCased && areUpper && words.some((word) => lengthOf(word) > 1);
    const capitalised = areCased ? words.filter((word) => isUpper(firstOf(word))).length : 0;
    if (!isCapital && (words.length < TITLE_WORDS || capitalised < TITLE_SHARE * words.length)) return { line };
    const composed = rest.normalize("NFC");
    const known = composed.replace(PATTERNS.word, (word) => this.#known(word))
      .replace(PATTERNS.sentenceStart, (_, before, text) => before + this.source.initial(text));
    if (!isCapital || known === composed) return { line: code + known };
    const target = language ? letterCase(language) : this.target;
    return { line: code + known, restore: (text) => target.upper(text), restoreSource: (text) => this.source.upper(text) };
  }

  /** Return the words, joined by spaces, in letters of which the model knows none, as spans. Latin and most accents are not looked at. */
  foreignWords(line) {
    const spans = [];
    for (const { 0: word, index } of line.matchAll(PATTERNS.otherScript)) {
      if (![...word.normalize("NFC")].every((letter) => this.#isForeign(letter))) continue;
      const end = index + word.length;
      const last = spans.at(-1);
      const start = last && line.slice(last.end, index) === " " ? spans.pop().start : index;
      spans.push({ start, end, kind: "foreign", text: line.slice(start, end) });
    }
    const others = spans.reduceRight((text, { start, end }) => text.slice(0, start) + text.slice(end), line);
    return hasLetters(others) ? spans : []; // a line without other words is of another language
  }

  /** Return whether a letter is unknown, and so are the usual ones of its script. */
  #isForeign(letter) {
    if (!this.#foreignLetters.has(letter)) {
      const [, , usual = ""] = SCRIPTS.find(([first, last]) => first <= letter && letter <= last) ?? [];
      this.#foreignLetters.set(letter, ![letter, ...usual].some((one) => this.#isKnown(one)));
    }
    return this.#foreignLetters.get(letter);
  }

  #isKnown(letter) {
    return this.encode(letter).length <= 2; // one token, or two with that of the space before the word
  }

  /** Return a word in the letters that make the fewest tokens; a name by the rules of most languages if that takes two less. */
  #known(word) {
    const before = this.#knownWords.get(word);
    if (before !== undefined) return before;
    const small = this.source.lower(word);
    const spellings = isUpper(word) ? this.source.spellings(word) : [small];
    let known = this.#fewestTokens(spellings, this.source, word);
    const smallName = PLAIN.lower(word);
    if (smallName !== small) {
      const name = this.#fewestTokens([smallName], PLAIN, word);
      if (this.encode(name).length + 1 < this.encode(known).length) known = name;
    }
    if (this.#knownWords.size >= MOST_KNOWN) this.#knownWords.clear();
    if (lengthOf(word) <= LONGEST_WORD) this.#knownWords.set(word, known);
    return known;
  }

  /** Return the form of the fewest tokens; of those with as many, the one of the most frequent. */
  #fewestTokens(spellings, rules, word) {
    const forms = distinct([...spellings, ...spellings.map((form) => rules.initial(form)), word]);
    let best;
    for (const form of forms) {
      const ids = this.encode(form);
      const isRanked = ids.length === 1 || spellings.length > 1;
      const rank = isRanked ? ids.reduce((sum, id) => sum + Math.log(1 + id), 0) : 0;
      if (!best || ids.length < best.count || (ids.length === best.count && rank < best.rank)) best = { form, count: ids.length, rank };
    }
    return best.form;
  }
}

const SPECIAL = /^<(?:0x[0-9A-F]{2}|\/?s|unk)>$/;

/** Return the tokens of a translation as `restore` writes them together: a letter may depend on its word. */
export function restoredTokens(tokens, restore) {
  const text = restore(tokens.join("")), isSame = text.length === tokens.join("").length; // else a letter has become two
  let end = 0;
  return tokens.map((token) => {
    const own = isSame ? text.slice(end, (end += token.length)) : restore(token);
    return SPECIAL.test(token) ? token : own; // bytes and the end of sentence
  });
}
