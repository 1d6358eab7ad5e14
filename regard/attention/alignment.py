"""Word alignment from attention weights.

Token weights are merged into word weights, links are extracted from these, and the links of both
directions are symmetrised.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from regard.attention.html_table import weights_table
from regard.common.errors import UsageError

Array = npt.NDArray[np.float32]
Link = tuple[int, int]  # source word, target word
Symmetry = Literal["intersection", "grow-diag", "grow-diag-final", "union"]
SYMMETRIES: tuple[Symmetry, ...] = get_args(Symmetry)


@dataclass(frozen=True, eq=False)
class Readings:
    """Attention weights of one output, as plain data: one array (heads, target, source) per layer.

    Row t of cross-attention holds the weights with which target token t was predicted; the last row
    is end of sentence. Decoder self-attention is (heads, target, target); its column t is the token
    that was fed in at row t, beginning of sentence first. Encoder self-attention is (heads, source,
    source).

    `source_words` and `target_words` give each token's word index; −1 is end of sentence.
    `source_text` and `target_text` are the words themselves, if known. `given_words` maps each
    source word and each target word to a word of the user's sentences, if those were split into
    other words.

    The source of an image is its cells row by row, in a `grid` of (rows, columns). `cell_centre` is
    the centre of a cell's receptive field, as a fraction of the cell's side. `cell_extent` is the
    fraction of the image's height and width that all cells cover; it exceeds 1 if the last cells
    reach over the edge.

    `scores` are the attention scores before the softmax, for the same layers and with the same
    shapes; a masked entry has the score −∞.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    source_words: tuple[int, ...]
    target_words: tuple[int, ...]
    weights: dict[str, Array] = field(repr=False)
    roles: dict[str, str] = field(repr=False)
    source_text: tuple[str, ...] = ()
    target_text: tuple[str, ...] = ()
    grid: tuple[int, int] | None = None
    cell_centre: float = 0.5
    cell_extent: tuple[float, float] = (1.0, 1.0)
    scores: dict[str, Array] = field(default_factory=dict, repr=False)
    given_words: tuple[Sequence[int], Sequence[int]] | None = field(
        default=None, repr=False
    )

    def layers(self, role: str = "cross") -> list[str]:
        """Return the names of the layers with this role, lowest first."""
        return [name for name in self.weights if self.roles[name] == role]

    def words(
        self, layer: str, head: int | None = None, shifted: bool = False
    ) -> WordWeights:
        """Return the weights between words, of one head of a layer or averaged over its heads.

        `shifted`: take the weights of the step that consumed the token, not of the one that
        predicted it (SHIFT-ATT, Chen et al. 2020).
        """
        weights = self.weights[layer]
        matrix = weights.mean(0) if head is None else weights[head]
        role = self.roles[layer]
        if shifted and role != "encoder":
            matrix = np.concatenate([matrix[1:], matrix[-1:]])
        if role == "encoder":
            return merge_words(matrix, self.source_words, self.source_words)
        if role == "decoder":
            return merge_words(matrix, (-1, *self.target_words[:-1]), self.target_words)
        return merge_words(matrix, self.source_words, self.target_words)

    def image_map(
        self,
        word: int,
        layer: str | None = None,
        head: int | None = None,
        shifted: bool = False,
    ) -> Array:
        """Return the weights of one target word over the cells of an image, (rows, columns).

        They are averaged over the word's tokens, and over all heads of `layer` (default: the last)
        unless `head` selects one. Raises UsageError if the source is a sentence.
        """
        if self.grid is None:
            raise UsageError(
                "image_map: these readings are of a sentence, which has no rows and columns; use "
                "words()"
            )
        words = self.words(layer or self.layers()[-1], head, shifted)
        weights: Array = words.weights[word].reshape(self.grid)
        return weights

    def _repr_html_(self) -> str:
        """Show the word weights of the highest layer, averaged over its heads, in a notebook."""
        layers = self.layers("cross")
        if not layers:
            return "<p>This model has no cross-attention.</p>"
        words = self.words(layers[-1])
        return weights_table(
            self.source_text,
            self.target_text,
            words.weights,
            f"{layers[-1]}, mean of heads",
        )


@dataclass(frozen=True)
class WordWeights:
    """Weights between words, (target words, source words).

    `special_weights` (target words) is the weight on special tokens that belong to no word, such as
    end of sentence.
    """

    weights: Array
    special_weights: Array


