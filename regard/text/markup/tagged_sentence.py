"""Represent a sentence of marked-up text as a tree: units of text, the elements around them, and
tags.

A unit is a word, or a part of one if a tag or punctuation divides it: `(<b>Bread</b>,` has the
units `(`, `Bread` and `,`. Word indices count what stands between spaces in the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from regard.data.sentence_marks import GLUED
from regard.data.sentences import has_letters
from regard.text.markup.elements import Role

_PUNCTUATION = (
    GLUED
    + ".,;:!?…\"'“”‘’«»‹›()[]{}<>¿¡。、，．！？：；・「」『』（）【】《》〈〉„‚–—-"
)


class Piece(NamedTuple):
    """A part of a word, with its `offset` in the plain paragraph.

    `whole` is the token of the element kept whole around the piece, -1 if there is none.
    """

    start: int
    end: int
    text: str
    word: int
    offset: int
    whole: int = -1


class Mark(NamedTuple):
    """A tag, comment or entity between pieces.

    `token` and `partner` are the indices of its token and of the tag that closes or opens its
    element.
    """

    start: int
    end: int
    role: Role
    token: int
    partner: int


Entries = Sequence[Piece | Mark]


Position = Literal["lead", "core", "trail"]
"""Position of a unit in its word: the punctuation before it, the word or a part of it, or the
punctuation after it.
"""


class Unit(NamedTuple):
    """Text between two offsets of the source, in a word and directly in a node of the tree."""

    start: int
    end: int
    text: str
    word: int
    position: Position
    node: int


@dataclass
class Node:
    """An element, an element that is kept whole, or a mark by itself; node 0 is the sentence.

    `opener` and `closer` are its marks, -1 if they stand outside of the sentence; `start` and `end`
    the range of its units; `token` the token of its start tag. `is_symbol` means that it is kept
    whole and has no letters, so it never takes the place of a word.
    """

    parent: int
    depth: int
    opener: int = -1
    closer: int = -1
    start: int = 0
    end: int = 0
    token: int = -1
    is_point: bool = False
    is_whole: bool = False
    is_symbol: bool = False

    @property
    def comes_from_before(self) -> bool:
        """True if the element begins before the sentence."""
        return self.closer >= 0 and self.opener < 0 and not self.is_point

    @property
    def goes_on(self) -> bool:
        """True if the element ends after the sentence."""
        return self.opener >= 0 and self.closer < 0 and not self.is_point


@dataclass
class TaggedSentence:
    """A sentence between two offsets of the source, and its line to translate.

    `follows` means that it stands right after another sentence, without white space. `gaps` holds
    the marks before each unit, by the unit's number, and the marks after the last unit. `entries`
    are the pieces and marks that it was built from.
    """

    start: int
    end: int
    line: str
    follows: bool = False
    units: list[Unit] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    gaps: dict[int, list[int]] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=lambda: [Node(-1, 0)])
    entries: Entries = ()

    @property
    def is_plain(self) -> bool:
        """True if it has no marks, and no element that is kept whole."""
        return not self.marks and len(self.nodes) == 1

    @property
    def words(self) -> list[str]:
        """The words of the line."""
        return self.line.split(" ")


def build_sentence(entries: Entries, line: str, follows: bool) -> TaggedSentence:
    """Build the tree of a sentence from its pieces and marks in order."""
    sentence = TaggedSentence(
        entries[0].start, entries[-1].end, line, follows, entries=entries
    )
    stack = _enter_open_elements(sentence, entries)
    nodes = sentence.nodes
    pieces = [entry for entry in entries if isinstance(entry, Piece)]
    first_word = pieces[0].word
    index = 0
    whole = -1
    for entry in entries:
        if isinstance(entry, Mark):
            _add_mark(sentence, entry, stack)
            continue
        if entry.whole < 0:
            node = stack[-1]
        elif entry.whole == whole:
            node = len(nodes) - 1
        else:
            node = _add_node(sentence, stack[-1], entry.whole)
            nodes[node].is_whole = nodes[node].is_symbol = True
        whole = entry.whole
        nodes[node].is_symbol &= not has_letters(entry.text)
        is_first = index == 0 or pieces[index - 1].word != entry.word
        is_last = index + 1 == len(pieces) or pieces[index + 1].word != entry.word
        _add_units(sentence, entry, entry.word - first_word, node, is_first, is_last)
        index += 1
        if nodes[node].is_whole:
            nodes[node].end = len(sentence.units)
    for node in stack:
        nodes[node].end = len(sentence.units)
    return sentence


def _enter_open_elements(sentence: TaggedSentence, entries: Entries) -> list[int]:
    """Return a stack with the sentence and the elements that begin before the sentence and end in
    it.
    """
    marks = [entry for entry in entries if isinstance(entry, Mark)]
    opened = {mark.token for mark in marks if mark.role == "open"}
    stack = [0]
    for mark in reversed(marks):
        if mark.role == "close" and mark.partner not in opened:
            stack.append(_add_node(sentence, stack[-1], mark.partner))
    return stack


def _add_node(sentence: TaggedSentence, parent: int, token: int) -> int:
    start = len(sentence.units)
    sentence.nodes.append(
        Node(
            parent,
            sentence.nodes[parent].depth + 1,
            start=start,
            end=start,
            token=token,
        )
    )
    return len(sentence.nodes) - 1


def _add_mark(sentence: TaggedSentence, mark: Mark, stack: list[int]) -> None:
    index = len(sentence.marks)
    sentence.marks.append(mark)
    sentence.gaps.setdefault(len(sentence.units), []).append(index)
    if mark.role == "close":
        node = sentence.nodes[stack.pop()]
        assert node.token == mark.partner, "elements are nested"
        node.closer = index
        node.end = len(sentence.units)
        return
    number = _add_node(sentence, stack[-1], mark.token)
    sentence.nodes[number].opener = index
    if mark.role == "open":
        stack.append(number)
    else:
        sentence.nodes[number].is_point = True


def _add_units(
    sentence: TaggedSentence,
    piece: Piece,
    word: int,
    node: int,
    is_first: bool,
    is_last: bool,
) -> None:
    """Add the units of a piece: the punctuation at either end of a word becomes a unit of its own.

    A piece that is written with entities is not divided. `is_first` and `is_last` tell whether the
    piece begins and ends its word.
    """
    is_plain = len(piece.text) == piece.end - piece.start and piece.whole < 0
    lead, core, _ = split_word(piece.text)
    length = len(piece.text)
    lead_end = 0
    core_end = length
    if core and is_plain:
        lead_end = len(lead) if is_first else 0
        core_end = len(lead) + len(core) if is_last else length
    elif not core and is_first != is_last:
        lead_end = core_end = length if is_first else 0

    cuts: tuple[tuple[int, int, Position], ...] = (
        (0, lead_end, "lead"),
        (lead_end, core_end, "core"),
        (core_end, length, "trail"),
    )
    for start, end, position in cuts:
        if start >= end:
            continue
        span = (piece.start, piece.end)
        if is_plain:
            span = (piece.start + start, piece.start + end)
        text = piece.text[start:end]
        sentence.units.append(Unit(*span, text, word, position, node))


def split_word(word: str) -> tuple[str, str, str]:
    """Split a word into the punctuation before it, its core, and the punctuation after it.

    If the word is nothing but punctuation, all of it is the first part.
    """
    without_lead = word.lstrip(_PUNCTUATION)
    core = without_lead.rstrip(_PUNCTUATION)
    lead = word[: len(word) - len(without_lead)]
    return lead, core, without_lead[len(core) :]
