"""Explanations of a runtime file, in the format of the JavaScript module (js/regard.d.ts) that the
pages read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.runtime.model import (
    Options,
    RuntimeHypothesis,
    RuntimeLine,
    RuntimeModel,
    RuntimeStates,
)
from regard.search.search_steps import Candidate, SearchStep
from regard.serving.results import array_json, weights_json
from regard.text.doubtful_sentences import DoubtfulSentences

MOST_NBEST = 5
"""Default number of hypotheses of an explanation, unless the beam is narrower."""
_EOS = 3
"""Id of the end-of-sentence token."""
_WEIGHT_SCALE = 65_535
"""Packed value of the attention weight 1."""
_STATE_UNITS = 64
"""Units of a recurrent state that are shown, as in `regard.visualisation.states`."""
_STATE_SCALE = 127
"""Packed value of the state 1, as in `regard.visualisation.states`."""


@dataclass(frozen=True)
class Explainer:
    """Converts the results of a model to explanations; msgspec encodes bytes as Base64.

    `is_packed`: return weights as bytes of 16-bit numbers, and those of the encoder only for the
    first hypothesis.
    """

    model: RuntimeModel
    doubts: DoubtfulSentences
    is_packed: bool = False

    def explanation(self, line: RuntimeLine) -> dict[str, Any]:
        """Return the explanation of a line; its large lists are already encoded as JSON."""
        first = self._hypothesis(line.hypotheses[0], 0)
        others = (
            self._hypothesis(hypothesis, rank)
            for rank, hypothesis in enumerate(line.hypotheses[1:], 1)
        )
        is_doubtful = self.doubts.is_doubtful
        threshold = self.model.card["search"].get("score_threshold")
        parts = [
            part._replace(doubtful=is_doubtful(part.source, part.score, threshold))
            for part in line.parts
        ]

        explanation = dict(first)
        if self.is_packed:
            explanation["attention"] = []  # `nbest` has the weights
        explanation |= {
            "sourceTokens": self.model.tokens(line.source, False),
            "sourceWords": self._words(line.source, False),
            "nbest": array_json(itertools.chain([first], others)),
            "parts": [part._asdict() for part in parts],
            "doubtful": any(part.doubtful for part in parts),
            "notes": line.notes,
            "steps": array_json(map(self._step, line.steps)),
        }
        return explanation

    def _hypothesis(self, hypothesis: RuntimeHypothesis, rank: int) -> dict[str, Any]:
        repetition = next(iter(hypothesis.repetitions), None)
        roles = {layer.name: layer.role for layer in self.model.layers}
        names = list(hypothesis.weights)
        if self.is_packed and rank > 0:
            names = [name for name in names if roles[name] != "encoder"]
        attention = [self._attention(hypothesis, name, roles[name]) for name in names]
        return {
            "text": hypothesis.text,
            "score": hypothesis.score,
            "tokens": self.model.tokens(hypothesis.ids, True),
            "ids": hypothesis.ids,
            "logProbs": hypothesis.log_probs,
            "targetWords": self._words((*hypothesis.ids, _EOS), True),
            "alignments": hypothesis.links,
            "attention": attention,
            "states": _packed_states(hypothesis.states),
            "repetition": repetition
            and {"text": repetition[0], "times": repetition[1]},
            "isComplete": hypothesis.is_complete,
        }

    def _attention(
        self, hypothesis: RuntimeHypothesis, name: str, role: str
    ) -> dict[str, Any]:
        weights = hypothesis.weights[name]
        scores = hypothesis.scores[name]
        heads, rows, columns = weights.shape
        values: Any
        if self.is_packed:
            scaled = (weights * _WEIGHT_SCALE).round().clip(0, _WEIGHT_SCALE)
            values = scaled.astype("<u2").tobytes()
        else:
            values = weights_json(weights.ravel())

        attention = {
            "name": name,
            "role": role,
            "heads": heads,
            "rows": rows,
            "columns": columns,
            "weights": values,
        }
        if role == "cross":
            log_sums = np.logaddexp.reduce(scores, -1)
            attention["logSums"] = log_sums.ravel().tolist()
        return attention

    def _step(self, step: SearchStep) -> dict[str, Any]:
        ids = [candidate.token for candidate in step.candidates]
        tokens = self.model.tokens(ids, True)
        candidates = [
            {
                "beam": candidate.beam,
                "id": candidate.token,
                "token": token,
                "fate": candidate.fate,
                "logProb": candidate.log_prob,
                "total": candidate.total_log_prob,
            }
            for candidate, token in zip(step.candidates, tokens, strict=True)
        ]
        return {"prefixes": step.prefixes, "candidates": candidates}

    def _words(self, ids: tuple[int, ...], is_target: bool) -> dict[str, Any]:
        indices = self.model.word_indices(ids, is_target) if ids else []
        return {
            "texts": self.model.word_texts(ids, indices, is_target),
            "ofTokens": indices,
        }


def _packed_states(states: RuntimeStates | None) -> dict[str, Any] | None:
    """Return the first units of each state as signed bytes, or None if the encoder is not
    recurrent.
    """
    if states is None or states.encoder is None:
        return None
    encoder = states.encoder[..., :_STATE_UNITS]
    decoder = states.decoder[..., :_STATE_UNITS]
    return {
        "directions": encoder.shape[1],
        "encoderSize": encoder.shape[2],
        "decoderSize": decoder.shape[1],
        "encoder": _signed_bytes(encoder),
        "decoder": _signed_bytes(decoder),
        "attendsFirst": states.attends_first,
    }


def _signed_bytes(numbers: npt.NDArray[np.float32]) -> bytes:
    return (numbers.clip(-1, 1) * _STATE_SCALE).round().astype("i1").tobytes()


def next_step_options(options: Options, prefix: Sequence[int]) -> Options:
    """Change options to those of a traced greedy search that ends one token after a prefix."""
    options.beam = 1
    options.nbest = 1
    options.trace = 1
    options.attention = 0
    options.alignments = 0
    options.min_length = 0
    options.max_length = len(prefix) + 1
    return options


def likely_tokens(
    line: RuntimeLine, prefix: Sequence[int], count: int
) -> list[Candidate]:
    """Return the likeliest tokens after a prefix, except the end of sentence.

    `line`: result of a search with `next_step_options`.
    """
    if len(line.steps) <= len(prefix):
        return []
    step = line.steps[len(prefix)]
    candidates = [
        candidate
        for candidate in step.candidates
        if candidate.token != _EOS and math.isfinite(candidate.log_prob)
    ]
    return sorted(candidates, key=lambda candidate: -candidate.log_prob)[:count]
