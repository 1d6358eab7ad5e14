"""Data of an explanation: a translation or a caption with its attention weights, states, search and
attributions.

An `ExplanationData` holds what a model tells, token by token. Figures draw words (`layers`) and a
tree of hypotheses (`steps`); `page_data` converts the data to the JSON that pages and the server
use, of which `assets/explanation_data.js` makes the same words and the same tree. Axes: T target
words, P target tokens including the end of the sentence, S source words or cells of an image, H
heads.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp
from typing import Any

import numpy as np

from regard.attention.alignment import merge_words
from regard.common.errors import UsageError
from regard.visualisation.heatmap import Alignment
from regard.visualisation.language import words
from regard.visualisation.overlay import SourceImage
from regard.visualisation.states import States
from regard.visualisation.text import clean
from regard.visualisation.translation_json import (
    Attention,
    Candidate,
    Fate,
    Role,
    Step,
    attention_json,
    states_json,
)

FORMAT = 3
"""Version of a page's data."""
MAX_PRUNED = 2
"""Pruned hypotheses that are shown at each step of the search."""
MAX_OPTIONS = 6
"""Candidates for the next token that are shown besides the chosen one."""
_SMALLEST = 9
"""Level of compression by zlib."""


@dataclass(frozen=True, eq=False)
class TokenAttention:
    """Attention of one layer between tokens: `weights` and, if known, `scores` (H, rows, columns).

    `title`: its name in menus, by default its number among the layers of its role.
    """

    name: str
    role: Role
    weights: np.ndarray
    scores: np.ndarray | None = None
    title: str = ""


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
    fate: Fate
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

    A model without attention has no `attention`; a recurrent model has `states`.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    source_words: tuple[int, ...]  # index of the word of each source token, −1 for none
    target_words: tuple[int, ...]  # P; the same of each target token
    tokens: tuple[str, ...]  # P; the last one is the end of the sentence
    attention: tuple[TokenAttention, ...]  # cross-attention first
    shown_head: ShownHead = ShownHead(0)
    ids: tuple[int, ...] = ()  # P; of the tokens, if the search is known
    search: tuple[Step, ...] = ()
    attributions: Attributions | None = None
    links: frozenset[tuple[int, int]] = frozenset()
    facts: dict[str, str] = field(default_factory=dict)
    image: SourceImage | None = None
    states: States | None = None
    unread: tuple[int, ...] = ()  # source words that the translation leaves out

    def __post_init__(self) -> None:
        if self.image and len(self.source) != len(self.image.cells()):
            raise UsageError(
                f"an image of {self.image.grid} cells does not have {len(self.source)} source words"
            )
        if not (self.source and self.target and (self.attention or self.search)):
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
        attention = tuple(
            _attention(alignment, number)
            for number, alignment in enumerate(alignments, 1)
        )
        return cls(
            source=first.source,
            target=first.target,
            source_words=(*range(len(first.source)), -1),
            target_words=tuple(range(len(first.target))),
            tokens=first.target,
            attention=attention,
            links=first.links or frozenset(),
        )

    @cached_property
    def layers(self) -> tuple[LayerWeights, ...]:
        """The attention of each layer between words."""
        layers = []
        for role in ("cross", "encoder", "decoder"):
            of_role = [layer for layer in self.attention if layer.role == role]
            for number, layer in enumerate(of_role, 1):
                layers.append(self._between_words(layer, layer.title or str(number)))
        return tuple(layers)

    def _between_words(self, layer: TokenAttention, name: str) -> LayerWeights:
        """Sum weights over the tokens of a column's word, and average them over those of a row's;
        the rows of cross-attention stay tokens.
        """
        columns = self.source_words
        rows = self.target_words
        if layer.role == "cross":
            rows = tuple(range(layer.weights.shape[1]))
        elif layer.role == "encoder":
            rows = self.source_words
        else:
            columns = (-1, *self.target_words[:-1])
        heads = [merge_words(weights, columns, rows) for weights in layer.weights]
        log_sums = None
        if layer.scores is not None and layer.role == "cross":
            log_sums = np.logaddexp.reduce(layer.scores, -1)
        return LayerWeights(
            name,
            layer.role,
            np.stack([head.weights for head in heads]),
            np.stack([head.special_weights for head in heads]),
            log_sums,
        )

    @cached_property
    def steps(self) -> tuple[TreeStep, ...]:
        """The search, one step for each output token, end of sentence last.

        A node's parent is the index, among the nodes of the step before, of the hypothesis that it
        extends.
        """
        steps = list[TreeStep]()
        parents: dict[tuple[int, ...], int] = {(): -1}
        for length, step in enumerate(self.search[: len(self.ids)], 1):
            output = self.ids[:length]
            prefixes = [tuple(prefix) for prefix in step["prefixes"]]
            shown = [
                (candidate, prefix)
                for candidate, prefix in _shown(step["candidates"], prefixes, output)
                if prefix[:-1] in parents
            ]
            nodes = tuple(
                SearchNode(
                    parent=parents[prefix[:-1]],
                    token=candidate["token"],
                    probability=exp(candidate["logProb"]),
                    total=candidate["total"],
                    fate=candidate["fate"],
                    wins=prefix == output,
                )
                for candidate, prefix in shown
            )
            options = _options(step["candidates"], prefixes, output)
            steps.append(TreeStep(nodes, options))
            parents = {prefix: index for index, (_, prefix) in enumerate(shown)}
        return tuple(steps)

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


