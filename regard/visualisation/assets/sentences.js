// Sentences of a paragraph, by the rules of regard.data.sentence_ends, whose tables come with the page.
const sentenceRules = (tables) => {
  const words = Object.fromEntries(Object.entries(tables.words).map(([name, list]) => [name, new Set(list)]));
  const { window: WINDOW, sets, patterns } = tables;
  const compiled = (name, flags = "u") => new RegExp(patterns[name], flags);
  const candidates = compiled("sentence_end", "gu"), cjk = compiled("cjk"), georgian = compiled("georgian"), thai = compiled("thai_abbreviation");
  const number = /^[^\p{L}\p{N}_]*(?:\p{Nd}{1,4}|[\p{L}\p{No}\p{Nl}]|[ivxlcIVXLC]{1,4})(?:[.)]\p{Nd}{1,3})*$/u;
  const months = compiled("months", "uy"), wordLetters = /^[\p{L}\p{No}\p{Nl}]*/u;

  const strip = (text, openers) => {
    let start = 0;
    while (start < text.length && openers.includes(text[start])) start++;
    return text.slice(start);
  };
  const lastWord = (before) => strip(before.trimEnd().match(/[^\s۔]*$/u)[0], sets.before_words);
  const consistsOf = (word, set) => [...word].every((letter) => set.includes(letter));

  function isAbbreviation(text, start, { stop, end, next }) {
    const word = lastWord(text.slice(Math.max(start, stop - WINDOW), stop)), folded = word.toLowerCase();
    if ([...word].length === 1 && /\p{L}/u.test(word) && !cjk.test(word)) return true;
    if (words.never_last.has(folded) || thai.test(word)) return true;
    const isDecimal = /^\p{Nd}+$/u.test(word);
    if (/\p{Nd}/u.test(next) && (isDecimal || words.before_numbers.has(folded) || words.before_small.has(folded))) return true;
    months.lastIndex = end;
    if (isDecimal && word.length < 3 && months.test(text)) return true;
    return /^(?:[\p{L}\p{No}\p{Nl}]\.)+[\p{L}\p{No}\p{Nl}]$/u.test(word) || (stop - start <= WINDOW && number.test(text.slice(start, stop)));
  }

  function endsBeforeSmallLetter(text, start, candidate) {
    const { marks, closers, stop, following } = candidate;
    const word = lastWord(text.slice(Math.max(start, stop - WINDOW), stop)), folded = word.toLowerCase();
    if (marks !== ".") return !closers && !(";\u037e".includes(marks[0]) && word.length === 1) && !consistsOf(marks, sets.quiet);
    if (isAbbreviation(text, start, candidate) || words.before_small.has(folded) || consistsOf(folded, sets.consonants)) return false;
    if (/^\p{L}{1,11}?[A-Z]/u.test(text.slice(following, following + WINDOW))) return true; // iPhone
    const goesOn = words.before_numbers.has(folded) || word.includes(".") || /\p{Nd}/u.test(word) || /^[IVXLC]+$/.test(word)
      || (/\p{Lowercase}$/u.test(word) && [...word].length < tables.shortest);
    return !closers && !"([{".includes(text[following - 1]) && !goesOn;
  }

  function isGluedEnd(text, start, { glued, quote, after, stop, end }) {
    const last = [...glued].pop(), before = text.slice(Math.max(start, stop - WINDOW), stop), following = text.slice(end, end + WINDOW);
    if (quote && after >= "\u3040" && after <= "\u309f") return false;
    if (sets.between_digits.includes(last) && /\p{Nd}$/u.test(before) && /^\p{Nd}/u.test(following)) return false;
    if (last === "۔" && words.urdu_letters.has(lastWord(before))) return !words.urdu_letters.has(following.match(wordLetters)[0]);
    if (sets.tibetan.includes(last)) {
      const syllable = before.replace(/[ ་༌།]+$/u, "").split(/[་༌\s།]/u).pop();
      return !words.tibetan_connectives.has(syllable) && !syllable.endsWith(sets.tibetan_genitive);
    }
    return !(last === "។" && tables.words.khmer_etc.some((etc) => following.startsWith(etc)));
  }

  function isEnd(text, start, match) {
    const stop = match.index, end = stop + match[0].length, { glued, quote, after, marks, closers, next } = match.groups;
    if (glued) return isGluedEnd(text, start, { glued, quote, after, stop, end });
    if (!next) return true;
    let following = end;
    while (/\s/u.test(text[following])) following++;
    while (sets.openers.includes(text[following])) following++;
    const candidate = { marks, closers, next, stop, end, following };
    if (/\p{Lowercase}/u.test(next) && !georgian.test(next)) return endsBeforeSmallLetter(text, start, candidate);
    return marks !== "." || !isAbbreviation(text, start, candidate);
  }

  return (paragraph) => { // the sentences, without the white space around them
    const sentences = [];
    let start = 0;
    for (const match of paragraph.matchAll(candidates)) {
      if (!isEnd(paragraph, start, match)) continue;
      const end = match.index + match[0].length;
      sentences.push(paragraph.slice(start, end).trim());
      start = end;
    }
    return [...sentences, paragraph.slice(start).trim()].filter(Boolean);
  };
};
