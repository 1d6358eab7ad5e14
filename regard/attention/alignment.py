"""Word alignment from attention: merge token weights into word weights, extract links, symmetrise
directions.
"""

from __future__ import annotations

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

    Row t of cross-attention holds the weights with which target token t was predicted, end of
    sentence last. Decoder self-attention is (heads, target, target); its column t is the token that
    was fed in at row t, beginning of sentence first. Encoder self-attention is (heads, source,
    source). `source_words` and `target_words` give each token's word index; −1 is end of sentence.
    `source_text` and `target_text` are the words themselves, if known. The source of an image is
    its cells row by row, in a `grid` of (rows, columns); `cell_centre` is the point that a cell
    looks at, as a fraction of the cell's side; `cell_extent` is the fraction of the image's height
    and width that all cells cover, more than 1 if the last ones hang over its edge. `scores` are
    what softmax makes the weights of, of the same layers and shapes; −∞: of what a row does not
    attend to. `given_words`: in which word of the sentences as they were given each source word and
    each target word stands, if the words of these are others.
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
        """Return the weights between words: those of one head of a layer, or the mean of its heads.

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
        """Return the weights of one target word over an image, (rows, columns): the mean over its
        tokens.

        They are those of one head, or the mean of all heads, of `layer` (default: the last).
        """
        if self.grid is None:
            raise UsageError(
                "image_map: these readings are of a sentence, which has no rows and columns; use "
                "words()"
            )
        weights: Array = (
            self.words(layer or self.layers()[-1], head, shifted)
            .weights[word]
            .reshape(self.grid)
        )
        return weights

    def _repr_html_(self) -> str:
        """Show the weights between words in a notebook: the mean over the heads of the highest
        layer.
        """
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

    `elsewhere` (target words) is the weight on special tokens, which are no words: end of source,
    beginning of target.
    """

    weights: Array
    special_weights: Array


def cell_edges(
    count: int, centre: float = 0.5, extent: float = 1.0
) -> npt.NDArray[np.float64]:
    """Return the borders of the rows (or columns) of cells, as fractions of the image (count + 1).

    A cell owns the pixels nearest to its centre, so cells that look near their upper left corner
    are drawn half a cell further up and left; the outer cells end at the edge of the image.
    `extent` is the fraction of the image that all cells cover.
    """
    edges: npt.NDArray[np.float64] = (
        (np.arange(count + 1) + centre - 0.5) / count * extent
    ).clip(0, 1)
    edges[0], edges[-1] = 0, 1
    return edges


def merge_words(
    weights: Array, source_words: Sequence[int], target_words: Sequence[int]
) -> WordWeights:
    """Merge token weights into word weights: sum over the tokens of a source word, mean over those
    of a target word.
    """
    columns = _groups(source_words)
    rows = _groups(target_words)
    rows = rows / np.maximum(rows.sum(1, keepdims=True), 1)
    special_weights = weights[:, np.asarray(source_words) < 0].sum(1)
    return WordWeights(
        (rows @ weights @ columns.T).astype(np.float32),
        (rows @ special_weights).astype(np.float32),
    )


def argmax_links(weights: Array) -> list[Link]:
    """Link each target word to the source word with the largest weight."""
    return (
        [(int(row.argmax()), target) for target, row in enumerate(weights)]
        if weights.size
        else []
    )


def extract_links(weights: Array, symmetry: Symmetry | None = None) -> list[Link]:
    """Extract alignment links from weights between words (target words, source words).

    Each target word is linked to the source word with the largest weight. With a `symmetry`, this
    is one direction; the other links each source word to the target word with the largest weight;
    the two are symmetrised.
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

    "intersection" and "union" are those of sets. "grow-diag" starts from the intersection and adds
    links of the union that neighbour an accepted link, if one of their words is still unaligned;
    "grow-diag-final" then adds those between two unaligned words.
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
    for source, target in queue:  # links added on the way are queued too
        for link in ((source + i, target + j) for i in (-1, 0, 1) for j in (-1, 0, 1)):
            if (
                link in union
                and link not in links
                and (link[0] not in sources or link[1] not in targets)
            ):
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


def _groups(words: Sequence[int]) -> Array:
    """Return a (words, tokens) matrix with a one at each token of each word."""
    count = max(words, default=-1) + 1
    groups: Array = (np.arange(count)[:, None] == np.asarray(words)[None, :]).astype(
        np.float32
    )
    return groups
