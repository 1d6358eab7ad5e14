"""Batch stream: every example once, within the budget, with little padding, and the same from any
position.
"""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pytest
import torch

from regard.common.errors import DataError
from regard.data import batch_stream
from regard.data.batch import Example, TrainingBatch, collate, pad
from regard.data.batch_stream import BatchingSettings, BatchStream, Position
from regard.data.vocabulary import BOS, EOS, PAD


def examples(count: int, seed: int = 0) -> list[Example]:
    """Return pairs of correlated lengths, as in translations."""
    rng = np.random.default_rng(seed)
    source_lengths = rng.gamma(6, 2.5, count).astype(int) + 1
    target_lengths = np.maximum(1, source_lengths + rng.normal(0, 2, count).astype(int))
    return [
        Example([*rng.integers(4, 99, a).tolist(), EOS], [*rng.integers(4, 99, b).tolist(), EOS])
        for a, b in zip(source_lengths, target_lengths, strict=True)
    ]


SMALL = BatchingSettings(tokens=200, micro_batches=1, buffer_size=150)


def equal_batches(a: TrainingBatch, b: TrainingBatch) -> bool:
    tensors = [(a.source, b.source), (a.target_in, b.target_in), (a.target_out, b.target_out)]
    same_masks = (a.source_keep is None) == (b.source_keep is None)
    if a.source_keep is not None and b.source_keep is not None:
        tensors.append((a.source_keep, b.source_keep))
    return (
        same_masks
        and a.indices == b.indices
        and a.tokens == b.tokens
        and all(torch.equal(x, y) for x, y in tensors)
    )


# --- tensors


def test_pad_adds_pad_ids_and_a_mask() -> None:
    ids, keep = pad([[5, 6, 7], [8], []])
    assert ids.tolist() == [[5, 6, 7], [8, PAD, PAD], [PAD, PAD, PAD]]
    assert keep is not None
    assert keep.tolist() == [[True, True, True], [True, False, False], [False, False, False]]
    assert (ids.dtype, keep.dtype) == (torch.int64, torch.bool)


def test_sequences_of_equal_length_have_no_mask() -> None:
    ids, keep = pad([[5, 6], [7, 8]])
    assert ids.tolist() == [[5, 6], [7, 8]]
    assert keep is None
    assert pad([[]])[0].shape == (1, 0)


def test_collate_shifts_and_pads_the_targets() -> None:
    batch = collate([Example([4, 5, EOS], [6, EOS]), Example([7, EOS], [8, 9, EOS])])
    assert batch.source.tolist() == [[4, 5, EOS], [7, EOS, PAD]]
    assert batch.source_keep is not None
    assert batch.source_keep.tolist() == [[True, True, True], [True, True, False]]
    assert batch.target_in.tolist() == [[BOS, 6, PAD], [BOS, 8, 9]]
    assert batch.target_out.tolist() == [[6, EOS, PAD], [8, 9, EOS]]
    assert batch.tokens == 5
    assert batch.indices == [0, 1]
    assert equal_batches(batch.to("cpu"), batch)


def test_a_single_sentence_is_not_padded() -> None:
    batch = collate([Example([EOS], [EOS])], indices=[7])
    assert batch.source_keep is None
    assert (batch.source.tolist(), batch.target_in.tolist(), batch.target_out.tolist()) == (
        [[EOS]],
        [[BOS]],
        [[EOS]],
    )
    assert batch.indices == [7]


# --- epochs


@pytest.mark.parametrize("buffer", [1, 7, 150, 100_000])
@pytest.mark.parametrize("tokens", [1, 64, 200, 100_000])
def test_every_example_occurs_once_within_the_budget(buffer: int, tokens: int) -> None:
    data = examples(400)
    batches = BatchStream(
        data, BatchingSettings(tokens=tokens, micro_batches=1, buffer_size=buffer), seed=3
    )
    epoch = batches.epoch(2)
    assert sorted(line for plan in epoch for line in plan.indices) == list(range(400))
    for plan in epoch:
        batch = plan.batch()
        assert (
            max(batch.source.numel(), batch.target_out.numel()) <= tokens or len(plan.indices) == 1
        )
        assert (batch.indices, batch.tokens) == (list(plan.indices), plan.tokens)
        assert (
            batch.source.tolist() == collate([data[line] for line in plan.indices]).source.tolist()
        )


