"""Split lines into sentences, and what is longer than any source in training at spaces, or inside
words.

Thai, Lao and Khmer have spaces between clauses and sentences alike, and no mark tells which. What
is longer than any source in training is split there first. If lines of the training data have no
such spaces, every one parts sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from regard.common.counting import counted
from regard.data.sentence_ends import clause_ends, sentence_ends

_WHOLE = 2
"""A sentence up to this many times longer than the longest source in training is still translated
whole.
"""
_WORD = re.compile(r" *[^ ]+ ?")


@dataclass(frozen=True)
class LineSplitter:
    """Splits lines of more than `longest` tokens, or with `each_sentence` all; `length` counts the
    tokens of a text.

    `line_clauses`: how many clauses nearly all lines in training have at most; None: it is unknown.
    """

    length: Callable[[str], int]
    longest: int
    each_sentence: bool = False
    line_clauses: int | None = None

    def split(self, line: str, notes: list[str]) -> list[str]:
        """Return the parts of a line; concatenated, they are the line. Notes on sentences are added
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
        """Merge neighbours as long as they have at most `longest` tokens together."""
        return self._cut("".join(parts), list(accumulate(map(len, parts))))

    def _cut(self, text: str, ends: Sequence[int]) -> list[str]:
        """Cut a text at some of the positions `ends`, each part as long as it can be, but up to one
        end at least.
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
            first = first + count
        return parts

    def _count_fitting(
        self, text: str, start: int, ends: Sequence[int], first: int, guess: int
    ) -> int:
        """Count the ends, from number `first` on, up to which a part from `start` has at most
        `longest` tokens.

        One always counts. The search gallops from a guess, so that it tokenises little more than
        the part itself.
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
                exceeding = exceeding - step
                step = 2 * step
            fitting = max(1, exceeding - step)
        else:
            fitting = guess
            while fitting + step < exceeding and fits(fitting + step):
                fitting = fitting + step
                step = 2 * step
            exceeding = min(exceeding, fitting + step)
        while exceeding - fitting > 1:
            middle = (fitting + exceeding) // 2
            fitting, exceeding = (
                (middle, exceeding) if fits(middle) else (fitting, middle)
            )
        return fitting

    def _split_sentence(self, sentence: str, notes: list[str]) -> list[str]:
        """Split a sentence of more than `longest` tokens between clauses; note one that may be
        several.
        """
        clauses = _split_at(sentence, clause_ends(sentence))
        if len(clauses) == 1:
            return self._split_clause(sentence, notes)
        length = self.length(sentence)
        if length > self.longest:
            parts = self._merge(clauses)
            outcome = f"was split between clauses into {len(parts):,} parts"
            notes.append(_note(self._too_long(length, outcome), sentence))
            return [
                part for clause in parts for part in self._split_clause(clause, notes)
            ]
        if (
            self.each_sentence
            and self.line_clauses is not None
            and len(clauses) > self.line_clauses
        ):
            many = (
                f"{len(clauses):,} clauses are more than lines in training have "
                f"({self.line_clauses:,})"
            )
            notes.append(
                _note(
                    f"{many}; they may be several sentences, and are translated as one",
                    sentence,
                )
            )
        return [sentence]

    def _split_clause(self, sentence: str, notes: list[str]) -> list[str]:
        """Leave a sentence whole up to `_WHOLE` times `longest` tokens, else split it at spaces;
        note if it is long.
        """
        length = self.length(sentence)
        if length <= self.longest:
            return [sentence]
        parts = [sentence]
        outcome = "is translated whole, but may come out badly"
        if length > _WHOLE * self.longest:
            words = [self._split_word(word) for word in _WORD.findall(sentence)]
            parts = self._merge([part for word in words for part in word])
            where = (
                "at spaces"
                if all(len(word) == 1 for word in words)
                else "at spaces and inside words"
            )
            outcome = (
                f"was split {where} into {counted(len(parts), 'part')}, whose translations may not "
                "fit together"
            )
        notes.append(_note(self._too_long(length, outcome), sentence))
        return parts

    def _too_long(self, length: int, outcome: str) -> str:
        return (
            f"a sentence of {length:,} tokens is longer than any in training ({self.longest:,}); "
            f"it {outcome}"
        )

    def _split_word(self, word: str) -> list[str]:
        """Split a word of more than `longest` tokens between characters, each part as long as it
        can be.
        """
        return (
            [word]
            if self.length(word) <= self.longest
            else self._cut(word, range(1, len(word) + 1))
        )


def _note(message: str, sentence: str) -> str:
    return f"{message}: {sentence[:40].rstrip()}…"


def _split_at(text: str, ends: Iterable[int]) -> list[str]:
    """Split a text after the space behind each end, leaving nothing out."""
    stops = [end + (text[end : end + 1] == " ") for end in ends]
    starts = [0, *stops]
    return [
        text[start:stop]
        for start, stop in zip(starts, [*stops, len(text)], strict=True)
        if start < stop
    ]
