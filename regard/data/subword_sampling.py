"""Subword regularisation: BPE-dropout and unigram sampling draw one of the many segmentations of a
word.

SentencePiece samples too, but with other results for the same seed in another process, so that no
run could be repeated.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

# Segmentations of a word that are drawn in one call; each of its occurrences takes one of them.
VARIANTS = 4
# Characters; a longer word is segmented in parts, since the time of merging grows with the square.
LONGEST = 500
UNKNOWN_PENALTY = 10.0
"""An unknown character is so many nats less likely than the least likely token."""

Segmenter = Callable[[str, random.Random], list[str]]


def bpe_dropout(scores: Mapping[str, float], dropout: float) -> Segmenter:
    """Make a BPE-dropout segmenter (Provilkov et al. 2020).

    At each step every possible merge is left out with probability `dropout`, and the best of the
    others is made, until none is left.
    """

    def segment(word: str, rng: random.Random) -> list[str]:
        tokens = list(word)
        while True:
            best_score = -math.inf
            best_index = -1
            for index in range(len(tokens) - 1):
                score = scores.get(tokens[index] + tokens[index + 1])
                if (
                    score is not None
                    and score > best_score
                    and (dropout == 0 or rng.random() >= dropout)
                ):
                    best_score = score
                    best_index = index
            if best_index < 0:
                return tokens
            tokens[best_index : best_index + 2] = [
                tokens[best_index] + tokens[best_index + 1]
            ]

    return segment


def unigram_sampling(scores: Mapping[str, float], alpha: float) -> Segmenter:
    """Make a segmenter for subword regularisation of unigram models (Kudo 2018).

    A segmentation is drawn with its probability to the power of `alpha`: forward filtering,
    backward sampling.
    """
    longest = max(map(len, scores), default=1)
    unknown_score = min(scores.values(), default=0.0) - UNKNOWN_PENALTY

    def segment(word: str, rng: random.Random) -> list[str]:
        # Log sums; (start, log weight) of tokens by their end.
        forward, arcs = (
            [0.0],
            list[list[tuple[int, float]]](),
        )
        for end in range(1, len(word) + 1):
            starts = range(max(0, end - longest), end)
            known = [(start, scores.get(word[start:end])) for start in starts]
            incoming = [
                (start, forward[start] + alpha * score)
                for start, score in known
                if score is not None
            ]
            if not any(start == end - 1 for start, _ in incoming):
                incoming.append((end - 1, forward[end - 1] + alpha * unknown_score))
            top = max(value for _, value in incoming)
            forward.append(
                top + math.log(sum(math.exp(value - top) for _, value in incoming))
            )
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
    """Draw one of the starts in proportion to the exponential of its log weight."""
    remaining = rng.random()
    for start, value in arcs:
        remaining -= math.exp(value - total)
        if remaining < 0:
            return start
    return arcs[-1][0]


def sample_segmentations(
    lines: Sequence[Sequence[str]], segment: Segmenter, seed: int
) -> list[list[list[str]]]:
    """Segment every word of every line; each occurrence of a frequent word takes one of a few
    segmentations.
    """
    lines = [[part for word in line for part in _parts(word)] for line in lines]
    counts = Counter(word for line in lines for word in line)
    variants = {}
    for number, (word, count) in enumerate(counts.items()):
        # One for each word, so that words do not depend on each other.
        rng = random.Random((seed << 32) + number)
        variants[word] = [segment(word, rng) for _ in range(min(count, VARIANTS))]
    rng = random.Random(seed)
    sampled = []
    for line in lines:
        options = [variants[word] for word in line]
        sampled.append(
            [
                words[int(rng.random() * len(words))] if len(words) > 1 else words[0]
                for words in options
            ]
        )
    return sampled


def _parts(word: str) -> list[str]:
    return [word[start : start + LONGEST] for start in range(0, len(word), LONGEST)]
