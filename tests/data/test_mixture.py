"""A mixture of corpora: shares follow the weights, each corpus has its own order, any position can be resumed."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import asdict

import pytest

from regard.data.batch import Example
from regard.data.batch_stream import BatchingSettings, BatchPlan, BatchStream, Position, Update
from regard.data.mixture import Mixture
from regard.data.vocabulary import EOS
from regard.errors import ConfigurationError


def part(name: int, count: int, micro_batches: int = 2) -> BatchStream:
    """Return a corpus whose every token is its name."""
    examples = [Example([name] * (1 + i % 9) + [EOS], [name] * (1 + i % 7) + [EOS]) for i in range(count)]
    return BatchStream(examples, BatchingSettings(tokens=60, micro_batches=micro_batches, buffer_size=25), seed=name)


def mixture(micro_batches: int = 2, weights: tuple[float, ...] = (3.0, 1.0, 1.0)) -> Mixture:
    return Mixture([part(10, 90, micro_batches), part(11, 40, micro_batches), part(12, 1, micro_batches)], weights, 5)


def origin(plan: BatchPlan) -> int:
    names = {token for example in plan.examples for token in (*example.source, *example.target)} - {EOS}
    assert len(names) == 1, "a batch comes from one corpus"
    return names.pop()


def stream(batches: Mixture, count: int, position: Position | None = None) -> list[Update]:
    return list(itertools.islice(batches.updates(position), count))


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_resuming_anywhere_gives_the_same_stream(micro_batches: int) -> None:
    whole = stream(mixture(micro_batches), 60)
    position = Position()
    for start, update in enumerate(whole):
        ahead = whole[start : start + 8]
        assert stream(mixture(micro_batches), len(ahead), position) == ahead
        assert len(update.plans) == micro_batches
        position = update.after
    assert {update.after.parts[0].epoch for update in whole} > {0, 1}
    assert {where.buffer for update in whole for where in update.after.parts} >= {0, 1, 2}


def test_a_position_survives_json() -> None:
    for update in stream(mixture(), 30):
        values = asdict(update.after)
        assert Position.from_json(json.loads(json.dumps(values))) == update.after


def test_every_corpus_goes_through_its_own_epochs() -> None:
    batches = mixture()
    seen: dict[int, list[BatchPlan]] = {10: [], 11: [], 12: []}
    for update in stream(batches, 80):
        for plan in update.plans:
            seen[origin(plan)].append(plan)
    for own in batches.streams:
        plans = seen[own.examples[0].source[0]]
        epochs = itertools.chain.from_iterable(own.epoch(n) for n in itertools.count())
        assert plans == list(itertools.islice(epochs, len(plans)))
        assert len(plans) > 5


def test_shares_follow_the_weights() -> None:
    drawn = Counter(origin(plan) for update in stream(mixture(weights=(5.0, 3.0, 2.0)), 500) for plan in update.plans)
    for name, share in ((10, 0.5), (11, 0.3), (12, 0.2)):
        assert drawn[name] / 1000 == pytest.approx(share, abs=0.048)  # three standard deviations


def test_the_epoch_is_that_of_the_slowest() -> None:
    for update in stream(mixture(), 40):
        assert update.after.epoch == min(where.epoch for where in update.after.parts)
    assert update.after.epoch < max(where.epoch for where in update.after.parts)
    assert update.after.batch == 80


def test_the_seed_decides() -> None:
    parts = [part(10, 90), part(11, 40)]
    orders = [
        [origin(plan) for update in stream(Mixture(parts, (1.0, 1.0), seed), 30) for plan in update.plans]
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]


def test_a_mixture_of_one_corpus_is_that_corpus() -> None:
    alone, mixed = part(10, 90), Mixture([part(10, 90)], [0.3], 5)
    both = zip(alone.updates(), stream(mixed, 50), strict=False)
    assert all(one.plans == other.plans for one, other in both)
    assert mixed.padding() == pytest.approx(alone.padding())
    assert mixed.epoch_stats.batches == pytest.approx(alone.epoch_stats.batches)


def test_padding_is_that_of_the_batches() -> None:
    whole = BatchingSettings(tokens=60, micro_batches=2)  # one buffer: every epoch is cut alike
    parts = [BatchStream(own.examples, whole, own.seed) for own in mixture().streams]
    batches = Mixture(parts, (3.0, 2.0, 1.0), 5)
    plans = [plan for update in stream(batches, 600) for plan in update.plans]
    sides = [[[len(example.source) for example in plan.examples] for plan in plans]]
    sides += [[[len(example.target) for example in plan.examples] for plan in plans]]
    came = [1 - sum(map(sum, side)) / sum(max(lengths) * len(lengths) for lengths in side) for side in sides]
    assert batches.padding() == pytest.approx(came, abs=0.015)
    # the slowest corpus decides how long an epoch is
    each = [own.epoch_stats.batches * 6 / weight for own, weight in zip(batches.streams, (3, 2, 1), strict=True)]
    assert batches.epoch_stats.batches == pytest.approx(max(each))


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 0.0), (1.0, -1.0), (1.0, float("nan")), (float("inf"), 1.0)])
def test_invalid_weights_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(ConfigurationError, match="2 corpora needs as many weights above 0"):
        Mixture([part(10, 9), part(11, 9)], weights, 1)


def test_a_position_of_another_mixture_is_refused() -> None:
    after = stream(mixture(), 1)[0].after
    with pytest.raises(ConfigurationError, match="has positions in 3 corpora and the recipe has 2"):
        next(Mixture([part(10, 9), part(11, 9)], (1.0, 1.0), 1).updates(after))
