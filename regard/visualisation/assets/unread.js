// Words of a source that its translation probably leaves out. regard/explain/unread_words.py does the same.
"use strict";
const unreadWords = (() => {
  const LEAST = 0.2; // attention of a word of the translation, from which on it reads a word of the source
  const isCased = (letter) => letter.toLowerCase() !== letter.toUpperCase();

  function isContent(word) { // by its letters
    const letters = word.match(/\p{L}/gu) ?? [];
    return letters.length >= (letters.some(isCased) ? 4 : 2);
  }

  /** Return the words of a text that no word of its translation reads, each with the text without it: a word is left out if the translation of that is the same. */
  function unattended(given, translation, hypothesis, alignment) {
    const words = given.trim().split(/\s+/), data = explanationData.explanation(translation, hypothesis, { alignment, languages: ["", ""] });
    if (!data || data.layers[0]?.role !== "cross" || words.length < 2 || words.length !== data.source.length) return [];
    const [number, head, shifted] = data.shown_head, layer = data.layers[number];
    const [H, R] = layer.shape, heads = head === null ? [...Array(H).keys()] : [head];
    const weight = (target, column) => {
      const rows = data.target_words.flatMap((word, t) => (word === target ? [Math.min(R - 1, t + Number(shifted))] : []));
      const sum = rows.reduce((total, r) => heads.reduce((part, h) => part + layer.get(h, r, column), total), 0);
      return sum / (rows.length * heads.length);
    };
    const isRead = (column) => data.target.some((_, target) => weight(target, column) >= LEAST);
    return words.flatMap((word, index) => (isContent(word) && !isRead(index) ? [{ index, text: words.filter((_, i) => i !== index).join(" ") }] : []));
  }

  return { unattended };
})();