@pytest.mark.parametrize("micro_batches", [1, 2, 3, 7])
def test_micro_batches_share_the_budget_of_an_update(micro_batches: int) -> None:
    batches = BatchStream(
        examples(400), BatchingSettings(tokens=400, micro_batches=micro_batches), seed=3
    )
    update = next(batches.updates())
    assert len(update.plans) == micro_batches
    assert update.tokens == sum(plan.batch().tokens for plan in update.plans)
    for plan in update.plans:
        assert max(plan.batch().source.numel(), plan.batch().target_out.numel()) <= -(
            -400 // micro_batches
        )


def test_auto_is_one_micro_batch_per_worker() -> None:
    assert BatchingSettings().resolved(3).micro_batches == 3
    assert BatchingSettings(micro_batches=2).resolved(3).micro_batches == 2


def test_seed_and_epoch_determine_the_batches() -> None:
    data = examples(400)
    assert BatchStream(data, SMALL, 1).epoch(5) == BatchStream(data, SMALL, 1).epoch(5)
    epochs = [str(BatchStream(data, SMALL, seed).epoch(n)) for seed in (0, 1) for n in (0, 1, 2)]
    assert len(set(epochs)) == 6


def test_batches_are_not_sorted_by_length() -> None:
    data = examples(400)
    sizes = [
        len(plan.indices) for plan in BatchStream(data, BatchingSettings(tokens=200), 1).epoch(0)
    ]
    assert sizes not in (sorted(sizes), sorted(sizes, reverse=True))


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_resuming_anywhere_gives_the_same_stream(micro_batches: int) -> None:
    settings = BatchingSettings(tokens=200, micro_batches=micro_batches, buffer_size=50)
    batches = BatchStream(examples(120), settings, 4)
    length = (len(batches.epoch(0)) + len(batches.epoch(1))) // micro_batches + 3
    stream = list(itertools.islice(batches.updates(), length))
    position = Position()
    for start, update in enumerate(stream):
        fresh = BatchStream(examples(120), settings, 4)
        assert list(itertools.islice(fresh.updates(position), length - start)) == stream[start:]
        position = update.after
    assert {update.after.epoch for update in stream} == {0, 1, 2}
    assert {update.after.buffer for update in stream} == {0, 1, 2}


def test_the_stream_is_one_epoch_after_another() -> None:
    batches = BatchStream(examples(60), SMALL, 4)
    first = batches.epoch(0)
    stream = list(itertools.islice(batches.updates(), len(first) + 1))
    assert [update.plans for update in stream] == [
        (plan,) for plan in [*first, batches.epoch(1)[0]]
    ]
    assert stream[len(first) - 1].after == Position(1)
    assert next(batches.updates(Position(0, 0, len(first)))).plans == (batches.epoch(1)[0],)


def test_a_buffer_is_resampled_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_stream, "CHUNK", 10)
    pairs = examples(400)
    calls = list[int]()

    def resample(lines: Sequence[int], seed: int) -> list[Example]:
        calls.append(len(lines))
        return [Example([seed, *pairs[line].source_ids], pairs[line].target) for line in lines]

    stream = BatchStream(pairs, SMALL, 3, resample).plans(Position())
    next(stream)
    assert sum(calls) - calls[-1] <= 150 + 10, (
        "the first buffer, and the chunk of the second that the first batch needs"
    )
    seeds = set()
    for position, plan in itertools.islice(stream, 100):
        calls.clear()
        next(stream)
        assert len(calls) <= 3, f"at {position} {sum(calls)} sentences were encoded at once"
        seeds |= {example.source_ids[0] for example in plan.examples}
    assert len(seeds) > 40, "each chunk has a seed of its own"
    calls.clear()
    stats = BatchStream(pairs, SMALL, 3, resample).epoch_stats
    assert sum(calls) == 150, "statistics need one buffer, not all"
    assert stats.batches == pytest.approx(
        len(BatchStream(pairs, SMALL, 3, resample).epoch(0)), rel=0.2
    )
    monkeypatch.setattr(batch_stream, "CHUNK", 1000)
    whole = list(itertools.islice(BatchStream(pairs, SMALL, 3).plans(Position()), 50))
    monkeypatch.setattr(batch_stream, "CHUNK", 7)
    assert whole == list(itertools.islice(BatchStream(pairs, SMALL, 3).plans(Position()), 50))


