"""Subword regularisation: draw one of the many segmentations of a word by BPE-dropout or unigram
sampling.

SentencePiece has its own sampling, but its results for a seed differ between processes, so that
runs could not be repeated.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

VARIANTS = 4
"""Segmentations of a word that are drawn in one call; each occurrence of it takes one of them."""
LONGEST = 500
"""Characters of the parts in which longer words are segmented, since the time of merging grows with
the square of the length.
"""
UNKNOWN_PENALTY = 10.0
"""Nats by which an unknown character is less likely than the least likely token."""

Segmenter = Callable[[str, random.Random], list[str]]
"""Draws a segmentation of a word."""


def bpe_dropout(scores: Mapping[str, float], dropout: float) -> Segmenter:
    """Make a BPE-dropout segmenter (Provilkov et al. 2020).

    At each step, every possible merge is dropped with probability `dropout`, and the best remaining
    merge is applied, until no merge remains.
    """

    def segment(word: str, rng: random.Random) -> list[str]:
        tokens = list(word)
        while True:
            best_score = -math.inf
            best_index = -1
            for index in range(len(tokens) - 1):
                score = scores.get(tokens[index] + tokens[index + 1])
                if score is None or score <= best_score:
                    continue
                if dropout == 0 or rng.random() >= dropout:
                    best_score = score
                    best_index = index
            if best_index < 0:
                return tokens
            merged = tokens[best_index] + tokens[best_index + 1]
            tokens[best_index : best_index + 2] = [merged]

    return segment


def unigram_sampling(scores: Mapping[str, float], alpha: float) -> Segmenter:
    """Make a segmenter for subword regularisation of unigram models (Kudo 2018).

    A segmentation is drawn with its probability to the power of `alpha`, by forward filtering and
    backward sampling.
    """
    longest = max(map(len, scores), default=1)
    unknown_score = min(scores.values(), default=0.0) - UNKNOWN_PENALTY

    def segment(word: str, rng: random.Random) -> list[str]:
        # The log-sum of the weights of all segmentations up to each offset.
        forward = [0.0]
        # The start and the log weight of each token that ends at each offset.
        arcs = list[list[tuple[int, float]]]()
        for end in range(1, len(word) + 1):
            incoming = []
            for start in range(max(0, end - longest), end):
                score = scores.get(word[start:end])
                if score is not None:
                    incoming.append((start, forward[start] + alpha * score))
            if not any(start == end - 1 for start, _ in incoming):
                incoming.append((end - 1, forward[end - 1] + alpha * unknown_score))
            top = max(value for _, value in incoming)
            total = sum(math.exp(value - top) for _, value in incoming)
            forward.append(top + math.log(total))
            arcs.append(incoming)

        tokens = list[str]()
        end = len(word)
        while end:
            start = _draw_start(arcs[end - 1], forward[end], rng)
            tokens.append(word[start:end])
            end = start
        return tokens[::-1]

    return segment


def _draw_start(
    arcs: Sequence[tuple[int, float]], total: float, rng: random.Random
) -> int:
    """Draw one of the starts in proportion to the exponential of its log weight; `total` is their
    log-sum.
    """
    remaining = rng.random()
    for start, value in arcs:
        remaining -= math.exp(value - total)
        if remaining < 0:
            return start
    return arcs[-1][0]


def sample_segmentations(
    lines: Sequence[Sequence[str]], segment: Segmenter, seed: int
) -> list[list[list[str]]]:
    """Segment every word of every line; the occurrences of a word share at most `VARIANTS`
    segmentations.
    """
    lines = [[part for word in line for part in _parts(word)] for line in lines]
    counts = Counter(word for line in lines for word in line)
    variants = {}
    for number, (word, count) in enumerate(counts.items()):
        # Each word has a generator of its own, so that words do not affect each other.
        rng = random.Random((seed << 32) + number)
        variants[word] = [segment(word, rng) for _ in range(min(count, VARIANTS))]

    rng = random.Random(seed)
    sampled = []
    for line in lines:
        segmentations = []
        for word in line:
            options = variants[word]
            index = int(rng.random() * len(options)) if len(options) > 1 else 0
            segmentations.append(options[index])
        sampled.append(segmentations)
    return sampled


def _parts(word: str) -> list[str]:
    return [word[start : start + LONGEST] for start in range(0, len(word), LONGEST)]
