"""Continuous batching: hypotheses equal those decoded alone, by any engine on any number of threads."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from laws.models import images, in_turn, kinds, make

from regard.data.vocabulary import EOS
from regard.engine import BatchLimits, DecodeRequest, decode_requests, pack_model, why_not_packed
from regard.models import Batch, Model, ModelSettings
from regard.runtime import native
from regard.search import Hypothesis, SearchSettings, Task, decode

RNG = random.Random(5)
SOURCES = [[*(RNG.randrange(4, 20) for _ in range(RNG.randrange(12))), EOS] for _ in range(23)]
REQUESTS = [DecodeRequest(source, Task(id, 3 + id % 7)) for id, source in enumerate(SOURCES)]
IMAGE_REQUESTS = [
    DecodeRequest(images(len(request.source), seed=seed).data[0], request.task) for seed, request in enumerate(REQUESTS)
]

SEARCHES = [
    (3, BatchLimits(8, 30)),
    (1, BatchLimits(1, 1)),
    (3, BatchLimits()),
    (1, BatchLimits(8, 30)),
    (3, BatchLimits(1, 1)),
    (1, BatchLimits()),
]
"""Widths of the beam, and limits of the batch."""


def decode_alone(model: Model, request: DecodeRequest, settings: SearchSettings) -> list[Hypothesis]:
    with torch.inference_mode():
        source = model.encode(Batch.of([request.source]))
    return decode(model, source, [request.task], settings)[0]


def assert_same(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in hypotheses] for hypotheses in actual] == [
        [h.ids for h in hypotheses] for hypotheses in expected
    ]
    for result, reference in zip(actual, expected, strict=True):
        assert [h.score for h in result] == pytest.approx([h.score for h in reference], abs=1e-4)


@pytest.mark.parametrize(("settings", "search"), in_turn(kinds(), SEARCHES))
def test_continuous_batching_equals_decoding_alone(settings: ModelSettings, search: tuple[int, BatchLimits]) -> None:
    model, (beam, limits) = make(settings, ends=0.02), search
    search_settings = SearchSettings(beam=beam, length_penalty=1.0)
    requests = IMAGE_REQUESTS if settings.encoder.reads == "images" else REQUESTS
    expected = [decode_alone(model, request, search_settings) for request in requests]
    assert len({len(hypotheses[0].ids) for hypotheses in expected}) > 1
    models: list[list[Any]] = [[model], [model, model]]
    if native.why_unavailable() is None and why_not_packed(model) is None:
        packed = pack_model(model)
        models += [[packed], [packed.clone(), packed.clone()]]
    for workers in models:
        assert_same(decode_requests(workers, requests, search_settings, limits=limits), expected)


def test_no_requests_give_no_hypotheses() -> None:
    assert decode_requests([make(kinds(reads=["text"])[0].values[0])], [], SearchSettings()) == []


def test_failure_in_a_thread_is_raised_and_stops_the_other_threads() -> None:
    model = make(kinds(reads=["text"])[0].values[0])

    class Broken:
        steps = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(model, name)

        def step(self, *_: Any) -> Any:
            Broken.steps += 1
            raise ArithmeticError("broken")

    with pytest.raises(ArithmeticError, match="broken"):
        decode_requests([Broken(), Broken()], REQUESTS * 1, SearchSettings(), limits=BatchLimits(1, 1))
    assert Broken.steps <= 2
