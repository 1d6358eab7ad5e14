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
REQUESTS = []
IMAGE_REQUESTS = []
for number in range(23):
    length = RNG.randrange(12)
    ids = [RNG.randrange(4, 20) for _ in range(length)]
    task = Task(number, 3 + number % 7)
    REQUESTS.append(DecodeRequest([*ids, EOS], task))
    IMAGE_REQUESTS.append(DecodeRequest(images(length + 1, seed=number).data[0], task))

SEARCHES = [
    (3, BatchLimits(8, 30)),
    (1, BatchLimits(1, 1)),
    (3, BatchLimits()),
    (1, BatchLimits(8, 30)),
]
"""Widths of the beam, and limits of the batch."""


def decode_alone(
    model: Model, request: DecodeRequest, settings: SearchSettings
) -> list[Hypothesis]:
    with torch.inference_mode():
        source = model.encode(Batch.of([request.source]))
    return decode(model, source, [request.task], settings)[0]


def assert_same(
    actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]
) -> None:
    for result, reference in zip(actual, expected, strict=True):
        assert [h.ids for h in result] == [h.ids for h in reference]
        assert [h.complete for h in result] == [h.complete for h in reference]
        assert [h.score for h in result] == pytest.approx(
            [h.score for h in reference], abs=1e-4
        )


@pytest.mark.parametrize(("settings", "search"), in_turn(kinds(), SEARCHES))
def test_continuous_batching_equals_decoding_alone(
    settings: ModelSettings, search: tuple[int, BatchLimits]
) -> None:
    model = make(settings, ends=0.02)
    beam, limits = search
    search_settings = SearchSettings(beam=beam, length_penalty=1.0)
    requests = IMAGE_REQUESTS if settings.encoder.reads == "images" else REQUESTS
    expected = [decode_alone(model, request, search_settings) for request in requests]

    assert len({len(hypotheses[0].ids) for hypotheses in expected}) > 1
    assert_same(
        decode_requests(model, requests, search_settings, limits=limits),
        expected,
    )


def test_no_requests_give_no_hypotheses() -> None:
    model = make(kinds(reads=["text"])[0].values[0])
    assert decode_requests(model, [], SearchSettings()) == []
