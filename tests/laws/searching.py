"""Searches with a longest target given for each sentence, and a greedy search as plain as can be to compare with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.data.vocabulary import BOS, EOS
from regard.models import Model, Source
from regard.search import DecodingModel, Hypothesis, LengthPenalty, Rule, SearchSettings, SuppressTokens, Task, decode

DEFAULT: tuple[Rule, ...] = (SuppressTokens(),)


def beam(
    verbs: DecodingModel,
    source: Source,
    longest: Tensor,
    width: int,
    penalty: LengthPenalty,
    rules: Sequence[Rule] = DEFAULT,
) -> list[list[Hypothesis]]:
    settings = SearchSettings(beam=width, length_penalty=penalty.alpha)
    return decode(verbs, source, [Task(i, n) for i, n in enumerate(longest.tolist())], settings, rules)


def greedy(
    verbs: DecodingModel, source: Source, longest: Tensor, penalty: LengthPenalty, rules: Sequence[Rule] = DEFAULT
) -> list[Hypothesis]:
    return [some[0] for some in beam(verbs, source, longest, 1, penalty, rules)]


Steer = Callable[[Tensor, list[int]], Tensor]


def never(*pieces: int) -> Steer:
    return lambda likely, _: likely.index_fill(0, torch.tensor(pieces, dtype=torch.int64), -torch.inf)


@torch.no_grad()
def plain_greedy(
    model: Model, source: Source, longest: Tensor, penalty: LengthPenalty, *steers: Steer
) -> list[Hypothesis]:
    """Sentence by sentence, the whole beginning read again for every piece."""
    found = []
    for row, most in enumerate(longest.tolist()):
        ids, total, own = [BOS], 0.0, source.select(torch.tensor([row]))
        while ids[-1] != EOS:
            features, _ = model.step(torch.tensor([ids]), model.begin(own), own)
            choice = likely = model.project(features)[0, -1].log_softmax(-1)
            for steer in steers:
                choice = steer(choice, ids)
            ids.append(int(choice.argmax()) if len(ids) < most else EOS)
            total += float(likely[ids[-1]])
        found.append(Hypothesis(tuple(ids[1:-1]), total, total / penalty(len(ids) - 1)))
    return found


def recomputed(table: Any, sentence: int, ids: tuple[int, ...]) -> float:
    """The log-probability of a target by a model that is a table of logits."""
    likely = table.logits[sentence].double().log_softmax(-1)
    steps = zip(itertools.count(), (BOS, *ids), (*ids, EOS), strict=False)
    return sum(float(likely[min(n, len(likely) - 1), before, piece]) for n, before, piece in steps)
