"""Data of the explanation page: attention weights of every layer and head, search trace and
attributions, as JSON.

The page and the animation draw one `ExplanationData`; a server answers with `page_data`, the same
as JSON. T target words, P target tokens including the end of the sentence, S source words or cells
of an image, H heads.
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
from regard.common.errors import UsageError
from regard.visualisation.heatmap import Alignment
from regard.visualisation.language import words
from regard.visualisation.overlay import SourceImage
from regard.visualisation.states import States, states_data
from regard.visualisation.text import clean, is_korean

Role = Literal["cross", "encoder", "decoder", "attribution"]
# Version of the data of a page: 1 had no `format` and no `log_sums`, and is still
# drawn.
FORMAT = 2
# Quantisation steps of a weight; the coarse ones fit in a byte.
FINE, COARSE = 1000, 250
MAX_FINE = 2_000_000  # weights; with more, the page quantises coarsely


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """Attention weights of one layer (H, rows, columns), and each row's weight on special tokens
    (H, rows).

    Columns are words. Rows are words, except for cross-attention: target tokens. There `log_sums`
    (H, rows) are the logarithms of the sums that softmax divides by: a score is the logarithm of
    its weight, plus that.
    """

    name: str
    role: Role
    weights: np.ndarray
    special_weights: np.ndarray
    log_sums: np.ndarray | None = None


@dataclass(frozen=True)
class ShownHead:
    """The attention shown first: index of the layer, head (None: mean of the heads), and whether
    rows are shifted.
    """

    layer: int
    head: int | None = None
    shifted: bool = False  # the decoder step after the token was predicted (SHIFT-ATT)


@dataclass(frozen=True)
class SearchNode:
    """A hypothesis of the search tree, by its last token and the index of its parent in the step
    before (−1: root).
    """

    parent: int
    token: str
    probability: float
    total: float  # log-probability of the whole prefix
    fate: Literal["kept", "ended", "pruned"]
    wins: bool  # part of the output


@dataclass(frozen=True)
class TreeStep:
    """One search step: the hypotheses, and the candidates for the next token of the output's own
    prefix.
    """

    nodes: tuple[SearchNode, ...]
    # Token, probability, chosen; most probable first.
    candidates: tuple[tuple[str, float, bool], ...]


@dataclass(frozen=True, eq=False)
class Attributions:
    """Attributions of the output to source words (T, S) by several measures.

    `agreement`: rank correlation of the shown attention with each measure, −1 to 1.
    """

    names: tuple[str, ...]
    weights: tuple[np.ndarray, ...]
    agreement: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class ExplanationData:
    """All that is shown of one translation or caption; for a caption, the source words are the
    cells of `image`.

    A model without attention has no `layers`; a recurrent model has `states`.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    tokens: tuple[str, ...]  # P; the last is the end of the sentence
    # P: index of the target word of each token, −1 for the end.
    target_words: tuple[int, ...]
    layers: tuple[LayerWeights, ...]
    shown_head: ShownHead = ShownHead(0)
    steps: tuple[TreeStep, ...] = ()
    attributions: Attributions | None = None
    links: frozenset[tuple[int, int]] = frozenset()
    facts: dict[str, str] = field(default_factory=dict)
    image: SourceImage | None = None
    states: States | None = None

    def __post_init__(self) -> None:
        if self.image and len(self.source) != len(self.image.cells()):
            raise UsageError(
                f"an image of {self.image.grid} cells does not have {len(self.source)} source words"
            )
        if not (self.source and self.target and (self.layers or self.steps)):
            raise UsageError(
                "a page needs a source word, a target word, and a layer with attention or a search"
            )
        for name in ("source", "target", "tokens"):
            object.__setattr__(
                self, name, tuple(clean(text) for text in getattr(self, name))
            )

    @classmethod
    def from_alignments(cls, alignments: Sequence[Alignment]) -> ExplanationData:
        """Combine alignments of the same two sentences: each becomes a layer with one head."""
        if not alignments:
            raise UsageError("a page needs at least one alignment")
        first = alignments[0]
        for number, other in enumerate(alignments):
            if (other.source, other.target) != (first.source, first.target):
                raise UsageError(
                    f"a page shows one pair of sentences; alignment {number} has other words"
                )
        layers = tuple(
            _layer(alignment, number) for number, alignment in enumerate(alignments, 1)
        )
        words = tuple(range(len(first.target)))
        return cls(
            first.source,
            first.target,
            first.target,
            words,
            layers,
            links=first.links or frozenset(),
        )

    @property
    def has_cross_attention(self) -> bool:
        """True if target words attend to source words."""
        return any(layer.role == "cross" for layer in self.layers)

    @property
    def encoder_layers(self) -> tuple[LayerWeights, ...]:
        """The layers in which source words attend to each other, lowest first."""
        return tuple(layer for layer in self.layers if layer.role == "encoder")

    @property
    def encoding_steps(self) -> int:
        """Steps in which the player shows the encoder: a token each, or a layer each of
        self-attention.
        """
        return len(self.states.tokens) if self.states else len(self.encoder_layers)

    def shown_weights(self) -> np.ndarray:
        """Return the weights (P, S) of the shown head, row p from the step that predicted token
        p.
        """
        weights = self.layers[self.shown_head.layer].weights
        shown: np.ndarray = (
            weights.mean(0)
            if self.shown_head.head is None
            else weights[self.shown_head.head]
        )
        return shown


