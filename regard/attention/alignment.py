"""From pieces to words, and from weights to links: which source word each target word looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["Link", "Readings", "WordWeights", "merge_words", "pharaoh", "read_pharaoh", "strongest"]

Array = npt.NDArray[np.float32]
Link = tuple[int, int]  # source word, target word


@dataclass(frozen=True)
class Readings:
    """What a model looked at while it wrote one target: plain data, one array (heads, target, source) for each layer.

    Row t of a cross-attention is the read made while target piece t was predicted, end of sentence last.
    `source_words` and `target_words` say which word each piece belongs to; −1 is end of sentence.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    source_words: tuple[int, ...]
    target_words: tuple[int, ...]
    weights: dict[str, Array] = field(repr=False)
    roles: dict[str, str] = field(repr=False)

    def layers(self, role: str = "cross") -> list[str]:
        """The names of the layers that read in this role, lowest first."""
        return [name for name in self.weights if self.roles[name] == role]

    def words(self, layer: str, head: int | None = None, consumed: bool = False) -> WordWeights:
        """The weights between words of one head of a cross-attention, or of the mean of its heads.

        `consumed`: take the read made when the piece had been written and went in, not the one that predicted it.
        """
        weights = self.weights[layer]
        matrix = weights.mean(0) if head is None else weights[head]
        if consumed:
            matrix = np.concatenate([matrix[1:], matrix[-1:]])
        return merge_words(matrix, self.source_words, self.target_words)


@dataclass(frozen=True)
class WordWeights:
    """Weights between words (target words, source words), and what went to the end of the sentence (target words)."""

    weights: Array
    elsewhere: Array


def merge_words(weights: Array, source_words: Sequence[int], target_words: Sequence[int]) -> WordWeights:
    """Pieces into words: the sum over the pieces of a source word, the mean over those of a target word."""
    columns, rows = _groups(source_words), _groups(target_words)
    rows = rows / np.maximum(rows.sum(1, keepdims=True), 1)
    elsewhere = weights[:, np.asarray(source_words) < 0].sum(1)
    return WordWeights((rows @ weights @ columns.T).astype(np.float32), (rows @ elsewhere).astype(np.float32))


def strongest(weights: Array) -> list[Link]:
    """For each target word the source word that it looked at most."""
    return [(int(row.argmax()), target) for target, row in enumerate(weights)] if weights.size else []


def pharaoh(links: Iterable[Link]) -> str:
    """Links as `source-target` pairs, counted from 0, as alignment tools write them."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def read_pharaoh(line: str) -> frozenset[Link]:
    """The links of a line such as `0-0 1-2`."""
    pairs = (pair.split("-") for pair in line.split())
    return frozenset((int(source), int(target)) for source, target in pairs)


def _groups(words: Sequence[int]) -> Array:
    """A row for each word, with a one at each of its pieces."""
    count = max(words, default=-1) + 1
    groups: Array = (np.arange(count)[:, None] == np.asarray(words)[None, :]).astype(np.float32)
    return groups
