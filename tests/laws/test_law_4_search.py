"""Law 4: greedy is a beam of one, a beam as wide as the space is exhaustive search, and beams share their source."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from laws.models import beam_rows, make, pairs, sources, targets
from laws.searching import Steer, beam, greedy, never, plain_greedy
from regard.data.vocabulary import BOS, EOS, PAD, UNK
from regard.models import Model, ModelSettings
from regard.search import Bans, BeamView, Hypothesis, LengthPenalty, Rule, SearchSettings, SuppressTokens, search

ENDS = (0.05, 0.2, 0.4)


@dataclass(frozen=True)
class Prefer(Rule):
    """A rule that raises the score of one token and lowers that of another."""

    needs_all_logits = True
    more: int = 7
    less: int = 9

    def adjust(self, scores: Any, beams: BeamView) -> Any:  # noqa: ARG002
        scores[:, self.more] += 1.5
        scores[:, self.less] -= 1.5
        return scores

    def steer(self, likely: Tensor, ids: list[int]) -> Tensor:  # noqa: ARG002
        bonus = torch.zeros_like(likely)
        bonus[self.more], bonus[self.less] = 1.5, -1.5
        return likely + bonus


@dataclass(frozen=True)
class NotBefore(Rule):
    """A rule that bans end of sentence before this many tokens."""

    length: int

    def bans(self, beams: BeamView) -> Bans:
        rows = np.flatnonzero((beams.lengths < self.length).repeat(beams.width))
        return rows, np.full(len(rows), EOS)

    def steer(self, likely: Tensor, ids: list[int]) -> Tensor:
        return never(EOS)(likely, ids) if len(ids) <= self.length else likely


DEFAULT = never(PAD, UNK, BOS)
RULES: dict[str, tuple[tuple[Rule, ...], tuple[Steer, ...]]] = {
    "none": ((), ()),
    "suppressed tokens": ((SuppressTokens(),), (DEFAULT,)),
    "more suppressed": ((SuppressTokens(), SuppressTokens([5, 6, 11])), (DEFAULT, never(5, 6, 11))),
    "not before": ((SuppressTokens(), NotBefore(3)), (DEFAULT, NotBefore(3).steer)),
    "preferred tokens": ((SuppressTokens(), Prefer()), (DEFAULT, Prefer().steer)),
    "both": ((SuppressTokens(), NotBefore(2), Prefer()), (DEFAULT, NotBefore(2).steer, Prefer().steer)),
}


@pytest.mark.parametrize("settings", pairs())
def test_greedy_is_a_beam_of_one(settings: ModelSettings) -> None:
    batch, longest = sources(settings, 7, 1, 5, 3, 6), torch.tensor([9, 2, 8, 9, 5])
    found = set()
    for seed, ends in enumerate(ENDS):
        model = make(settings, seed, ends)
        source = model.encode(batch)
        one = plain_greedy(model, source, longest, LengthPenalty(0.6), DEFAULT)
        many = beam(model, source, longest, 1, LengthPenalty(0.6))
        _same(one, many)
        found |= {h.ids for h in one}
    assert len(found) >= 4, "the sentences should not all become the same"


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("settings", pairs(1))
def test_greedy_is_a_beam_of_one_whatever_the_rules(settings: ModelSettings, rules: str) -> None:
    batch, longest = sources(settings, 7, 1, 5, 3, 6), torch.full((5,), 8)
    for seed, ends in enumerate(ENDS):
        model = make(settings, seed, ends)
        source = model.encode(batch)
        objects, steers = RULES[rules]
        one = plain_greedy(model, source, longest, LengthPenalty(1.0), *steers)
        _same(one, beam(model, source, longest, 1, LengthPenalty(1.0), objects))


@dataclass(frozen=True)
class Nothing(Rule):
    """Changes nothing, but has to see all to do so."""

    needs_all_logits = True


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("settings", pairs(1))
def test_the_top_tokens_are_as_good_as_whole_distributions(settings: ModelSettings, rules: str) -> None:
    batch, longest = sources(settings, 7, 1, 5, 3, 6), torch.full((5,), 8)
    for seed, ends in enumerate(ENDS):
        model, (objects, _) = make(settings, seed, ends), RULES[rules]
        source = model.encode(batch)
        found, wanted = (
            beam(model, source, longest, 4, LengthPenalty(1.0), some) for some in (objects, (*objects, Nothing()))
        )
        assert [[h.ids for h in some] for some in found] == [[h.ids for h in some] for some in wanted]


def _same(one: list[Hypothesis], many: list[list[Hypothesis]]) -> None:
    assert [h.ids for h in one] == [some[0].ids for some in many]
    assert all(len(some) == 1 for some in many)
    for mine, (theirs,) in zip(one, many, strict=True):
        assert mine.log_prob == pytest.approx(theirs.log_prob, abs=1e-4, rel=1e-5)
        assert mine.score == pytest.approx(theirs.score, abs=1e-4, rel=1e-5)


@pytest.mark.parametrize("settings", pairs(1))
def test_search_settings_of_one_beam_are_greedy(settings: ModelSettings) -> None:
    model, batch = make(settings), sources(settings, 5, 2, 4)
    chosen = SearchSettings(beam=1, length_penalty=0.6, max_ratio=1.0, max_extra=3)
    longest = torch.tensor([8, 5, 7])
    source = model.encode(batch)
    found = search(model, source, [5, 2, 4], chosen)
    _same(plain_greedy(model, source, longest, LengthPenalty(0.6), DEFAULT), found)


# --- the whole space


PIECES = 7  # PAD UNK BOS EOS and three that mean something


def every_target(longest: int, ends: int = EOS) -> list[tuple[int, ...]]:
    """All targets of at most `longest` pieces, their end counted."""
    symbols = range(ends + 1, PIECES)
    return [ids for length in range(longest) for ids in itertools.product(symbols, repeat=length)]


@torch.no_grad()
def log_probabilities(model: Model, source_row: int, batch_targets: list[tuple[int, ...]], batch) -> list[float]:  # type: ignore[no-untyped-def]
    """By teacher forcing, one target at a time's worth of arithmetic: rows of equal length together."""
    found: dict[tuple[int, ...], float] = {}
    whole = model.encode(batch).select(torch.tensor([source_row]))
    for _, group in itertools.groupby(batch_targets, len):
        same_length = list(group)
        full = torch.tensor([[BOS, *ids, EOS] for ids in same_length])
        source = whole.select(torch.zeros(len(full), dtype=torch.int64))
        features, _ = model.step(full[:, :-1], model.begin(source), source)
        told = model.project(features).log_softmax(-1).gather(2, full[:, 1:, None])[..., 0].sum(1)
        found |= dict(zip(same_length, told.tolist(), strict=True))
    return [found[ids] for ids in batch_targets]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("settings", pairs(2))
