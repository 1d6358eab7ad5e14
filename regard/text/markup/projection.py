"""Project elements: place the tags of a sentence in its translation by word alignments.

A word of the translation belongs to the innermost element of the source words that it is linked to.
An element gets the one range of words in which its own words most outnumber all others; in a tie,
the longer range. The range never contains a word of a sibling element, so tags stay nested and each
is written once. An element without a word, such as an image, is placed next to the translation of
the word beside it in the source.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, NamedTuple

from regard.common.lazy import lazy_pattern
from regard.data.sentence_marks import MARKS
from regard.text.markup.tagged_sentence import (
    Node,
    TaggedSentence,
    Unit,
    split_word,
)
from regard.text.markup.tags import Bounds
from regard.text.markup.word_links import WordLinks, nearest

_LATIN = lazy_pattern(r"[!-~]+")
_NUMBER = lazy_pattern(r"\d(?:[^\w\s]*\d)*")
_ENDS = frozenset(MARKS)
_DEEPEST = 64
"""Mean element depth per word above which tags are spread proportionally, to keep time linear."""
_SHALLOW = 10_000
"""Sum of element depths up to which a sentence is projected whatever its mean depth."""


class TargetUnit(NamedTuple):
    """A word of the translation, or a part of one.

    `first` and `last` are the source units that it translates, -1 if unknown. `node` is its
    element, -1 if it may be in any. `is_copy` means that it is written exactly as in the source.
    """

    text: str
    word: int
    is_word: bool
    first: int = -1
    last: int = -1
    node: int = -1
    is_copy: bool = False


class Entry(NamedTuple):
    """A part of the translation: the number of a target unit, of a mark, or of a node kept whole.

    `words` are the first and last target word that the node replaces. By default it replaces none
    and is a word by itself.
    """

    kind: Literal["unit", "mark", "whole"]
    number: int
    words: Bounds = (-1, -2)


def project(
    sentence: TaggedSentence,
    words: Sequence[str],
    alignments: Sequence[tuple[int, int]] | None,
) -> tuple[list[TargetUnit], list[Entry]]:
    """Return the units of a translation, and the order in which units and marks are written."""
    links = WordLinks.complete(sentence.words, words, alignments)
    units = _target_units(sentence, words, links)
    if sentence.is_plain:
        return units, [Entry("unit", index) for index in range(len(units))]

    depth = sum(sentence.nodes[unit.node].depth + 1 for unit in units if unit.node >= 0)
    if depth > _DEEPEST * (len(units) + len(sentence.units)) + _SHALLOW:
        return units, _spread(sentence, units)

    ranges = _Ranges(sentence, units)
    ranges.place_elements()
    positions = _Positions(sentence, units, links, len(words))
    point_positions = [
        positions.of(node) if ranges.is_empty(index) else 0
        for index, node in enumerate(sentence.nodes)
    ]
    ranges.place_points(point_positions)
    return units, _order(sentence.nodes, units, ranges)


@dataclass
class _SourceWord:
    """The units of a source word.

    `rank` is the rank of the unit whose element decides for the word. `lead` and `trail` are the
    punctuation before and after the word, `first` and `last` its first and last unit without
    punctuation; each is -1 if there is none.
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
        """The unit whose element decides: the longest one in the innermost element.

        Punctuation decides only if the word has nothing else.
        """
        return -self.rank[-1]

    def add(self, number: int, unit: Unit, node: Node) -> None:
        """Add a unit, in the order of the sentence."""
        self.units.append(number)
        is_core = unit.position == "core"
        rank = (is_core, not node.is_symbol, node.depth, len(unit.text), -number)
        self.rank = max(self.rank, rank)

        if unit.position == "lead":
            self.lead = number
        elif unit.position == "trail":
            self.trail = number
        else:
            if self.first < 0:
                self.first = number
            self.last = number


