"""A translation with its attention, states and search as JSON: the types of `js/regard.d.ts`, but
with packed weights, where the module for JavaScript has arrays of numbers.

Pages of explanations and `/v1/explain` hold it. Pages convert it to what they draw in
`assets/explanation_data.js`, figures in `explanation_data`.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypedDict

import numpy as np
import numpy.typing as npt

Role = Literal["cross", "encoder", "decoder", "attribution"]
Fate = Literal["kept", "ended", "pruned"]

WEIGHT_STEPS = {20_000: 65_535, 100_000: 1_000}
"""Most weights of a layer, and the quantisation steps of a weight; of more weights, `COARSE`."""
COARSE = 250
"""Quantisation steps that fit in a byte."""
STATE_UNITS = 64
"""Numbers of a state vector, of each direction, that are drawn."""
STATE_SCALE = 127
"""Quantisation steps of a state between 0 and 1."""


class Words(TypedDict):
    """Words, and the index of the word that each token belongs to; −1: end of sentence."""

    texts: Sequence[str]
    ofTokens: Sequence[int]


class Attention(TypedDict, total=False):
    """Attention weights of one layer.

    `title`: its name in menus, by default its number among the layers of its role. `steps`: of
    packed weights, the number that stands for 1.
    """

    name: str
    role: str
    title: str
    heads: int
    rows: int
    columns: int
    weights: Any
    steps: int
    logSums: list[float]


class States(TypedDict):
    """Hidden states of the top layers, each the first `STATE_UNITS` numbers as signed bytes."""

    directions: int
    encoderSize: int
    decoderSize: int
    encoder: str
    decoder: str
    initial: str | None
    attendsFirst: bool


class Candidate(TypedDict):
    """A candidate for the next token; `total`: log-probability of the hypothesis with it."""

    beam: int
    id: int
    token: str
    fate: Fate
    logProb: float
    total: float


class Step(TypedDict):
    """A step of a search: the token ids of the open hypotheses, and the candidates."""

    prefixes: Sequence[Sequence[int]]
    candidates: list[Candidate]


class _SearchCandidate(Protocol):
    @property
    def beam(self) -> int: ...
    @property
    def token(self) -> int: ...
    @property
    def fate(self) -> Fate: ...
    @property
    def log_prob(self) -> float: ...
    @property
    def total_log_prob(self) -> float: ...


def step_json(
    prefixes: Sequence[Sequence[int]],
    candidates: Sequence[_SearchCandidate],
    tokens: Sequence[str],
) -> Step:
    """Convert a step of a search; `tokens`: the text of each candidate's token."""
    return {
        "prefixes": prefixes,
        "candidates": [
            {
                "beam": candidate.beam,
                "id": candidate.token,
                "token": token,
                "fate": candidate.fate,
                "logProb": candidate.log_prob,
                "total": candidate.total_log_prob,
            }
            for candidate, token in zip(candidates, tokens, strict=True)
        ],
    }


def attention_json(
    name: str,
    role: str,
    weights: np.ndarray,
    scores: np.ndarray | None = None,
    level: int | None = None,
) -> Attention:
    """Convert the attention of a layer: weights and scores (heads, rows, columns).

    The weights are packed with this compression `level`, or left as an array if it is None. Of the
    scores there are `logSums`, for each head and row: a score is the logarithm of its weight, plus
    that.
    """
    heads, rows, columns = weights.shape
    attention: Attention = {
        "name": name,
        "role": role,
        "heads": heads,
        "rows": rows,
        "columns": columns,
        "weights": weights.ravel(),
    }
    if level is not None:
        steps = next(
            (steps for most, steps in WEIGHT_STEPS.items() if weights.size <= most),
            COARSE,
        )
        attention["weights"] = _packed(weights, steps, level)
        attention["steps"] = steps
    if scores is not None:
        log_sums = np.logaddexp.reduce(scores, -1).astype(float)
        attention["logSums"] = log_sums.round(4).ravel().tolist()
    return attention


def states_json(
    encoder: npt.NDArray[np.float32],
    decoder: npt.NDArray[np.float32],
    initial: npt.NDArray[np.float32] | None,
    attends_first: bool,
) -> States:
    """Convert states: encoder (S, directions, N), decoder (P, M), initial (M,)."""
    encoder = encoder[..., :STATE_UNITS]
    decoder = decoder[..., :STATE_UNITS]
    return {
        "directions": encoder.shape[1],
        "encoderSize": encoder.shape[2],
        "decoderSize": decoder.shape[1],
        "encoder": _signed_bytes(encoder),
        "decoder": _signed_bytes(decoder),
        "initial": None if initial is None else _signed_bytes(initial[:STATE_UNITS]),
        "attendsFirst": attends_first,
    }


def _packed(weights: np.ndarray, steps: int, level: int) -> str:
    """Quantise weights, all low bytes before all high bytes; compressed by zlib, in base64."""
    numbers = np.rint(np.clip(weights, 0, 1) * steps).astype(np.uint16).ravel()
    planes = [numbers & 255]
    if steps > 255:
        planes.append(numbers >> 8)
    content = np.concatenate(planes).astype(np.uint8).tobytes()
    return base64.b64encode(zlib.compress(content, level)).decode("ascii")


def _signed_bytes(numbers: npt.NDArray[np.float32]) -> str:
    scaled = np.rint(np.clip(numbers, -1, 1) * STATE_SCALE).astype(np.int8)
    return base64.b64encode(scaled.tobytes()).decode("ascii")
