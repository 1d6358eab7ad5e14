"""A mixture of corpora: shares follow the weights, each corpus has its own order, any position can
be resumed.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import asdict

import pytest
import torch

from regard.common.errors import ConfigurationError
from regard.data.batch import Example
from regard.data.batch_stream import (
    BatchingSettings,
    BatchPlan,
    BatchStream,
    Position,
    Update,
)
from regard.data.mixture import Mixture
from regard.data.vocabulary import EOS, PAD


def corpus_stream(name: int, count: int, micro_batches: int = 2) -> BatchStream:
    """Return the batch stream of a corpus with a single token, its name."""
    examples = [
        Example([name] * (1 + i % 9) + [EOS], [name] * (1 + i % 7) + [EOS])
        for i in range(count)
    ]
    settings = BatchingSettings(tokens=60, micro_batches=micro_batches, buffer_size=25)
    return BatchStream(examples, settings, seed=name)


def mixture(
    micro_batches: int = 2, weights: tuple[float, ...] = (3.0, 1.0, 1.0)
) -> Mixture:
    sizes = ((10, 90), (11, 40), (12, 1))
    streams = [corpus_stream(*size, micro_batches) for size in sizes]
    return Mixture(streams, weights, 5)


def origin(plan: BatchPlan) -> int:
    names = set[int]()
    for example in plan.examples:
        names.update(example.source_ids, example.target)
    (name,) = names - {EOS}  # a batch comes from one corpus
    return name


def plans_of(updates: list[Update]) -> list[BatchPlan]:
    return [plan for update in updates for plan in update.plans]


def first_updates(
    batches: Mixture, count: int, position: Position | None = None
) -> list[Update]:
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


def test_every_corpus_goes_through_its_own_epochs() -> None:
    batches = mixture()
    updates = first_updates(batches, 80)
    plans = plans_of(updates)

    for name, stream in zip((10, 11, 12), batches.streams, strict=True):
        own = [plan for plan in plans if origin(plan) == name]
        epochs = itertools.chain.from_iterable(
            stream.epoch(n) for n in itertools.count()
        )

        assert own == list(itertools.islice(epochs, len(own)))
        assert len(own) > 5

    for update in updates:
        epochs_of_parts = [part.epoch for part in update.after.parts]
        assert update.after.epoch == min(epochs_of_parts), "that of the slowest corpus"

    assert update.after.epoch < max(epochs_of_parts)
    assert update.after.batch == 160

    values = json.loads(json.dumps(asdict(update.after)))
    assert Position.from_json(values) == update.after

    updates = first_updates(mixture(weights=(5.0, 3.0, 2.0)), 500)
    counts = Counter(map(origin, plans_of(updates)))

    for name, share in ((10, 0.5), (11, 0.3), (12, 0.2)):
        # Three standard deviations.
        assert counts[name] / 1000 == pytest.approx(share, abs=0.048)


def test_the_seed_determines_the_order() -> None:
    streams = [corpus_stream(10, 90), corpus_stream(11, 40)]

    def order(seed: int) -> list[int]:
        mixed = Mixture(streams, (1.0, 1.0), seed)
        return [*map(origin, plans_of(first_updates(mixed, 30)))]

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_a_mixture_of_one_corpus_equals_that_corpus() -> None:
    single = corpus_stream(10, 90)
    mixed = Mixture([corpus_stream(10, 90)], [0.3], 5)
    updates = zip(single.updates(), first_updates(mixed, 50), strict=False)

    assert all(expected.plans == actual.plans for expected, actual in updates)
    assert mixed.padding() == pytest.approx(single.padding())
    assert mixed.epoch_stats.batches == pytest.approx(single.epoch_stats.batches)


def test_padding_share_equals_that_of_the_batches() -> None:
    # Every epoch has the same batches.
    one_buffer = BatchingSettings(tokens=60, micro_batches=2)
    streams = [
        BatchStream(stream.examples, one_buffer, stream.seed)
        for stream in mixture().streams
    ]
    batches = Mixture(streams, (3.0, 2.0, 1.0), 5)
    tensors = [plan.batch() for plan in plans_of(first_updates(batches, 600))]

    for side, share in zip(("source", "target_out"), batches.padding(), strict=True):
        ids = torch.cat([getattr(batch, side).flatten() for batch in tensors])
        assert share == pytest.approx((ids == PAD).float().mean().item(), abs=0.015)

    # The slowest corpus determines the length of an epoch.
    lengths = [
        stream.epoch_stats.batches * 6 / weight
        for stream, weight in zip(streams, (3, 2, 1), strict=True)
    ]
    assert batches.epoch_stats.batches == pytest.approx(max(lengths))


@pytest.mark.parametrize(
    "weights", [(1.0,), (1.0, 0.0), (1.0, float("nan")), (float("inf"), 1.0)]
)
def test_invalid_weights_and_positions_are_refused(weights: tuple[float, ...]) -> None:
    streams = [corpus_stream(10, 9), corpus_stream(11, 9)]
    message = "2 corpora needs as many weights above 0"

    with pytest.raises(ConfigurationError, match=message):
        Mixture(streams, weights, 1)

    after = first_updates(mixture(), 1)[0].after
    message = "has positions in 3 corpora and the recipe has 2"

    with pytest.raises(ConfigurationError, match=message):
        first_updates(Mixture(streams, (1.0, 1.0), 1), 1, after)
