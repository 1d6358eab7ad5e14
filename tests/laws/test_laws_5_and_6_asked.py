"""Laws 5 and 6 for all that can be asked of a search, with every encoder and decoder, and with several models as one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from laws.models import alone, make, pairs, sources, targets
from laws.test_law_5_scores import recomputed
from regard.models import Batch, Ensemble, Model, ModelSettings
from regard.search import Hypothesis, SearchSettings, Task, Term, decode

LENGTHS = (8, 1, 5, 3, 7, 2)
LONGEST = (9, 5, 8, 9, 7, 8)
ASKED: dict[str, dict[str, Any]] = {
    "sample": {"beam": 3, "sample": True, "temperature": 1.3},
    "few likeliest": {"beam": 3, "sample": True, "top_k": 4, "top_p": 0.8},
    "groups": {"beam": 4, "groups": 2, "diversity": 1.0},
    "no repeats": {"beam": 3, "no_repeat_ngram": 2, "min_length": 3},
}


def tasks(wishes: bool) -> list[Task]:
    some = [Task(n, longest, sampling_key=7 * n) for n, longest in enumerate(LONGEST)]
    if wishes:
        some[0] = Task(0, LONGEST[0], prefix=(6, 7))
        some[3] = Task(3, LONGEST[3], terms=(Term(((9, 5),)), Term(((8,),))))
        some[5] = Task(5, LONGEST[5], prefix=(8,), terms=(Term(((4,),)),))
    return some


def check(model: Model, batch: Batch, settings: SearchSettings, asked: list[Task]) -> list[list[Hypothesis]]:
    found = decode(model, model.encode(batch), asked, settings)
    for row, (some, task) in enumerate(zip(found, asked, strict=True)):
        one = alone(batch, row)
        (own,) = decode(model, model.encode(one), [task], settings)
        assert [h.ids for h in own] == [h.ids for h in some]
        told = recomputed(model, one, [h.ids for h in some])
        for h, total in zip(some, told, strict=True):
            assert len(h.ids) + 1 <= task.max_steps
            assert h.log_prob == pytest.approx(total, abs=1e-4, rel=1e-5)
            assert h.score == pytest.approx(
                total / ((6 + len(h.ids)) / 6) ** settings.length_penalty, abs=1e-4, rel=1e-5
            )
    assert len({h.ids for some in found for h in some}) > 6
    return found


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("settings", pairs(1))
def test_alone_as_in_company_and_with_true_scores(settings: ModelSettings, asked: str) -> None:
    batch = sources(settings, *LENGTHS)
    check(make(settings, seed=1, ends=0.1), batch, SearchSettings(length_penalty=0.6, **ASKED[asked]), tasks(False))


@pytest.mark.parametrize("settings", pairs(1))
def test_wishes_alone_as_in_company_and_with_true_scores(settings: ModelSettings) -> None:
    found = check(make(settings, ends=0.1), sources(settings, *LENGTHS), SearchSettings(beam=5), tasks(True))
    assert all(h.ids[:2] == (6, 7) for h in found[0])
    assert "(9, 5" in str(found[3][0].ids) or ", 9, 5" in str(found[3][0].ids)
    assert 8 in found[3][0].ids
    assert found[5][0].ids[0] == 8
    assert 4 in found[5][0].ids


def test_several_models_as_one_alone_as_in_company_and_with_true_scores() -> None:
    text = [parameter.values[0] for parameter in pairs(1, reads=["text"])]
    first, last, batch = text[0], text[-1], sources(text[0], *LENGTHS)
    one, other = make(first, 1, 0.1), make(last, 2, 0.1)
    both: Any = Ensemble([one, other])
    found = check(both, batch, SearchSettings(beam=3), tasks(True))
    assert found != [decode(m, m.encode(batch), tasks(True), SearchSettings(beam=3)) for m in (one, other)]
    target = targets(6, 5)
    with torch.no_grad():
        mean = torch.stack([m.project(m(batch, target)).softmax(-1) for m in (one, other)]).mean(0)
        torch.testing.assert_close(both.project(both(batch, target)).exp(), mean, rtol=0, atol=1e-6)
        source, state = both.encode(batch), both.begin(both.encode(batch))
        steps = []
        for portion in target.split([2, 3], 1):
            features, state = both.step(portion, state, source)
            steps.append(both.project(features))
        torch.testing.assert_close(torch.cat(steps, 1).exp(), mean, rtol=0, atol=1e-5)
