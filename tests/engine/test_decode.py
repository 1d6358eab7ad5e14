"""Continuous batching over PyTorch: hypotheses equal those decoded alone."""

from __future__ import annotations

import random

import pytest
import torch
from laws.models import images, in_turn, kinds, make

from regard.data.vocabulary import EOS
from regard.models import Batch, Model, ModelSettings
from regard.runtime.engine import BatchLimits, DecodeRequest, decode_requests
from regard.search import Hypothesis, SearchSettings, Task, decode

RNG = random.Random(5)
SOURCES = [[*(RNG.randrange(4, 20) for _ in range(RNG.randrange(12))), EOS] for _ in range(23)]
REQUESTS = [DecodeRequest(source, Task(id, 3 + id % 7)) for id, source in enumerate(SOURCES)]
IMAGE_REQUESTS = [
    DecodeRequest(images(len(request.source), seed=seed).data[0], request.task)
    for seed, request in enumerate(REQUESTS)
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


def decode_alone(
    model: Model, request: DecodeRequest, settings: SearchSettings
) -> list[Hypothesis]:
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
def test_continuous_batching_equals_decoding_alone(
    settings: ModelSettings, search: tuple[int, BatchLimits]
) -> None:
    model, (beam, limits) = make(settings, ends=0.02), search
    search_settings = SearchSettings(beam=beam, length_penalty=1.0)
    requests = IMAGE_REQUESTS if settings.encoder.reads == "images" else REQUESTS
    expected = [decode_alone(model, request, search_settings) for request in requests]
    assert len({len(hypotheses[0].ids) for hypotheses in expected}) > 1
    assert_same(decode_requests(model, requests, search_settings, limits=limits), expected)


def test_no_requests_give_no_hypotheses() -> None:
    assert decode_requests(make(kinds(reads=["text"])[0].values[0]), [], SearchSettings()) == []
