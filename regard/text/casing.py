"""Lines in capitals and in Title Case, which a model reads in the letters in which it knows their
words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from regard.common.lazy import lazy_pattern
from regard.data.letter_case import LONGEST_WORD, PLAIN, LetterCase, letter_case
from regard.data.text import nfc
from regard.text.mnemonics import Encode

TITLE_WORDS, TITLE_SHARE = 4, 0.75
"""Words of a line, and the share of them with a capital, from which on it is a title and no name or
label.
"""
LANGUAGE_CODE = lazy_pattern(r"\s*>>([\w-]+)<<")
"""Code of the target language, which a line for a model of many begins with."""
_WORD = lazy_pattern(
    "[^\\W\\d_]+(?:(?:['’](?=[^\\W\\d_])|[\u0300-\u036f]+)[^\\W\\d_]*)*"
)
_START = lazy_pattern(
    r"(\A[\W\d_]*?|[.!?…][^\w\s]{0,4}\s{1,4}[^\w\s]{0,4}?)"
    "(['’]?[^\\W\\d_](?:[^\\W\\d_]|[\u0300-\u036f])*(?:[\\s-]+\\w+)?)"
)
"""The first word of a sentence and the next one, with the text before them."""
_SPECIAL = lazy_pattern("<(?:0x[0-9A-F]{2}|/?s|unk)>")
_CACHED = 10_000
"""Most words whose known letters are kept."""


class KnownCase(NamedTuple):
    """A line in known letters, and whether its translation is to be in capitals, by the rules of
    both languages.
    """

    line: str
    is_capital: bool = False
    source: LetterCase = PLAIN
    target: LetterCase = PLAIN

    def restore(self, text: str) -> str:
        """Return what is translated in capitals, if the line was."""
        return self.target.upper(text) if self.is_capital else text

    def restore_tokens(self, tokens: Sequence[str]) -> list[str]:
        """Return the tokens of a translation as `restore` writes them together: a letter may depend
        on its word.
        """
        text = self.restore("".join(tokens))
        ends = [*accumulate(map(len, tokens), initial=0)]
        if len(text) == ends[-1]:
            restored = [text[start:end] for start, end in pairwise(ends)]
        else:  # a letter has become two
            restored = [*map(self.restore, tokens)]
        return _with_special(tokens, restored)

    def restore_source(self, text: str) -> str:
        """Return a part of the line in capitals, if the line was."""
        return self.source.upper(text) if self.is_capital else text

    def restore_source_tokens(self, tokens: Sequence[str]) -> list[str]:
        """Return tokens of the line in capitals, if the line was."""
        return _with_special(tokens, [*map(self.restore_source, tokens)])


def _with_special(tokens: Sequence[str], restored: Sequence[str]) -> list[str]:
    """Return restored tokens, but bytes and the end of sentence as they are."""
    return [
        token if _SPECIAL.fullmatch(token) else own
        for token, own in zip(tokens, restored, strict=True)
    ]


class CaseReader:
    """Reads lines for a model of these languages; those that are unknown have the rules of most."""

    def __init__(self, languages: Sequence[str], encode: Encode) -> None:
        self.encode = encode
        self._languages = languages
        self._known_words = dict[str, str]()

    @cached_property
    def source(self) -> LetterCase:
        """The rules of the source language."""
        return letter_case(self._languages[0])

    @cached_property
    def target(self) -> LetterCase:
        """The rules of the target language."""
        return letter_case(self._languages[1])

    def read(self, line: str) -> KnownCase:
        """Return a line of capitals, or a title, with each word in known letters; any other line as
        it is.
        """
        if line == line.lower():
            return KnownCase(line)
        code = match[0] if (match := LANGUAGE_CODE.match(line)) else ""
        rest = line[len(code) :]
        # STRAßE.
        is_upper = rest.isupper() or ("ß" in rest and rest.replace("ß", "").isupper())
        if not is_upper and sum(map(str.isupper, rest)) < TITLE_WORDS * TITLE_SHARE:
            return KnownCase(line)
        words = _WORD.findall(rest)
        # 한글 has no capitals.
        is_cased = all(word.lower() != word.upper() for word in words)
        is_capital = is_cased and is_upper and any(len(word) > 1 for word in words)
        capitalised = is_cased and sum(word[0].isupper() for word in words)
        if not is_capital and (
            len(words) < TITLE_WORDS or capitalised < TITLE_SHARE * len(words)
        ):
            return KnownCase(line)
        rest = nfc(rest)
        known = _WORD.sub(lambda match: self._known(match[0]), rest)
        known = _START.sub(
            lambda match: match[1] + self.source.initial(match[2]), known
        )
        target = letter_case(match[1]) if match else self.target
        return KnownCase(
            code + known, is_capital and known != rest, self.source, target
        )

    def _known(self, word: str) -> str:
        """Return a word in the letters that make the fewest tokens; of those with one, the most
        frequent.

        A name is read by the rules of most languages if that takes two tokens less.
        """
        if (known := self._known_words.get(word)) is not None:
            return known
        small = self.source.lower(word)
        spellings = self.source.spellings(word) if word.isupper() else [small]
        known = self._fewest_tokens(spellings, self.source, word)
        if (small_name := PLAIN.lower(word)) != small:
            name = self._fewest_tokens([small_name], PLAIN, word)
            if len(self.encode(name)) + 1 < len(self.encode(known)):
                known = name
        if len(self._known_words) >= _CACHED:
            self._known_words.clear()
        if len(word) <= LONGEST_WORD:
            self._known_words[word] = known
        return known

    def _fewest_tokens(
        self, spellings: Sequence[str], case: LetterCase, word: str
    ) -> str:
        forms = dict.fromkeys([*spellings, *map(case.initial, spellings), word])

        def cost(form: str) -> tuple[int, float]:
            ids = self.encode(form)
            is_ranked = len(ids) == 1 or len(spellings) > 1
            return len(ids), sum(
                math.log(1 + index) for index in ids
            ) if is_ranked else 0.0

        return min(forms, key=cost)
