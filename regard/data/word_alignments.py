"""Links between words: read and written as alignment tools do, checked against the words, and taken to their pieces."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from regard.data.pairs import Pair, format_lines
from regard.data.text import LineReader
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import Vocabulary
from regard.errors import DataError

__all__ = ["Link", "WordLinks", "format_pharaoh", "read_gold", "read_pharaoh", "read_word_links", "token_links"]

Link = tuple[int, int]  # source word, target word
Flat: TypeAlias = "array[int]"  # source, target, source, target …: small, for there is one for each training pair
_PAIR = re.compile(r"(\d+)([-p?])(\d+)", re.ASCII)
_SHOWN = 5  # wrong lines that are told one by one


def format_pharaoh(links: Iterable[Link]) -> str:
    """Links as `source-target` pairs, counted from 0, as alignment tools write them."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def read_pharaoh(line: str) -> frozenset[Link]:
    """The links of a line such as `0-0 1-2`. Raises ValueError for anything else."""
    sure, possible = read_gold(line)
    if sure != possible:
        raise ValueError(f"wanted pairs such as 0-0, got {line!r}")
    return sure


def read_gold(line: str) -> tuple[frozenset[Link], frozenset[Link]]:
    """The sure links of a line such as `0-0 1p2`, and all of them: `p` or `?` for `-` makes a link merely possible."""
    links: dict[str, set[Link]] = {"-": set(), "p": set(), "?": set()}
    for pair in line.split():
        found = _PAIR.fullmatch(pair)
        if not found:
            raise ValueError(f"wanted pairs such as 0-0, or 0p0 where a link is merely possible; got {pair!r}")
        links[found[2]].add((int(found[1]), int(found[3])))
    return frozenset(links["-"]), frozenset().union(*links.values())


@dataclass(frozen=True)
class WordLinks:
    """The links of the pairs of a corpus, in their order."""

    rows: tuple[Flat, ...]
    report: str

    def __getitem__(self, place: int) -> Flat:
        return self.rows[place]


def read_word_links(path: str, pairs: Sequence[Pair], lines: int, where: str) -> WordLinks:
    """The links of these pairs out of a file that has a line for each of `lines`, those that were left out too.

    A word with a sure link has only sure ones, any other those that are possible. Raises DataError with all causes.
    """
    reader = LineReader(path)
    wrong: list[tuple[int, str]] = []
    wanted = {pair.line: place for place, pair in enumerate(pairs)}
    found: dict[int, Flat] = {}
    for number, line in enumerate(reader, 1):
        try:
            links = _for_training(*read_gold(line))
            if number in wanted:
                pair = pairs[wanted[number]]
                check_links(links, pair.source, pair.target)
                found[number] = array("i", (word for link in links for word in link))
        except ValueError as problem:
            wrong.append((number, str(problem)))
    if causes := [*reader.causes, *_told(path, wrong), *_uneven(path, reader, lines, where)]:
        raise DataError(*causes)
    rows = [found[pair.line] for pair in pairs]
    total, without = sum(map(len, rows)) // 2, sum(not row for row in rows)
    lack = f"; {without:,} pairs have none" if without else ""
    return WordLinks(tuple(rows), f"{where}: {total:,} word links read from {path}{lack}")


def token_links(
    links: Iterable[Flat], sources: Iterable[Sequence[int]], targets: Iterable[Sequence[int]], tokenizer: Tokenizer
) -> Iterator[Flat]:
    """Links between words as links between pieces: each piece of one word with each piece of the other."""
    for words, source, target in zip(links, sources, targets, strict=True):
        left, right = _places(tokenizer.source, source), _places(tokenizer.target, target)
        pairs = zip(words[::2], words[1::2], strict=True)
        yield array(
            "i", (piece for s, t in pairs for i in left.get(s, ()) for j in right.get(t, ()) for piece in (i, j))
        )


def _places(vocabulary: Vocabulary, ids: Sequence[int]) -> dict[int, list[int]]:
    """Where the pieces of each word stand."""
    places: dict[int, list[int]] = {}
    for place, word in enumerate(vocabulary.word_indices(vocabulary.tokens(ids))):
        places.setdefault(word, []).append(place)
    return places


def _for_training(sure: frozenset[Link], possible: frozenset[Link]) -> list[Link]:
    certain = {target for _, target in sure}
    return sorted(sure | {link for link in possible if link[1] not in certain})


def check_links(links: Iterable[Link], source: str, target: str) -> None:
    """Raise ValueError where a link names a word that is not there."""
    counts = len(source.split(" ")), len(target.split(" "))
    for link in links:
        for word, count, side in zip(link, counts, ("source", "target"), strict=True):
            if word >= count:
                raise ValueError(
                    f"{link[0]}-{link[1]} names {side} word {word}, and the {side} has {count} words, 0 to {count - 1}"
                )


def _told(path: str, wrong: Sequence[tuple[int, str]]) -> Iterator[str]:
    """A sentence for each of the first wrong lines, and one for the others."""
    yield from (f"{path}, line {number}: {problem}" for number, problem in wrong[:_SHOWN])
    if rest := [number for number, _ in wrong[_SHOWN:]]:
        yield f"{path}: {len(rest):,} more such lines{format_lines(rest)}"


def _uneven(path: str, reader: LineReader, lines: int, where: str) -> Iterator[str]:
    if not reader.causes and reader.count != lines:
        yield (
            f"{path} has {reader.count:,} lines but {where} has {lines:,} pairs; line n must link the words of pair n "
            "(an empty line where none are linked)"
        )
