"""Projection of elements: where the tags of a sentence stand in its translation, by word
alignments.

A word of the translation belongs to the innermost element of the words that it is linked to. An
element gets the one range of words in which its own most outnumber the others (in a tie the longer
one), never a word of an element beside it; so tags stay nested, and each is written once. An
element without a word, such as an image, goes next to the translation of the word that it stood at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, NamedTuple

from regard.common.lazy import lazy_pattern
from regard.data.sentence_marks import MARKS
from regard.text.markup.tagged_sentence import (
    Node,
    Position,
    TaggedSentence,
    Unit,
    split_word,
)
from regard.text.markup.word_links import WordLinks

_LATIN = lazy_pattern(r"[!-~]+")
_NUMBER = lazy_pattern(r"\d(?:[^\w\s]*\d)*")
_ENDS = frozenset(MARKS)
_DEEPEST = 64
"""Mean depth of the words' elements from which on tags are spread proportionally: time stays
linear.
"""
_SHALLOW = 10_000
"""Sum of depths that is always projected."""


class TargetUnit(NamedTuple):
    """A word of the translation, or a part of one.

    `first` and `last`: the source units that it stands for, -1 if unknown. `node`: its element, -1
    if it may be in any. `is_copy`: it is written as the source wrote it.
    """

    text: str
    word: int
    is_word: bool
    first: int = -1
    last: int = -1
    node: int = -1
    is_copy: bool = False


class Entry(NamedTuple):
    """A part of the translation: the number of a target unit, of a mark, or of a node that is kept
    whole.

    `words`: the first and last target word that the node takes the place of; by default it is a
    word by itself.
    """

    kind: Literal["unit", "mark", "whole"]
    number: int
    words: tuple[int, int] = (-1, -2)


def project(
    sentence: TaggedSentence,
    words: Sequence[str],
    alignments: Sequence[tuple[int, int]] | None,
) -> tuple[list[TargetUnit], list[Entry]]:
    """Return the units of a translation, and the order in which they and the marks of the sentence
    are written.
    """
    links = WordLinks.complete(sentence.words, words, alignments)
    units = _target_units(sentence, words, links)
    if not sentence.marks and len(sentence.nodes) == 1:
        return units, [Entry("unit", index) for index in range(len(units))]
    depth = sum(sentence.nodes[unit.node].depth + 1 for unit in units if unit.node >= 0)
    if depth > _DEEPEST * (len(units) + len(sentence.units)) + _SHALLOW:
        return units, _spread(sentence, units)
    ranges = _Ranges(sentence.nodes, units)
    ranges.place_elements()
    positions = _Positions(sentence, units, links, len(words))
    ranges.place_points(
        [
            positions.of(node) if ranges.is_empty(index) else 0
            for index, node in enumerate(sentence.nodes)
        ]
    )
    return units, _order(sentence.nodes, units, ranges)


@dataclass
class _SourceWord:
    """The units of a source word: all, the one whose element decides, and those at its ends (-1:
    none).
    """

    text: str
    units: list[int] = field(default_factory=list)
    rank: tuple[bool, bool, int, int, int] = (False, False, -1, 0, 0)
    lead: int = -1
    first: int = -1
    last: int = -1
    trail: int = -1

    @property
    def deciding(self) -> int:
        """The longest unit of those in the innermost element; no punctuation beside others."""
        return -self.rank[-1]

    def add(self, number: int, unit: Unit, node: Node) -> None:
        """Add a unit; they come in order."""
        self.units.append(number)
        is_core = unit.position is Position.CORE
        self.rank = max(
            self.rank,
            (is_core, not node.is_symbol, node.depth, len(unit.text), -number),
        )
        if unit.position is Position.LEAD:
            self.lead = number
        elif unit.position is Position.TRAIL:
            self.trail = number
        else:
            self.first = number if self.first < 0 else self.first
            self.last = number


def _target_units(
    sentence: TaggedSentence, words: Sequence[str], links: WordLinks
) -> list[TargetUnit]:
    """Split the words of a translation as those that they are linked to."""
    source_words = [_SourceWord(text) for text in sentence.words]
    for number, unit in enumerate(sentence.units):
        source_words[unit.word].add(number, unit, sentence.nodes[unit.node])
    units = list[TargetUnit]()
    for index, word in enumerate(words):
        linked = [source_words[source] for source in links.sources[index]]
        same = next((source for source in linked if source.text == word), None)
        if same is not None:
            for number in same.units:
                unit = sentence.units[number]
                is_word = unit.position is Position.CORE
                units.append(
                    TargetUnit(
                        unit.text, index, is_word, number, number, unit.node, True
                    )
                )
        elif linked:
            units += _split_as(
                sentence, TargetUnit(word, index, True), linked, links.is_given
            )
        else:
            lead, core, trail = split_word(word)
            parts = ((lead, not core), (core, True), (trail, False))
            units += [
                TargetUnit(part, index, is_word) for part, is_word in parts if part
            ]
    return (
        _claim_copies(sentence, units)
        if any(node.is_whole for node in sentence.nodes)
        else units
    )


def _claim_copies(
    sentence: TaggedSentence, units: Sequence[TargetUnit]
) -> list[TargetUnit]:
    """Let elements that are kept whole stand for their copies, rather than for words that are
    linked to them.

    One without letters may stand for another number, or the last mark of the sentence, but never
    for a word.
    """
    wholes = [unit for unit in sentence.units if sentence.nodes[unit.node].is_whole]
    numbers = {
        unit.node
        for unit in wholes
        if sentence.nodes[unit.node].is_symbol and _NUMBER.search(unit.text)
    }
    wanted = {(unit.node, unit.text) for unit in wholes}
    claims = dict[int, Unit]()
    free = dict[str, list[int]]()
    owned = set[tuple[int, str]]()
    for index, unit in enumerate(units):
        if (unit.node, unit.text) in wanted:
            owned.add((unit.node, unit.text))
        elif not unit.is_copy:
            for text in {
                unit.text,
                *_LATIN.findall(unit.text),
                *_NUMBER.findall(unit.text),
            }:
                free.setdefault(text, []).append(index)
    for whole in reversed(wholes):
        is_end = (
            whole is sentence.units[-1]
            and units
            and {whole.text, units[-1].text} <= _ENDS
        )
        copies = free.get(whole.text) or ([len(units) - 1] if is_end else [])
        is_word = (
            len(whole.text) == 1
            and whole.text.isalpha()
            and copies
            and units[copies[-1]].node != whole.node
        )
        if (
            copies
            and copies[-1] not in claims
            and (whole.node, whole.text) not in owned
            and not is_word
        ):
            claims[copies.pop()] = whole
    claimed = {node for node, _ in owned} | {whole.node for whole in claims.values()}
    result = list[TargetUnit]()
    for index, unit in enumerate(units):
        is_number = unit.node in numbers - claimed and _NUMBER.fullmatch(unit.text)
        is_wrong = unit.node in claimed or (
            unit.node >= 0 and sentence.nodes[unit.node].is_symbol and not is_number
        )
        rest = -1 if is_wrong and (unit.node, unit.text) not in owned else unit.node
        if index not in claims:
            result.append(unit._replace(node=rest))
            continue
        copy = claims[index].text if claims[index].text in unit.text else unit.text
        before, _, after = unit.text.rpartition(copy)
        parts = (
            (before, False, rest),
            (copy, unit.is_word, claims[index].node),
            (after, False, rest),
        )
        result += [
            unit._replace(text=text, is_word=is_word, node=node)
            for text, is_word, node in parts
            if text
        ]
    return result


def _split_as(
    sentence: TaggedSentence,
    whole: TargetUnit,
    linked: Sequence[_SourceWord],
    is_given: bool,
) -> list[TargetUnit]:
    """Split a target word into punctuation and core, or around the text of an element that is kept
    whole.

    Its units stand for those of the first and the last word that it is linked to, if the links are
    given.
    """
    deciding = sentence.units[max(linked, key=lambda word: word.rank).deciding]
    lead, core, trail = split_word(whole.text)
    if not core and linked[0].lead >= 0 > linked[0].first and linked[0].trail >= 0:
        # Quotes around an element without words.
        lead, trail = (
            lead[: len(lead) // 2],
            lead[len(lead) // 2 :],
        )
    elif not core:
        lead = ""
        core = whole.text
    first, last = (
        (linked[0], linked[-1]) if is_given else (_SourceWord(""), _SourceWord(""))
    )

    def node_of(numbers: Iterable[int]) -> int:
        return next(
            (sentence.units[number].node for number in numbers if number >= 0), -1
        )

    parts = (
        TargetUnit(
            lead,
            whole.word,
            False,
            first.lead,
            last.lead,
            node_of(word.lead for word in linked),
        ),
        TargetUnit(core, whole.word, True, first.first, last.last, deciding.node),
        TargetUnit(
            trail,
            whole.word,
            False,
            first.trail,
            last.trail,
            node_of(word.trail for word in reversed(linked)),
        ),
    )
    return [part for part in parts if part.text]


class _Ranges:
    """The range of target units of each node, and what is needed to find it."""

    def __init__(self, nodes: Sequence[Node], units: Sequence[TargetUnit]) -> None:
        self.nodes = nodes
        self.starts = [0] * len(nodes)
        self.ends = [0] * len(nodes)
        self.ends[0] = len(units)
        self.children: list[list[int]] = [[] for _ in nodes]
        for index, node in enumerate(nodes[1:], 1):
            self.children[node.parent].append(index)
        self._values = [int(unit.is_word) for unit in units]
        self._counts = [
            0,
            *accumulate(int(unit.is_word and unit.node >= 0) for unit in units),
        ]
        self._fixed = [
            0,
            *accumulate(int(unit.is_word or unit.node >= 0) for unit in units),
        ]
        # (unit, child that it is in), by node.
        self._owned: list[list[tuple[int, int]]] = [[] for _ in nodes]
        for position, unit in enumerate(units):
            child = unit.node
            while child > 0:
                self._owned[nodes[child].parent].append((position, child))
                child = nodes[child].parent

    def is_empty(self, index: int) -> bool:
        """Return whether a node has no unit of its own."""
        return self.starts[index] == self.ends[index]

    def place_elements(self) -> None:
        """Find the range of each node that owns units, outer nodes first."""
        for index in range(len(self.nodes)):
            start = self.starts[index]
            end = self.ends[index]
            owned = [
                (unit, child)
                for unit, child in self._owned[index]
                if start <= unit < end
            ]
            for child, (child_start, child_end) in self._best_runs(owned).items():
                self.starts[child], self.ends[child] = child_start, child_end
            for child in self.children[index]:
                if self.nodes[child].comes_from_before:
                    self.starts[child], self.ends[child] = (
                        start,
                        start + self._best_length(owned, child, start),
                    )
                elif self.nodes[child].goes_on:
                    self.starts[child], self.ends[child] = (
                        end - self._best_length(owned[::-1], child, end),
                        end,
                    )

    def _best_runs(
        self, owned: Sequence[tuple[int, int]]
    ) -> dict[int, tuple[int, int]]:
        """Return for each child the range in which its units most outnumber the others (Kadane's
        algorithm).
        """
        best = dict[int, tuple[int, int, int, int]]()  # value, length, start, end
        value = start = last = 0
        previous = -1
        for unit, child in owned:
            # Takes the place of its units, so there must be no others between.
            is_whole = self.nodes[child].is_whole
            counts, limit = (self._fixed, 0) if is_whole else (self._counts, value)
            cost = counts[unit] - counts[last + 1] if child == previous else 0
            if child == previous and cost <= limit:
                value += self._values[unit] - cost
            else:
                value = self._values[unit]
                start = unit
            last = unit
            previous = child
            best[child] = max(
                best.get(child, (-1, 0, 0, 0)),
                (value, last + 1 - start, -start, last + 1),
            )
        return {child: (-start, end) for child, (_, _, start, end) in best.items()}

    def _best_length(
        self, owned: Sequence[tuple[int, int]], child: int, border: int
    ) -> int:
        """Return the length of the best range at a border, from which `owned` leads away.

        An element open before the sentence begins there, or one still open after it ends there.
        """
        value = best = length = 0
        last = border
        for unit, owner in owned:
            if owner != child:
                break
            near, far = (unit, unit + 1) if unit >= border else (unit + 1, unit)
            value += self._values[unit] - abs(self._counts[near] - self._counts[last])
            last = far
            if value >= best:
                best = value
                length = abs(far - border)
        return length

    def place_points(self, positions: Sequence[int]) -> None:
        """Give the nodes without units their positions, in their parents and beside their
        siblings.
        """
        for index, children in enumerate(self.children):
            taken = sorted(
                (self.starts[child], self.ends[child])
                for child in children
                if not self.is_empty(child)
            )
            before = [
                self.ends[child]
                for child in children
                if self.nodes[child].comes_from_before
            ]
            after = [
                self.starts[child] for child in children if self.nodes[child].goes_on
            ]
            low = max([self.starts[index], *before])
            high = min([self.ends[index], *after])
            for child in children:
                node = self.nodes[child]
                if self.is_empty(child) and not (
                    node.comes_from_before or node.goes_on
                ):
                    position = min(max(positions[child], low), high)
                    number = bisect_right(taken, (position, len(self.nodes))) - 1
                    if number >= 0 and position < taken[number][1]:
                        start, end = taken[number]
                        position = start if position - start < end - position else end
                    self.starts[child] = self.ends[child] = position
            children.sort(
                key=lambda child: (self.starts[child], self.ends[child], child)
            )


class _Positions:
    """Positions of nodes without units: next to the translation of the words that they stand at."""

    def __init__(
        self,
        sentence: TaggedSentence,
        units: Sequence[TargetUnit],
        links: WordLinks,
        words: int,
    ) -> None:
        self._sentence = sentence
        self._units = units
        self._links = links
        self._copies = {
            unit.first: index
            for index, unit in reversed([*enumerate(units)])
            if unit.is_copy
        }
        self._word_starts = [len(units)] * (words + 1)
        self._cores = [-1] * words
        for index in reversed(range(len(units))):
            word = units[index].word
            self._word_starts[word] = index
            self._cores[word] = (
                index
                if units[index].is_word or self._cores[word] < 0
                else self._cores[word]
            )
        for word in reversed(range(words)):
            self._word_starts[word] = min(
                self._word_starts[word], self._word_starts[word + 1]
            )
        self._end = len(units) - bool(
            units and not units[-1].is_word and not split_word(units[-1].text)[1]
        )
        linked = [bool(targets) for targets in links.targets]
        self._before = list(
            accumulate((word if flag else -1 for word, flag in enumerate(linked)), max)
        )
        after = accumulate(
            (
                word if linked[word] else len(linked)
                for word in reversed(range(len(linked)))
            ),
            min,
        )
        self._after = list(after)[::-1]

    def of(self, node: Node) -> int:
        """Return the target position of a node without units."""
        source = self._sentence.units
        own = (
            self._after[source[node.start].word]
            if node.start < node.end and not node.is_symbol
            else len(self._after)
        )
        if own < len(self._after) and own <= source[node.end - 1].word:
            return self._word_starts[self._links.targets[own][-1] + 1]
        left = node.start - 1
        right = node.end
        if right == len(source) and not split_word(source[-1].text)[1]:
            return len(self._units)
        position = -1
        if (
            left >= 0
            and right < len(source)
            and source[left].word == source[right].word
        ):
            position = self._inside_word(left, right)
        if position < 0:
            position = self._between_words(node, left, right)
        return min(position, self._end)

    def _inside_word(self, left: int, right: int) -> int:
        """Return the position inside of the translation of a word; -1 if it has none."""
        if right in self._copies:
            return self._copies[right]
        unit = self._sentence.units[left]
        targets = self._links.targets[unit.word]
        return (
            self._cores[targets[-1]] + (unit.position is not Position.LEAD)
            if targets
            else -1
        )

    def _between_words(self, node: Node, left: int, right: int) -> int:
        """Return the position before the translation of the next word or after that of the last:
        the nearer one.
        """
        source = self._sentence.units
        count = len(self._before)
        before = source[left].word if left >= 0 else -1
        after = source[right].word if right < len(source) else -1
        mark = self._sentence.marks[node.opener] if node.opener >= 0 else None
        touches_left = mark is not None and left >= 0 and source[left].end == mark.start
        touches_right = (
            mark is not None and right < len(source) and source[right].start == mark.end
        )
        linked_before = self._before[before] if before >= 0 else -1
        linked_after = self._after[after] if after >= 0 else count
        to_left = before - linked_before if linked_before >= 0 else count
        to_right = linked_after - after if linked_after < count else count
        if to_left < to_right or (
            to_left == to_right < count and touches_left and not touches_right
        ):
            return self._word_starts[self._links.targets[linked_before][-1] + 1]
        if to_right == count:
            return 0
        last = self._links.targets[linked_before][-1] if to_left == 0 else -1
        targets = self._links.targets[linked_after]
        target = next((target for target in targets if target > last), targets[0])
        # what had a word before it does not come first, but follows an article if there is one
        is_inner = right < len(source) and source[right].node == node.parent
        follows = (
            is_inner
            and target == 0
            and (1 in targets or (linked_before >= 0 and before == after))
        )
        return self._word_starts[target + follows]


def _order(
    nodes: Sequence[Node], units: Sequence[TargetUnit], ranges: _Ranges
) -> list[Entry]:
    """Return units and marks in the order of writing; a node that is kept whole takes the place of
    its units.
    """
    entries = list[Entry]()
    stack = [(0, iter(ranges.children[0]))]
    position = 0
    while stack:
        index, children = stack[-1]
        child = next(children, None)
        entries += _unit_entries(
            nodes,
            units,
            position,
            ranges.ends[index] if child is None else ranges.starts[child],
        )
        if child is None:
            position = ranges.ends[index]
            if nodes[index].closer >= 0:
                entries.append(Entry("mark", nodes[index].closer))
            stack.pop()
            continue
        position = ranges.starts[child]
        if nodes[child].is_whole:
            position = ranges.ends[child]
            inside = units[ranges.starts[child] : position]
            entries.append(
                Entry("whole", child, (inside[0].word, inside[-1].word))
                if inside
                else Entry("whole", child)
            )
        else:
            if nodes[child].opener >= 0:
                entries.append(Entry("mark", nodes[child].opener))
            stack.append((child, iter(ranges.children[child])))
    return entries


def _unit_entries(
    nodes: Sequence[Node], units: Sequence[TargetUnit], start: int, end: int
) -> list[Entry]:
    """Return the units of a range but for those that elements kept whole take the place of."""
    kept = [
        number
        for number in range(start, end)
        if units[number].node < 0 or not nodes[units[number].node].is_whole
    ]
    return [Entry("unit", number) for number in kept]


def _spread(sentence: TaggedSentence, units: Sequence[TargetUnit]) -> list[Entry]:
    """Put marks in proportion, in their order."""
    entries = list[Entry]()
    position = 0
    wholes = [
        (node.start, 1, index)
        for index, node in enumerate(sentence.nodes)
        if node.is_whole
    ]
    marks = [
        (gap, 0, index) for gap, indices in sentence.gaps.items() for index in indices
    ]
    for gap, is_whole, index in sorted(wholes + marks):
        end = gap * len(units) // len(sentence.units)
        entries += _unit_entries(sentence.nodes, units, position, end)
        position = end
        entries.append(Entry("whole" if is_whole else "mark", index))
    return entries + _unit_entries(sentence.nodes, units, position, len(units))
