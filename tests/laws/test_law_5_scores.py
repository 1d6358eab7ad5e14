"""Law 5: the score reported is the score of the output, recomputed by teacher forcing, alone and without its padding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from laws.models import alone, make, pairs, repeated, sources
from laws.searching import beam, greedy
from regard.data.batch import pad
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, Model, ModelSettings, Source
from regard.search import Hypothesis, LengthPenalty

LENGTHS = (8, 1, 5, 3, 7, 2)
LONGEST = torch.tensor([7, 4, 6, 7, 5, 6])
ALPHAS = (0.0, 0.6, 1.0)


@torch.no_grad()
def recomputed(model: Model, sentence: Batch, outputs: list[tuple[int, ...]]) -> list[float]:
    """The log-probability of each output with its end: full vocabulary, nothing forbidden."""
    full, real = pad([[BOS, *ids, EOS] for ids in outputs])
    source = model.encode(repeated(sentence, len(outputs)))
    features, _ = model.step(full[:, :-1], model.begin(source), source)
    told = model.project(features).double().log_softmax(-1).gather(2, full[:, 1:, None])[..., 0]
    return (
        told.masked_fill(torch.zeros_like(told, dtype=torch.bool) if real is None else ~real[:, 1:], 0).sum(1).tolist()
    )


def check(model: Model, batch: Batch, found: list[list[Hypothesis]], alpha: float) -> None:
    for row, hypotheses in enumerate(found):
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        assert len({h.ids for h in hypotheses}) == len(hypotheses), "each is there once"
        totals = recomputed(model, alone(batch, row), [h.ids for h in hypotheses])
        for h, total in zip(hypotheses, totals, strict=True):
            length = len(h.ids) + 1
            assert length <= LONGEST[row]
            assert h.log_prob == pytest.approx(total, abs=1e-4, rel=1e-5)
            assert h.score == pytest.approx(total / ((5 + length) / 6) ** alpha, abs=1e-4, rel=1e-5)


def is_varied(found: list[list[list[Hypothesis]]]) -> bool:
    """Whether winners differ, have many lengths, some sentences leave their batch early, some are cut off and some not."""
    winners = [some[0] for batch in found for some in batch]
    lengths = [len(h.ids) + 1 for h in winners]
    cut = [n == longest for n, longest in zip(lengths, LONGEST.tolist() * len(found), strict=True)]
    leave = any(len({len(some[0].ids) for some in batch}) >= 3 for batch in found)
    return (
        len({h.ids for h in winners}) >= 8
        and len({n for n in lengths if n >= 2}) >= 3
        and leave
        and 2 <= sum(cut) < len(cut) - 2
    )


def check_models(
    settings: ModelSettings, look: Callable[[Model, Source, LengthPenalty], list[list[Hypothesis]]]
) -> None:
    """Try the law on one model after another, until it has been tried on enough different winners."""
    batch, found = sources(settings, *LENGTHS), list[list[list[Hypothesis]]]()
    while len(found) < 3 or not is_varied(found):
        assert len(found) < 12, "winners that do not differ prove nothing"
        model, alpha = make(settings, len(found), (0.02, 0.2, 0.1)[len(found) % 3]), ALPHAS[len(found) % 3]
        found.append(look(model, model.encode(batch), LengthPenalty(alpha)))
        check(model, batch, found[-1], alpha)


@pytest.mark.parametrize("settings", pairs())
def test_the_score_of_greedy_search_is_that_of_its_output(settings: ModelSettings) -> None:
    check_models(settings, lambda model, source, penalty: [[h] for h in greedy(model, source, LONGEST, penalty)])


@pytest.mark.parametrize("settings", pairs(2))
def test_the_scores_of_a_beam_are_those_of_its_outputs(settings: ModelSettings) -> None:
    def look(model: Model, source: Source, penalty: LengthPenalty) -> list[list[Hypothesis]]:
        found = beam(model, source, LONGEST, 4, penalty)
        assert all(1 <= len(some) <= 4 for some in found)
        return found

    check_models(settings, look)


@pytest.mark.parametrize("settings", pairs(1))
@pytest.mark.parametrize("width", [2, 7, 40])
def test_beams_of_any_width_report_true_scores(settings: ModelSettings, width: int) -> None:
    batch = sources(settings, *LENGTHS)
    for ends, alpha in zip((0.1, 0.2, 0.5), ALPHAS, strict=True):
        model = make(settings, 3, ends)
        found = beam(model, model.encode(batch), LONGEST, width, LengthPenalty(alpha))
        check(model, batch, found, alpha)


@pytest.mark.parametrize("settings", pairs(1))
def test_hypotheses_cut_off_at_the_longest_end_and_their_end_is_counted(settings: ModelSettings) -> None:
    model, batch = make(settings), sources(settings, *LENGTHS)
    with torch.no_grad():
        model.decoder.output.bias[EOS] = -60.0
    found = beam(model, model.encode(batch), LONGEST, 3, LengthPenalty(1.0))
    assert [len(some[0].ids) + 1 for some in found] == LONGEST.tolist()
    check(model, batch, found, 1.0)
    assert all(some[0].log_prob < -20 for some in found)


@pytest.mark.parametrize("settings", pairs(1))
def test_a_longest_of_one_leaves_room_for_the_end_alone(settings: ModelSettings) -> None:
    model, one = make(settings), torch.ones(6, dtype=torch.int64)
    source = model.encode(sources(settings, *LENGTHS))
    assert [h.ids for h in greedy(model, source, one, LengthPenalty(1.0))] == [()] * 6
    assert [[h.ids for h in some] for some in beam(model, source, one, 3, LengthPenalty(1.0))] == [[()]] * 6
