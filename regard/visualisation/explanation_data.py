"""Data of an explanation: attention weights of every layer and head, search trace and attributions.

The page and the animation both draw an `ExplanationData`; `page_data` converts it to the JSON that
the page and the server use. Axes: T target words, P target tokens including the end of the
sentence, S source words or cells of an image, H heads.
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
# Version of a page's data. Version 1 had neither `format` nor `log_sums`; pages still draw it.
FORMAT = 2
FINE = 1000  # quantisation steps of a weight
COARSE = 250  # quantisation steps that fit in a byte
MAX_FINE = 2_000_000  # if there are more weights, they are quantised coarsely


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """Attention weights of one layer (H, rows, columns), and each row's weight on special tokens
    (H, rows).

    Columns are words. Rows are words too, but target tokens in cross-attention. `log_sums` (H,
    rows), of cross-attention only, are the logarithms of the sums that softmax divides by: score =
    log(weight) + log_sum.
    """

    name: str
    role: Role
    weights: np.ndarray
    special_weights: np.ndarray
    log_sums: np.ndarray | None = None


@dataclass(frozen=True)
class ShownHead:
    """The attention shown first: index of the layer, and head, or None for the mean of the heads.

    `shifted`: each row is taken from the decoder step after the token was predicted (SHIFT-ATT).
    """

    layer: int
    head: int | None = None
    shifted: bool = False


@dataclass(frozen=True)
class SearchNode:
    """A hypothesis of the search tree: its last token, and the index of its parent in the step
    before, or −1 for the root.
    """

    parent: int
    token: str
    probability: float
    total: float  # log-probability of the whole prefix
    fate: Literal["kept", "ended", "pruned"]
    wins: bool  # whether it is a prefix of the output


@dataclass(frozen=True)
class TreeStep:
    """One search step: its hypotheses, and the candidates that continue the output's prefix.

    A candidate is a token, its probability, and whether it was chosen; the most probable comes
    first.
    """

    nodes: tuple[SearchNode, ...]
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
    """Explanation of one translation or caption; the source words of a caption are the cells of
    `image`.

    A model without attention has no `layers`; a recurrent model has `states`.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    tokens: tuple[str, ...]  # P; the last one is the end of the sentence
    target_words: tuple[int, ...]  # P; index of the word of each token, −1 for the end
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
        return cls(
            source=first.source,
            target=first.target,
            tokens=first.target,
            target_words=tuple(range(len(first.target))),
            layers=layers,
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
        """Number of steps in which the player shows the encoder: one for each token that a
        recurrent encoder reads, or one for each self-attention layer.
        """
        return len(self.states.tokens) if self.states else len(self.encoder_layers)

    def shown_weights(self) -> np.ndarray:
        """Return the weights (P, S) of the shown head; row p is from the step that predicted token
        p.
        """
        weights = self.layers[self.shown_head.layer].weights
        head = self.shown_head.head
        shown: np.ndarray = weights.mean(0) if head is None else weights[head]
        return shown


def _layer(alignment: Alignment, number: int) -> LayerWeights:
    special = alignment.special_weights
    if special is None:
        special = np.zeros(len(alignment.target))
    name = alignment.caption or alignment.title or str(number)
    return LayerWeights(name, "cross", alignment.weights[None], special[None])


def layer_weights(readings: Readings) -> tuple[LayerWeights, ...]:
    """Return the weights of every layer and head between words, cross-attention first.

    Self-attention between the cells of an image is left out.
    """
    roles: tuple[Role, ...] = ("cross", "encoder", "decoder")
    if readings.grid is not None:
        roles = ("cross", "decoder")
    layers = []
    for role in roles:
        for number, name in enumerate(readings.layers(role), 1):
            log_sums = None
            if role == "cross":
                weights, special = _cross_attention(readings, name)
                if name in readings.scores:
                    log_sums = np.logaddexp.reduce(readings.scores[name], -1)
            else:
                weights, special = _self_attention(readings, name)
            layer = LayerWeights(str(number), role, weights, special, log_sums)
            layers.append(layer)
    return tuple(layers)


def _cross_attention(readings: Readings, layer: str) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (H, P, S), summed over the tokens of each source word, and weights on special
    tokens (H, P).
    """
    weights = readings.weights[layer]
    token_words = np.asarray(readings.source_words)
    is_of_word = np.arange(token_words.max(initial=-1) + 1)[:, None] == token_words
    special = weights[:, :, token_words < 0].sum(-1)
    return weights @ is_of_word.T.astype(weights.dtype), special


def _self_attention(readings: Readings, layer: str) -> tuple[np.ndarray, np.ndarray]:
    """Return weights between words (H, words, words), and weights on special tokens (H, words)."""
    count = len(readings.weights[layer])
    heads = [readings.words(layer, head) for head in range(count)]
    weights = np.stack([head.weights for head in heads])
    special = np.stack([head.special_weights for head in heads])
    return weights, special


def page_data(
    data: ExplanationData, title: str = "", langs: tuple[str, str] = ("", "")
) -> dict[str, Any]:
    """Convert an explanation to the JSON values that explanation_page.js reads;
    `docs/visualisation.md` lists the keys.
    """
    layers = [*data.layers, *_attribution_layers(data.attributions)]
    size = sum(layer.weights.size for layer in layers)
    steps = FINE if size < MAX_FINE else COARSE
    source_lang, target_lang = langs
    state_tokens = data.states.tokens if data.states else ()
    state_labels = ["" if t == "▁" else token_label(t) for t in state_tokens]
    return {
        "format": FORMAT,
        "title": clean(title) or " ".join(data.target if data.image else data.source),
        "image": _image(data.image),
        "source": data.source,
        "target": data.target,
        "langs": {
            "source": _languages(data.source, source_lang),
            "target": _languages(data.target, target_lang),
        },
        "rtl": {
            "source": _is_right_to_left(data.source),
            "target": _is_right_to_left(data.target),
        },
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
        "states": states_data(data.states, state_labels),
        "agreement": _agreement(data.attributions),
        "links": sorted(data.links),
        "facts": {clean(name): clean(value) for name, value in data.facts.items()},
    }


def _languages(texts: Sequence[str], language: str) -> list[str]:
    """Return the language of each word; Hangul is Korean if no language is given."""
    if language:
        return [language] * len(texts)
    return ["ko" if is_korean(word) else "" for word in texts]


def _layer_values(layer: LayerWeights) -> dict[str, Any]:
    values: dict[str, Any] = {
        "role": layer.role,
        "name": layer.name,
        "shape": layer.weights.shape,
    }
    if layer.log_sums is not None:
        values["log_sums"] = layer.log_sums.astype(float).round(2).tolist()
    return values


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
    return {
        "url": url,
        "size": [X, Y],
        "grid": list(image.grid),
        "column_edges": column_edges,
        "row_edges": row_edges,
    }


def _attribution_layers(attributions: Attributions | None) -> list[LayerWeights]:
    """Return the attributions of each measure as weights whose rows sum to one; negative ones count
    as zero.
    """
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
    """Quantise all weights and pack them: each row is followed by its special weight; all low bytes
    come before all high bytes; compressed by zlib and in base64.
    """
    weights = [np.zeros(0)]
    for layer in layers:
        rows = [layer.weights, layer.special_weights[..., None]]
        weights.append(np.concatenate(rows, -1).reshape(-1))
    shares = np.clip(np.concatenate(weights), 0, 1)
    numbers = np.rint(shares * steps).astype(np.uint16)
    planes = [numbers & 255]
    if steps > 255:
        planes.append(numbers >> 8)
    content = np.concatenate(planes).astype(np.uint8).tobytes()
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def _step(step: TreeStep) -> dict[str, Any]:
    nodes = [
        [
            node.parent,
            _token_text(node.token),
            round(node.probability, 4),
            round(node.total, 3),
            node.fate,
            int(node.wins),
        ]
        for node in step.nodes
    ]
    candidates = [
        [_token_text(token), round(probability, 4), int(is_chosen)]
        for token, probability, is_chosen in step.candidates
    ]
    return {"nodes": nodes, "candidates": candidates}


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


def _is_right_to_left(texts: Sequence[str]) -> bool:
    """Return whether most letters of these words are written from right to left."""
    directions = [
        unicodedata.bidirectional(character) for text in texts for character in text
    ]
    leftward = directions.count("R") + directions.count("AL")
    return leftward > directions.count("L")


def token_label(token: str) -> str:
    """Return the text of a single token for display: without its mark for a space, "(space)" if
    nothing is left, and "(end)" for the end of the sentence.
    """
    if token == "</s>":
        return words("(end)")
    return _token_text(token).strip() or words("(space)")
