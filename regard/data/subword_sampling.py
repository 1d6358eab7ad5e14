"""Words cut into pieces in one of the many ways that a vocabulary allows, drawn by a seed.

SentencePiece draws too, but cuts the same seed differently in another process, so that no run could be repeated.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

__all__ = ["Segmenter", "bpe_dropout", "sample_segmentations", "unigram_sampling"]

VARIANTS = 4  # ways to cut a word that are drawn for one call; each of its places takes one of them
LOST = 10.0  # an unknown character is so many nats less likely than the least likely piece

Segmenter = Callable[[str, random.Random], list[str]]


def bpe_dropout(scores: Mapping[str, float], dropout: float) -> Segmenter:
    """BPE-dropout (Provilkov et al. 2020): at each step every possible merge is left out with this probability, and
    the best of the others is made, until none is left.
    """

    def cut(word: str, chance: random.Random) -> list[str]:
        pieces = list(word)
        while True:
            best, at = -math.inf, -1
            for place in range(len(pieces) - 1):
                score = scores.get(pieces[place] + pieces[place + 1])
                if score is not None and score > best and (dropout == 0 or chance.random() >= dropout):
                    best, at = score, place
            if at < 0:
                return pieces
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]

    return cut


def unigram_sampling(scores: Mapping[str, float], sharpness: float) -> Segmenter:
    """Subword sampling (Kudo 2018): a cut is drawn with its probability to the power of `sharpness`, forward sums
    first, then backwards.
    """
    longest = max(map(len, scores), default=1)
    least = min(scores.values(), default=0.0) - LOST

    def cut(word: str, chance: random.Random) -> list[str]:
        sums, ways = [0.0], list[list[tuple[int, float]]]()
        for end in range(1, len(word) + 1):
            starts = range(max(0, end - longest), end)
            found = [(start, scores.get(word[start:end])) for start in starts]
            here = [(start, sums[start] + sharpness * score) for start, score in found if score is not None]
            if not any(start == end - 1 for start, _ in here):
                here.append((end - 1, sums[end - 1] + sharpness * least))
            top = max(value for _, value in here)
            sums.append(top + math.log(sum(math.exp(value - top) for _, value in here)))
            ways.append(here)
        pieces, end = list[str](), len(word)
        while end:
            start = _one_of(ways[end - 1], sums[end], chance)
            pieces.append(word[start:end])
            end = start
        return pieces[::-1]

    return cut


def _one_of(ways: Sequence[tuple[int, float]], total: float, chance: random.Random) -> int:
    """One of the starts, by the share that its logarithm has of the total."""
    left = chance.random()
    for start, value in ways:
        left -= math.exp(value - total)
        if left < 0:
            return start
    return ways[-1][0]


def sample_segmentations(lines: Sequence[Sequence[str]], cut: Segmenter, seed: int) -> list[list[list[str]]]:
    """The pieces of every word of every line. A word that comes often is cut in a few ways; each place takes one."""
    counts = Counter(word for line in lines for word in line)
    ways = {}
    for number, (word, count) in enumerate(counts.items()):
        chance = random.Random((seed << 32) + number)  # its own, so that one word's cut is no other's
        ways[word] = [cut(word, chance) for _ in range(min(count, VARIANTS))]
    chance, found = random.Random(seed), []
    for line in lines:
        options = [ways[word] for word in line]
        found.append([some[int(chance.random() * len(some))] if len(some) > 1 else some[0] for some in options])
    return found