def _target_units(
    sentence: TaggedSentence, words: Sequence[str], links: WordLinks
) -> list[TargetUnit]:
    """Split the words of a translation in the way of the source words that they are linked to."""
    source_words = [_SourceWord(text) for text in sentence.words]
    for number, unit in enumerate(sentence.units):
        source_words[unit.word].add(number, unit, sentence.nodes[unit.node])

    units = list[TargetUnit]()
    for index, word in enumerate(words):
        linked = [source_words[source] for source in links.sources[index]]
        equal = next((source for source in linked if source.text == word), None)
        if equal is not None:
            for number in equal.units:
                unit = sentence.units[number]
                is_word = unit.position == "core"
                units.append(
                    TargetUnit(
                        unit.text, index, is_word, number, number, unit.node, True
                    )
                )
        elif linked:
            target = TargetUnit(word, index, True)
            units += _split_as(sentence, target, linked, links.is_given)
        else:
            lead, core, trail = split_word(word)
            parts = ((lead, not core), (core, True), (trail, False))
            units += [
                TargetUnit(part, index, is_word) for part, is_word in parts if part
            ]

    if any(node.is_whole for node in sentence.nodes):
        return _claim_copies(sentence, units)
    return units


def _claim_copies(
    sentence: TaggedSentence, units: Sequence[TargetUnit]
) -> list[TargetUnit]:
    """Assign elements that are kept whole to the copies of their text in the translation.

    Such a copy takes precedence over words that are linked to the element. An element without
    letters may take the place of another number, or of the last punctuation mark of the sentence,
    but never of a word.
    """
    kept_units = [unit for unit in sentence.units if sentence.nodes[unit.node].is_whole]
    wanted = {(unit.node, unit.text) for unit in kept_units}
    placed = {(unit.node, unit.text) for unit in units} & wanted
    claims = _claims(sentence, units, kept_units, placed)
    claimed_nodes = {node for node, _ in placed}
    claimed_nodes |= {unit.node for unit in claims.values()}
    number_nodes = {
        unit.node
        for unit in kept_units
        if sentence.nodes[unit.node].is_symbol and _NUMBER.search(unit.text)
    }
    unclaimed_numbers = number_nodes - claimed_nodes

    result = list[TargetUnit]()
    for index, unit in enumerate(units):
        is_number = unit.node in unclaimed_numbers and _NUMBER.fullmatch(unit.text)
        is_symbol = unit.node >= 0 and sentence.nodes[unit.node].is_symbol
        is_wrong = unit.node in claimed_nodes or (is_symbol and not is_number)
        node = unit.node
        if is_wrong and (unit.node, unit.text) not in placed:
            node = -1
        if index not in claims:
            result.append(unit._replace(node=node))
            continue

        kept = claims[index]
        copy = kept.text if kept.text in unit.text else unit.text
        before, _, after = unit.text.rpartition(copy)
        parts = (
            (before, False, node),
            (copy, unit.is_word, kept.node),
            (after, False, node),
        )
        result += [
            unit._replace(text=text, is_word=is_word, node=part_node)
            for text, is_word, part_node in parts
            if text
        ]
    return result


def _claims(
    sentence: TaggedSentence,
    units: Sequence[TargetUnit],
    kept_units: Sequence[Unit],
    placed: set[tuple[int, str]],
) -> dict[int, Unit]:
    """Return the source unit that each claimed target unit is a copy of, by target index.

    `placed`: nodes and texts of the kept units that the word links have already placed.
    """
    candidates = dict[str, list[int]]()
    for index, unit in enumerate(units):
        if (unit.node, unit.text) in placed or unit.is_copy:
            continue
        latin = _LATIN.findall(unit.text)
        numbers = _NUMBER.findall(unit.text)
        for text in {unit.text, *latin, *numbers}:
            candidates.setdefault(text, []).append(index)

    claims = dict[int, Unit]()
    for kept in reversed(kept_units):
        copies = candidates.get(kept.text, [])
        ends_both = (
            kept is sentence.units[-1]
            and len(units) > 0
            and {kept.text, units[-1].text} <= _ENDS
        )
        if not copies and ends_both:
            copies = [len(units) - 1]
        if not copies or copies[-1] in claims or (kept.node, kept.text) in placed:
            continue
        is_letter = len(kept.text) == 1 and kept.text.isalpha()
        if not is_letter or units[copies[-1]].node == kept.node:
            claims[copies.pop()] = kept
    return claims


