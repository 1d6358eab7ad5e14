"""How well attention aligns words: the layer and head that do it best, and how often their links are right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from regard.attention.alignment import SYMMETRIES, Link, Readings, argmax_links, extract_links, symmetrise
from regard.pipeline import AlignmentChoice, Translator

__all__ = [
    "AlignmentScores",
    "Gold",
    "agreeing_choices",
    "alignment_scores",
    "best_choice",
    "best_pair",
    "choices",
    "links_of",
    "read_all",
    "share_on_gold",
]

Links = frozenset[Link]
TRIED = 8
"""Reads of each of two translators that are tried together."""


@dataclass(frozen=True)
class Gold:
    """The links of one pair of sentences as people see them: sure ones, and all that are possible."""

    sure: Links
    possible: Links

    @classmethod
    def of(cls, links: Iterable[Link]) -> Gold:
        """All of them sure."""
        return cls(frozenset(links), frozenset(links))


@dataclass(frozen=True)
class AlignmentScores:
    """Alignment error rate, precision and recall (Och and Ney 2003), over all links of all sentences.

    With found links A, sure ones S and possible ones P ⊇ S: AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|), precision
    |A∩P| / |A|, recall |A∩S| / |S|.
    """

    aer: float
    precision: float
    recall: float


def alignment_scores(found: Iterable[Iterable[Link]], gold: Iterable[Gold]) -> AlignmentScores:
    """How far links are from the gold ones of the same sentences."""
    counts = np.zeros(4)
    for links, each in zip(map(frozenset, found), gold, strict=True):
        counts += len(links & each.sure), len(links & (each.possible | each.sure)), len(links), len(each.sure)
    sure, possible, all_found, all_sure = map(float, counts)
    together = all_found + all_sure
    return AlignmentScores(
        1 - (sure + possible) / together if together else 0.0,
        possible / all_found if all_found else 1.0,
        sure / all_sure if all_sure else 1.0,
    )


def read_all(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> list[Readings]:
    """What the model looks at in the sources while it is made to write the given targets."""
    return translator.read_all(sources, [translator.tokenizer.target.encode(target) for target in targets], "cross")


def links_of(readings: Iterable[Readings], choice: AlignmentChoice) -> list[list[Link]]:
    """The links that this choice makes of each reading."""
    return [extract_links(_words(each, choice), choice.symmetry) for each in readings]


def choices(reading: Readings) -> list[AlignmentChoice]:
    """Every layer with every head and the mean of its heads, by the row that predicted and by the one that consumed."""
    found = []
    for layer in reading.layers("cross"):
        heads = reading.weights[layer].shape[0]
        for head, consumed in product([*range(heads), *([None] if heads > 1 else [])], (False, True)):
            found.append(AlignmentChoice(layer, head, consumed))
    return found


def best_choice(readings: Sequence[Readings], gold: Sequence[Gold]) -> tuple[AlignmentChoice, AlignmentScores]:
    """The read with the lowest alignment error rate, and then the best way to put its two directions together."""
    best, _ = _best(choices(readings[0]), readings, gold)
    return _best([best, *(replace(best, symmetry=symmetry) for symmetry in SYMMETRIES)], readings, gold)


def best_pair(
    forward: Sequence[Readings], backward: Sequence[Readings], gold: Sequence[Gold]
) -> tuple[AlignmentChoice, AlignmentChoice, AlignmentScores]:
    """The reads of two translators, one for each direction, and the way to put their links together, which have the
    lowest alignment error rate together: among those that are best alone, since one may see what the other misses."""
    ours = _most_right(forward, gold, turned=False)
    theirs = _most_right(backward, gold, turned=True)
    found = []
    for (one, links), (other, more), symmetry in product(ours, theirs, SYMMETRIES):
        both = [symmetrise(some, others, symmetry) for some, others in zip(links, more, strict=True)]
        found.append((alignment_scores(both, gold), one, other, symmetry))
    scores, one, other, symmetry = min(found, key=lambda each: each[0].aer)
    chosen, _ = _best([one, *(replace(one, symmetry=own) for own in SYMMETRIES)], forward, gold)
    return replace(chosen, with_reverse=symmetry), replace(other, with_reverse=symmetry), scores


def _most_right(
    readings: Sequence[Readings], gold: Sequence[Gold], turned: bool
) -> list[tuple[AlignmentChoice, list[list[Link]]]]:
    """The few reads that are nearest to gold links alone, and their links as (source, target) of the gold ones."""
    found = []
    for choice in choices(readings[0]):
        links = links_of(readings, choice)
        links = [[(t, s) for s, t in some] for some in links] if turned else links
        found.append((alignment_scores(links, gold).aer, choice, links))
    return [(choice, links) for _, choice, links in sorted(found, key=lambda each: each[0])[:TRIED]]


def _best(
    some: Iterable[AlignmentChoice], readings: Sequence[Readings], gold: Sequence[Gold]
) -> tuple[AlignmentChoice, AlignmentScores]:
    found = [(choice, alignment_scores(links_of(readings, choice), gold)) for choice in some]
    return min(found, key=lambda pair: pair[1].aer)


def agreeing_choices(
    forward: Sequence[Readings], backward: Sequence[Readings] | None = None
) -> tuple[AlignmentChoice, AlignmentChoice | None, float]:
    """Without gold: the choices of two translators, one for each direction, whose links agree most, and how far.

    Agreement is 2·|A∩B| / (|A| + |B|) over all links. What both see is seldom wrong, and rows that are one word off go
    apart in opposite directions. With one translator, a read agrees with itself read from the other side, which says
    nothing of the row: the one that predicted is taken.
    """
    if backward is None:
        found = [(_agreement_with_itself(forward, choice), choice) for choice in choices(forward[0])]
        agreement, choice = max(((a, c) for a, c in found if not c.shifted), key=lambda pair: pair[0])
        return choice, None, agreement
    one, other = choices(forward[0]), choices(backward[0])
    ours = _table(forward, one, turned=False)
    theirs = _table(backward, other, turned=True)
    sums = ours.sum(1)[:, None] + theirs.sum(1)[None]
    agreement = 2 * (ours @ theirs.T) / np.maximum(sums, 1)
    i, j = np.unravel_index(int(agreement.argmax()), agreement.shape)
    return one[i], other[j], float(agreement[i, j])


def _agreement_with_itself(readings: Iterable[Readings], choice: AlignmentChoice) -> float:
    both = total = 0
    for reading in readings:
        weights = _words(reading, choice)
        one, other = set(argmax_links(weights)), {(s, t) for t, s in argmax_links(weights.T)}
        both, total = both + 2 * len(one & other), total + len(one) + len(other)
    return both / max(total, 1)


def _table(readings: Sequence[Readings], some: Sequence[AlignmentChoice], turned: bool) -> npt.NDArray[np.float32]:
    """A row for each choice, a column for each pair of words of each sentence: is there a link?"""
    rows = []
    for choice in some:
        cells = []
        for reading in readings:
            weights = _words(reading, choice)
            links = np.zeros(weights.shape, np.float32)
            links[np.arange(len(weights)), weights.argmax(1)] = 1
            cells.append((links.T if turned else links).reshape(-1))
        rows.append(np.concatenate(cells))
    return np.stack(rows)


def share_on_gold(readings: Iterable[Readings], gold: Iterable[Links], choice: AlignmentChoice) -> float:
    """The share of target words whose strongest source word is a gold link (source word, target word)."""
    right = total = 0
    for reading, links in zip(readings, gold, strict=True):
        found = argmax_links(_words(reading, choice))
        right += sum(link in links for link in found)
        total += len(found)
    return right / max(total, 1)


def _words(reading: Readings, choice: AlignmentChoice) -> npt.NDArray[np.float32]:
    return reading.words(choice.layer, choice.head, choice.shifted).weights
