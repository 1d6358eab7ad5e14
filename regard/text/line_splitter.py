"""Split lines into sentences; split sentences longer than any source in training at spaces or in
words.

Thai, Lao and Khmer have spaces between clauses and between sentences, with no mark that
distinguishes them. In these languages, a sentence longer than any source in training is split at
such spaces first. If the lines of the training data contain no such spaces, each is taken as the
end of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from regard.common.counting import counted
from regard.data.sentence_ends import clause_ends, sentence_ends

_UNSPLIT_FACTOR = 2
"""Largest length of a sentence that is translated unsplit, relative to the longest training
source.
"""
_WORD = re.compile(r" *[^ ]+ ?")


@dataclass(frozen=True)
class LineSplitter:
    """Splitter of lines of more than `longest` tokens, or of all lines if `each_sentence`.

    `length` counts the tokens of a text. `line_clauses` is the number of clauses that nearly all
    training lines stay within, None if unknown.
    """

    length: Callable[[str], int]
    longest: int
    each_sentence: bool = False
    line_clauses: int | None = None

    def split(self, line: str, notes: list[str]) -> list[str]:
        """Return the parts of a line, which together are the line. Notes on its sentences are added
        to `notes`.
        """
        if not self.each_sentence and self.length(line) <= self.longest:
            return [line]
        sentences = _split_at(line, sentence_ends(line))
        if not self.each_sentence:
            sentences = self._merge(sentences)
        elif self.line_clauses == 1:
            sentences = [
                clause
                for sentence in sentences
                for clause in _split_at(sentence, clause_ends(sentence))
            ]
        return [
            part
            for sentence in sentences
            for part in self._split_sentence(sentence, notes)
        ]

    def _merge(self, parts: Sequence[str]) -> list[str]:
        """Merge neighbouring parts as long as they have at most `longest` tokens together."""
        return self._cut("".join(parts), list(accumulate(map(len, parts))))

    def _cut(self, text: str, ends: Sequence[int]) -> list[str]:
        """Cut a text at some of the positions `ends`.

        Each part is as long as the limit allows, but reaches at least to the next end.
        """
        parts = list[str]()
        start = 0
        first = 0
        count = 1
        while first < len(ends):
            count = self._count_fitting(text, start, ends, first, count)
            end = ends[first + count - 1]
            parts.append(text[start:end])
            start = end
            first += count
        return parts

    def _count_fitting(
        self, text: str, start: int, ends: Sequence[int], first: int, guess: int
    ) -> int:
        """Count the ends, from number `first` on, that a part from `start` can include within the
        limit.

        The count is at least 1. The search gallops from a guess, so that it tokenises little more
        than the part itself.
        """

        def fits(count: int) -> bool:
            return self.length(text[start : ends[first + count - 1]]) <= self.longest

        fitting = 1
        exceeding = len(ends) - first + 1
        step = 1
        guess = min(guess, exceeding - 1)
        if guess > 1 and not fits(guess):
            exceeding = guess
            while exceeding - step > 1 and not fits(exceeding - step):
                exceeding -= step
                step *= 2
            fitting = max(1, exceeding - step)
        else:
            fitting = guess
            while fitting + step < exceeding and fits(fitting + step):
                fitting += step
                step *= 2
            exceeding = min(exceeding, fitting + step)
        while exceeding - fitting > 1:
            middle = (fitting + exceeding) // 2
            if fits(middle):
                fitting = middle
            else:
                exceeding = middle
        return fitting

    def _split_sentence(self, sentence: str, notes: list[str]) -> list[str]:
        """Split a sentence of more than `longest` tokens between clauses; add a note if it may be
        several.
        """
        clauses = _split_at(sentence, clause_ends(sentence))
        if len(clauses) == 1:
            return self._split_clause(sentence, notes)
        length = self.length(sentence)
        if length > self.longest:
            parts = self._merge(clauses)
            outcome = f"was split between clauses into {len(parts):,} parts"
            notes.append(self._too_long(sentence, length, outcome))
            return [
                part for clause in parts for part in self._split_clause(clause, notes)
            ]
        if (
            self.each_sentence
            and self.line_clauses is not None
            and len(clauses) > self.line_clauses
        ):
            message = (
                f"{len(clauses):,} clauses are more than lines in training have "
                f"({self.line_clauses:,}); they may be several sentences, and are translated as "
                "one"
            )
            notes.append(_note(message, sentence))
        return [sentence]

    def _split_clause(self, sentence: str, notes: list[str]) -> list[str]:
        """Split a clause at spaces if it is too long to translate unsplit; add a note if it is
        long.
        """
        length = self.length(sentence)
        if length <= self.longest:
            return [sentence]
        parts = [sentence]
        outcome = "is translated whole, but may come out badly"
        if length > _UNSPLIT_FACTOR * self.longest:
            words = [self._split_word(word) for word in _WORD.findall(sentence)]
            parts = self._merge([part for word in words for part in word])
            where = "at spaces"
            if any(len(word) > 1 for word in words):
                where = "at spaces and inside words"
            outcome = (
                f"was split {where} into {counted(len(parts), 'part')}, whose translations may not "
                "fit together"
            )
        notes.append(self._too_long(sentence, length, outcome))
        return parts

    def _too_long(self, sentence: str, length: int, outcome: str) -> str:
        return _note(
            f"a sentence of {length:,} tokens is longer than any in training ({self.longest:,}); "
            f"it {outcome}",
            sentence,
        )

    def _split_word(self, word: str) -> list[str]:
        """Split a word of more than `longest` tokens between characters, into the longest possible
        parts.
        """
        if self.length(word) <= self.longest:
            return [word]
        return self._cut(word, range(1, len(word) + 1))


def _note(message: str, sentence: str) -> str:
    return f"{message}: {sentence[:40].rstrip()}…"


def _split_at(text: str, ends: Iterable[int]) -> list[str]:
    """Split a text at each end, or after the space that follows it."""
    stops = [end + (text[end : end + 1] == " ") for end in ends]
    starts = [0, *stops]
    return [
        text[start:stop]
        for start, stop in zip(starts, [*stops, len(text)], strict=True)
        if start < stop
    ]
