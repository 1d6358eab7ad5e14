"""With search options and constraints, for every encoder and decoder and for an ensemble, a
sentence alone equals itself in a batch and has its true score.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.time_limits import seeds

from laws.models import alone, in_turn, kinds, make, sources, targets
from laws.test_reported_scores import recomputed
from regard.models import Batch, Ensemble, Model, ModelSettings
from regard.search import Hypothesis, SearchSettings, Task, Term, decode

LENGTHS = (7, 1, 5, 3)
LONGEST = (9, 5, 8, 9)
OPTIONS: dict[str, dict[str, Any]] = {
    "sample": {
        "beam": 3,
        "sample": True,
        "temperature": 1.3,
        "no_repeat_ngram": 2,
    },
    "few likeliest": {"beam": 3, "sample": True, "top_k": 4, "top_p": 0.8},
    "groups": {"beam": 4, "groups": 2, "diversity": 1.0},
    "no repeats": {"beam": 3, "no_repeat_ngram": 2, "min_length": 3},
}


def tasks(constrained: bool) -> list[Task]:
    if not constrained:
        return [
            Task(n, longest, sampling_key=7 * n) for n, longest in enumerate(LONGEST)
        ]
    return [
        Task(0, LONGEST[0], prefix=(6, 7)),
        Task(1, LONGEST[1]),
        Task(2, LONGEST[2], prefix=(8,), terms=(Term(((4,),)),)),
        Task(3, LONGEST[3], terms=(Term(((9, 5),)), Term(((8,),)))),
    ]


def check(
    model: Model, batch: Batch, settings: SearchSettings, requests: list[Task]
) -> list[list[Hypothesis]]:
    beams = decode(model, model.encode(batch), requests, settings)

    for row, (hypotheses, task) in enumerate(zip(beams, requests, strict=True)):
        sentence = alone(batch, row)
        outputs = [h.ids for h in hypotheses]
        (own_hypotheses,) = decode(model, model.encode(sentence), [task], settings)
        assert [h.ids for h in own_hypotheses] == outputs
        totals = recomputed(model, sentence, outputs)

        for h, total in zip(hypotheses, totals, strict=True):
            score = total / ((6 + len(h.ids)) / 6) ** settings.length_penalty
            assert len(h.ids) + 1 <= task.max_steps
            assert h.log_prob == pytest.approx(total, abs=1e-4, rel=1e-5)
            assert h.score == pytest.approx(score, abs=1e-4, rel=1e-5)

    return beams


def count(beams: list[list[Hypothesis]]) -> int:
    """Return the number of different hypotheses."""
    return len({h.ids for hypotheses in beams for h in hypotheses})


@pytest.mark.parametrize(("settings", "options"), in_turn(kinds(), [*OPTIONS]))
def test_options_give_the_same_alone_and_in_a_batch_with_true_scores(
    settings: ModelSettings, options: str
) -> None:
    batch = sources(settings, *LENGTHS)
    beams = list[list[Hypothesis]]()
    search = SearchSettings(length_penalty=0.6, **OPTIONS[options])

    for seed in seeds(lambda: count(beams) > 4, "more than four hypotheses differ"):
        model = make(settings, seed + 1, ends=0.1)
        beams[:] = check(model, batch, search, tasks(constrained=False))


@pytest.mark.parametrize("settings", kinds())
def test_constraints_give_the_same_alone_and_in_a_batch_with_true_scores(
    settings: ModelSettings,
) -> None:
    batch = sources(settings, *LENGTHS)
    beams = list[list[Hypothesis]]()

    for seed in seeds(lambda: count(beams) > 4, "more than four hypotheses differ"):
        model = make(settings, seed, ends=0.1)
        beams[:] = check(model, batch, SearchSettings(beam=4), tasks(constrained=True))

    best = [hypotheses[0].ids for hypotheses in beams]

    assert all(h.ids[:2] == (6, 7) for h in beams[0])
    assert best[2][0] == 8
    assert 4 in best[2]
    assert (9, 5) in zip(best[3], best[3][1:], strict=False)
    assert 8 in best[3]


@pytest.mark.system
def test_an_ensemble_gives_the_same_alone_and_in_a_batch_with_true_scores() -> None:
    text = [parameter.values[0] for parameter in kinds(reads=["text"])]
    batch = sources(text[0], *LENGTHS)
    models = [make(text[0], 1, ends=0.1), make(text[-1], 2, ends=0.1)]
    ensemble: Any = Ensemble(models)

    check(ensemble, batch, SearchSettings(beam=3), tasks(constrained=True))

    target = targets(4, 5)

    with torch.no_grad():
        logits = [model.project(model(batch, target)) for model in models]
        mean = torch.stack([of_one.softmax(-1) for of_one in logits]).mean(0)
        whole = ensemble.project(ensemble(batch, target)).exp()
        source = ensemble.encode(batch)
        state = ensemble.begin(source)
        steps = []

        for portion in target.split([2, 3], 1):
            features, state = ensemble.step(portion, state, source)
            steps.append(ensemble.project(features))

    torch.testing.assert_close(whole, mean, rtol=0, atol=1e-6)
    torch.testing.assert_close(torch.cat(steps, 1).exp(), mean, rtol=0, atol=1e-5)
