"""Law 4: greedy search is a beam of one, the widest beam is exhaustive search, and beams share
their source.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from limits import seeds
from torch import Tensor

from laws.models import beam_rows, in_turn, kinds, make, pairs, sources, targets
from laws.searching import Steer, beam, greedy, plain_greedy, suppress
from regard.data.vocabulary import BOS, EOS, PAD, UNK
from regard.models import Model, ModelSettings
from regard.search import (
    Bans,
    BeamView,
    Hypothesis,
    LengthPenalty,
    Rule,
    SearchSettings,
    SuppressTokens,
    search,
)

ENDS = (0.05, 0.2, 0.4)


@dataclass(frozen=True)
class Prefer(Rule):
    """Rule that raises the score of one token and lowers that of another."""

    needs_all_logits = True
    more: int = 7
    less: int = 9

    def adjust(self, scores: Any, beams: BeamView) -> Any:  # noqa: ARG002
        scores[:, self.more] += 1.5
        scores[:, self.less] -= 1.5
        return scores

    def steer(self, log_probs: Tensor, ids: list[int]) -> Tensor:  # noqa: ARG002
        bonus = torch.zeros_like(log_probs)
        bonus[self.more], bonus[self.less] = 1.5, -1.5
        return log_probs + bonus


@dataclass(frozen=True)
class NotBefore(Rule):
    """Rule that bans end of sentence before this many tokens."""

    length: int

    def bans(self, beams: BeamView) -> Bans:
        rows = np.flatnonzero((beams.lengths < self.length).repeat(beams.width))
        return rows, np.full(len(rows), EOS)

    def steer(self, log_probs: Tensor, ids: list[int]) -> Tensor:
        return suppress(EOS)(log_probs, ids) if len(ids) <= self.length else log_probs


DEFAULT = suppress(PAD, UNK, BOS)
RULES: dict[str, tuple[tuple[Rule, ...], tuple[Steer, ...]]] = {
    "none": ((), ()),
    "suppressed tokens": ((SuppressTokens(),), (DEFAULT,)),
    "more suppressed": (
        (SuppressTokens(), SuppressTokens([5, 6, 11])),
        (DEFAULT, suppress(5, 6, 11)),
    ),
    "not before": ((SuppressTokens(), NotBefore(3)), (DEFAULT, NotBefore(3).steer)),
    "preferred tokens": ((SuppressTokens(), Prefer()), (DEFAULT, Prefer().steer)),
    "both": (
        (SuppressTokens(), NotBefore(2), Prefer()),
        (DEFAULT, NotBefore(2).steer, Prefer().steer),
    ),
}


@pytest.mark.parametrize("settings", pairs())
def test_beam_one_equals_greedy(settings: ModelSettings) -> None:
    batch = sources(settings, 7, 1, 5, 3, 6)
    longest = torch.tensor([9, 2, 8, 9, 5])
    outputs = set[tuple[int, ...]]()
    for seed in seeds(lambda: len(outputs) >= 4, "the outputs differ", least=len(ENDS)):
        model = make(settings, seed, ENDS[seed % len(ENDS)])
        source = model.encode(batch)
        hypotheses = plain_greedy(model, source, longest, LengthPenalty(0.6), DEFAULT)
        beams = beam(model, source, longest, 1, LengthPenalty(0.6))
        _assert_same(hypotheses, beams)
        outputs.update(h.ids for h in hypotheses)


@pytest.mark.parametrize(("settings", "rules"), in_turn(kinds(), [*RULES]))
def test_beam_one_equals_greedy_with_any_rules(settings: ModelSettings, rules: str) -> None:
    batch = sources(settings, 7, 1, 5, 3, 6)
    longest = torch.full((5,), 8)
    for seed, ends in enumerate(ENDS):
        model = make(settings, seed, ends)
        source = model.encode(batch)
        objects, steers = RULES[rules]
        hypotheses = plain_greedy(model, source, longest, LengthPenalty(1.0), *steers)
        _assert_same(hypotheses, beam(model, source, longest, 1, LengthPenalty(1.0), objects))


@dataclass(frozen=True)
class Nothing(Rule):
    """Rule that changes nothing, but needs all logits."""

    needs_all_logits = True


@pytest.mark.parametrize(("settings", "rules"), in_turn(kinds(), [*RULES]))
def test_search_over_top_tokens_equals_search_over_all_logits(
    settings: ModelSettings, rules: str
) -> None:
    batch = sources(settings, 7, 1, 5, 3, 6)
    longest = torch.full((5,), 8)
    for seed, ends in enumerate(ENDS):
        model, (objects, _) = make(settings, seed, ends), RULES[rules]
        source = model.encode(batch)
        actual, expected = (
            beam(model, source, longest, 4, LengthPenalty(1.0), active)
            for active in (objects, (*objects, Nothing()))
        )
        assert [[h.ids for h in row] for row in actual] == [
            [h.ids for h in row] for row in expected
        ]


def _assert_same(hypotheses: list[Hypothesis], beams: list[list[Hypothesis]]) -> None:
    assert [h.ids for h in hypotheses] == [beam_hypotheses[0].ids for beam_hypotheses in beams]
    assert all(len(beam_hypotheses) == 1 for beam_hypotheses in beams)
    for plain, (searched,) in zip(hypotheses, beams, strict=True):
        assert plain.log_prob == pytest.approx(searched.log_prob, abs=1e-4, rel=1e-5)
        assert plain.score == pytest.approx(searched.score, abs=1e-4, rel=1e-5)


@pytest.mark.parametrize("settings", kinds())
def test_search_settings_of_beam_one_are_greedy(settings: ModelSettings) -> None:
    model = make(settings)
    batch = sources(settings, 5, 2, 4)
    search_settings = SearchSettings(beam=1, length_penalty=0.6, max_ratio=1.0, max_extra=3)
    longest = torch.tensor([8, 5, 7])
    source = model.encode(batch)
    beams = search(model, source, [5, 2, 4], search_settings)
    _assert_same(plain_greedy(model, source, longest, LengthPenalty(0.6), DEFAULT), beams)


# --- the whole space


VOCABULARY = 7  # PAD UNK BOS EOS and three symbols


def every_target(longest: int, ends: int = EOS) -> list[tuple[int, ...]]:
    """Return all targets of at most `longest` tokens, end of sentence included."""
    symbols = range(ends + 1, VOCABULARY)
    return [ids for length in range(longest) for ids in itertools.product(symbols, repeat=length)]


@torch.no_grad()
def log_probabilities(
    model: Model, source_row: int, batch_targets: list[tuple[int, ...]], batch
) -> list[float]:  # type: ignore[no-untyped-def]
    """Return the log-probability of each target by teacher forcing, targets of equal length
    together.
    """
    by_target: dict[tuple[int, ...], float] = {}
    sentence = model.encode(batch).select(torch.tensor([source_row]))
    for _, group in itertools.groupby(batch_targets, len):
        same_length = list(group)
        full = torch.tensor([[BOS, *ids, EOS] for ids in same_length])
        source = sentence.select(torch.zeros(len(full), dtype=torch.int64))
        features, _ = model.step(full[:, :-1], model.begin(source), source)
        totals = model.project(features).log_softmax(-1).gather(2, full[:, 1:, None])[..., 0].sum(1)
        by_target |= dict(zip(same_length, totals.tolist(), strict=True))
    return [by_target[ids] for ids in batch_targets]


@pytest.mark.parametrize(("settings", "alpha"), in_turn(pairs(), [0.6, 0.0, 1.0]))
def test_a_beam_as_wide_as_the_space_equals_exhaustive_search(
    settings: ModelSettings, alpha: float
) -> None:
    batch = sources(settings, 4, 1, 6)
    longest = torch.tensor([4, 3, 4])
    penalty = LengthPenalty(alpha)
    for seed in range(20):
        model = make(settings, seed, (0.5, 0.1, 0.3)[seed % 3], VOCABULARY)
        with torch.no_grad():
            # Where the shortest wins, the next draw is surer of its tokens.
            model.decoder.output.weight *= 1 + seed / 2
        beams = beam(model, model.encode(batch), longest, 60, penalty)
        if len({len(hypotheses[0].ids) for hypotheses in beams}) > 1:
            break
    else:
        pytest.fail("the winners of 20 draws have equal lengths")
    for row, hypotheses in enumerate(beams):
        space = every_target(int(longest[row]))
        log_probs = log_probabilities(model, row, space, batch)
        scores = {
            ids: x / ((5 + len(ids) + 1) / 6) ** alpha
            for ids, x in zip(space, log_probs, strict=True)
        }
        assert {h.ids for h in hypotheses} == set(space)
        assert len(hypotheses) == len(space)
        for h in hypotheses:
            assert h.score == pytest.approx(scores[h.ids], abs=1e-4, rel=1e-5)
        ranked = sorted(scores.values(), reverse=True)
        assert [h.score for h in hypotheses] == pytest.approx(ranked, abs=1e-4, rel=1e-5)


@pytest.mark.parametrize("settings", kinds())
def test_suppressed_tokens_are_never_generated(settings: ModelSettings) -> None:
    model = make(settings, ends=0.1)
    longest = torch.tensor([6, 6])
    with torch.no_grad():
        model.decoder.output.bias[[PAD, UNK, BOS]] = 3.0
    source = model.encode(sources(settings, 4, 2))
    free = beam(model, source, longest, 4, LengthPenalty(1.0), ())
    assert {PAD, UNK, BOS} & {
        token for hypotheses in free for h in hypotheses for token in h.ids
    }, "they would be generated"
    for beams in (
        beam(model, source, longest, 4, LengthPenalty(1.0)),
        [greedy(model, source, longest, LengthPenalty(1.0))],
    ):
        assert not {PAD, UNK, BOS, EOS} & {
            token for hypotheses in beams for h in hypotheses for token in h.ids
        }


# --- beams share a source


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_hypotheses_that_share_a_source_equal_those_with_copies_of_it(
    settings: ModelSettings,
) -> None:
    K = 3
    batch = sources(settings, 5, 1, 7)
    model = make(settings)
    target = targets(3 * K, 6)
    source = model.encode(batch)
    rows = beam_rows(3, K)
    tiled = source.select(rows)
    shared = model.begin(source).select(rows)
    own = model.begin(tiled)
    for portion in target.split([1, 3, 2], 1):
        actual, shared = model.step(portion, shared, source)
        expected, own = model.step(portion, own, tiled)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-4)
