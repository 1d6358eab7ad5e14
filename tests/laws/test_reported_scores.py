"""The score reported is the score of the output, recomputed by teacher forcing, alone and without
padding.
"""

from __future__ import annotations

import pytest
import torch
from helpers.time_limits import seeds

from laws.models import alone, in_turn, kinds, make, pairs, repeated, sources
from laws.searching import beam
from regard.data.batch import pad
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, Model, ModelSettings
from regard.search import Hypothesis, LengthPenalty

LENGTHS = (8, 1, 5, 3, 7, 2)
LONGEST = torch.tensor([7, 4, 6, 7, 5, 6])
ALPHAS = (0.0, 0.6, 1.0)


@torch.no_grad()
def recomputed(
    model: Model, sentence: Batch, outputs: list[tuple[int, ...]]
) -> list[float]:
    """Return the log-probability of each output and its end of sentence; no token is suppressed."""
    full, keep = pad([[BOS, *ids, EOS] for ids in outputs])
    source = model.encode(repeated(sentence, len(outputs)))
    features, _ = model.step(full[:, :-1], model.begin(source), source)
    log_probs = model.project(features).double().log_softmax(-1)
    of_tokens = log_probs.gather(2, full[:, 1:, None])[..., 0]
    if keep is not None:
        of_tokens = of_tokens.masked_fill(~keep[:, 1:], 0)
    return of_tokens.sum(1).tolist()


def check(
    model: Model, batch: Batch, beams: list[list[Hypothesis]], alpha: float
) -> None:
    for row, hypotheses in enumerate(beams):
        outputs = [h.ids for h in hypotheses]
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({*outputs}) == len(outputs), "no hypothesis occurs twice"
        totals = recomputed(model, alone(batch, row), outputs)

        for h, total in zip(hypotheses, totals, strict=True):
            length = len(h.ids) + 1
            penalty = ((5 + length) / 6) ** alpha
            assert length <= LONGEST[row]
            assert h.log_prob == pytest.approx(total, abs=1e-4, rel=1e-5)
            assert h.score == pytest.approx(total / penalty, abs=1e-4, rel=1e-5)


def is_varied(batches: list[list[list[Hypothesis]]]) -> bool:
    """Return True if winners differ, also in length, sentences finish early, and only some winners
    are truncated.
    """
    winners = [hypotheses[0].ids for batch in batches for hypotheses in batch]
    limits = LONGEST.tolist() * len(batches)
    truncated = [
        len(ids) + 1 == limit for ids, limit in zip(winners, limits, strict=True)
    ]
    lengths = {len(ids) for ids in winners}
    is_cut = 2 <= sum(truncated) < len(truncated) - 2
    return len({*winners}) >= 6 and len(lengths) >= 3 and is_cut


@pytest.mark.parametrize(("settings", "width"), in_turn(pairs(), [4, 1, 7]))
def test_the_scores_of_a_beam_equal_teacher_forcing(
    settings: ModelSettings, width: int
) -> None:
    """One model after another is checked, until enough winners differ."""
    batch = sources(settings, *LENGTHS)
    batches = list[list[list[Hypothesis]]]()

    def is_enough() -> bool:
        return width > 4 or is_varied(batches)

    for seed in seeds(is_enough, "the winners differ", least=2):
        model = make(settings, seed, (0.02, 0.2, 0.1)[seed % 3])
        alpha = ALPHAS[seed % 3]
        beams = beam(model, model.encode(batch), LONGEST, width, LengthPenalty(alpha))
        assert all(1 <= len(hypotheses) <= width for hypotheses in beams)
        check(model, batch, beams, alpha)
        batches.append(beams)


@pytest.mark.parametrize("settings", kinds())
def test_truncated_hypotheses_include_their_end_of_sentence(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    batch = sources(settings, *LENGTHS)
    with torch.no_grad():
        model.decoder.output.bias[EOS] = -60.0
    source = model.encode(batch)
    beams = beam(model, source, LONGEST, 3, LengthPenalty(1.0))

    assert [len(hypotheses[0].ids) + 1 for hypotheses in beams] == LONGEST.tolist()
    check(model, batch, beams, 1.0)
    assert all(hypotheses[0].log_prob < -20 for hypotheses in beams)

    beams = beam(model, source, torch.ones_like(LONGEST), 3, LengthPenalty(1.0))

    assert [[h.ids for h in row] for row in beams] == [[()]] * 6
