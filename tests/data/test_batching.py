"""Batches: every example once, within the budget, nearly without padding, and the same stream wherever one resumes."""

import itertools

import numpy as np
import pytest
import torch

from regard.data.batching import Batches, BatchingSettings, Example, PairBatch, Position, collate, pad
from regard.data.tokenizer import BOS, EOS, PAD
from regard.errors import DataError


def examples(count: int, seed: int = 0) -> list[Example]:
    """Pairs of related lengths, as translations have them."""
    chance = np.random.default_rng(seed)
    lengths = chance.gamma(6, 2.5, count).astype(int) + 1
    others = np.maximum(1, lengths + chance.normal(0, 2, count).astype(int))
    return [
        Example([*chance.integers(4, 99, a).tolist(), EOS], [*chance.integers(4, 99, b).tolist(), EOS])
        for a, b in zip(lengths, others, strict=True)
    ]


SMALL = BatchingSettings(tokens=200, pool=150)


def same(a: PairBatch, b: PairBatch) -> bool:
    tensors = [(a.source, b.source), (a.target_in, b.target_in), (a.target_out, b.target_out)]
    keeps = (a.source_keep is None) == (b.source_keep is None)
    if a.source_keep is not None and b.source_keep is not None:
        tensors.append((a.source_keep, b.source_keep))
    return keeps and a.lines == b.lines and a.tokens == b.tokens and all(torch.equal(x, y) for x, y in tensors)


# --- tensors


def test_pad() -> None:
    ids, keep = pad([[5, 6, 7], [8], []])
    assert ids.tolist() == [[5, 6, 7], [8, PAD, PAD], [PAD, PAD, PAD]]
    assert keep is not None
    assert keep.tolist() == [[True, True, True], [True, False, False], [False, False, False]]
    assert (ids.dtype, keep.dtype) == (torch.int64, torch.bool)


def test_nothing_padded_has_no_mask() -> None:
    ids, keep = pad([[5, 6], [7, 8]])
    assert ids.tolist() == [[5, 6], [7, 8]]
    assert keep is None
    assert pad([[]])[0].shape == (1, 0)


def test_collate() -> None:
    batch = collate([Example([4, 5, EOS], [6, EOS]), Example([7, EOS], [8, 9, EOS])])
    assert batch.source.tolist() == [[4, 5, EOS], [7, EOS, PAD]]
    assert batch.source_keep is not None
    assert batch.source_keep.tolist() == [[True, True, True], [True, True, False]]
    assert batch.target_in.tolist() == [[BOS, 6, PAD], [BOS, 8, 9]]
    assert batch.target_out.tolist() == [[6, EOS, PAD], [8, 9, EOS]]
    assert batch.tokens == 5
    assert batch.lines == [0, 1]
    assert same(batch.to("cpu"), batch)


def test_one_sentence_is_not_padded() -> None:
    batch = collate([Example([EOS], [EOS])], lines=[7])
    assert batch.source_keep is None
    assert (batch.source.tolist(), batch.target_in.tolist(), batch.target_out.tolist()) == ([[EOS]], [[BOS]], [[EOS]])
    assert batch.lines == [7]


# --- epochs


@pytest.mark.parametrize("pool", [1, 7, 150, 100_000])
@pytest.mark.parametrize("tokens", [1, 64, 200, 100_000])
def test_every_example_once_within_the_budget(pool: int, tokens: int) -> None:
    data = examples(400)
    batches = Batches(data, BatchingSettings(tokens=tokens, pool=pool), seed=3)
    epoch = batches.epoch(2)
    assert sorted(itertools.chain(*epoch)) == list(range(400))
    for indices in epoch:
        batch = batches.batch(indices)
        assert max(batch.source.numel(), batch.target_out.numel()) <= tokens or len(indices) == 1
        assert batch.lines == indices
        assert batch.source.tolist() == collate([data[index] for index in indices]).source.tolist()


def test_the_seed_and_the_epoch_decide() -> None:
    data = examples(400)
    assert Batches(data, SMALL, 1).epoch(5) == Batches(data, SMALL, 1).epoch(5)
    epochs = [str(Batches(data, SMALL, seed).epoch(n)) for seed in (0, 1) for n in (0, 1, 2)]
    assert len(set(epochs)) == 6


def test_batches_do_not_come_by_length() -> None:
    data = examples(400)
    sizes = [len(batch) for batch in Batches(data, BatchingSettings(tokens=200), 1).epoch(0)]
    assert sizes not in (sorted(sizes), sorted(sizes, reverse=True))


def test_resuming_anywhere_gives_the_same_stream() -> None:
    batches = Batches(examples(120), SMALL, 4)
    length = len(batches.epoch(0)) + len(batches.epoch(1)) + 3
    stream = list(itertools.islice(batches.iterate(), length))
    position = Position()
    for start, (after, _) in enumerate(stream):
        fresh = Batches(examples(120), SMALL, 4)
        resumed = list(itertools.islice(fresh.iterate(position), length - start))
        assert [place for place, _ in resumed] == [place for place, _ in stream[start:]]
        assert all(same(a[1], b[1]) for a, b in zip(resumed, stream[start:], strict=True))
        position = after
    assert {place.epoch for place, _ in stream} == {0, 1, 2}


def test_the_stream_is_the_epochs_in_turn() -> None:
    batches = Batches(examples(60), SMALL, 4)
    first = batches.epoch(0)
    stream = list(itertools.islice(batches.iterate(), len(first) + 1))
    assert [batch.lines for _, batch in stream] == [*first, batches.epoch(1)[0]]
    assert stream[len(first) - 1][0] == Position(1, 0)
    assert next(batches.iterate(Position(0, len(first))))[1].lines == batches.epoch(1)[0]


def test_padding_is_what_the_tensors_hold() -> None:
    data = examples(500)
    batches = Batches(data, SMALL, 1)
    tensors = [batches.batch(indices) for indices in batches.epoch(0)]
    sources = torch.cat([batch.source.flatten() for batch in tensors])
    targets = torch.cat([batch.target_out.flatten() for batch in tensors])
    shares = [(side == PAD).float().mean().item() for side in (sources, targets)]
    assert batches.padding() == pytest.approx(shares, abs=1e-6)


def test_few_pads_on_a_corpus_of_translations() -> None:
    source, target = Batches(examples(20_000), BatchingSettings(), 1).padding()
    assert target < 0.02
    assert source < 0.06


def test_no_examples() -> None:
    with pytest.raises(DataError, match="no sentence pair"):
        Batches([], BatchingSettings(), 1)