def test_padding_share_equals_that_of_the_tensors() -> None:
    batches = BatchStream(examples(500), SMALL, 1)
    tensors = [plan.batch() for plan in batches.epoch(0)]
    sources = torch.cat([batch.source.flatten() for batch in tensors])
    targets = torch.cat([batch.target_out.flatten() for batch in tensors])
    shares = [(side == PAD).float().mean().item() for side in (sources, targets)]
    assert batches.padding() == pytest.approx(shares, abs=1e-6)


def test_bucketing_leaves_little_padding() -> None:
    source, target = BatchStream(examples(20_000), BatchingSettings(micro_batches=2), 1).padding()
    assert target < 0.015
    assert source < 0.04


# --- long corpora


@pytest.fixture
def few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shuffle 400 sentences in blocks, as if they were too many to shuffle one by one."""
    monkeypatch.setattr(batch_stream, "BLOCKS", 30)


@pytest.mark.usefixtures("few_blocks")
@pytest.mark.parametrize("buffer", [1, 7, 50, 150, 1000])
def test_blocks_and_the_sentences_of_a_buffer_are_shuffled(buffer: int) -> None:
    batches = BatchStream(
        examples(400), BatchingSettings(tokens=200, micro_batches=1, buffer_size=buffer), 3
    )
    epochs = [batches.epoch(n) for n in (0, 1)]
    for epoch in epochs:
        assert sorted(line for plan in epoch for line in plan.indices) == list(range(400))
    assert epochs[0] != epochs[1]
    assert batches.epoch(1) == epochs[1]
    buffers = [batches.buffer_indices(0, number)[0] for number in range(batches._buffers)]
    blocks = [{line // 14 for line in lines} for lines in buffers]  # 400 sentences in 29 blocks
    assert sum(map(len, blocks)) == 29, "no block is in two buffers"
    assert max(map(len, buffers)) <= max(14, buffer + 13)
    order = [block for blocks_of_buffer in blocks for block in blocks_of_buffer]
    assert buffer > 1 or order != sorted(order)


@pytest.mark.usefixtures("few_blocks")
def test_long_corpora_can_be_resumed_anywhere() -> None:
    settings = BatchingSettings(tokens=200, micro_batches=2, buffer_size=60)
    data = examples(400)
    stream = list(itertools.islice(BatchStream(data, settings, 4).updates(), 60))
    position = Position()
    for start, update in enumerate(stream):
        ahead = stream[start : start + 3]
        assert (
            list(itertools.islice(BatchStream(data, settings, 4).updates(position), len(ahead)))
            == ahead
        )
        position = update.after
    assert stream[-1].after.epoch == 1


def test_an_epoch_of_a_long_corpus_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    data = examples(20_000)
    settings = BatchingSettings(tokens=1000, micro_batches=1, buffer_size=4000)
    exact = BatchStream(data, settings, 1).epoch_stats
    monkeypatch.setattr(batch_stream, "BLOCKS", 5000)
    estimated = BatchStream(data, settings, 1).epoch_stats
    assert estimated.batches == pytest.approx(exact.batches, rel=0.03)
    assert estimated.tokens == pytest.approx(exact.tokens, rel=0.03)
    assert estimated.padding() == pytest.approx(exact.padding(), abs=0.01)


def test_epoch_stats_equal_those_of_the_epoch() -> None:
    batches = BatchStream(examples(500), SMALL, 1)
    epoch = batches.epoch(0)
    assert batches.epoch_stats.batches == len(epoch)
    assert batches.epoch_stats.tokens[1] == sum(plan.tokens for plan in epoch)
    assert batches.epoch_stats.positions[1] == sum(
        plan.batch().target_out.numel() for plan in epoch
    )


def test_a_position_survives_json() -> None:
    for position in (
        Position(),
        Position(3, 2, 1),
        Position(0, 0, 7, (Position(1, 2, 3), Position())),
    ):
        assert Position.from_json(json.loads(json.dumps(asdict(position)))) == position


def test_a_stream_without_examples_is_refused() -> None:
    with pytest.raises(DataError, match="no sentence pair"):
        BatchStream([], BatchingSettings(), 1)
