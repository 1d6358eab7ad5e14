"""Greedy search is a beam of one, the widest beam is exhaustive search, and a search over the
likeliest tokens equals one over all logits.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from helpers.time_limits import seeds
from torch import Tensor

from laws.models import alone, in_turn, kinds, make, pairs, sources
from laws.searching import Steer, beam, plain_greedy, suppress, teacher_forced
from regard.data.vocabulary import BOS, EOS, PAD, UNK
from regard.models import ModelSettings
from regard.search import Bans, BeamView, LengthPenalty, Rule, SuppressTokens

ENDS = (0.05, 0.2)


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
        steered = log_probs.clone()
        steered[self.more] += 1.5
        steered[self.less] -= 1.5
        return steered


@dataclass(frozen=True)
class NotBefore(Rule):
    """Rule that bans end of sentence before this many tokens."""

    length: int

    def bans(self, beams: BeamView) -> Bans:
        rows = np.flatnonzero((beams.lengths < self.length).repeat(beams.width))
        return rows, np.full(len(rows), EOS)

    def steer(self, log_probs: Tensor, ids: list[int]) -> Tensor:
        return suppress(EOS)(log_probs, ids) if len(ids) <= self.length else log_probs


@dataclass(frozen=True)
class Nothing(Rule):
    """Rule that changes nothing, but needs all logits."""

    needs_all_logits = True


DEFAULT = suppress(PAD, UNK, BOS)
RULES: dict[str, tuple[tuple[Rule, ...], tuple[Steer, ...]]] = {
    "suppressed tokens": ((SuppressTokens(),), (DEFAULT,)),
    "none": ((), ()),
    "more suppressed": (
        (SuppressTokens(), SuppressTokens([5, 6, 11])),
        (DEFAULT, suppress(5, 6, 11)),
    ),
    "both": (
        (SuppressTokens(), NotBefore(2), Prefer()),
        (DEFAULT, NotBefore(2).steer, Prefer().steer),
    ),
}
"""Rules of a search, and the same for a plain greedy search."""


@pytest.mark.system
@pytest.mark.parametrize(("settings", "rules"), in_turn(pairs(), [*RULES]))
def test_beam_one_equals_greedy(settings: ModelSettings, rules: str) -> None:
    batch = sources(settings, 7, 1, 5, 3)
    longest = torch.tensor([8, 2, 7, 8])
    penalty = LengthPenalty(0.6)
    objects, steers = RULES[rules]
    outputs = set[tuple[int, ...]]()

    for seed in seeds(lambda: len(outputs) >= 4, "the outputs differ", least=len(ENDS)):
        model = make(settings, seed, ENDS[seed % len(ENDS)])
        source = model.encode(batch)
        plain = plain_greedy(model, source, longest, penalty, *steers)
        beams = beam(model, source, longest, 1, penalty, objects)

        for expected, (actual,) in zip(plain, beams, strict=True):
            outputs.add(actual.ids)
            assert actual.ids == expected.ids
            for name in ("log_prob", "score"):
                reference = pytest.approx(getattr(expected, name), abs=1e-4, rel=1e-5)
                assert getattr(actual, name) == reference


@pytest.mark.parametrize(("settings", "rules"), in_turn(kinds(), [*RULES]))
def test_search_over_top_tokens_equals_search_over_all_logits(
    settings: ModelSettings, rules: str
) -> None:
    batch = sources(settings, 7, 1, 5, 3)
    longest = torch.full((4,), 8)
    objects, _ = RULES[rules]

    for seed, ends in enumerate(ENDS):
        model = make(settings, seed, ends)
        source = model.encode(batch)
        outputs = []
        for rules_of_search in (objects, (*objects, Nothing())):
            beams = beam(model, source, longest, 4, LengthPenalty(1.0), rules_of_search)
            outputs.append([[h.ids for h in hypotheses] for hypotheses in beams])
        assert outputs[0] == outputs[1]


# --- the whole space


VOCABULARY = 7  # PAD UNK BOS EOS and three symbols
Ids = tuple[int, ...]


def every_target(longest: int) -> list[Ids]:
    """Return all targets of at most `longest` tokens, end of sentence included."""
    symbols = range(EOS + 1, VOCABULARY)
    return [
        ids
        for length in range(longest)
        for ids in itertools.product(symbols, repeat=length)
    ]


@pytest.mark.parametrize(("settings", "alpha"), in_turn(pairs(), [0.6, 0.0, 1.0]))
def test_a_beam_as_wide_as_the_space_equals_exhaustive_search(
    settings: ModelSettings, alpha: float
) -> None:
    batch = sources(settings, 4, 1, 6)
    longest = torch.tensor([4, 3, 4])
    lengths = set[int]()

    for seed in seeds(lambda: len(lengths) > 1, "the lengths of the winners differ"):
        model = make(settings, seed, (0.5, 0.1, 0.3)[seed % 3], VOCABULARY)

        with torch.no_grad():
            # If the shortest wins, the next draw is surer of its tokens.
            model.decoder.output.weight *= 1 + seed / 2

        source = model.encode(batch)
        beams = beam(model, source, longest, 60, LengthPenalty(alpha))
        lengths.clear()
        lengths.update(len(hypotheses[0].ids) for hypotheses in beams)

    for row, hypotheses in enumerate(beams):
        space = every_target(int(longest[row]))
        log_probs = teacher_forced(model, alone(batch, row), space)
        scores = {}
        for ids, log_prob in zip(space, log_probs, strict=True):
            scores[ids] = log_prob / ((6 + len(ids)) / 6) ** alpha
        assert {h.ids for h in hypotheses} == set(space)
        assert len(hypotheses) == len(space)
        for h in hypotheses:
            assert h.score == pytest.approx(scores[h.ids], abs=1e-4, rel=1e-5)
        ranked = sorted(scores.values(), reverse=True)
        actual = [h.score for h in hypotheses]
        assert actual == pytest.approx(ranked, abs=1e-4, rel=1e-5)
