"""Search in both languages: English words are stemmed; Hangul is searched by pairs of syllables.

Korean words carry particles and stand in compounds: 어텐션은, 크로스어텐션. The index holds each
pair of neighbouring syllables (~어텐, ~텐션, ~션은) and each syllable (~층~). A query asks for all
pairs of its words, without their particles. With the sign before it a pair has three characters:
Sphinx lets a page lack terms of one or two.
"""

from __future__ import annotations

import re

from sphinx.search.en import SearchEnglish

WORD = re.compile(r"\d+(?:\.\d+)+|[가-힣]+|[^\W가-힣]+")
"""A number with its digits after the point, a word in Hangul, or another word."""

SPLIT_QUERY = """
function splitQuery(query) {
  const words = query.match(/\\d+(?:\\.\\d+)+|[가-힣]+|(?:(?![가-힣])[\\p{L}\\p{N}_])+/gu) ?? [];
  return words.flatMap((word) => {
    if (!/[가-힣]/.test(word)) return [word];
    if (word.length === 1) return ["~" + word + "~"];
    const longer = "이라는|라는|이란|란|처럼|마다|들|에서|에게|으로|부터|까지|보다";
    const stem = word.replace(new RegExp(`(?<=..)(?:${longer}|은|는|이|가|을|를|의|에|로|와|과|도|만)$`, "u"), "");
    return [...stem].slice(1).map((syllable, i) => "~" + stem[i] + syllable);
  });
}
"""


class SearchBothLanguages(SearchEnglish):
    """English search that also finds Korean words with particles and in compounds."""

    lang = "en"
    js_splitter_code = SPLIT_QUERY

    def word_filter(self, word: str) -> bool:
        """Tell whether a term is in the index: numbers, also with a point, are in search-data.js."""
        return super().word_filter(word.replace(".", ""))

    def split(self, input: str) -> list[str]:
        """Split a text into the terms of the index."""
        return [term for word in WORD.findall(input) for term in terms(word)]


def terms(word: str) -> list[str]:
    """Return the terms of the index for a word."""
    if not "가" <= word[0] <= "힣":
        return [word]
    return [f"~{syllable}~" for syllable in word] + [
        f"~{word[i : i + 2]}" for i in range(len(word) - 1)
    ]
