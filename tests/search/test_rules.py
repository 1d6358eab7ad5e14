"""Rules (logits processors), the length penalty, and searches at their limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from laws.searching import beam, greedy
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
)

V = 8


def preferring(*tokens: int, end: float = -3.0) -> Table:
    """Make a table that prefers these tokens in this order, then end of sentence."""
    logits = torch.randn(len(tokens) + 1, V, V, generator=torch.Generator().manual_seed(0)) * 0.1
    logits[..., EOS] = end
    for position, token in enumerate(tokens):
        logits[position, :, token] += 4
    logits[len(tokens), :, EOS] = 6
    return Table(logits)


def hypotheses_of(
    table: Table, width: int, max_steps: int, rules: tuple[Rule, ...] = (SuppressTokens(),)
) -> list[Hypothesis]:
    limits = torch.tensor([max_steps])
    if width == 1:
        return [greedy(table, source(1), limits, LengthPenalty(1.0), rules)[0]]
    return beam(table, source(1), limits, width, LengthPenalty(1.0), rules)[0]


@pytest.mark.parametrize("width", [1, 2, 5])
def test_the_likeliest_target_is_found(width: int) -> None:
    assert hypotheses_of(preferring(5, 6, 5, 7), width, 9)[0].ids == (5, 6, 5, 7)


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("max_steps", [1, 2, 3, 4])
def test_max_steps_count_the_end(width: int, max_steps: int) -> None:
    hypotheses = hypotheses_of(preferring(5, 6, 5, 7), width, max_steps)
    assert hypotheses[0].ids == (5, 6, 5, 7)[: max_steps - 1]
    assert all(len(h.ids) < max_steps for h in hypotheses)


@pytest.mark.parametrize("width", [1, 3])
def test_each_sentence_has_its_own_max_steps(width: int) -> None:
    table = preferring(5, 6, 5, 7)
    limits = torch.tensor([2, 9, 3])
    results = (
        [[h] for h in greedy(table, source(3), limits, LengthPenalty(1.0))]
        if width == 1
        else beam(table, source(3), limits, width, LengthPenalty(1.0))
    )
    assert [hypotheses[0].ids for hypotheses in results] == [(5,), (5, 6, 5, 7), (5, 6)]


@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_model_that_never_ends_is_ended(width: int) -> None:
    table = preferring(5, 6, 5, 7, 5, 6)
    table.logits[..., EOS] = -torch.inf
    hypotheses = hypotheses_of(table, width, 4)
    assert hypotheses[0].ids == (5, 6, 5)
    assert all(len(h.ids) == 3 and not math.isnan(h.score) for h in hypotheses)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_model_that_gives_nan_still_yields_a_hypothesis(width: int) -> None:
    table = Table(torch.full((3, V, V), torch.nan))
    hypotheses = hypotheses_of(table, width, 4)
    assert len(hypotheses) >= 1
    assert len(hypotheses[0].ids) < 4


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("by_scores", [True, False])
def test_banning_every_token_still_yields_a_hypothesis(width: int, by_scores: bool) -> None:
    class BanAll(Rule):
        needs_all_logits = by_scores

        def bans(self, beams: BeamView) -> Bans | None:
            if by_scores or beams.lengths[0] < 2:
                return None
            rows = np.arange(len(beams.tokens)).repeat(V)
            return rows, np.tile(np.arange(V), len(beams.tokens))

        def adjust(self, scores: Any, beams: BeamView) -> Any:
            return np.full_like(scores, -np.inf) if beams.lengths[0] >= 2 else scores

    hypotheses = hypotheses_of(preferring(5, 6, 5, 7), width, 9, (SuppressTokens(), BanAll()))
    assert (5, 6) in {h.ids for h in hypotheses}
    assert not {PAD, UNK, BOS, EOS} & set(hypotheses[0].ids)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_rule_changes_the_selection_and_not_the_log_probability(width: int) -> None:
    @dataclass(frozen=True)
    class Prefer(Rule):
        needs_all_logits = True
        token: int

        def adjust(self, scores: Any, beams: BeamView) -> Any:
            scores[:, self.token] += 10.0 if beams.lengths[0] == 0 else 0.0
            return scores

    table = preferring(5, 6, 5, 7)
    best = hypotheses_of(table, width, 9, (SuppressTokens(), Prefer(4)))[0]
    assert best.ids == (4, 6, 5, 7)
    log_probs = table.logits.log_softmax(-1)
    path = zip(range(5), (BOS, *best.ids), (*best.ids, EOS), strict=True)
    expected = sum(float(log_probs[position, before, token]) for position, before, token in path)
    assert best.log_prob == pytest.approx(expected, abs=1e-4)
    assert best.score == pytest.approx(expected / ((5 + 5) / 6), abs=1e-4)


def test_rules_see_the_prefixes() -> None:
    histories: list[list[list[int]]] = []

    class Spy(Rule):
        def bans(self, beams: BeamView) -> None:
            histories.append(beams.history[:, : beams.lengths[0]].tolist())

    hypotheses_of(preferring(5, 6), 1, 9, (SuppressTokens(), Spy()))
    assert histories == [[[]], [[5]], [[5, 6]]]
    histories.clear()
    hypotheses = hypotheses_of(preferring(5, 6), 3, 9, (SuppressTokens(), Spy()))
    assert histories[0] == [[]]
    assert list(hypotheses[0].ids) in histories[2]


def test_beam_search_finds_a_target_that_greedy_search_misses() -> None:
    """The likeliest first token has unlikely continuations: 0.5 · 0.2 against 0.4 · 0.9."""
    probabilities = torch.full((3, V, V), 1e-6)
    probabilities[0, :, 5], probabilities[0, :, 6] = 0.5, 0.4
    probabilities[1, 5, 4:] = 0.2
    probabilities[1, 6, 7] = 0.9
    probabilities[2, :, EOS] = 1.0
    table = Table(probabilities.log())
    assert hypotheses_of(table, 1, 5)[0].ids[0] == 5
    assert hypotheses_of(table, 4, 5)[0].ids == (6, 7)


@pytest.mark.parametrize("width", [2, 4, 9, 30])
def test_a_beam_returns_at_most_its_width_of_distinct_hypotheses_best_first(width: int) -> None:
    generator = torch.Generator().manual_seed(5)
    table = Table(torch.randn(6, V, V, generator=generator))
    results = beam(table, source(2), torch.tensor([6, 3]), width, LengthPenalty(0.6))
    for hypotheses, max_steps in zip(results, (6, 3), strict=True):
        assert 1 <= len(hypotheses) <= width
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        assert len({h.ids for h in hypotheses}) == len(hypotheses)
        assert all(len(h.ids) < max_steps for h in hypotheses)


def test_searching_leaves_no_graph_and_no_gradient() -> None:
    logits = torch.randn(6, V, V, requires_grad=True)
    hypotheses_of(Table(logits), 3, 5)
    assert torch.is_grad_enabled()
    assert logits.grad is None


# --- top-k, length penalty, step limits


def test_suppressed_tokens_are_excluded_from_the_top_k_and_not_from_the_normalisation() -> None:
    logits = torch.randn(3, V)
    log_probs = logits.log_softmax(-1)
    top, tokens, end = top_tokens(logits, 3, [1, 5])
    assert torch.equal(end, log_probs[:, EOS])
    assert torch.equal(top, log_probs.gather(1, tokens))
    allowed = log_probs.index_fill(1, torch.tensor([1, 5]), -torch.inf)
    assert torch.equal(tokens, allowed.sort(descending=True, stable=True)[1][:, :3])


@pytest.mark.parametrize("k", [1, 2, 4, V, V + 3])
def test_of_equal_logits_the_lower_token_comes_first_in_any_batch(k: int) -> None:
    logits = torch.randint(0, 3, (50, V), generator=torch.Generator().manual_seed(1)).float()
    _, tokens, _ = top_tokens(logits, k, [2])
    allowed = logits.index_fill(1, torch.tensor([2]), -torch.inf)
    assert torch.equal(tokens, allowed.sort(descending=True, stable=True)[1][:, :k])
    for row in range(50):
        assert torch.equal(top_tokens(logits[row : row + 1], k, [2])[1][0], tokens[row])


def test_by_default_tokens_without_text_are_suppressed() -> None:
    assert set(SuppressTokens().suppressed) == {PAD, UNK, BOS}


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("length", [1, 2, 50])
def test_the_length_penalty_is_the_published_one(alpha: float, length: int) -> None:
    """(5 + |Y|)^α / (5 + 1)^α, equation 14 of Wu et al. 2016."""
    assert LengthPenalty(alpha)(length) == pytest.approx((5 + length) ** alpha / 6**alpha)


def test_max_steps_follow_from_the_source_and_the_limit_of_the_model() -> None:
    settings = SearchSettings(max_ratio=1.5, max_extra=4)
    assert [settings.max_steps(n, None) for n in (1, 3, 10)] == [5, 8, 19]
    assert [settings.max_steps(n, 9) for n in (1, 3, 10)] == [5, 8, 9]