def _attention(alignment: Alignment, number: int) -> TokenAttention:
    special = alignment.special_weights
    if special is None:
        special = np.zeros(len(alignment.target))
    return TokenAttention(
        str(number),
        "cross",
        np.column_stack([alignment.weights, special])[None],
        title=alignment.caption or alignment.title or str(number),
    )


def _shown(
    candidates: Sequence[Candidate],
    prefixes: Sequence[tuple[int, ...]],
    output: tuple[int, ...],
) -> list[tuple[Candidate, tuple[int, ...]]]:
    """Return the candidates to show, with the hypotheses that they make: all that were not pruned,
    the best MAX_PRUNED that were, and the one that is a prefix of the output.
    """
    shown = []
    pruned = 0
    for candidate in candidates:
        prefix = (*prefixes[candidate["beam"]], candidate["id"])
        is_pruned = candidate["fate"] == "pruned"
        pruned += is_pruned
        if not is_pruned or pruned <= MAX_PRUNED or prefix == output:
            shown.append((candidate, prefix))
    return shown


def _options(
    candidates: Sequence[Candidate],
    prefixes: Sequence[tuple[int, ...]],
    output: tuple[int, ...],
) -> tuple[tuple[str, float, bool], ...]:
    """Return the most probable candidates that continue the output's prefix, and the chosen one."""
    *before, chosen = output
    following = [c for c in candidates if prefixes[c["beam"]] == tuple(before)]
    following.sort(key=lambda candidate: -candidate["logProb"])
    options = []
    for rank, candidate in enumerate(following):
        is_chosen = candidate["id"] == chosen
        if rank < MAX_OPTIONS or is_chosen:
            options.append((candidate["token"], exp(candidate["logProb"]), is_chosen))
    return tuple(options)


def page_data(
    data: ExplanationData, title: str = "", langs: tuple[str, str] = ("", "")
) -> dict[str, Any]:
    """Convert an explanation to the JSON values of a page; `docs/visualisation.md` lists the keys.

    `translation` has the types of `js/regard.d.ts`.
    """
    layers = [
        *data.attention,
        *_attribution_layers(data.attributions),
    ]
    has_end = data.target_words[-1] < 0
    states = data.states
    translation = {
        "sourceTokens": states.tokens if states else [],
        "sourceWords": {"texts": data.source, "ofTokens": data.source_words},
        "tokens": data.tokens[:-1] if has_end else data.tokens,
        "ids": data.ids[:-1],
        "targetWords": {"texts": data.target, "ofTokens": data.target_words},
        "alignments": sorted(data.links),
        "attention": [_layer_json(layer) for layer in layers],
        "states": states
        and states_json(
            states.encoder,
            states.decoder,
            states.initial,
            states.order == "bahdanau",
        ),
        "steps": data.search,
    }
    return {
        "format": FORMAT,
        "title": clean(title) or " ".join(data.target if data.image else data.source),
        "languages": langs,
        "image": _image(data.image),
        "alignment": _shown_head(data),
        "agreement": _agreement(data.attributions),
        "facts": {clean(name): clean(value) for name, value in data.facts.items()},
        "translation": translation,
        "unread": data.unread,
    }


def _shown_head(data: ExplanationData) -> dict[str, Any] | None:
    """Return the head that is shown first, in the format of a runtime file's card."""
    if not data.attention:
        return None
    shown = data.shown_head
    return {
        "layer": data.attention[shown.layer].name,
        "head": shown.head,
        "shifted": shown.shifted,
    }


def _layer_json(layer: TokenAttention) -> Attention:
    scores = layer.scores if layer.role == "cross" else None
    values = attention_json(
        layer.name, layer.role, layer.weights, scores, level=_SMALLEST
    )
    if layer.title:
        values["title"] = layer.title
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


def _attribution_layers(attributions: Attributions | None) -> list[TokenAttention]:
    """Return the attributions of each measure as weights whose rows sum to one; negative ones count
    as zero.
    """
    if attributions is None:
        return []
    layers = []
    for name, weights in zip(attributions.names, attributions.weights, strict=True):
        positive = np.clip(weights, 0, None)
        shares = positive / np.maximum(positive.sum(1, keepdims=True), 1e-12)
        layers.append(TokenAttention(name, "attribution", shares[None], title=name))
    return layers


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


def token_label(token: str) -> str:
    """Return the text of a single token for display: without its mark for a space, "(space)" if
    nothing is left, and "(end)" for the end of the sentence.
    """
    if token == "</s>":
        return words("(end)")
    return _token_text(token).strip() or words("(space)")
