"""Alignment error rate (AER): choose the layer and head that align best, and score alignments
against gold links.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from regard.attention.alignment import (
    SYMMETRIES,
    Link,
    Readings,
    argmax_links,
    extract_links,
    symmetrise,
)
from regard.common.errors import DataError
from regard.data.given_words import given_words
from regard.data.word_alignments import check_links, read_gold
from regard.pipeline import AlignmentChoice, FolderTranslator

Links = frozenset[Link]
MAX_PAIRED = 8
"""Choices of each of two translators that are tried in combination."""


@dataclass(frozen=True)
class Gold:
    """Gold links of one sentence pair: sure links, and all possible ones."""

    sure: Links
    possible: Links

    @classmethod
    def of(cls, links: Iterable[Link]) -> Gold:
        """Make gold links that are all sure."""
        return cls(frozenset(links), frozenset(links))


def parse_gold(
    path: str, lines: Sequence[str], sources: Sequence[str], targets: Sequence[str]
) -> list[Gold]:
    """Parse gold links between the words of lines as they were given.

    Raises DataError, with the first five causes, for links between words that do not exist.
    """
    gold = []
    problems = []
    for number, (line, *pair) in enumerate(
        zip(lines, sources, targets, strict=True), 1
    ):
        try:
            gold.append(Gold(*read_gold(line)))
            check_links(
                sorted(gold[-1].sure | gold[-1].possible), *map(given_words, pair)
            )
        except ValueError as problem:
            problems.append(f"{path}, line {number}: {problem}")
    DataError.raise_all(problems[:5])
    return gold


@dataclass(frozen=True)
class AlignmentScores:
    """Alignment error rate, precision and recall (Och and Ney 2003), over all links of all
    sentences.

    With predicted links A, sure ones S and possible ones P ⊇ S: AER = 1 − (|A∩S| + |A∩P|) / (|A| +
    |S|), precision
    |A∩P| / |A|, recall |A∩S| / |S|.
    """

    aer: float
    precision: float
    recall: float


def alignment_scores(
    predicted: Iterable[Iterable[Link]], gold: Iterable[Gold]
) -> AlignmentScores:
    """Score predicted links against the gold links of the same sentences."""
    counts = np.zeros(4)
    for links, wanted in zip(map(frozenset, predicted), gold, strict=True):
        sets = (
            links & wanted.sure,
            links & (wanted.possible | wanted.sure),
            links,
            wanted.sure,
        )
        counts += [len(each) for each in sets]
    sure_hits, possible_hits, total, total_sure = map(float, counts)
    return AlignmentScores(
        1 - (sure_hits + possible_hits) / (total + total_sure)
        if total + total_sure
        else 0.0,
        possible_hits / total if total else 1.0,
        sure_hits / total_sure if total_sure else 1.0,
    )


def read_all(
    translator: FolderTranslator, sources: Sequence[str], targets: Sequence[str]
) -> list[Readings]:
    """Return the cross-attention weights of sentence pairs, as they were given, under teacher
    forcing.
    """
    encoded = [translator.tokenizer.target.encode(target) for target in targets]
    readings = list[Readings]()
    for reading, source, target in zip(
        translator.read_all(sources, encoded, "cross"), sources, targets, strict=True
    ):
        words = given_words(source), given_words(target)
        if not all(side.is_clean for side in words):
            reading = replace(
                reading, given_words=(words[0].positions, words[1].positions)
            )
        readings.append(reading)
    return readings


def extract_choice_links(
    readings: Iterable[Readings], choice: AlignmentChoice
) -> list[list[Link]]:
    """Return the links that a choice of layer, head, row and symmetry extracts, between words as
    they were given.
    """
    extracted = list[list[Link]]()
    for reading in readings:
        links = extract_links(_words(reading, choice), choice.symmetry)
        if reading.given_words:
            sources, targets = reading.given_words
            links = sorted({(sources[s], targets[t]) for s, t in links})
        extracted.append(links)
    return extracted


def all_choices(reading: Readings) -> list[AlignmentChoice]:
    """Return every layer with every head and the mean of its heads, unshifted and shifted
    (SHIFT-ATT).
    """
    choices = []
    for layer in reading.layers("cross"):
        heads = reading.weights[layer].shape[0]
        for head, shifted in product(
            [*range(heads), *([None] if heads > 1 else [])], (False, True)
        ):
            choices.append(AlignmentChoice(layer, head, shifted))
    return choices


def best_choice(
    readings: Sequence[Readings], gold: Sequence[Gold]
) -> tuple[AlignmentChoice, AlignmentScores]:
    """Choose the layer, head and row with the lowest AER, then the best symmetrisation of its two
    directions.
    """
    best, _ = _best(all_choices(readings[0]), readings, gold)
    return _best(
        [best, *(replace(best, symmetry=symmetry) for symmetry in SYMMETRIES)],
        readings,
        gold,
    )


def best_pair(
    forward: Sequence[Readings], backward: Sequence[Readings], gold: Sequence[Gold]
) -> tuple[AlignmentChoice, AlignmentChoice, AlignmentScores]:
    """Choose a head of each of two translators, one per direction, and the symmetrisation with the
    lowest joint AER.

    Only the best few choices of each translator are combined: one may be right where the other is
    wrong.
    """
    forward_choices = _best_few(forward, gold, transposed=False)
    backward_choices = _best_few(backward, gold, transposed=True)
    scored = []
    for (choice, links), (reverse, reverse_links), symmetry in product(
        forward_choices, backward_choices, SYMMETRIES
    ):
        joint = [
            symmetrise(one, other, symmetry)
            for one, other in zip(links, reverse_links, strict=True)
        ]
        scored.append((alignment_scores(joint, gold), choice, reverse, symmetry))
    scores, choice, reverse, symmetry = min(scored, key=lambda item: item[0].aer)
    alone, _ = _best(
        [choice, *(replace(choice, symmetry=own) for own in SYMMETRIES)], forward, gold
    )
    return (
        replace(alone, with_reverse=symmetry),
        replace(reverse, with_reverse=symmetry),
        scores,
    )


def _best_few(
    readings: Sequence[Readings], gold: Sequence[Gold], transposed: bool
) -> list[tuple[AlignmentChoice, list[list[Link]]]]:
    """Return the choices with the lowest AER, and their links as (source, target) of the gold
    links.
    """
    scored = []
    for choice in all_choices(readings[0]):
        links = extract_choice_links(readings, choice)
        links = (
            [[(t, s) for s, t in sentence] for sentence in links]
            if transposed
            else links
        )
        scored.append((alignment_scores(links, gold).aer, choice, links))
    return [
        (choice, links)
        for _, choice, links in sorted(scored, key=lambda item: item[0])[:MAX_PAIRED]
    ]


def _best(
    choices: Iterable[AlignmentChoice],
    readings: Sequence[Readings],
    gold: Sequence[Gold],
) -> tuple[AlignmentChoice, AlignmentScores]:
    scored = [
        (choice, alignment_scores(extract_choice_links(readings, choice), gold))
        for choice in choices
    ]
    return min(scored, key=lambda pair: pair[1].aer)


def agreeing_choices(
    forward: Sequence[Readings], backward: Sequence[Readings] | None = None
) -> tuple[AlignmentChoice, AlignmentChoice | None, float]:
    """Choose without gold links: the choices of two translators, one per direction, whose links
    agree most.

    Agreement is 2·|A∩B| / (|A| + |B|) over all links; it is returned too. Links of both directions
    are seldom wrong, and rows that are off by one shift apart in opposite directions. With one
    translator, a choice is compared with its own argmax over the other axis, which says nothing
    about the row: the unshifted one is taken.
    """
    if backward is None:
        scored = [
            (_self_agreement(forward, c), c)
            for c in all_choices(forward[0])
            if not c.shifted
        ]
        agreement, choice = max(scored, key=lambda pair: pair[0])
        return choice, None, agreement
    forward_choices = all_choices(forward[0])
    backward_choices = all_choices(backward[0])
    forward_links = _link_matrix(forward, forward_choices, transposed=False)
    backward_links = _link_matrix(backward, backward_choices, transposed=True)
    sums = forward_links.sum(1)[:, None] + backward_links.sum(1)[None]
    agreements = 2 * (forward_links @ backward_links.T) / np.maximum(sums, 1)
    i, j = np.unravel_index(int(agreements.argmax()), agreements.shape)
    return forward_choices[i], backward_choices[j], float(agreements[i, j])


def _self_agreement(readings: Iterable[Readings], choice: AlignmentChoice) -> float:
    both = total = 0
    for reading in readings:
        weights = _words(reading, choice)
        by_row = set(argmax_links(weights))
        by_column = {(s, t) for t, s in argmax_links(weights.T)}
        both = both + 2 * len(by_row & by_column)
        total = total + len(by_row) + len(by_column)
    return both / max(total, 1)


def _link_matrix(
    readings: Sequence[Readings], choices: Sequence[AlignmentChoice], transposed: bool
) -> npt.NDArray[np.float32]:
    """Return a row per choice and a column per word pair of each sentence: 1 if linked."""
    rows = []
    for choice in choices:
        cells = []
        for reading in readings:
            weights = _words(reading, choice)
            links = np.zeros(weights.shape, np.float32)
            for source, target in argmax_links(weights):
                links[target, source] = 1
            cells.append((links.T if transposed else links).reshape(-1))
        rows.append(np.concatenate(cells))
    return np.stack(rows)


def argmax_accuracy(
    readings: Iterable[Readings], gold: Iterable[Links], choice: AlignmentChoice
) -> float:
    """Return the share of target words whose source word with the largest weight is a gold link
    (source, target).
    """
    right = total = 0
    for reading, links in zip(readings, gold, strict=True):
        predicted = argmax_links(_words(reading, choice))
        right += sum(link in links for link in predicted)
        total += len(predicted)
    return right / max(total, 1)


def _words(reading: Readings, choice: AlignmentChoice) -> npt.NDArray[np.float32]:
    return reading.words(choice.layer, choice.head, choice.shifted).weights
