"""Explanations of a runtime file as the JavaScript module returns them (js/regard.d.ts), which the
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
"""Hypotheses of an explanation if nobody says how many, and the beam has as many."""
# The last two as in regard.visualisation.states.
_EOS, _PACKED, _DRAWN, _SCALE = 3, 65_535, 64, 127


@dataclass(frozen=True)
class Explainer:
    """Converts results of a model; JSON has bytes as Base64.

    `is_packed`: weights as bytes of 16-bit numbers, those of the encoder only once.
    """

    model: RuntimeModel
    doubts: DoubtfulSentences
    is_packed: bool = False

    def explanation(self, line: RuntimeLine) -> dict[str, Any]:
        """Return a line with all its hypotheses; what is large is JSON already."""
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
        rest = {
            "sourceTokens": self.model.tokens(line.source, False),
            "sourceWords": self._words(line.source, False),
            "nbest": array_json(itertools.chain([first], others)),
            "parts": [part._asdict() for part in parts],
            "doubtful": any(part.doubtful for part in parts),
            "notes": line.notes,
            "steps": array_json(map(self._step, line.steps)),
        }
        return first | ({"attention": []} if self.is_packed else {}) | rest

    def _hypothesis(self, hypothesis: RuntimeHypothesis, rank: int) -> dict[str, Any]:
        repetition = next(iter(hypothesis.repetitions), None)
        roles = {layer.name: layer.role for layer in self.model.layers}
        layers = [
            name
            for name in hypothesis.weights
            if not (self.is_packed and rank and roles[name] == "encoder")
        ]
        return {
            "text": hypothesis.text,
            "score": hypothesis.score,
            "tokens": self.model.tokens(hypothesis.ids, True),
            "ids": hypothesis.ids,
            "logProbs": hypothesis.log_probs,
            "targetWords": self._words((*hypothesis.ids, _EOS), True),
            "alignments": hypothesis.links,
            "attention": [
                self._attention(hypothesis, name, roles[name]) for name in layers
            ],
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
        sums = (
            {"logSums": np.logaddexp.reduce(scores, -1).ravel().tolist()}
            if role == "cross"
            else {}
        )
        if self.is_packed:
            values: Any = (
                (weights * _PACKED).round().clip(0, _PACKED).astype("<u2").tobytes()
            )
        else:
            values = weights_json(weights.ravel())
        return {
            "name": name,
            "role": role,
            "heads": heads,
            "rows": rows,
            "columns": columns,
            "weights": values,
            **sums,
        }

    def _step(self, step: SearchStep) -> dict[str, Any]:
        tokens = self.model.tokens(
            [candidate.token for candidate in step.candidates], True
        )
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
    """Return the first numbers of each state as signed bytes; None of an encoder that is not
    recurrent.
    """
    if states is None or states.encoder is None:
        return None
    encoder = states.encoder[..., :_DRAWN]
    decoder = states.decoder[..., :_DRAWN]
    return {
        "directions": encoder.shape[1],
        "encoderSize": encoder.shape[2],
        "decoderSize": decoder.shape[1],
        "encoder": _signed_bytes(encoder),
        "decoder": _signed_bytes(decoder),
        "attendsFirst": states.attends_first,
    }


def _signed_bytes(numbers: npt.NDArray[np.float32]) -> bytes:
    return (numbers.clip(-1, 1) * _SCALE).round().astype("i1").tobytes()


def next_step_options(options: Options, prefix: Sequence[int]) -> Options:
    """Change options to those of a greedy search that is recorded, and goes one token beyond a
    prefix.
    """
    options.beam = options.nbest = options.trace = 1
    options.attention = options.alignments = options.min_length = 0
    options.max_length = len(prefix) + 1
    return options


def likely_tokens(
    line: RuntimeLine, prefix: Sequence[int], count: int
) -> list[Candidate]:
    """Return the likeliest tokens after a prefix, of a search with `next_step_options`; the end of
    sentence is none.
    """
    step = next(iter(line.steps[len(prefix) :]), None)
    candidates = (
        [candidate for candidate in step.candidates if candidate.token != _EOS]
        if step
        else []
    )
    likely = [
        candidate for candidate in candidates if math.isfinite(candidate.log_prob)
    ]
    return sorted(likely, key=lambda candidate: -candidate.log_prob)[:count]