def cell_names(rows: int, columns: int) -> tuple[str, ...]:
    """Return the names of the cells of an image, row by row: 1·1, 1·2, …"""
    return tuple(
        f"{row}·{column}"
        for row in range(1, rows + 1)
        for column in range(1, columns + 1)
    )


def cell_edges(
    count: int, centre: float = 0.5, extent: float = 1.0
) -> npt.NDArray[np.float64]:
    """Return the `count` + 1 borders of rows (or columns) of cells, as fractions of the image.

    A cell owns the pixels nearest to its centre, so cells whose receptive field is centred near
    their upper left corner are drawn half a cell further up and left. The outer cells end at the
    edge of the image. `extent` is the fraction of the image that all cells cover.
    """
    positions = np.arange(count + 1) + centre - 0.5
    edges: npt.NDArray[np.float64] = (positions / count * extent).clip(0, 1)
    edges[0] = 0
    edges[-1] = 1
    return edges


def merge_words(
    weights: Array, source_words: Sequence[int], target_words: Sequence[int]
) -> WordWeights:
    """Merge token weights (target, source) into word weights.

    Weights are summed over the tokens of a source word and averaged over those of a target word.
    """
    columns = _membership(source_words)
    rows = _membership(target_words)
    rows = rows / np.maximum(rows.sum(1, keepdims=True), 1)
    # OpenBLAS can raise the flag of an invalid value for finite numbers, by the padding of its
    # buffers (numpy/numpy#24067, OpenMathLib/OpenBLAS#1924); the product is tested instead.
    with np.errstate(invalid="ignore"):
        word_weights = rows @ weights @ columns.T
    if not np.isfinite(word_weights).all():
        warnings.warn("word weights are not finite", RuntimeWarning, stacklevel=2)
    special_weights = rows @ weights[:, np.asarray(source_words) < 0].sum(1)
    return WordWeights(
        word_weights.astype(np.float32), special_weights.astype(np.float32)
    )


def argmax_links(weights: Array) -> list[Link]:
    """Link each target word to the source word with the largest weight."""
    if not weights.size:
        return []
    return [(int(row.argmax()), target) for target, row in enumerate(weights)]


def extract_links(weights: Array, symmetry: Symmetry | None = None) -> list[Link]:
    """Extract alignment links from weights between words (target words, source words).

    Each target word is linked to the source word with the largest weight. With a `symmetry`, each
    source word is also linked to the target word with the largest weight, and the links of both
    directions are symmetrised.
    """
    forward = argmax_links(weights)
    if symmetry is None:
        return forward
    backward = [(source, target) for target, source in argmax_links(weights.T)]
    return symmetrise(forward, backward, symmetry)


def symmetrise(
    forward: Iterable[Link], backward: Iterable[Link], symmetry: Symmetry
) -> list[Link]:
    """Symmetrise the alignments of two directions (Koehn et al. 2003; Och and Ney 2003).

    "intersection" and "union" are the operations on sets. "grow-diag" starts from the intersection
    and adds links of the union that neighbour an accepted link, if one of their words is still
    unaligned; "grow-diag-final" then adds the links of the union between two unaligned words.
    """
    first = set(forward)
    second = set(backward)
    links = first & second
    union = first | second
    if symmetry == "union":
        return sorted(union)
    if symmetry == "intersection":
        return sorted(links)

    sources = {source for source, _ in links}
    targets = {target for _, target in links}
    queue = sorted(links)
    for source, target in queue:  # the loop also visits the links that it appends
        neighbours = [(source + i, target + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        for link in neighbours:
            if link not in union or link in links:
                continue
            if link[0] not in sources or link[1] not in targets:
                queue.append(link)
                _add(link, links, sources, targets)

    if symmetry == "grow-diag-final":
        for link in sorted(union):
            if link[0] not in sources and link[1] not in targets:
                _add(link, links, sources, targets)
    return sorted(links)


def _add(link: Link, links: set[Link], sources: set[int], targets: set[int]) -> None:
    links.add(link)
    sources.add(link[0])
    targets.add(link[1])


def _membership(words: Sequence[int]) -> Array:
    """Return a matrix (words, tokens) with a one for each token of each word."""
    count = max(words, default=-1) + 1
    belongs = np.arange(count)[:, None] == np.asarray(words)[None, :]
    membership: Array = belongs.astype(np.float32)
    return membership