def _split_as(
    sentence: TaggedSentence,
    target: TargetUnit,
    linked: Sequence[_SourceWord],
    is_given: bool,
) -> list[TargetUnit]:
    """Split a target word into the punctuation before it, its core, and the punctuation after it.

    The core gets the element that decides for the linked source words. If the links are given
    rather than guessed, each part refers to the units of the first and the last linked word.
    """
    deciding = sentence.units[max(linked, key=lambda word: word.rank).deciding]
    lead, core, trail = split_word(target.text)
    after = sentence.units[linked[-1].trail]
    if not core and linked[0].lead >= 0 > linked[0].first and linked[0].trail >= 0:
        # The target is a pair of quotes around an element without words.
        middle = len(lead) // 2
        lead, trail = lead[:middle], lead[middle:]
    elif not core and linked[-1].trail >= 0 and after.text == lead:
        lead, trail = "", lead  # punctuation that the translation writes by itself
    elif not core:
        lead = ""
        core = target.text

    first = linked[0] if is_given else _SourceWord("")
    last = linked[-1] if is_given else _SourceWord("")

    def first_node(numbers: Iterable[int]) -> int:
        """Return the node of the first unit that exists, -1 if there is none."""
        nodes = (sentence.units[number].node for number in numbers if number >= 0)
        return next(nodes, -1)

    lead_node = first_node(word.lead for word in linked)
    trail_node = first_node(word.trail for word in reversed(linked))
    word = target.word
    parts = (
        TargetUnit(lead, word, False, first.lead, last.lead, lead_node),
        TargetUnit(core, word, True, first.first, last.last, deciding.node),
        TargetUnit(trail, word, False, first.trail, last.trail, trail_node),
    )
    return [part for part in parts if part.text]


