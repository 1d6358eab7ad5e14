"""One translation or caption told whole, as plain data: every layer and head, how it was found, what mattered for it.

The page, the player and the animation draw this; a server answers with `data`, the same as JSON. T target words, P
target pieces with the end of the sentence, S source words or cells of a picture, H heads.
"""

from __future__ import annotations

import base64
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from regard.attention.alignment import Readings
from regard.errors import UsageError
from regard.visualisation.heatmap import Alignment
from regard.visualisation.overlay import SourceImage
from regard.visualisation.text import clean, is_korean

__all__ = [
    "Attributions",
    "ExplanationData",
    "LayerWeights",
    "SearchNode",
    "ShownHead",
    "TreeStep",
    "layer_weights",
    "page_data",
    "token_label",
]

Role = Literal["cross", "encoder", "decoder", "mattered"]
FINE, COARSE, MANY = 1000, 250, 2_000_000  # steps of a weight; the coarse ones fit in a byte, for so many numbers


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """What the heads of one layer looked at: (H, rows, columns), and what fell on no word (H, rows).

    Columns are words. Rows are words too, but of a cross-attention target pieces.
    """

    name: str
    role: Role
    weights: np.ndarray
    special_weights: np.ndarray


@dataclass(frozen=True)
class ShownHead:
    """The read that is shown first: a layer by its place, one of its heads or their mean, and which row."""

    layer: int
    head: int | None = None
    shifted: bool = False


@dataclass(frozen=True)
class SearchNode:
    """A piece that could be written: its parent's place among the nodes of the step before (−1: the beginning)."""

    parent: int
    token: str
    probability: float
    total: float  # log-probability of everything up to here
    fate: Literal["kept", "ended", "pruned"]
    wins: bool  # part of the translation


@dataclass(frozen=True)
class TreeStep:
    """One step of the search: the beginnings that were open, and what the translation's own could go on with."""

    nodes: tuple[SearchNode, ...]
    candidates: tuple[tuple[str, float, bool], ...]  # piece, probability, taken; likeliest first


@dataclass(frozen=True, eq=False)
class Attributions:
    """What the output hung on, by measures that ask the model (T, S), and how far the chosen read agrees, −1 to 1."""

    names: tuple[str, ...]
    weights: tuple[np.ndarray, ...]
    agreement: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class ExplanationData:
    """All that the pictures of one translation show; of a caption, the source words are cells of what was `seen`."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    tokens: tuple[str, ...]  # P; the last is the end of the sentence
    target_words: tuple[int, ...]  # P: the target word of each piece, −1 for the end
    layers: tuple[LayerWeights, ...]
    shown_head: ShownHead = ShownHead(0)
    steps: tuple[TreeStep, ...] = ()
    attributions: Attributions | None = None
    links: frozenset[tuple[int, int]] = frozenset()
    facts: dict[str, str] = field(default_factory=dict)
    image: SourceImage | None = None

    def __post_init__(self) -> None:
        if self.image and len(self.source) != len(self.image.cells()):
            raise UsageError(f"a picture of {self.image.grid} cells was read as {len(self.source)} source words")
        if not (self.source and self.target and self.layers):
            raise UsageError("a page needs at least one source word, one target word and one layer that reads")
        object.__setattr__(self, "source", tuple(clean(word) for word in self.source))
        object.__setattr__(self, "target", tuple(clean(word) for word in self.target))
        object.__setattr__(self, "pieces", tuple(clean(piece) for piece in self.tokens))

    @classmethod
    def from_alignments(cls, alignments: Sequence[Alignment]) -> ExplanationData:
        """The story of alignments of the same two sentences: each is a layer with one head."""
        if not alignments:
            raise UsageError("a page needs at least one alignment")
        first = alignments[0]
        for number, other in enumerate(alignments):
            if (other.source, other.target) != (first.source, first.target):
                raise UsageError(f"a page shows readings of one pair of sentences; alignment {number} has other words")
        layers = tuple(_layer(alignment, number) for number, alignment in enumerate(alignments, 1))
        places = tuple(range(len(first.target)))
        return cls(first.source, first.target, first.target, places, layers, links=first.links or frozenset())

    def shown_weights(self) -> np.ndarray:
        """The weights (P, S) of the chosen read, row by row as pieces were predicted."""
        weights = self.layers[self.shown_head.layer].weights
        found: np.ndarray = weights.mean(0) if self.shown_head.head is None else weights[self.shown_head.head]
        return found


def _layer(alignment: Alignment, number: int) -> LayerWeights:
    special_weights = (
        np.zeros(len(alignment.target)) if alignment.special_weights is None else alignment.special_weights
    )
    name = alignment.caption or alignment.title or str(number)
    return LayerWeights(name, "cross", alignment.weights[None], special_weights[None])


def layer_weights(readings: Readings) -> tuple[LayerWeights, ...]:
    """Every layer and head between words, cross-attention first; one that read a single entry says nothing.

    Of a picture, what its cells looked at in each other is left out: nobody could point at it.
    """
    found = []
    for role in ("cross", "encoder", "decoder") if readings.grid is None else ("cross", "decoder"):
        names = readings.layers(role)
        for number, name in enumerate(names, 1):
            if role == "cross":
                weights, special_weights = _by_pieces(readings, name)
            else:
                heads = [readings.words(name, head) for head in range(len(readings.weights[name]))]
                weights = np.stack([head.weights for head in heads])
                special_weights = np.stack([head.special_weights for head in heads])
            found.append(LayerWeights(str(number), role, weights, special_weights))
    return tuple(found)


def _by_pieces(readings: Readings, layer: str) -> tuple[np.ndarray, np.ndarray]:
    """(H, P, S) and (H, P): source pieces summed into words, target pieces as they are."""
    weights, words = readings.weights[layer], np.asarray(readings.source_words)
    columns = np.arange(words.max(initial=-1) + 1)[:, None] == words
    return weights @ columns.T.astype(weights.dtype), weights[:, :, words < 0].sum(-1)


# --- as JSON


def page_data(story: ExplanationData, title: str = "", langs: tuple[str, str] = ("", "")) -> dict[str, Any]:
    """What the page's program reads, as JSON values; `docs/visualisation.md` describes it."""
    layers = [*story.layers, *_mattered_layers(story.attributions)]
    steps = FINE if sum(layer.weights.size for layer in layers) < MANY else COARSE
    return {
        "title": clean(title) or " ".join(story.target if story.image else story.source),
        "seen": _seen(story.image),
        "source": story.source,
        "target": story.target,
        "langs": {
            "source": [langs[0] or _language(word) for word in story.source],
            "target": [langs[1] or _language(word) for word in story.target],
        },
        "rtl": {"source": _is_right_to_left(story.source), "target": _is_right_to_left(story.target)},
        "pieces": [_token_text(piece) for piece in story.tokens],
        "words": story.target_words,
        "blocks": [{"role": layer.role, "name": layer.name, "shape": layer.weights.shape} for layer in layers],
        "steps": steps,
        "pack": _packed(layers, steps),
        "chosen": [story.shown_head.layer, story.shown_head.head, story.shown_head.shifted],
        "player": [_step(step) for step in story.steps],
        "trust": _trust(story.attributions),
        "links": sorted(story.links),
        "facts": {clean(name): clean(value) for name, value in story.facts.items()},
    }


