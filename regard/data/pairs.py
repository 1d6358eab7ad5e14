"""Sentence pairs, and the report on how a corpus of them was read and filtered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from regard.data.given_words import GivenWords, given_words
from regard.data.text import CUT, clean

CHUNK = 1 << 14
"""Pairs that are filtered, tokenised and written at once."""
_EXAMPLES = 5  # excerpts per reason
_NUMBERS = 20  # line numbers in one sentence

T = TypeVar("T")


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation, both cleaned, and their line number (counted from 1)."""

    source: str
    target: str
    line: int
    words: tuple[GivenWords, GivenWords] | None = field(
        default=None, compare=False, repr=False
    )
    """The words of both sides before cleaning, which word links refer to; None if they equal the
    words of the cleaned sides.
    """

    @classmethod
    def read(cls, source: str, target: str, line: int) -> Pair:
        """Clean both sides of a raw pair."""
        pair = cls(clean(source), clean(target), line)
        if (pair.source, pair.target) == (source, target):
            return pair
        words = given_words(source), given_words(target)
        if any(not side.is_clean or side.is_uneven for side in words):
            return replace(pair, words=words)
        return pair


@dataclass
class Dropped:
    """Lines that are unusable for one reason: their count, and the first of them."""

    count: int = 0
    lines: tuple[int, ...] = ()  # numbers of the first lines
    examples: tuple[tuple[int, str], ...] = ()  # line numbers with excerpts

    def add(self, line: int, pair: Pair | None = None) -> None:
        """Count a line, and keep an excerpt of its pair if there are few."""
        self.count += 1
        if len(self.lines) < _NUMBERS:
            self.lines += (line,)
        if pair is not None and len(self.examples) < _EXAMPLES:
            excerpt = f"{excerpt_of(pair.source)} ↔ {excerpt_of(pair.target)}"
            self.examples += ((line, excerpt),)


@dataclass(frozen=True)
class CorpusReport:
    """Report on reading and filtering one corpus."""

    name: str  # "train", "valid", "test", or the name of a corpus of the mix
    files: tuple[str, ...]
    read: int  # lines
    kept: int  # pairs
    # The keys are reasons: empty, too long, odd length ratio, duplicate.
    dropped: dict[str, Dropped] = field(default_factory=dict)
    duplicates: int = 0  # kept pairs that occurred before
    # Sentences on removed byte-order marks and CRs, and on the format of the pairs.
    notes: tuple[str, ...] = ()
    other_lines: int = 0  # lines among `read` that are `SKIPPED`

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        read = self.read - self.other_lines
        count = f"{read:,} pair{'s' if read != 1 else ''}"
        lines = [
            f"{self.name}: {count} read from {' and '.join(self.files)}, {self.kept:,} kept"
        ]
        for reason, dropped in self.dropped.items():
            lines.append(
                f"  dropped, {reason}: "
                f"{dropped.count:,}{format_lines(dropped.lines, dropped.count)}"
            )
            lines += [
                f"    line {line}: {excerpt}" for line, excerpt in dropped.examples
            ]
        if self.duplicates:
            lines.append(
                f"  duplicates kept: {self.duplicates:,} (drop_duplicates = true leaves them out "
                "of training)"
            )
        return lines + [f"  {note}" for note in self.notes]


def chunks(items: Iterable[T], size: int | None = None) -> Iterator[list[T]]:
    """Yield the items in lists of `CHUNK`, or of another size, the last one shorter."""
    remaining = iter(items)
    while chunk := list(islice(remaining, size or CHUNK)):
        yield chunk


def format_lines(lines: Sequence[int], count: int | None = None) -> str:
    """Format the first line numbers in brackets.

    `count` is the number of all lines if `lines` holds only the first.
    """
    if not lines:
        return ""
    total = len(lines) if count is None else count
    shown = ", ".join(map(str, lines[:_NUMBERS]))
    return f" ({'line' if total == 1 else 'lines'} {shown}{' …' if total > _NUMBERS else ''})"


def excerpt_of(text: str, room: int = 28) -> str:
    if text == CUT:
        return "(not read)"
    if not text:
        return "(empty)"
    return text if len(text) <= room else f"{text[: room - 1]}…"