def test_a_beam_as_wide_as_the_space_ranks_all_targets_as_brute_force_does(
    settings: ModelSettings, alpha: float
) -> None:
    batch, longest, lengths = sources(settings, 4, 1, 6), torch.tensor([4, 3, 4]), set[int]()
    penalty = LengthPenalty(alpha)
    for seed in itertools.count():
        assert seed < 30, "the best should not all be equally long"
        model = make(settings, seed, (0.5, 0.1, 0.3)[seed % 3], PIECES)
        found = beam(model, model.encode(batch), longest, 60, penalty)
        for row, hypotheses in enumerate(found):
            space = every_target(int(longest[row]))
            told = log_probabilities(model, row, space, batch)
            scores = {ids: x / ((5 + len(ids) + 1) / 6) ** alpha for ids, x in zip(space, told, strict=True)}
            assert {h.ids for h in hypotheses} == set(space)
            assert len(hypotheses) == len(space)
            for h in hypotheses:
                assert h.score == pytest.approx(scores[h.ids], abs=1e-4, rel=1e-5)
            ranked = sorted(scores.values(), reverse=True)
            assert [h.score for h in hypotheses] == pytest.approx(ranked, abs=1e-4, rel=1e-5)
            lengths.add(len(hypotheses[0].ids))
        if len(lengths) > 1:
            break


@pytest.mark.parametrize("settings", pairs(1))
def test_what_is_forbidden_is_never_written(settings: ModelSettings) -> None:
    model, longest = make(settings, ends=0.1), torch.tensor([6, 6])
    with torch.no_grad():
        model.decoder.output.bias[[PAD, UNK, BOS]] = 3.0
    source = model.encode(sources(settings, 4, 2))
    free = beam(model, source, longest, 4, LengthPenalty(1.0), ())
    assert {PAD, UNK, BOS} & {piece for some in free for h in some for piece in h.ids}, "they would be written"
    for found in (
        beam(model, source, longest, 4, LengthPenalty(1.0)),
        [greedy(model, source, longest, LengthPenalty(1.0))],
    ):
        assert not {PAD, UNK, BOS, EOS} & {piece for some in found for h in some for piece in h.ids}


# --- beams share a source


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_hypotheses_that_share_a_source_go_on_as_if_each_had_its_own(settings: ModelSettings) -> None:
    K, batch = 3, sources(settings, 5, 1, 7)
    model, target = make(settings), targets(3 * K, 6)
    source, rows = model.encode(batch), beam_rows(3, K)
    tiled = source.select(rows)
    shared, own = model.begin(source).select(rows), model.begin(tiled)
    for portion in target.split([1, 3, 2], 1):
        found, shared = model.step(portion, shared, source)
        wanted, own = model.step(portion, own, tiled)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)