def _seen(seen: SourceImage | None) -> dict[str, Any] | None:
    """The picture as an address that holds it, its size in pixels, its grid and where the cells of it begin and end;
    None where words were read."""
    if seen is None:
        return None
    content = seen.file()
    kind = "png" if content.startswith(b"\x89PNG") else "jpeg"
    address = f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"
    Y, X = seen.pixels.shape[:2]
    across, down = ([round(float(edge), 4) for edge in some] for some in seen.edges())
    return {"address": address, "size": [X, Y], "grid": list(seen.grid), "across": across, "down": down}


def _mattered_layers(mattered: Attributions | None) -> list[LayerWeights]:
    """What mattered, as shares of each row; what spoke against a word counts as nothing."""
    if mattered is None:
        return []
    layers = []
    for name, weights in zip(mattered.names, mattered.weights, strict=True):
        positive = np.clip(weights, 0, None)
        shares = positive / np.maximum(positive.sum(1, keepdims=True), 1e-12)
        layers.append(LayerWeights(name, "mattered", shares[None], np.zeros((1, len(shares)))))
    return layers


def _packed(layers: Sequence[LayerWeights], steps: int) -> str:
    """All weights, each row with what fell on no word after it, in steps; low bytes, then high ones; zlib, base64."""
    parts = [np.concatenate([layer.weights, layer.special_weights[..., None]], -1).reshape(-1) for layer in layers]
    numbers = np.rint(np.clip(np.concatenate(parts), 0, 1) * steps).astype(np.uint16)
    planes = [numbers & 255] if steps <= 255 else [numbers & 255, numbers >> 8]
    return base64.b64encode(zlib.compress(np.concatenate(planes).astype(np.uint8).tobytes(), 9)).decode("ascii")


def _step(step: TreeStep) -> dict[str, Any]:
    return {
        "nodes": [
            [n.parent, _token_text(n.token), round(n.probability, 4), round(n.total, 3), n.fate, int(n.wins)]
            for n in step.nodes
        ],
        "options": [[_token_text(piece), round(chance, 4), int(taken)] for piece, chance, taken in step.candidates],
    }


def _trust(mattered: Attributions | None) -> dict[str, Any] | None:
    if mattered is None:
        return None
    pairs = zip(mattered.names, mattered.agreement, strict=True)
    return {"agreement": [[name, None if np.isnan(value) else round(value, 3)] for name, value in pairs]}


def _token_text(piece: str) -> str:
    """A piece as people read it: its leading mark for a space becomes one."""
    return clean(piece).replace("▁", " ")


def _language(word: str) -> str:
    return "ko" if is_korean(word) else ""


def _is_right_to_left(words: Sequence[str]) -> bool:
    kinds = [unicodedata.bidirectional(character) for word in words for character in word]
    return sum(kind in {"R", "AL"} for kind in kinds) > kinds.count("L")


def token_label(piece: str) -> str:
    """A piece by itself, without the mark for a space; the end of the sentence as (end)."""
    return "(end)" if piece == "</s>" else _token_text(piece).strip()
