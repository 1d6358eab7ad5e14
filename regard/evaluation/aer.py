"""Alignment error rate (AER): score alignments against gold links, and choose the best layer and
head.
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
"""Choices of each of two translators that are combined with those of the other."""


@dataclass(frozen=True)
class Gold:
    """Gold links of one sentence pair: sure links, and all possible ones."""

    sure: Links
    possible: Links

    @classmethod
    def of(cls, links: Iterable[Link]) -> Gold:
        """Return gold links that are all sure."""
        return cls(frozenset(links), frozenset(links))


def parse_gold(
    path: str, lines: Sequence[str], sources: Sequence[str], targets: Sequence[str]
) -> list[Gold]:
    """Parse gold links between the words of lines as they were given.

    Raises DataError, with the first five causes, for links between words that do not exist.
    """
    gold = list[Gold]()
    problems = list[str]()
    rows = zip(lines, sources, targets, strict=True)
    for number, (line, source, target) in enumerate(rows, 1):
        try:
            links = Gold(*read_gold(line))
            gold.append(links)
            check_links(
                sorted(links.sure | links.possible),
                given_words(source),
                given_words(target),
            )
        except ValueError as problem:
            problems.append(f"{path}, line {number}: {problem}")
    DataError.raise_all(problems[:5])
    return gold


@dataclass(frozen=True)
class AlignmentScores:
    """Alignment error rate, precision and recall over all links (Och and Ney 2003).

    With predicted links A, sure links S and possible links P ⊇ S:

        AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|)
        precision = |A∩P| / |A|
        recall = |A∩S| / |S|
    """

    aer: float
    precision: float
    recall: float


def alignment_scores(
    predicted: Iterable[Iterable[Link]], gold: Iterable[Gold]
) -> AlignmentScores:
    """Score predicted links against the gold links of the same sentences."""
    sure_hits = possible_hits = total = total_sure = 0
    for sentence_links, wanted in zip(predicted, gold, strict=True):
        links = frozenset(sentence_links)
        sure_hits += len(links & wanted.sure)
        possible_hits += len(links & (wanted.possible | wanted.sure))
        total += len(links)
        total_sure += len(wanted.sure)

    aer = 0.0
    if total + total_sure:
        aer = 1 - (sure_hits + possible_hits) / (total + total_sure)
    precision = possible_hits / total if total else 1.0
    recall = sure_hits / total_sure if total_sure else 1.0
    return AlignmentScores(aer, precision, recall)


def read_all(
    translator: FolderTranslator, sources: Sequence[str], targets: Sequence[str]
) -> list[Readings]:
    """Return the cross-attention weights of given sentence pairs, under teacher forcing."""
    encoded = [translator.tokenizer.target.encode(target) for target in targets]
    clean_readings = translator.read_all(sources, encoded, "cross")
    readings = list[Readings]()
    for reading, source, target in zip(clean_readings, sources, targets, strict=True):
        source_words = given_words(source)
        target_words = given_words(target)
        if not (source_words.is_clean and target_words.is_clean):
            positions = (source_words.positions, target_words.positions)
            reading = replace(reading, given_words=positions)
        readings.append(reading)
    return readings


def extract_choice_links(
    readings: Iterable[Readings], choice: AlignmentChoice
) -> list[list[Link]]:
    """Return the links that a choice extracts, between the words of the lines as given."""
    extracted = list[list[Link]]()
    for reading in readings:
        links = extract_links(_words(reading, choice), choice.symmetry)
        if reading.given_words:
            sources, targets = reading.given_words
            links = sorted({(sources[s], targets[t]) for s, t in links})
        extracted.append(links)
    return extracted


def all_choices(reading: Readings) -> list[AlignmentChoice]:
    """Return every layer with every head and with the mean of its heads, unshifted and shifted
    (SHIFT-ATT).
    """
    choices = list[AlignmentChoice]()
    for layer in reading.layers("cross"):
        count = reading.weights[layer].shape[0]
        heads: list[int | None] = list(range(count))
        if count > 1:
            heads.append(None)  # the mean of the heads
        for head, shifted in product(heads, (False, True)):
            choices.append(AlignmentChoice(layer, head, shifted))
    return choices


def best_choice(
    readings: Sequence[Readings], gold: Sequence[Gold]
) -> tuple[AlignmentChoice, AlignmentScores]:
    """Choose the layer, head and shift with the lowest AER, then the best symmetrisation of its
    directions.
    """
    best, _ = _best(all_choices(readings[0]), readings, gold)
    symmetrised = [replace(best, symmetry=symmetry) for symmetry in SYMMETRIES]
    return _best([best, *symmetrised], readings, gold)


def best_pair(
    forward: Sequence[Readings], backward: Sequence[Readings], gold: Sequence[Gold]
) -> tuple[AlignmentChoice, AlignmentChoice, AlignmentScores]:
    """Choose a head of each of two opposite translators, and the symmetrisation with the lowest
    joint AER.

    Only the best few choices of each are combined, since one may be right if the other is wrong.
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
    scores, choice, reverse, joint_symmetry = min(scored, key=lambda item: item[0].aer)
    symmetrised = [replace(choice, symmetry=symmetry) for symmetry in SYMMETRIES]
    choice, _ = _best([choice, *symmetrised], forward, gold)
    return (
        replace(choice, with_reverse=joint_symmetry),
        replace(reverse, with_reverse=joint_symmetry),
        scores,
    )


