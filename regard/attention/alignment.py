"""From pieces to words, and from weights to links: which source word each target word looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from regard.attention.html_table import table
from regard.errors import UsageError

__all__ = [
    "SYMMETRIES",
    "Link",
    "Readings",
    "Symmetry",
    "WordWeights",
    "argmax_links",
    "cell_edges",
    "extract_links",
    "merge_words",
    "symmetrise",
]

Array = npt.NDArray[np.float32]
Link = tuple[int, int]  # source word, target word
Symmetry = Literal["intersection", "grow-diag", "grow-diag-final", "union"]
SYMMETRIES: tuple[Symmetry, ...] = get_args(Symmetry)


@dataclass(frozen=True, eq=False)
class Readings:
    """What a model looked at while it wrote one target: plain data, one array (heads, target, source) for each layer.

    Row t of a cross-attention is the read made while target piece t was predicted, end of sentence last; a decoder's
    own is (heads, target, target), its column t the piece that went in at row t, the beginning of the sentence first;
    an encoder's is (heads, source, source). `source_words` and `target_words` say which word each piece belongs to; −1
    is end of sentence. `source_text` and `target_text` are the words themselves, where they are known. Of a picture,
    the source is its cells row by row, in a `grid` of (rows, columns); `middle` is where in its square a cell looks, in
    shares of a side; `reach` is how much of its height and width the cells come to together, more than 1 where the last
    ones hang over its edge.
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

    def layers(self, role: str = "cross") -> list[str]:
        """The names of the layers that read in this role, lowest first."""
        return [name for name in self.weights if self.roles[name] == role]

    def words(self, layer: str, head: int | None = None, shifted: bool = False) -> WordWeights:
        """The weights between words of one head of a layer, or of the mean of its heads.

        `consumed`: take the read made when the piece had been written and went in, not the one that predicted it.
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

    def image_map(self, word: int, layer: str | None = None, head: int | None = None, shifted: bool = False) -> Array:
        """Where one target word looked in a picture, (rows, columns): the mean over its pieces, of one head of a layer,
        the last if none is named, or of the mean of its heads."""
        if self.grid is None:
            raise UsageError("map: these readings are of a sentence, which has no rows and columns; take words()")
        found: Array = self.words(layer or self.layers()[-1], head, shifted).weights[word].reshape(self.grid)
        return found

    def _repr_html_(self) -> str:
        """What a notebook shows: the mean of the heads of the highest layer, between words."""
        layers = self.layers("cross")
        if not layers:
            return "<p>This model has no attention over its source.</p>"
        words = self.words(layers[-1])
        return table(self.source_text, self.target_text, words.weights, f"{layers[-1]}, mean of heads")


@dataclass(frozen=True)
class WordWeights:
    """Weights between words (target words, source words), and what went to where no word is: the end of the source, or
    the beginning of the target (target words)."""

    weights: Array
    special_weights: Array


def cell_edges(count: int, middle: float = 0.5, reach: float = 1.0) -> npt.NDArray[np.float64]:
    """Where each of the rows (or columns) of cells begins, and the last ends, in shares of the picture (count + 1).

    What is nearest to the middle of a cell is its own, so cells that look near their upper left corner are drawn half a
    cell further up and left; those at the edges reach the edge. `reach` is what all cells come to, in shares of the
    picture.
    """
    found: npt.NDArray[np.float64] = ((np.arange(count + 1) + middle - 0.5) / count * reach).clip(0, 1)
    found[0], found[-1] = 0, 1
    return found


def merge_words(weights: Array, source_words: Sequence[int], target_words: Sequence[int]) -> WordWeights:
    """Pieces into words: the sum over the pieces of a source word, the mean over those of a target word."""
    columns, rows = _groups(source_words), _groups(target_words)
    rows = rows / np.maximum(rows.sum(1, keepdims=True), 1)
    special_weights = weights[:, np.asarray(source_words) < 0].sum(1)
    return WordWeights((rows @ weights @ columns.T).astype(np.float32), (rows @ special_weights).astype(np.float32))


def argmax_links(weights: Array) -> list[Link]:
    """For each target word the source word that it looked at most."""
    return [(int(row.argmax()), target) for target, row in enumerate(weights)] if weights.size else []


def extract_links(weights: Array, symmetry: Symmetry | None = None) -> list[Link]:
    """Links from weights between words (target words, source words).

    Each target word is linked to the source word that it looked at most; with a `symmetry`, that is one direction, and
    the other is the target word that looked most at each source word.
    """
    forward = argmax_links(weights)
    if symmetry is None:
        return forward
    backward = [(source, target) for target, source in argmax_links(weights.T)]
    return symmetrise(forward, backward, symmetry)


def symmetrise(forward: Iterable[Link], backward: Iterable[Link], symmetry: Symmetry) -> list[Link]:
    """One alignment from those of two directions (Koehn et al. 2003; Och and Ney 2003).

    Links of both; or, beginning there, links of one of them next to a link that is in already, where that leaves a
    word no longer alone ("grow-diag"), and then those between two words that are still alone ("-final"); or all.
    """
    one, other = set(forward), set(backward)
    links, union = one & other, one | other
    if symmetry == "union":
        return sorted(union)
    if symmetry == "intersection":
        return sorted(links)
    sources, targets = {source for source, _ in links}, {target for _, target in links}
    todo = sorted(links)
    for source, target in todo:  # what is added on the way has neighbours too
        for link in ((source + i, target + j) for i in (-1, 0, 1) for j in (-1, 0, 1)):
            if link in union and link not in links and (link[0] not in sources or link[1] not in targets):
                todo.append(link)
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
    """A row for each word, with a one at each of its pieces."""
    count = max(words, default=-1) + 1
    groups: Array = (np.arange(count)[:, None] == np.asarray(words)[None, :]).astype(np.float32)
    return groups