class _Ranges:
    """The range of target units of each node.

    `starts` and `ends` hold the ranges by node, equal if a node has no unit. `children` holds the
    nodes in each node, in the order of writing.
    """

    def __init__(self, sentence: TaggedSentence, units: Sequence[TargetUnit]) -> None:
        nodes = sentence.nodes
        self.nodes = nodes
        self.starts = [0] * len(nodes)
        self.ends = [0] * len(nodes)
        self.ends[0] = len(units)
        self.children: list[list[int]] = [[] for _ in nodes]
        for index, node in enumerate(nodes[1:], 1):
            self.children[node.parent].append(index)

        self._values = [int(unit.is_word) for unit in units]
        # Prefix sums of the words that have an element, and of the units that no element kept
        # whole may replace.
        in_element = (int(unit.is_word and unit.node >= 0) for unit in units)
        is_fixed = (int(unit.is_word or unit.node >= 0) for unit in units)
        self._counts = [0, *accumulate(in_element)]
        self._fixed = [0, *accumulate(is_fixed)]

        # No element kept whole replaces a free word.
        free = [
            unit.is_word and (unit.node < 0 or not nodes[unit.node].is_whole)
            for unit in units
        ]
        self._last_word, self._next_word = nearest(free)

        self._held_text = [False] * len(nodes)
        for source in sentence.units:
            holder = source.node
            if source.position != "core" or nodes[holder].is_whole:
                continue
            while not self._held_text[holder]:
                self._held_text[holder] = True
                holder = max(0, nodes[holder].parent)

        # For each node, the units inside its children, as pairs of unit and child.
        self._owned: list[list[tuple[int, int]]] = [[] for _ in nodes]
        for position, unit in enumerate(units):
            child = unit.node
            while child > 0:
                self._owned[nodes[child].parent].append((position, child))
                child = nodes[child].parent

    def is_empty(self, index: int) -> bool:
        """Return whether a node has no unit of its own, or held text and has no word of its own."""
        start = self.starts[index]
        end = self.ends[index]
        has_children = any(
            self.starts[child] < self.ends[child] for child in self.children[index]
        )
        has_lost = self._held_text[index] and self._next_word[start] >= end
        return start == end or (has_lost and not has_children)

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
                self.starts[child] = child_start
                self.ends[child] = child_end

            for child in self.children[index]:
                if self.nodes[child].comes_from_before:
                    length = self._best_length(owned, child, start)
                    self.starts[child] = start
                    self.ends[child] = start + length
                elif self.nodes[child].goes_on:
                    length = self._best_length(owned[::-1], child, end)
                    self.starts[child] = end - length
                    self.ends[child] = end

    def _best_runs(self, owned: Sequence[tuple[int, int]]) -> dict[int, Bounds]:
        """Return the best range of each child: its units most outnumber the others (Kadane)."""
        best = dict[int, tuple[int, int, int, int]]()  # value, length, -start, end
        value = start = last = 0
        previous = -1
        for unit, child in owned:
            counts = self._counts
            limit = value
            if self.nodes[child].is_whole:
                # The node replaces its units, so no other unit may stand between them.
                counts = self._fixed
                limit = 0
            cost = counts[unit] - counts[last + 1] if child == previous else 0
            if child == previous and cost <= limit:
                value += self._values[unit] - cost
            else:
                value = self._values[unit]
                start = unit
            last = unit
            previous = child
            run = (value, last + 1 - start, -start, last + 1)
            best[child] = max(best.get(child, (-1, 0, 0, 0)), run)
        return {child: (-start, end) for child, (_, _, start, end) in best.items()}

    def _best_length(
        self, owned: Sequence[tuple[int, int]], child: int, border: int
    ) -> int:
        """Return the length of the best range of a child that begins or ends at a border.

        A child that was open before the sentence begins at the first border of its parent; a child
        that is still open after the sentence ends at the last. `owned` leads away from the border.
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
        """Move the nodes without units to their positions, inside their parents and beside their
        siblings. Those that held text take a word there, if there is one.
        """
        for index, children in enumerate(self.children):
            taken = sorted(
                (self.starts[child], self.ends[child], child)
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
                is_cut = node.comes_from_before or node.goes_on
                if is_cut or not self.is_empty(child):
                    continue
                position = min(max(positions[child], low), high)
                number = bisect_right(taken, (position, len(self.nodes))) - 1
                if number >= 0 and position < taken[number][1]:
                    # The position is inside of a sibling: take the nearer end of that.
                    start, end, _ = taken[number]
                    position = start if position - start < end - position else end
                self.starts[child] = self.ends[child] = position
                if self._held_text[child]:
                    self._take_word(child, position, taken, (low, high))
            children.sort(
                key=lambda child: (self.starts[child], self.ends[child], child)
            )

    def _take_word(
        self,
        child: int,
        position: int,
        taken: list[tuple[int, int, int]],
        bounds: Bounds,
    ) -> None:
        """Give a node the free word nearest to its position, else the word beside it of a sibling
        that has more.

        `taken`: the ranges of its siblings in order, each with its node. `bounds` are those of all.
        """
        number = bisect_left(taken, (position,))
        low = max([bounds[0], *(end for _, end, _ in taken[number - 1 : number])])
        high = min([bounds[1], *(start for start, _, _ in taken[number : number + 1])])
        before = self._last_word[position]
        after = self._next_word[position]
        if low <= before and (after >= high or position - before <= after - position):
            word = before
        elif after < high:
            word = after
        else:
            word = self._word_of_sibling(taken, number)
        if word >= 0:
            self.starts[child] = word
            self.ends[child] = word + 1
            taken.insert(bisect_left(taken, (word,)), (word, word + 1, child))

    def _word_of_sibling(self, taken: list[tuple[int, int, int]], number: int) -> int:
        """Take the last word of the sibling before a number, or the first of that at it, unless it
        has no other. Return -1 if there is none.
        """
        for index in (number - 1, number):
            if not 0 <= index < len(taken):
                continue
            start, end, sibling = taken[index]
            node = self.nodes[sibling]
            is_fixed = node.is_whole or node.comes_from_before or node.goes_on
            first = self._next_word[start]
            last = self._last_word[end]
            if is_fixed or self.children[sibling] or first >= last:
                continue
            if index < number:
                self.ends[sibling] = end = word = last
            else:
                word = first
                self.starts[sibling] = start = first + 1
            taken[index] = (start, end, sibling)
            return word
        return -1


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
        self._copies = dict[int, int]()  # first target unit that copies a source unit
        numbers = [unit.word for unit in units]
        self._word_starts = [bisect_left(numbers, word) for word in range(words + 1)]
        self._cores = [-1] * words
        for index in reversed(range(len(units))):
            unit = units[index]
            if unit.is_copy:
                self._copies[unit.first] = index
            if unit.is_word or self._cores[unit.word] < 0:
                self._cores[unit.word] = index

        # Nothing is placed behind the punctuation at the end of a sentence.
        self._end = len(units)
        if units and not units[-1].is_word and not split_word(units[-1].text)[1]:
            self._end -= 1

        self._before, self._after = nearest([*map(bool, links.targets)])

    def of(self, node: Node) -> int:
        """Return the target position of a node without units."""
        source = self._sentence.units
        if node.start < node.end and not node.is_symbol:
            linked = self._after[source[node.start].word]
            if linked <= source[node.end - 1].word:
                return self._word_starts[self._links.targets[linked][-1] + 1]

        left = node.start - 1
        right = node.end
        if right == len(source) and not split_word(source[-1].text)[1]:
            return len(self._units)
        position = -1
        is_inside = left >= 0 and right < len(source)
        if is_inside and source[left].word == source[right].word:
            position = self._inside_word(left, right)
        if position < 0:
            position = self._between_words(node, left, right)
        return min(position, self._end)

    def _inside_word(self, left: int, right: int) -> int:
        """Return the position in the translation of the word of two units; -1 if it has none."""
        if right in self._copies:
            return self._copies[right]
        unit = self._sentence.units[left]
        targets = self._links.targets[unit.word]
        if not targets:
            return -1
        core = self._cores[targets[-1]]
        return core if unit.position == "lead" else core + 1

    def _between_words(self, node: Node, left: int, right: int) -> int:
        """Return the position after the translation of the preceding word or before that of the
        following word, whichever of these words is nearer to the node.
        """
        source = self._sentence.units
        count = len(self._links.targets)
        before = source[left].word if left >= 0 else -1
        after = source[right].word if right < len(source) else count
        touches_left = touches_right = False
        if node.opener >= 0:
            mark = self._sentence.marks[node.opener]
            touches_left = left >= 0 and source[left].end == mark.start
            touches_right = right < len(source) and source[right].start == mark.end

        linked_before = self._before[before + 1]
        linked_after = self._after[after]
        to_left = before - linked_before if linked_before >= 0 else count
        to_right = linked_after - after if linked_after < count else count
        belongs_left = touches_left and not touches_right
        if to_left < to_right or (to_left == to_right < count and belongs_left):
            return self._word_starts[self._links.targets[linked_before][-1] + 1]
        if to_right == count:
            return 0

        last = self._links.targets[linked_before][-1] if to_left == 0 else -1
        targets = self._links.targets[linked_after]
        target = next((target for target in targets if target > last), targets[0])
        # A node that had a word before it does not move to the start of its element. If the
        # translation begins with an article, the node follows the article.
        is_inner = right < len(source) and source[right].node == node.parent
        follows = (
            is_inner
            and target == 0
            and (1 in targets or (linked_before >= 0 and before == after))
        )
        return self._word_starts[target + 1 if follows else target]


def _order(
    nodes: Sequence[Node], units: Sequence[TargetUnit], ranges: _Ranges
) -> list[Entry]:
    """Return units and marks in the order of writing.

    A node that is kept whole replaces its units.
    """
    entries = list[Entry]()
    stack = [(0, iter(ranges.children[0]))]
    position = 0
    while stack:
        index, children = stack[-1]
        child = next(children, None)
        if child is None:
            end = ranges.ends[index]
            entries += _unit_entries(nodes, units, position, end)
            position = end
            if nodes[index].closer >= 0:
                entries.append(Entry("mark", nodes[index].closer))
            stack.pop()
            continue

        start = ranges.starts[child]
        entries += _unit_entries(nodes, units, position, start)
        position = start
        if nodes[child].is_whole:
            position = ranges.ends[child]
            replaced = [unit.word for unit in units[start:position]]
            words = (replaced[0], replaced[-1]) if replaced else (-1, -2)
            entries.append(Entry("whole", child, words))
        else:
            if nodes[child].opener >= 0:
                entries.append(Entry("mark", nodes[child].opener))
            stack.append((child, iter(ranges.children[child])))
    return entries


def _unit_entries(
    nodes: Sequence[Node], units: Sequence[TargetUnit], start: int, end: int
) -> list[Entry]:
    """Return the units of a range, except those that are replaced by an element kept whole."""
    kept = [
        number
        for number in range(start, end)
        if units[number].node < 0 or not nodes[units[number].node].is_whole
    ]
    return [Entry("unit", number) for number in kept]


def _spread(sentence: TaggedSentence, units: Sequence[TargetUnit]) -> list[Entry]:
    """Place the marks in their order, each at its relative position in the source."""
    wholes = [
        (node.start, 1, index)
        for index, node in enumerate(sentence.nodes)
        if node.is_whole
    ]
    marks = [
        (gap, 0, index) for gap, indices in sentence.gaps.items() for index in indices
    ]

    entries = list[Entry]()
    position = 0
    for gap, is_whole, index in sorted(wholes + marks):
        end = gap * len(units) // len(sentence.units)
        entries += _unit_entries(sentence.nodes, units, position, end)
        position = end
        entries.append(Entry("whole" if is_whole else "mark", index))
    return entries + _unit_entries(sentence.nodes, units, position, len(units))