def _layer(alignment: Alignment, number: int) -> LayerWeights:
    special = (
        np.zeros(len(alignment.target))
        if alignment.special_weights is None
        else alignment.special_weights
    )
    name = alignment.caption or alignment.title or str(number)
    return LayerWeights(name, "cross", alignment.weights[None], special[None])


def layer_weights(readings: Readings) -> tuple[LayerWeights, ...]:
    """Return the weights of every layer and head between words, cross-attention first.

    Self-attention between the cells of an image is left out.
    """
    layers = []
    for role in (
        ("cross", "encoder", "decoder")
        if readings.grid is None
        else ("cross", "decoder")
    ):
        names = readings.layers(role)
        for number, name in enumerate(names, 1):
            sums = None
            if role == "cross":
                weights, special = _cross_attention(readings, name)
                sums = (
                    np.logaddexp.reduce(readings.scores[name], -1)
                    if name in readings.scores
                    else None
                )
            else:
                heads = [
                    readings.words(name, head)
                    for head in range(len(readings.weights[name]))
                ]
                weights = np.stack([head.weights for head in heads])
                special = np.stack([head.special_weights for head in heads])
            layers.append(LayerWeights(str(number), role, weights, special, sums))
    return tuple(layers)


def _cross_attention(readings: Readings, layer: str) -> tuple[np.ndarray, np.ndarray]:
    """Sum the weights of source tokens into words, and keep target tokens: (H, P, S) and (H, P)."""
    weights = readings.weights[layer]
    words = np.asarray(readings.source_words)
    columns = np.arange(words.max(initial=-1) + 1)[:, None] == words
    return weights @ columns.T.astype(weights.dtype), weights[:, :, words < 0].sum(-1)


def page_data(
    data: ExplanationData, title: str = "", langs: tuple[str, str] = ("", "")
) -> dict[str, Any]:
    """Convert an explanation to the JSON values that explanation_page.js reads;
    `docs/visualisation.md` lists the keys.
    """
    layers = [*data.layers, *_attribution_layers(data.attributions)]
    states = data.states.tokens if data.states else ()
    sides = {"source": data.source, "target": data.target}
    steps = FINE if sum(layer.weights.size for layer in layers) < MAX_FINE else COARSE
    return {
        "format": FORMAT,
        "title": clean(title) or " ".join(data.target if data.image else data.source),
        "image": _image(data.image),
        **sides,
        "langs": {
            side: [langs[n] or "ko" * is_korean(word) for word in sides[side]]
            for n, side in enumerate(sides)
        },
        "rtl": {side: _is_right_to_left(texts) for side, texts in sides.items()},
        "tokens": [_token_text(token) for token in data.tokens],
        "target_words": data.target_words,
        "layers": [_layer_values(layer) for layer in layers],
        "weight_steps": steps,
        "weights": _packed(layers, steps),
        "shown_head": [
            data.shown_head.layer,
            data.shown_head.head,
            data.shown_head.shifted,
        ],
        "steps": [_step(step) for step in data.steps],
        "states": states_data(
            data.states, [token_label(token) * (token != "▁") for token in states]
        ),
        "agreement": _agreement(data.attributions),
        "links": sorted(data.links),
        "facts": {clean(name): clean(value) for name, value in data.facts.items()},
    }


