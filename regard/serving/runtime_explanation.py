"""Explanations of a runtime file as JSON, in the types of `js/regard.d.ts`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.runtime.model import (
    EOS,
    NO_ATTENTION,
    Options,
    RuntimeHypothesis,
    RuntimeLine,
    RuntimeModel,
    RuntimeStates,
    trust_of,
)
from regard.search.search_steps import Candidate, SearchStep
from regard.serving.results import array_json, weights_json
from regard.text.doubtful_sentences import DoubtfulSentences
from regard.text.translation import TranslatedPart
from regard.visualisation.translation_json import (
    Attention,
    States,
    Step,
    Words,
    attention_json,
    states_json,
    step_json,
)

MOST_NBEST = 5
"""Default number of hypotheses of an explanation, unless the beam is narrower."""
_FASTEST = 1
"""Level of compression by zlib."""


@dataclass(frozen=True)
class Explainer:
    """Converts the results of a model to explanations.

    `is_packed`: return weights packed, and those of the encoder only for the first hypothesis.
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
        trust = trust_of(self.model.card)
        parts = [
            TranslatedPart(*part[:3], *self.doubts.judge(*part[:3], trust))
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
            "targetWords": self._words((*hypothesis.ids, EOS), True),
            "alignments": hypothesis.links,
            "attention": attention,
            "states": _states(hypothesis.states),
            "repetition": repetition
            and {"text": repetition[0], "times": repetition[1]},
            "isComplete": hypothesis.is_complete,
        }

    def _attention(
        self, hypothesis: RuntimeHypothesis, name: str, role: str
    ) -> Attention:
        scores = hypothesis.scores[name] if role == "cross" else None
        attention = attention_json(
            name,
            role,
            hypothesis.weights[name],
            scores,
            level=_FASTEST if self.is_packed else None,
        )
        if not self.is_packed:
            attention["weights"] = weights_json(attention["weights"])
        return attention

    def _step(self, step: SearchStep) -> Step:
        ids = [candidate.token for candidate in step.candidates]
        return step_json(step.prefixes, step.candidates, self.model.tokens(ids, True))

    def _words(self, ids: tuple[int, ...], is_target: bool) -> Words:
        indices = self.model.word_indices(ids, is_target) if ids else []
        return {
            "texts": self.model.word_texts(ids, indices, is_target),
            "ofTokens": indices,
        }


def _states(states: RuntimeStates | None) -> States | None:
    """Return the states as JSON values, or None if the encoder is not recurrent."""
    if states is None or states.encoder is None:
        return None
    return states_json(
        states.encoder, states.decoder, states.initial, states.attends_first
    )


def next_step_options(options: Options, prefix: Sequence[int]) -> Options:
    """Change options to those of a traced greedy search that ends one token after a prefix."""
    options.beam = 1
    options.nbest = 1
    options.trace = 1
    options.attention = NO_ATTENTION
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
        if candidate.token != EOS and math.isfinite(candidate.log_prob)
    ]
    return sorted(candidates, key=lambda candidate: -candidate.log_prob)[:count]
