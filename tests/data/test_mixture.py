"""A mixture of corpora: shares follow the weights, each corpus has its own order, any position can
be resumed.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import asdict

import pytest

from regard.common.errors import ConfigurationError
from regard.data.batch import Example
from regard.data.batch_stream import BatchingSettings, BatchPlan, BatchStream, Position, Update
from regard.data.mixture import Mixture
from regard.data.vocabulary import EOS


def corpus_stream(name: int, count: int, micro_batches: int = 2) -> BatchStream:
    """Return the batch stream of a corpus with a single token, its name."""
    examples = [
        Example([name] * (1 + i % 9) + [EOS], [name] * (1 + i % 7) + [EOS]) for i in range(count)
    ]
    return BatchStream(
        examples,
        BatchingSettings(tokens=60, micro_batches=micro_batches, buffer_size=25),
        seed=name,
    )


def mixture(micro_batches: int = 2, weights: tuple[float, ...] = (3.0, 1.0, 1.0)) -> Mixture:
    return Mixture(
        [
            corpus_stream(10, 90, micro_batches),
            corpus_stream(11, 40, micro_batches),
            corpus_stream(12, 1, micro_batches),
        ],
        weights,
        5,
    )


def origin(plan: BatchPlan) -> int:
    names = {token for example in plan.examples for token in (*example.source, *example.target)} - {
        EOS
    }
    assert len(names) == 1, "a batch comes from one corpus"
    return names.pop()


def first_updates(batches: Mixture, count: int, position: Position | None = None) -> list[Update]:
    return list(itertools.islice(batches.updates(position), count))


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_resuming_anywhere_gives_the_same_stream(micro_batches: int) -> None:
    whole = first_updates(mixture(micro_batches), 60)
    position = Position()
    for start, update in enumerate(whole):
        ahead = whole[start : start + 8]
        assert first_updates(mixture(micro_batches), len(ahead), position) == ahead
        assert len(update.plans) == micro_batches
        position = update.after
    assert {update.after.parts[0].epoch for update in whole} > {0, 1}
    assert {part.buffer for update in whole for part in update.after.parts} >= {0, 1, 2}


def test_a_position_survives_json() -> None:
    for update in first_updates(mixture(), 30):
        values = asdict(update.after)
        assert Position.from_json(json.loads(json.dumps(values))) == update.after


def test_every_corpus_goes_through_its_own_epochs() -> None:
    batches = mixture()
    plans_by_corpus: dict[int, list[BatchPlan]] = {10: [], 11: [], 12: []}
    for update in first_updates(batches, 80):
        for plan in update.plans:
            plans_by_corpus[origin(plan)].append(plan)
    for stream in batches.streams:
        plans = plans_by_corpus[stream.examples[0].source[0]]
        epochs = itertools.chain.from_iterable(stream.epoch(n) for n in itertools.count())
        assert plans == list(itertools.islice(epochs, len(plans)))
        assert len(plans) > 5


def test_shares_follow_the_weights() -> None:
    counts = Counter(
        origin(plan)
        for update in first_updates(mixture(weights=(5.0, 3.0, 2.0)), 500)
        for plan in update.plans
    )
    for name, share in ((10, 0.5), (11, 0.3), (12, 0.2)):
        assert counts[name] / 1000 == pytest.approx(share, abs=0.048)  # three standard deviations


def test_the_epoch_is_that_of_the_slowest_corpus() -> None:
    for update in first_updates(mixture(), 40):
        assert update.after.epoch == min(part.epoch for part in update.after.parts)
    assert update.after.epoch < max(part.epoch for part in update.after.parts)
    assert update.after.batch == 80


def test_the_seed_determines_the_order() -> None:
    streams = [corpus_stream(10, 90), corpus_stream(11, 40)]
    orders = [
        [
            origin(plan)
            for update in first_updates(Mixture(streams, (1.0, 1.0), seed), 30)
            for plan in update.plans
        ]
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]


def test_a_mixture_of_one_corpus_equals_that_corpus() -> None:
    single = corpus_stream(10, 90)
    mixed = Mixture([corpus_stream(10, 90)], [0.3], 5)
    updates = zip(single.updates(), first_updates(mixed, 50), strict=False)
    assert all(expected.plans == actual.plans for expected, actual in updates)
    assert mixed.padding() == pytest.approx(single.padding())
    assert mixed.epoch_stats.batches == pytest.approx(single.epoch_stats.batches)


def test_padding_share_equals_that_of_the_batches() -> None:
    one_buffer = BatchingSettings(tokens=60, micro_batches=2)  # every epoch has the same batches
    streams = [
        BatchStream(stream.examples, one_buffer, stream.seed) for stream in mixture().streams
    ]
    batches = Mixture(streams, (3.0, 2.0, 1.0), 5)
    plans = [plan for update in first_updates(batches, 600) for plan in update.plans]
    sides = [[[len(example.source) for example in plan.examples] for plan in plans]]
    sides += [[[len(example.target) for example in plan.examples] for plan in plans]]
    expected = [
        1 - sum(map(sum, side)) / sum(max(lengths) * len(lengths) for lengths in side)
        for side in sides
    ]
    assert batches.padding() == pytest.approx(expected, abs=0.015)
    # the slowest corpus determines the length of an epoch
    epoch_lengths = [
        stream.epoch_stats.batches * 6 / weight
        for stream, weight in zip(batches.streams, (3, 2, 1), strict=True)
    ]
    assert batches.epoch_stats.batches == pytest.approx(max(epoch_lengths))


@pytest.mark.parametrize(
    "weights", [(1.0,), (1.0, 0.0), (1.0, -1.0), (1.0, float("nan")), (float("inf"), 1.0)]
)
def test_invalid_weights_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(ConfigurationError, match="2 corpora needs as many weights above 0"):
        Mixture([corpus_stream(10, 9), corpus_stream(11, 9)], weights, 1)


def test_a_position_of_another_mixture_is_refused() -> None:
    after = first_updates(mixture(), 1)[0].after
    with pytest.raises(ConfigurationError, match="has positions in 3 corpora and the recipe has 2"):
        next(Mixture([corpus_stream(10, 9), corpus_stream(11, 9)], (1.0, 1.0), 1).updates(after))
