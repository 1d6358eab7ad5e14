"""A sentence has the same hypotheses alone and in a batch, and the score reported is recomputed by
teacher forcing: for every encoder and decoder, with every option and constraint, and for an
ensemble.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.time_limits import seeds

from laws.models import alone, in_turn, kinds, make, pairs, sources, targets
from laws.searching import teacher_forced
from regard.data.vocabulary import EOS
from regard.models import Batch, Ensemble, Model, ModelSettings
from regard.search import Hypothesis, SearchSettings, Task, Term, decode

LENGTHS = (7, 1, 5, 3)
LONGEST = (8, 4, 7, 8)
ALPHAS = (0.0, 0.6, 1.0)
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
TASKS = [Task(n, longest, sampling_key=7 * n) for n, longest in enumerate(LONGEST)]
CONSTRAINED = [
    Task(0, LONGEST[0], prefix=(6, 7)),
    Task(1, LONGEST[1]),
    Task(2, LONGEST[2], prefix=(8,), terms=(Term(((4,),)),)),
    Task(3, LONGEST[3], terms=(Term(((9, 5),)), Term(((8,),)))),
]


def check(
    model: Model, batch: Batch, settings: SearchSettings, tasks: list[Task]
) -> list[list[Hypothesis]]:
    """Check the hypotheses of a batch, and return them."""
    beams = decode(model, model.encode(batch), tasks, settings)

    for row, (hypotheses, task) in enumerate(zip(beams, tasks, strict=True)):
        sentence = alone(batch, row)
        outputs = [h.ids for h in hypotheses]
        (own_hypotheses,) = decode(model, model.encode(sentence), [task], settings)
        # Of hypotheses that tie, a rounding decides which comes first.
        own_scores = [h.score for h in own_hypotheses]
        scores = [h.score for h in hypotheses]
        assert own_scores == pytest.approx(scores, abs=1e-4)
        totals = teacher_forced(model, sentence, outputs)

        for h, total in zip(hypotheses, totals, strict=True):
            length = len(h.ids) + 1
            penalty = ((5 + length) / 6) ** settings.length_penalty
            assert length <= task.max_steps
            assert h.log_prob == pytest.approx(total, abs=1e-4, rel=1e-5)
            assert h.score == pytest.approx(total / penalty, abs=1e-4, rel=1e-5)

    return beams


def count(beams: list[list[Hypothesis]]) -> int:
    """Return the number of different hypotheses."""
    return len({h.ids for hypotheses in beams for h in hypotheses})


def is_varied(winners: list[Hypothesis]) -> bool:
    """Return True if winners differ, also in length, and only some of them are truncated."""
    limits = LONGEST * (len(winners) // len(LONGEST))
    lengths = [len(h.ids) + 1 for h in winners]
    truncated = [n == limit for n, limit in zip(lengths, limits, strict=True)]
    is_cut = 1 <= sum(truncated) < len(truncated) - 1
    return count([winners]) >= 4 and len({*lengths}) >= 3 and is_cut


@pytest.mark.system
@pytest.mark.parametrize(("settings", "width"), in_turn(pairs(), [4, 1, 7]))
def test_a_beam_is_the_same_alone_and_in_a_batch_with_true_scores(
    settings: ModelSettings, width: int
) -> None:
    """One model after another is checked, until enough winners differ."""
    batch = sources(settings, *LENGTHS)
    winners = list[Hypothesis]()

    for seed in seeds(lambda: is_varied(winners), "the winners differ", least=2):
        model = make(settings, seed, (0.02, 0.2, 0.1)[seed % 3])
        search = SearchSettings(beam=width, length_penalty=ALPHAS[seed % 3])
        beams = check(model, batch, search, TASKS)
        winners.extend(hypotheses[0] for hypotheses in beams)

        for hypotheses in beams:
            scores = [h.score for h in hypotheses]
            assert scores == sorted(scores, reverse=True)
            assert count([hypotheses]) == len(hypotheses), "none occurs twice"
            assert 1 <= len(hypotheses) <= width


@pytest.mark.parametrize(("settings", "options"), in_turn(kinds(), [*OPTIONS]))
def test_options_give_the_same_alone_and_in_a_batch_with_true_scores(
    settings: ModelSettings, options: str
) -> None:
    batch = sources(settings, *LENGTHS)
    beams = list[list[Hypothesis]]()
    search = SearchSettings(length_penalty=0.6, **OPTIONS[options])

    for seed in seeds(lambda: count(beams) > 4, "more than four hypotheses differ"):
        beams[:] = check(make(settings, seed + 1, ends=0.1), batch, search, TASKS)


@pytest.mark.parametrize("settings", kinds())
def test_constraints_give_the_same_alone_and_in_a_batch_with_true_scores(
    settings: ModelSettings,
) -> None:
    batch = sources(settings, *LENGTHS)
    beams = list[list[Hypothesis]]()

    for seed in seeds(lambda: count(beams) > 4, "more than four hypotheses differ"):
        model = make(settings, seed, ends=0.1)
        beams[:] = check(model, batch, SearchSettings(beam=4), CONSTRAINED)

    best = [hypotheses[0].ids for hypotheses in beams]

    assert all(h.ids[:2] == (6, 7) for h in beams[0])
    assert best[2][0] == 8
    assert 4 in best[2]
    assert (9, 5) in zip(best[3], best[3][1:], strict=False)
    assert 8 in best[3]


@pytest.mark.parametrize("settings", kinds())
def test_truncated_hypotheses_include_their_end_of_sentence(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    batch = sources(settings, *LENGTHS)
    model.decoder.output.bias.data[EOS] = -60.0
    beams = check(model, batch, SearchSettings(beam=3), TASKS)

    for (best, *_), longest in zip(beams, LONGEST, strict=True):
        assert len(best.ids) + 1 == longest
        assert best.log_prob < -20

    shortest = [Task(n, 1) for n in range(len(LENGTHS))]
    beams = check(model, batch, SearchSettings(beam=3), shortest)

    assert [[h.ids for h in row] for row in beams] == [[()]] * len(LENGTHS)


@pytest.mark.system
def test_an_ensemble_gives_the_same_alone_and_in_a_batch_with_true_scores() -> None:
    text = [parameter.values[0] for parameter in kinds(reads=["text"])]
    batch = sources(text[0], *LENGTHS)
    models = [make(text[0], 1, ends=0.1), make(text[-1], 2, ends=0.1)]
    ensemble: Any = Ensemble(models)

    check(ensemble, batch, SearchSettings(beam=3), CONSTRAINED)

    target = targets(len(LENGTHS), 5)

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