def _layer_values(layer: LayerWeights) -> dict[str, Any]:
    sums = (
        {}
        if layer.log_sums is None
        else {"log_sums": layer.log_sums.astype(float).round(2).tolist()}
    )
    return {
        "role": layer.role,
        "name": layer.name,
        "shape": layer.weights.shape,
        **sums,
    }


def _image(image: SourceImage | None) -> dict[str, Any] | None:
    """Return an image as a data URL, with its size in pixels, its grid, and the edges of its
    cells.
    """
    if image is None:
        return None
    content = image.file()
    kind = "png" if content.startswith(b"\x89PNG") else "jpeg"
    Y, X = image.pixels.shape[:2]
    column_edges, row_edges = (
        [round(float(edge), 4) for edge in edges] for edges in image.edges()
    )
    url = f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"
    size = [X, Y]
    return {
        "url": url,
        "size": size,
        "grid": list(image.grid),
        "column_edges": column_edges,
        "row_edges": row_edges,
    }


def _attribution_layers(attributions: Attributions | None) -> list[LayerWeights]:
    """Return each measure as shares of its rows; negative attributions count as zero."""
    if attributions is None:
        return []
    layers = []
    for name, weights in zip(attributions.names, attributions.weights, strict=True):
        positive = np.clip(weights, 0, None)
        shares = positive / np.maximum(positive.sum(1, keepdims=True), 1e-12)
        layers.append(
            LayerWeights(name, "attribution", shares[None], np.zeros((1, len(shares))))
        )
    return layers


def _packed(layers: Sequence[LayerWeights], steps: int) -> str:
    """Quantise all weights, each row followed by its special weight: all low bytes, all high bytes;
    zlib, base64.
    """
    parts = [
        np.concatenate([layer.weights, layer.special_weights[..., None]], -1).reshape(
            -1
        )
        for layer in layers
    ]
    numbers = np.rint(
        np.clip(np.concatenate([np.zeros(0), *parts]), 0, 1) * steps
    ).astype(np.uint16)
    planes = [numbers & 255] if steps <= 255 else [numbers & 255, numbers >> 8]
    return base64.b64encode(
        zlib.compress(np.concatenate(planes).astype(np.uint8).tobytes(), 9)
    ).decode("ascii")


def _step(step: TreeStep) -> dict[str, Any]:
    nodes = [
        [
            n.parent,
            _token_text(n.token),
            round(n.probability, 4),
            round(n.total, 3),
            n.fate,
            int(n.wins),
        ]
        for n in step.nodes
    ]
    return {
        "nodes": nodes,
        "candidates": [
            [_token_text(t), round(p, 4), int(c)] for t, p, c in step.candidates
        ],
    }


def _agreement(attributions: Attributions | None) -> list[list[Any]] | None:
    """Return (measure, rank correlation) pairs; NaN becomes None."""
    if attributions is None:
        return None
    pairs = zip(attributions.names, attributions.agreement, strict=True)
    return [
        [name, None if np.isnan(value) else round(value, 3)] for name, value in pairs
    ]


def _token_text(token: str) -> str:
    """Replace SentencePiece's mark for a space by a space."""
    return clean(token).replace("▁", " ")


def _is_right_to_left(words: Sequence[str]) -> bool:
    kinds = [
        unicodedata.bidirectional(character) for word in words for character in word
    ]
    return sum(kind in {"R", "AL"} for kind in kinds) > kinds.count("L")


def token_label(token: str) -> str:
    """Return a token for display by itself: without its mark for a space, or as "(space)"; the last
    one as "(end)".
    """
    return (
        words("(end)")
        if token == "</s>"
        else _token_text(token).strip() or words("(space)")
    )
