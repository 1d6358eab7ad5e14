"""Convert lines in capitals and in Title Case to the letters in which a model knows their words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from regard.common.lazy import lazy_pattern
from regard.data.letter_case import LONGEST_WORD, PLAIN, LetterCase, letter_case
from regard.data.spans import Span
from regard.data.text import nfc
from regard.text.mnemonics import Encode

TITLE_WORDS, TITLE_SHARE = 4, 0.75
"""Fewest words of a title, and smallest share of its words with a capital; other lines are names or
labels.
"""
LANGUAGE_CODE = lazy_pattern(r"\s*>>([\w-]+)<<\s*")
"""Code of the target language, which begins a line for a model with several target languages."""
_WORD = lazy_pattern(
    "[^\\W\\d_]+(?:(?:['’](?=[^\\W\\d_])|[\u0300-\u036f]+)[^\\W\\d_]*)*"
)
_START = lazy_pattern(
    r"(\A[\W\d_]*?|[.!?…][^\w\s]{0,4}\s{1,4}[^\w\s]{0,4}?)"
    "(['’]?[^\\W\\d_](?:[^\\W\\d_]|[\u0300-\u036f])*(?:[\\s-]+\\w+)?)"
)
"""The first word of a sentence and the next one, with the text before them."""
_SPECIAL = lazy_pattern("<(?:0x[0-9A-F]{2}|/?s|unk)>")
_OTHER_SCRIPT = lazy_pattern(
    "[\u0370-\u1fff\u2c00-\u2fff\u3040-\ud7ff\uf900-\ufdff\ufe70-\ufefe"
    "\U00010000-\U0001efff\U00020000-\U0003ffff]+"
)
"""Letters and signs of a word in another script than the Latin one."""
SCRIPTS = (
    ("\u0370", "\u03ff", "αο"),
    ("\u0400", "\u052f", "ао"),
    ("\u0590", "\u05ff", "הי"),
    ("\u0600", "\u06ff", "ال"),
    ("\u0900", "\u097f", "कर"),
    ("\u0e00", "\u0e7f", "าน"),
    ("\u3040", "\u30ff", "のン"),
    ("\u3400", "\u9fff", "的一人"),
    ("\uac00", "\ud7a3", "이다는"),
)
"""First and last letter of scripts, and frequent letters, which a model of such text knows."""
_CACHED = 10_000
"""Maximum number of words in the cache of known spellings."""


def split_language_code(line: str) -> tuple[str, str]:
    """Return the code of the target language at the beginning of a line, with the space after it,
    and the rest of the line.
    """
    match = LANGUAGE_CODE.match(line)
    end = match.end() if match else 0
    return line[:end], line[end:]


class KnownCase(NamedTuple):
    """A line in known letters, with the case rules of both languages.

    `is_capital`: its translation is to be written in capitals.
    """

    line: str
    is_capital: bool = False
    source: LetterCase = PLAIN
    target: LetterCase = PLAIN

    def restore(self, text: str) -> str:
        """Return a translation in capitals if the line was in capitals."""
        return self.target.upper(text) if self.is_capital else text

    def restore_tokens(self, tokens: Sequence[str]) -> list[str]:
        """Restore the tokens of a translation as one text, since the case of a letter may depend on
        its word.
        """
        text = self.restore("".join(tokens))
        ends = [*accumulate(map(len, tokens), initial=0)]
        if len(text) == ends[-1]:
            restored = [text[start:end] for start, end in pairwise(ends)]
        else:  # a letter has become two, such as ß
            restored = [*map(self.restore, tokens)]
        return _with_special(tokens, restored)

    def restore_source(self, text: str) -> str:
        """Return a part of the source in capitals if the line was in capitals."""
        return self.source.upper(text) if self.is_capital else text

    def restore_source_tokens(self, tokens: Sequence[str]) -> list[str]:
        """Return source tokens in capitals if the line was in capitals."""
        return _with_special(tokens, [*map(self.restore_source, tokens)])


def _with_special(tokens: Sequence[str], restored: Sequence[str]) -> list[str]:
    """Return the restored tokens, with special tokens such as bytes unchanged."""
    return [
        token if _SPECIAL.fullmatch(token) else new_token
        for token, new_token in zip(tokens, restored, strict=True)
    ]


def _has_letters_outside(line: str, spans: Sequence[Span]) -> bool:
    for span in reversed(spans):
        line = line[: span.start] + line[span.end :]
    return any(map(str.isalpha, line))


class CaseReader:
    """Converter of lines to known letters, by the case rules of the model's languages.

    A language that is unknown has the rules that most languages share.
    """

    def __init__(self, languages: Sequence[str], encode: Encode) -> None:
        self.encode = encode
        self.languages = languages
        self._known_words = dict[str, str]()
        # Characters that are no letters of other scripts, and letters of known ones.
        self._readable = set(map(chr, range(0x250)))

    @cached_property
    def source(self) -> LetterCase:
        """Case rules of the source language."""
        return letter_case(self.languages[0])

    @cached_property
    def target(self) -> LetterCase:
        """Case rules of the target language."""
        return letter_case(self.languages[1])

    def foreign_words(self, line: str) -> list[Span]:
        """Return the words, joined by spaces, in letters of which the model knows none; none if
        the line has no other words, since then it is of another language.

        Latin and most accents are not looked at. A letter is unknown if it is read as its bytes.
        """
        if self._readable.issuperset(line):
            return []
        new = set(nfc(line)).difference(self._readable)
        self._readable.update(letter for letter in new if not self._is_foreign(letter))
        spans = list[Span]()
        for match in _OTHER_SCRIPT.finditer(line):
            if not self._readable.isdisjoint(nfc(match[0])):
                continue
            start, end = match.span()
            if spans and line[spans[-1].end : start] == " ":
                start = spans.pop().start
            spans.append(Span(start, end, "foreign"))
        return spans if _has_letters_outside(line, spans) else []

    def _is_foreign(self, letter: str) -> bool:
        """Return whether a letter is unknown, and so are the usual ones of its script."""
        if not _OTHER_SCRIPT.match(letter):
            return False
        scripts = (usual for first, last, usual in SCRIPTS if first <= letter <= last)
        # Known letters take one token, or two with that of the space before the word.
        return all(len(self.encode(form)) > 2 for form in (letter, *next(scripts, "")))

    def read(self, line: str) -> KnownCase:
        """Convert each word of a line in capitals, or of a title, to known letters.

        Any other line is returned unchanged.
        """
        if line == line.lower():
            return KnownCase(line)
        code_match = LANGUAGE_CODE.match(line)
        code = code_match[0] if code_match else ""
        text = line[len(code) :]
        # A line in capitals may contain ß, as in STRAßE.
        is_upper = text.isupper() or ("ß" in text and text.replace("ß", "").isupper())
        if not is_upper and sum(map(str.isupper, text)) < TITLE_WORDS * TITLE_SHARE:
            return KnownCase(line)

        words = _WORD.findall(text)
        # Some scripts, such as 한글, have no capitals.
        is_cased = all(word.lower() != word.upper() for word in words)
        is_capital = is_cased and is_upper and any(len(word) > 1 for word in words)
        if not is_capital:
            capitalised = is_cased and sum(word[0].isupper() for word in words)
            if len(words) < TITLE_WORDS or capitalised < TITLE_SHARE * len(words):
                return KnownCase(line)

        text = nfc(text)
        known = _WORD.sub(lambda match: self._known(match[0]), text)
        known = _START.sub(
            lambda match: match[1] + self.source.initial(match[2]), known
        )
        target = letter_case(code_match[1]) if code_match else self.target
        is_changed = known != text
        return KnownCase(code + known, is_capital and is_changed, self.source, target)

    def _known(self, word: str) -> str:
        """Return the spelling of a word that takes the fewest tokens; among single tokens, the most
        frequent.

        The rules that most languages share are used for a name if this saves at least two tokens.
        """
        cached = self._known_words.get(word)
        if cached is not None:
            return cached
        lower = self.source.lower(word)
        spellings = self.source.spellings(word) if word.isupper() else [lower]
        known = self._fewest_tokens(spellings, self.source, word)
        lower_name = PLAIN.lower(word)
        if lower_name != lower:
            name = self._fewest_tokens([lower_name], PLAIN, word)
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
            rarity = 0.0
            if len(ids) == 1 or len(spellings) > 1:
                rarity = sum(math.log(1 + index) for index in ids)
            return len(ids), rarity

        return min(forms, key=cost)
