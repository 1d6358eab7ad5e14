"""Searches with a longest target given for each sentence, and as their references a plain greedy
search and teacher forcing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from laws.models import repeated
from regard.data.batch import pad
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, Model, Source
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
    beams = beam(model, source, longest, 1, penalty, rules)
    return [hypotheses[0] for hypotheses in beams]


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


@torch.no_grad()
def teacher_forced(
    model: Model, sentence: Batch, outputs: Sequence[tuple[int, ...]]
) -> list[float]:
    """Return the log-probability of each output of a sentence, and of its end; no token is
    suppressed.
    """
    full, keep = pad([[BOS, *ids, EOS] for ids in outputs])
    source = model.encode(repeated(sentence, len(outputs)))
    features, _ = model.step(full[:, :-1], model.begin(source), source)
    log_probs = model.project(features).double().log_softmax(-1)
    of_tokens = log_probs.gather(2, full[:, 1:, None])[..., 0]
    if keep is not None:
        of_tokens = of_tokens.masked_fill(~keep[:, 1:], 0)
    return of_tokens.sum(1).tolist()


def recomputed(table: Any, sentence: int, ids: tuple[int, ...]) -> float:
    """Return the log-probability of a target under a model that is a table of logits."""
    log_probs = table.logits[sentence].double().log_softmax(-1)
    steps = zip(itertools.count(), (BOS, *ids), (*ids, EOS), strict=False)
    return sum(
        float(log_probs[min(n, len(log_probs) - 1), previous, token])
        for n, previous, token in steps
    )
