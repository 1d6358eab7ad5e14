"""Word alignments in Pharaoh format (0-0 1-2): read, checked against the words, and mapped to
subword tokens.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.given_words import GivenWords, given_words, to_clean
from regard.data.pair_filters import Pair, format_lines
from regard.data.text import CUT, MAX_LINE, LineReader, too_long
from regard.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    from regard.data.tokenizer import Tokenizer

Link = tuple[int, int]  # source word, target word
FlatLinks: TypeAlias = "array[int]"
"""Source, target, source, target …: compact, as there is one per training pair."""
_PAIR = re.compile(r"(\d+)([-p?])(\d+)", re.ASCII)
UNEVEN = "leading or doubled spaces, or tabs, between which links count no words"
_SHOWN = 5  # wrong lines that are reported one by one


def format_pharaoh(links: Iterable[Link]) -> str:
    """Format links in Pharaoh format: `source-target` pairs, counted from 0."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def read_gold(line: str) -> tuple[frozenset[Link], frozenset[Link]]:
    """Parse a line in Pharaoh format such as `0-0 1p2`: the sure links, and all; `p` or `?` marks a
    possible link.

    Raises ValueError for anything else.
    """
    links: dict[str, set[Link]] = {"-": set(), "p": set(), "?": set()}
    for pair in line.split():
        match = _PAIR.fullmatch(pair)
        if not match:
            raise ValueError(
                f"wanted pairs such as 0-0, or 0p0 for a merely possible link; got {pair!r}"
            )
        links[match[2]].add((int(match[1]), int(match[3])))
    return frozenset(links["-"]), frozenset().union(*links.values())


@dataclass(frozen=True)
class WordLinks:
    """The word alignments of the pairs of a corpus, in their order."""

    rows: tuple[FlatLinks, ...]
    report: str

    def __getitem__(self, index: int) -> FlatLinks:
        return self.rows[index]


def read_word_links(
    path: str, pairs: Iterable[Pair], lines: int, name: str, max_line: int = MAX_LINE
) -> WordLinks:
    """Read the alignments of these pairs of corpus `name` from a file with one line for each of its
    `lines`.

    They count the words of the pairs as they were given; those that are returned count words of
    clean pairs. A word with a sure link keeps only sure ones, any other its possible ones. Raises
    DataError with all causes.
    """
    reader = LineReader(path, max_line, skip_long=True)
    wrong: list[tuple[int, str]] = []
    pair_of = {pair.line: pair for pair in pairs}
    rows: dict[int, FlatLinks] = {}
    uneven = 0
    for number, line in enumerate(reader, 1):
        try:
            if line == CUT:
                if number in pair_of:
                    raise ValueError(too_long(max_line))
                continue
            sure, possible = read_gold(line)
            linked = {target for _, target in sure}
            links = sorted(sure | {link for link in possible if link[1] not in linked})
            if pair := pair_of.get(number):
                words = pair.words or (
                    given_words(pair.source),
                    given_words(pair.target),
                )
                check_links(links, *words)
                uneven += any(side.is_uneven for side in words)
                rows[number] = array(
                    "i", (word for link in to_clean(links, *words) for word in link)
                )
        except ValueError as problem:
            wrong.append((number, str(problem)))
    DataError.raise_all(
        [
            *reader.causes,
            *_describe_wrong(path, wrong),
            *_check_count(path, reader, lines, name),
        ]
    )
    ordered = tuple(rows[pair.line] for pair in pairs)
    total = sum(map(len, ordered)) // 2
    without = sum(not row for row in ordered)
    note = f"; {counted(without, 'pair has', 'pairs have')} none" if without else ""
    note += f"; {counted(uneven, 'pair has', 'pairs have')} {UNEVEN}" if uneven else ""
    return WordLinks(ordered, f"{name}: {total:,} word links read from {path}{note}")


def token_links(
    links: Iterable[FlatLinks],
    sources: Iterable[Sequence[int]],
    targets: Iterable[Sequence[int]],
    tokenizer: Tokenizer,
) -> Iterator[FlatLinks]:
    """Map links between words to links between tokens: each token of one word with each token of
    the other.
    """
    for words, source, target in zip(links, sources, targets, strict=True):
        left = _token_positions(tokenizer.source, source)
        right = _token_positions(tokenizer.target, target)
        pairs = zip(words[::2], words[1::2], strict=True)
        yield array(
            "i",
            (
                token
                for s, t in pairs
                for i in left.get(s, ())
                for j in right.get(t, ())
                for token in (i, j)
            ),
        )


def _token_positions(
    vocabulary: Vocabulary, ids: Sequence[int]
) -> dict[int, list[int]]:
    """Return the positions of the tokens of each word."""
    positions: dict[int, list[int]] = {}
    for position, word in enumerate(vocabulary.word_indices(vocabulary.tokens(ids))):
        positions.setdefault(word, []).append(position)
    return positions


def check_links(links: Iterable[Link], source: GivenWords, target: GivenWords) -> None:
    """Raise ValueError if a link names a word that does not exist."""
    for link in links:
        for word, words, side in zip(
            link, (source, target), ("source", "target"), strict=True
        ):
            if word >= words.total:
                numbers = (
                    f"{counted(words.total, 'word')}, 0 to {words.total - 1}"
                    if words.total
                    else "no words"
                )
                raise ValueError(
                    f"{link[0]}-{link[1]} names {side} word {word}, and the {side} has {numbers}"
                )


def _describe_wrong(path: str, wrong: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Yield a sentence for each of the first wrong lines, and one for the others."""
    yield from (
        f"{path}, line {number}: {problem}" for number, problem in wrong[:_SHOWN]
    )
    if rest := [number for number, _ in wrong[_SHOWN:]]:
        yield f"{path}: {len(rest):,} more such lines{format_lines(rest)}"


def _check_count(path: str, reader: LineReader, lines: int, name: str) -> Iterator[str]:
    if not reader.causes and reader.count != lines:
        yield (
            f"{path} has {counted(reader.count, 'line')} but {name} has {counted(lines, 'pair')}; "
            f"line n must link the words of pair n "
            "(an empty line if none are linked)"
        )