def _best_few(
    readings: Sequence[Readings], gold: Sequence[Gold], transposed: bool
) -> list[tuple[AlignmentChoice, list[list[Link]]]]:
    """Return the choices with the lowest AER, with their links in the direction of the gold
    links.
    """
    scored = []
    for choice in all_choices(readings[0]):
        links = extract_choice_links(readings, choice)
        if transposed:
            links = [[(t, s) for s, t in sentence] for sentence in links]
        scored.append((alignment_scores(links, gold).aer, choice, links))
    scored.sort(key=lambda item: item[0])
    return [(choice, links) for _, choice, links in scored[:MAX_PAIRED]]


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


def most_consistent_choice(
    readings: Sequence[Readings],
) -> tuple[AlignmentChoice, float]:
    """Choose, without gold links, the choice of one translator that agrees most with itself.

    Its links by target word are compared with those by source word. Attention that is off by one
    decoder step displaces both alike, so shifted choices are left out. Returns the choice and its
    agreement.
    """
    scored = [
        (_self_agreement(readings, choice), choice)
        for choice in all_choices(readings[0])
        if not choice.shifted
    ]
    agreement, choice = max(scored, key=lambda pair: pair[0])
    return choice, agreement


def most_agreeing_pair(
    forward: Sequence[Readings], backward: Sequence[Readings]
) -> tuple[AlignmentChoice, AlignmentChoice, float]:
    """Choose, without gold links, the choices of two opposite translators whose links agree most.

    A link that both directions find is seldom wrong. If the attention of both is off by one decoder
    step, their links are displaced in opposite directions, and do not agree. Returns the choices
    and their agreement, 2·|A∩B| / (|A| + |B|) over all links.
    """
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
        both += 2 * len(by_row & by_column)
        total += len(by_row) + len(by_column)
    return both / max(total, 1)


def _link_matrix(
    readings: Sequence[Readings], choices: Sequence[AlignmentChoice], transposed: bool
) -> npt.NDArray[np.float32]:
    """Return a matrix with a row per choice and a column per word pair: 1 if they are linked."""
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
    """Return the share of target words whose most attended source word is a gold link (source,
    target).
    """
    right = total = 0
    for reading, links in zip(readings, gold, strict=True):
        predicted = argmax_links(_words(reading, choice))
        right += sum(link in links for link in predicted)
        total += len(predicted)
    return right / max(total, 1)


def _words(reading: Readings, choice: AlignmentChoice) -> npt.NDArray[np.float32]:
    return reading.words(choice.layer, choice.head, choice.shifted).weights
