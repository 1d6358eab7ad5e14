"""Sentences that come and go are decoded as each would be alone, whoever decodes them and on however many threads."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from laws.models import make, pairs, pictures

from regard.data.vocabulary import EOS
from regard.engine import BatchLimits, DecodeRequest, decode_requests, native, pack_model, why_not_packed
from regard.models import Batch, Model, ModelSettings
from regard.search import Hypothesis, SearchSettings, Task, decode

CHANCE = random.Random(5)
SOURCES = [[*(CHANCE.randrange(4, 20) for _ in range(CHANCE.randrange(12))), EOS] for _ in range(23)]
JOBS = [DecodeRequest(source, Task(name, 3 + name % 7)) for name, source in enumerate(SOURCES)]
SEEN = [DecodeRequest(pictures(len(job.source), seed=name).data[0], job.task) for name, job in enumerate(JOBS)]


def alone(model: Model, job: DecodeRequest, settings: SearchSettings) -> list[Hypothesis]:
    with torch.inference_mode():
        source = model.encode(Batch.of([job.source]))
    return decode(model, source, [job.task], settings)[0]


def same(found: list[list[Hypothesis]], wanted: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in some] for some in found] == [[h.ids for h in some] for some in wanted]
    for some, others in zip(found, wanted, strict=True):
        assert [h.score for h in some] == pytest.approx([h.score for h in others], abs=1e-4)


@pytest.mark.parametrize("settings", pairs(1))
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("room", [BatchLimits(8, 30), BatchLimits(1, 1), BatchLimits()])
def test_in_company_as_alone(settings: ModelSettings, beam: int, room: BatchLimits) -> None:
    model, how = make(settings, ends=0.02), SearchSettings(beam=beam, length_penalty=1.0)
    jobs = SEEN if settings.encoder.reads == "images" else JOBS
    wanted = [alone(model, job, how) for job in jobs]
    assert len({len(some[0].ids) for some in wanted}) > 1
    readers: list[list[Any]] = [[model], [model, model]]
    if native.why_unavailable() is None and why_not_packed(model) is None:
        one = pack_model(model)
        readers += [[one], [one.clone(), one.clone()]]
    for some in readers:
        same(decode_requests(some, jobs, how, limits=room), wanted)


def test_nothing_to_do() -> None:
    assert decode_requests([make(pairs(1, reads=["text"])[0].values[0])], [], SearchSettings()) == []


def test_what_fails_in_a_thread_is_raised_and_stops_the_others() -> None:
    model = make(pairs(1, reads=["text"])[0].values[0])

    class Broken:
        steps = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(model, name)

        def step(self, *_: Any) -> Any:
            Broken.steps += 1
            raise ArithmeticError("broken")

    with pytest.raises(ArithmeticError, match="broken"):
        decode_requests([Broken(), Broken()], JOBS * 1, SearchSettings(), limits=BatchLimits(1, 1))
    assert Broken.steps <= 2
