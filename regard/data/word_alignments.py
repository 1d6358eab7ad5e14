"""Word alignments in Pharaoh format (0-0 1-2): read them, check them against the words of a corpus,
and map them to subword tokens.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.given_words import GivenWords, given_words, to_clean
from regard.data.pairs import Pair, format_lines
from regard.data.text import CUT, MAX_LINE, LineReader, too_long
from regard.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    from regard.data.tokenizer import Tokenizer

Link = tuple[int, int]  # source word, target word
FlatLinks: TypeAlias = "array[int]"
"""Links as a flat array (source, target, source, target …), which is compact, since each training
pair has one.
"""
_PAIR = re.compile(r"(\d+)([-p?])(\d+)", re.ASCII)
UNEVEN = "leading or doubled spaces, or tabs, between which links count no words"
_SHOWN = 5  # malformed lines that are reported one by one


def format_pharaoh(links: Iterable[Link]) -> str:
    """Format links in Pharaoh format: `source-target` pairs, counted from 0."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def read_gold(line: str) -> tuple[frozenset[Link], frozenset[Link]]:
    """Parse a line in Pharaoh format such as `0-0 1p2`; return the sure links, and all links.

    `p` or `?` marks a possible link. Raises ValueError for anything else.
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
    """The word alignments of a corpus, one for each of its pairs."""

    rows: tuple[FlatLinks, ...]
    report: str

    def __getitem__(self, index: int) -> FlatLinks:
        return self.rows[index]


def read_word_links(
    path: str, pairs: Iterable[Pair], lines: int, name: str, max_line: int = MAX_LINE
) -> WordLinks:
    """Read the word alignments of `pairs` of corpus `name` from a file that has one line for each
    of the corpus's `lines`.

    The links of the file count the words before cleaning; the returned links count the words of the
    cleaned pairs. Possible links of a target word are used if it has no sure link. Raises DataError
    with all causes.
    """
    reader = LineReader(path, max_line, skip_long=True)
    pairs_by_line = {pair.line: pair for pair in pairs}
    rows: dict[int, FlatLinks] = {}
    problems: list[tuple[int, str]] = []
    uneven = 0
    for number, line in enumerate(reader, 1):
        pair = pairs_by_line.get(number)
        try:
            if line == CUT:
                if pair is not None:
                    raise ValueError(too_long(max_line))
                continue
            links = _read_links(line)
            if pair is not None:
                source, target = pair.words or (
                    given_words(pair.source),
                    given_words(pair.target),
                )
                check_links(links, source, target)
                uneven += source.is_uneven or target.is_uneven
                clean_links = to_clean(links, source, target)
                rows[number] = array("i", chain.from_iterable(clean_links))
        except ValueError as problem:
            problems.append((number, str(problem)))

    causes = list(reader.causes)
    causes += _describe_problems(path, problems)
    causes += _check_count(path, reader, lines, name)
    DataError.raise_all(causes)
    ordered = tuple(rows[pair.line] for pair in pairs)
    total = sum(map(len, ordered)) // 2
    report = f"{name}: {total:,} word links read from {path}"
    unlinked = sum(not row for row in ordered)
    if unlinked:
        report += f"; {counted(unlinked, 'pair has', 'pairs have')} none"
    if uneven:
        report += f"; {counted(uneven, 'pair has', 'pairs have')} {UNEVEN}"
    return WordLinks(ordered, report)


def _read_links(line: str) -> list[Link]:
    """Parse the sure links of a line, and the possible links of target words without a sure one."""
    sure, links = read_gold(line)
    linked = {target for _, target in sure}
    return sorted(sure | {link for link in links if link[1] not in linked})


def token_links(
    links: Iterable[FlatLinks],
    sources: Iterable[Sequence[int]],
    targets: Iterable[Sequence[int]],
    tokenizer: Tokenizer,
) -> Iterator[FlatLinks]:
    """Map links between words to links between tokens: each token of the source word is linked to
    each token of the target word.
    """
    for word_links, source, target in zip(links, sources, targets, strict=True):
        source_tokens = _token_positions(tokenizer.source, source)
        target_tokens = _token_positions(tokenizer.target, target)
        flat_links = array("i")
        for s, t in zip(word_links[::2], word_links[1::2], strict=True):
            for source_token in source_tokens.get(s, ()):
                for target_token in target_tokens.get(t, ()):
                    flat_links.append(source_token)
                    flat_links.append(target_token)
        yield flat_links


def _token_positions(
    vocabulary: Vocabulary, ids: Sequence[int]
) -> dict[int, list[int]]:
    """Return the positions of each word's tokens."""
    positions: dict[int, list[int]] = {}
    for position, word in enumerate(vocabulary.word_indices(vocabulary.tokens(ids))):
        positions.setdefault(word, []).append(position)
    return positions


def check_links(links: Iterable[Link], source: GivenWords, target: GivenWords) -> None:
    """Raise ValueError if a link names a word that does not exist."""
    for source_word, target_word in links:
        sides = (("source", source_word, source), ("target", target_word, target))
        for side, word, words in sides:
            if word >= words.total:
                numbers = "no words"
                if words.total:
                    numbers = f"{counted(words.total, 'word')}, 0 to {words.total - 1}"
                raise ValueError(
                    f"{source_word}-{target_word} names {side} word {word}, "
                    f"and the {side} has {numbers}"
                )


def _describe_problems(path: str, problems: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Yield a sentence on each of the first malformed lines, and one on the others."""
    for number, problem in problems[:_SHOWN]:
        yield f"{path}, line {number}: {problem}"
    others = [number for number, _ in problems[_SHOWN:]]
    if others:
        yield f"{path}: {len(others):,} more such lines{format_lines(others)}"


def _check_count(path: str, reader: LineReader, lines: int, name: str) -> Iterator[str]:
    """Yield a cause if a readable file has another number of lines than the corpus."""
    if not reader.causes and reader.count != lines:
        yield (
            f"{path} has {counted(reader.count, 'line')} but {name} has {counted(lines, 'pair')}; "
            f"line n must link the words of pair n "
            "(an empty line if none are linked)"
        )
