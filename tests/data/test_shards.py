"""Shards equal examples in memory: the same ids, lengths, batches and tensors; nothing half-written
is read.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from material import corpus, sentences

from regard.common.errors import DataError
from regard.data import pair_filters as pairs_module
from regard.data.batch import Example
from regard.data.batch_stream import BatchingSettings, BatchStream, Position
from regard.data.corpus import Corpus, Pair
from regard.data.examples import encode_pairs, resampler
from regard.data.shards import Shards, write_shards
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import EOS, UNK

SETTINGS = BatchingSettings(tokens=200, micro_batches=2, buffer_size=70)


@pytest.fixture(scope="module", params=[True, False], ids=["joint", "apart"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(*sentences(120), TokenizerSettings(joint=request.param, size=340))


@pytest.fixture(scope="module")
def text() -> Corpus:
    return corpus(250)


@pytest.fixture(params=[1, 64, 1 << 18])
def shards(
    request: pytest.FixtureRequest, tmp_path: Path, text: Corpus, tokenizer: Tokenizer
) -> Shards:
    return write_shards(tmp_path / "train", text.pairs, tokenizer, {"of": "text"}, request.param)


def test_shards_equal_the_examples(shards: Shards, text: Corpus, tokenizer: Tokenizer) -> None:
    lists = encode_pairs(text.sources, text.targets, tokenizer)
    assert list(shards) == lists
    assert (len(shards), shards[-1], shards[3:9:2]) == (len(lists), lists[-1], lists[3:9:2])
    lines = [249, 0, 64, 63, 0]
    source, target = shards.lengths(lines)
    assert source.tolist() == [len(lists[line].source) for line in lines]
    assert target.tolist() == [len(lists[line].target) for line in lines]
    assert shards.longest_source == max(len(pair.source) for pair in lists)
    with pytest.raises(IndexError):
        shards[250]
    reopened = Shards.open(shards.folder)
    assert (list(reopened), reopened.cache_key) == (lists, {"of": "text"})


def test_shards_give_the_same_batches(shards: Shards, text: Corpus, tokenizer: Tokenizer) -> None:
    """Compare batches and tensors, from the beginning and from the middle."""
    lists = BatchStream(encode_pairs(text.sources, text.targets, tokenizer), SETTINGS, 3)
    stored = BatchStream(shards, SETTINGS, 3)
    assert stored.epoch_stats == lists.epoch_stats
    count = int(lists.epoch_stats.batches)
    for start in (Position(), Position(1, 2, 1)):
        updates = zip(lists.updates(start), stored.updates(start), strict=True)
        for expected, actual in itertools.islice(updates, count // 3):
            assert expected == actual
            for left, right in zip(expected.plans, actual.plans, strict=True):
                assert torch.equal(left.batch().source, right.batch().source)
                assert torch.equal(left.batch().target_out, right.batch().target_out)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("fallback", [True, False])
def test_resampling_from_ids_equals_resampling_from_text(
    tmp_path: Path, kind: str, fallback: bool
) -> None:
    """Detokenise and encode any line again, unknown characters included: ids and samples stay the
    same.
    """
    settings = TokenizerSettings.parse({"kind": kind, "byte_fallback": fallback}, "the test")
    learnt = Tokenizer.train(*sentences(120), settings)
    extra = [
        "漢字 Hund 漢 字",
        "⁇ a ⁇",
        "a\u2581 b ▁",
        "<s> </s> <unk>",
        "ሰላም",
        "x" * 500,
        "<0x41>",
        "e\u0301",
    ]
    pairs = [*corpus(60).pairs, *(Pair(line, line[::-1], 1) for line in map(str.strip, extra))]
    text = Corpus(tuple(pairs), corpus(60).report)
    shards = write_shards(tmp_path / "train", text.pairs, learnt, rows=16)
    lists = encode_pairs(text.sources, text.targets, learnt)
    assert any(UNK in pair.source for pair in lists) is not fallback
    detokenised = learnt.source.detokenised([pair.source for pair in lists])
    assert [[*ids, EOS] for ids in learnt.source.encode_all(detokenised)] == [
        pair.source for pair in lists
    ]
    dropout = 0.3 if kind == "bpe" else 0.95
    lines = [5, 66, 60, 61, 62, 63, 64, 65, 67, 0]

    def resample_text(indices: Sequence[int], seed: int) -> list[Example]:
        sides = (
            [text.sources[index] for index in indices],
            [text.targets[index] for index in indices],
        )
        return [
            Example([*source, EOS], [*target, EOS])
            for source, target in zip(*learnt.sample(*sides, dropout, seed), strict=True)
        ]

    resample_lists = resampler(lists, learnt, dropout)
    resample_ids = resampler(shards, learnt, dropout)
    assert resample_text(lines, 7) == resample_ids(lines, 7) == resample_lists(lines, 7)
    assert resample_ids(lines, 7) != [lists[line] for line in lines]
    from_text, from_ids = (
        BatchStream(examples, SETTINGS, 3, resample)
        for examples, resample in ((lists, resample_text), (shards, resample_ids))
    )
    assert from_text.epoch(1) == from_ids.epoch(1)
    assert from_text.epoch_stats == from_ids.epoch_stats


def test_a_corpus_of_one_line_can_be_stored(tmp_path: Path, tokenizer: Tokenizer) -> None:
    shards = write_shards(tmp_path / "one", corpus(1).pairs, tokenizer)
    assert BatchStream(shards, SETTINGS, 1).epoch(0)[0].examples == (shards[0],)


def test_an_empty_corpus_is_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match="no sentence pair to write"):
        write_shards(tmp_path / "none", [], tokenizer)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("size", "dtype"), [(340, "uint16"), (70_000, "uint32")])
def test_tokens_take_no_more_bytes_than_they_need(tmp_path: Path, size: int, dtype: str) -> None:
    learnt = Tokenizer.train(*sentences(120), TokenizerSettings(size=340))
    learnt.source.__class__ = type("Wide", (type(learnt.source),), {"__len__": lambda _: size})
    write_shards(tmp_path / "train", corpus(20).pairs, learnt)
    assert np.load(tmp_path / "train" / "00000.target_tokens.npy").dtype == dtype


# --- failures


def _interrupted(pairs: tuple[Pair, ...]) -> Iterator[Pair]:
    yield from pairs
    raise KeyboardInterrupt


def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, text: Corpus, tokenizer: Tokenizer
) -> None:
    folder = tmp_path / "train"
    with pytest.raises(KeyboardInterrupt):
        write_shards(folder, _interrupted(text.pairs), tokenizer, rows=64)
    assert not any(tmp_path.iterdir())
    left = tmp_path / ".train.regard-0.partial" / "train"
    left.mkdir(parents=True)
    (left / "00000.source_tokens.npy").write_bytes(b"left by a process that was killed")
    with pytest.raises(DataError, match="damaged"):
        Shards.open(folder)
    whole = write_shards(folder, text.pairs, tokenizer, rows=64)
    assert [entry.name for entry in tmp_path.iterdir()] == ["train"]
    with pytest.raises(KeyboardInterrupt):
        write_shards(folder, _interrupted(text.pairs[:100]), tokenizer, rows=64)
    assert list(Shards.open(folder)) == list(whole), "the earlier shards are intact"


@pytest.mark.parametrize(
    "harm", ["cut", "grown", "flipped", "gone", "index cut", "other version", "index gone"]
)
def test_damaged_files_are_detected(
    tmp_path: Path, text: Corpus, tokenizer: Tokenizer, harm: str
) -> None:
    folder = write_shards(tmp_path / "train", text.pairs, tokenizer, rows=64).folder
    shard = folder / "00002.target_tokens.npy"
    index = folder / "index.json"
    data = shard.read_bytes()
    values = json.loads(index.read_text())
    if harm in ("cut", "grown", "flipped"):
        changed = {
            "cut": data[:-2],
            "grown": data + b"\0",
            "flipped": data[:-9] + b"\x7f" + data[-8:],
        }
        shard.write_bytes(changed[harm])
    elif harm == "gone":
        shard.unlink()
    elif harm == "index gone":
        index.unlink()
    else:
        index.write_text(
            index.read_text()[:-30] if harm == "index cut" else json.dumps({**values, "version": 2})
        )
    with pytest.raises(DataError, match=r"train: damaged \(.*\); remove the folder") as caught:
        Shards.open(folder)
    assert ("00002.target_tokens.npy" in str(caught.value)) == (
        harm in ("cut", "grown", "flipped", "gone")
    )


def test_an_unwritable_folder_is_explained(
    tmp_path: Path, text: Corpus, tokenizer: Tokenizer
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot be written"):
        write_shards(tmp_path / "file" / "train", text.pairs, tokenizer)


def test_chunks_do_not_change_the_files(
    tmp_path: Path, text: Corpus, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write_shards(tmp_path / "a", text.pairs, tokenizer, rows=100)
    monkeypatch.setattr(pairs_module, "CHUNK", 16)
    write_shards(tmp_path / "b", text.pairs, tokenizer, rows=100)
    for path in whole.folder.iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@pytest.mark.parametrize(
    "name", ["../other.npy", "/dev/zero", "index.json", "00000.source_tokens.npy/..", "", 7]
)
def test_an_index_that_names_other_files_is_refused(
    name: object, tmp_path: Path, text: Corpus, tokenizer: Tokenizer
) -> None:
    folder = write_shards(tmp_path / "train", text.pairs, tokenizer).folder
    (tmp_path / "other.npy").write_bytes(b"")
    index = json.loads((folder / "index.json").read_bytes())
    index["files"][0]["name"] = name
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(DataError, match="damaged"):
        Shards.open(folder)


def test_an_index_without_rows_is_refused(
    tmp_path: Path, text: Corpus, tokenizer: Tokenizer
) -> None:
    folder = write_shards(tmp_path / "train", text.pairs, tokenizer).folder
    index = json.loads((folder / "index.json").read_bytes())
    (folder / "index.json").write_text(json.dumps({**index, "rows": 0}))
    with pytest.raises(DataError, match="damaged"):
        Shards.open(folder)
