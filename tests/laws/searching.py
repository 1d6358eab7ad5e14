"""Searches with a longest target given for each sentence, and a plain greedy search as their
reference.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.data.vocabulary import BOS, EOS
from regard.models import Model, Source
from regard.search import (
    DecodingModel,
    Hypothesis,
    LengthPenalty,
    Rule,
    SearchSettings,
    SuppressTokens,
    Task,
    decode,
)

DEFAULT: tuple[Rule, ...] = (SuppressTokens(),)


def beam(
    model: DecodingModel,
    source: Source,
    longest: Tensor,
    width: int,
    penalty: LengthPenalty,
    rules: Sequence[Rule] = DEFAULT,
) -> list[list[Hypothesis]]:
    settings = SearchSettings(beam=width, length_penalty=penalty.alpha)
    return decode(
        model,
        source,
        [Task(i, n) for i, n in enumerate(longest.tolist())],
        settings,
        rules,
    )


def greedy(
    model: DecodingModel,
    source: Source,
    longest: Tensor,
    penalty: LengthPenalty,
    rules: Sequence[Rule] = DEFAULT,
) -> list[Hypothesis]:
    return [
        hypotheses[0] for hypotheses in beam(model, source, longest, 1, penalty, rules)
    ]


Steer = Callable[[Tensor, list[int]], Tensor]


def suppress(*tokens: int) -> Steer:
    return lambda log_probs, _: log_probs.index_fill(
        0, torch.tensor(tokens, dtype=torch.int64), -torch.inf
    )


@torch.no_grad()
def plain_greedy(
    model: Model,
    source: Source,
    longest: Tensor,
    penalty: LengthPenalty,
    *steers: Steer,
) -> list[Hypothesis]:
    """Search greedily, one sentence at a time, with the whole prefix decoded again for every
    token.
    """
    hypotheses = []

    for row, limit in enumerate(longest.tolist()):
        ids = [BOS]
        total = 0.0
        own = source.select(torch.tensor([row]))

        while ids[-1] != EOS:
            features, _ = model.step(torch.tensor([ids]), model.begin(own), own)
            choice = log_probs = model.project(features)[0, -1].log_softmax(-1)
            for steer in steers:
                choice = steer(choice, ids)
            ids.append(int(choice.argmax()) if len(ids) < limit else EOS)
            total += float(log_probs[ids[-1]])

        hypotheses.append(
            Hypothesis(tuple(ids[1:-1]), total, total / penalty(len(ids) - 1))
        )

    return hypotheses


def recomputed(table: Any, sentence: int, ids: tuple[int, ...]) -> float:
    """Return the log-probability of a target under a model that is a table of logits."""
    log_probs = table.logits[sentence].double().log_softmax(-1)
    steps = zip(itertools.count(), (BOS, *ids), (*ids, EOS), strict=False)
    return sum(
        float(log_probs[min(n, len(log_probs) - 1), previous, token])
        for n, previous, token in steps
    )
