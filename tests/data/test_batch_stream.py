"""Batch stream: every example once, within the budget, with little padding, and the same from any
position.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from regard.common.errors import DataError
from regard.data import batch_stream
from regard.data.batch import Example, collate, pad
from regard.data.batch_stream import BatchingSettings, BatchPlan, BatchStream, Position
from regard.data.vocabulary import BOS, EOS, PAD


def examples(count: int, seed: int = 0) -> list[Example]:
    """Return pairs of correlated lengths, as in translations."""
    rng = np.random.default_rng(seed)
    source_lengths = rng.gamma(6, 2.5, count).astype(int) + 1
    target_lengths = np.maximum(1, source_lengths + rng.normal(0, 2, count).astype(int))

    def sentence(length: int) -> list[int]:
        return [*rng.integers(4, 99, length).tolist(), EOS]

    lengths = zip(source_lengths, target_lengths, strict=True)
    return [Example(sentence(S), sentence(T)) for S, T in lengths]


SMALL = BatchingSettings(tokens=200, micro_batches=1, buffer_size=150)


def lines_of(epoch: Sequence[BatchPlan]) -> list[int]:
    return sorted(line for plan in epoch for line in plan.indices)


# --- tensors


def test_pad_adds_pad_ids_and_a_mask() -> None:
    ids, keep = pad([[5, 6, 7], [8], []])
    assert ids.tolist() == [[5, 6, 7], [8, PAD, PAD], [PAD, PAD, PAD]]
    assert keep is not None
    assert keep.int().tolist() == [[1, 1, 1], [1, 0, 0], [0, 0, 0]]
    assert (ids.dtype, keep.dtype) == (torch.int64, torch.bool)
    assert pad([[5, 6], [7, 8]])[1] is None, "sequences of equal length"
    assert pad([[]])[0].shape == (1, 0)


def test_collate_shifts_and_pads_the_targets() -> None:
    batch = collate([Example([4, 5, EOS], [6, EOS]), Example([7, EOS], [8, 9, EOS])])
    assert batch.source.tolist() == [[4, 5, EOS], [7, EOS, PAD]]
    assert batch.source_keep is not None
    assert batch.source_keep.int().tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch.target_in.tolist() == [[BOS, 6, PAD], [BOS, 8, 9]]
    assert batch.target_out.tolist() == [[6, EOS, PAD], [8, 9, EOS]]
    assert batch.tokens == 5
    assert batch.indices == [0, 1]
    assert collate([Example([EOS], [EOS])], indices=[7]).indices == [7]


# --- epochs


@pytest.mark.parametrize("buffer", [1, 150, 100_000])
@pytest.mark.parametrize(("tokens", "micro_batches"), [(1, 1), (400, 2), (100_000, 7)])
def test_every_example_occurs_once_within_the_budget(
    buffer: int, tokens: int, micro_batches: int
) -> None:
    """The micro-batches of an update share its budget."""
    data = examples(400)
    settings = BatchingSettings(
        tokens=tokens, micro_batches=micro_batches, buffer_size=buffer
    )
    epoch = BatchStream(data, settings, seed=3).epoch(2)

    assert lines_of(epoch) == list(range(400))
    for plan in epoch:
        batch = plan.batch()
        size = max(batch.source.numel(), batch.target_out.numel())

        assert size <= -(-tokens // micro_batches) or len(plan.indices) == 1
        assert batch.indices == list(plan.indices)
        assert batch.tokens == plan.tokens

        expected = collate([data[line] for line in plan.indices])
        assert torch.equal(batch.source, expected.source)
        assert torch.equal(batch.target_out, expected.target_out)


def test_auto_is_one_micro_batch_per_worker() -> None:
    assert BatchingSettings().resolved(3).micro_batches == 3
    assert BatchingSettings(micro_batches=2).resolved(3).micro_batches == 2


def test_seed_and_epoch_determine_the_batches() -> None:
    data = examples(400)
    epochs = {}

    for _ in range(2):
        for seed, number in itertools.product((0, 1), (0, 1, 2)):
            epoch = BatchStream(data, SMALL, seed).epoch(number)
            assert epochs.setdefault((seed, number), epoch) == epoch

    assert len({*map(str, epochs.values())}) == 6


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_resuming_anywhere_gives_the_same_stream(micro_batches: int) -> None:
    settings = BatchingSettings(tokens=200, micro_batches=micro_batches, buffer_size=50)
    batches = BatchStream(examples(120), settings, 4)
    length = (len(batches.epoch(0)) + len(batches.epoch(1))) // micro_batches + 3
    stream = list(itertools.islice(batches.updates(), length))
    plans = [plan for update in stream for plan in update.plans]
    epochs = itertools.chain.from_iterable(map(batches.epoch, itertools.count()))

    assert plans == list(itertools.islice(epochs, len(plans)))

    position = Position()

    for start, update in enumerate(stream):
        fresh = BatchStream(examples(120), settings, 4)
        resumed = itertools.islice(fresh.updates(position), length - start)

        assert list(resumed) == stream[start:]
        assert len(update.plans) == micro_batches

        position = update.after

    assert {update.after.epoch for update in stream} == {0, 1, 2}
    assert {update.after.buffer for update in stream} == {0, 1, 2}


def test_padding_share_equals_that_of_the_tensors() -> None:
    batches = BatchStream(examples(500), SMALL, 1)
    tensors = [plan.batch() for plan in batches.epoch(0)]
    sources = torch.cat([batch.source.flatten() for batch in tensors])
    targets = torch.cat([batch.target_out.flatten() for batch in tensors])
    shares = [(side == PAD).float().mean().item() for side in (sources, targets)]

    assert batches.padding() == pytest.approx(shares, abs=1e-6)

    stats = batches.epoch_stats
    assert stats.batches == len(tensors)
    assert stats.tokens[1] == sum(batch.tokens for batch in tensors)
    assert stats.positions[1] == len(targets)


# --- long corpora


@pytest.mark.parametrize("buffer", [1, 50, 1000])
def test_blocks_and_the_sentences_of_a_buffer_are_shuffled(
    monkeypatch: pytest.MonkeyPatch, buffer: int
) -> None:
    """Shuffle 400 sentences in 29 blocks, as if they were too many to shuffle one by one."""
    monkeypatch.setattr(batch_stream, "BLOCKS", 30)
    settings = BatchingSettings(tokens=200, micro_batches=1, buffer_size=buffer)
    batches = BatchStream(examples(400), settings, 3)
    first = batches.epoch(0)
    second = batches.epoch(1)

    assert lines_of(first) == lines_of(second) == list(range(400))
    assert first != second
    assert batches.epoch(1) == second

    lines, _ = batches.buffer_indices(0, 0)
    assert len(lines) <= max(14, buffer + 13)
    assert len({line // 14 for line in lines}) == -(-len(lines) // 14), "whole blocks"


def test_an_epoch_of_a_long_corpus_is_estimated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = examples(20_000)
    settings = BatchingSettings(tokens=1000, micro_batches=1, buffer_size=4000)
    exact = BatchStream(data, settings, 1).epoch_stats
    source, target = exact.padding()

    assert target < 0.04
    assert source < 0.08

    monkeypatch.setattr(batch_stream, "BLOCKS", 5000)
    estimated = BatchStream(data, settings, 1).epoch_stats

    assert estimated.batches == pytest.approx(exact.batches, rel=0.03)
    assert estimated.tokens == pytest.approx(exact.tokens, rel=0.03)
    assert estimated.padding() == pytest.approx(exact.padding(), abs=0.01)


def test_a_stream_without_examples_is_refused() -> None:
    with pytest.raises(DataError, match="no sentence pair"):
        BatchStream([], BatchingSettings(), 1)
