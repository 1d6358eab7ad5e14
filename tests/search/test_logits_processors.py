"""Rules (logits processors), top tokens, and searches at their limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from laws.searching import beam
from tables import Table, source

from regard.data.vocabulary import BOS, EOS, PAD, UNK
from regard.models import top_tokens
from regard.search import (
    Bans,
    BeamView,
    Hypothesis,
    LengthPenalty,
    Rule,
    SearchSettings,
    SuppressTokens,
    Task,
    decode,
)

V = 8


def preferring(*tokens: int) -> Table:
    """Make a table that prefers these tokens in this order, then end of sentence."""
    logits = (
        torch.randn(len(tokens) + 1, V, V, generator=torch.Generator().manual_seed(0))
        * 0.1
    )
    logits[..., EOS] = -3.0
    for position, token in enumerate(tokens):
        logits[position, :, token] += 4
    logits[len(tokens), :, EOS] = 6
    return Table(logits[None])


def hypotheses_of(
    table: Table,
    width: int,
    max_steps: int,
    *rules: Rule,
) -> list[Hypothesis]:
    limits = torch.tensor([max_steps])
    suppressing = (SuppressTokens(), *rules)
    return beam(table, source(1), limits, width, LengthPenalty(1.0), suppressing)[0]


@pytest.mark.parametrize("width", [1, 5])
def test_a_model_that_never_ends_is_ended(width: int) -> None:
    table = preferring(5, 6, 5, 7, 5, 6)
    table.logits[..., EOS] = -torch.inf
    hypotheses = hypotheses_of(table, width, 4)

    assert hypotheses[0].ids == (5, 6, 5)
    assert all(len(h.ids) == 3 for h in hypotheses)
    assert not any(math.isnan(h.score) for h in hypotheses)


@pytest.mark.parametrize("width", [1, 5])
def test_a_model_that_gives_nan_still_yields_a_hypothesis(width: int) -> None:
    table = Table(torch.full((1, 3, V, V), torch.nan))
    hypotheses = hypotheses_of(table, width, 4)

    assert len(hypotheses) >= 1
    assert len(hypotheses[0].ids) < 4

    sampling = SearchSettings(beam=width, sample=True)
    (samples,) = decode(table, source(1), [Task(0, 5)], sampling)

    assert [sample.ids for sample in samples] == [()] * width


@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("by_scores", [True, False])
def test_banning_every_token_still_yields_a_hypothesis(
    width: int,
    by_scores: bool,
) -> None:
    class BanAll(Rule):
        needs_all_logits = by_scores

        def bans(
            self,
            beams: BeamView,
        ) -> Bans | None:
            if by_scores or beams.lengths[0] < 2:
                return None
            rows = np.arange(len(beams.tokens)).repeat(V)
            return rows, np.tile(np.arange(V), len(beams.tokens))

        def adjust(
            self,
            scores: Any,
            beams: BeamView,
        ) -> Any:
            return np.full_like(scores, -np.inf) if beams.lengths[0] >= 2 else scores

    hypotheses = hypotheses_of(preferring(5, 6, 5, 7), width, 9, BanAll())

    assert (5, 6) in {h.ids for h in hypotheses}
    assert not {PAD, UNK, BOS, EOS} & set(hypotheses[0].ids)


@pytest.mark.parametrize("k", [1, 4, V + 3])
def test_top_tokens_are_those_of_a_stable_sort_in_any_batch(k: int) -> None:
    """Of equal logits the lower token comes first. Suppressed tokens are excluded from the top, and
    not from the normalisation.
    """
    logits = torch.randint(
        0,
        3,
        (50, V),
        generator=torch.Generator().manual_seed(1),
    ).float()
    log_probs = logits.log_softmax(-1)
    top, tokens, end = top_tokens(logits, k, [2, 5])

    assert torch.equal(end, log_probs[:, EOS])

    allowed = log_probs.index_fill(1, torch.tensor([2, 5]), -torch.inf)

    assert torch.equal(tokens, allowed.sort(descending=True, stable=True)[1][:, :k])
    assert torch.equal(top, allowed.gather(1, tokens))

    for row in range(50):
        _, alone, _ = top_tokens(logits[row : row + 1], k, [2, 5])
        assert torch.equal(alone[0], tokens[row])


def test_max_steps_follow_from_the_source_and_the_limit_of_the_model() -> None:
    settings = SearchSettings(max_ratio=1.5, max_extra=4)

    assert [settings.max_steps(n, None) for n in (1, 3, 10)] == [5, 8, 19]
    assert [settings.max_steps(n, 9) for n in (1, 3, 10)] == [5, 8, 9]
