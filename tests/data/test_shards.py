"""Shards equal examples in memory: the same ids, lengths, batches and tensors; nothing half-written
is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.text_table import lines
from material import corpus, sentences

from regard.common.errors import DataError
from regard.data.batch import Example
from regard.data.batch_stream import BatchingSettings
from regard.data.corpus import Corpus
from regard.data.examples import encode_pairs, resampler
from regard.data.pairs import Pair
from regard.data.shards import Shards, write_shards
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import EOS, UNK

SETTINGS = BatchingSettings(tokens=200, micro_batches=2, buffer_size=70)


@pytest.fixture(scope="module", params=[True, False], ids=["joint", "apart"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(
        *sentences(120), TokenizerSettings(joint=request.param, size=340)
    )


@pytest.fixture(scope="module")
def text() -> Corpus:
    return corpus(250)


@pytest.mark.parametrize(("kind", "rows"), [("bpe", 8), ("unigram", 1 << 18)])
@pytest.mark.parametrize("fallback", [True, False])
def test_shards_equal_the_examples_and_are_resampled_as_text(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    rows: int,
    fallback: bool,
) -> None:
    """Detokenise and encode any line again, unknown characters included: ids and samples stay the
    same.
    """
    values = {"kind": kind, "byte_fallback": fallback}
    settings = TokenizerSettings.parse(values, "the test")
    learnt = Tokenizer.train(*sentences(120), settings)
    extra = lines("""
        漢字 Hund 漢 字
        ⁇ a ⁇
        a▁ b ▁
        <s> </s> <unk>
        ሰላም
        <0x41>
        é
    """)
    extra.append("x" * 500)
    pairs = [*corpus(60).pairs, *(Pair(line, line[::-1], 1) for line in extra)]
    text = Corpus(tuple(pairs), corpus(60).report)
    monkeypatch.setattr("regard.data.pairs.CHUNK", 16)
    folder = tmp_path / "train"
    shards = write_shards(folder, text.pairs, learnt, {"of": "text"}, rows)
    lists = encode_pairs(text.sources, text.targets, learnt)
    reopened = Shards.open(shards.folder)

    assert list(shards) == list(reopened) == lists
    assert reopened.cache_key == {"of": "text"}
    assert shards[-1] == lists[-1]
    assert shards[3:9:2] == lists[3:9:2]
    with pytest.raises(IndexError):
        shards[len(lists)]
    assert any(UNK in pair.source for pair in lists) is not fallback

    ids = [pair.source for pair in lists]
    again = learnt.source.encode_all(learnt.source.detokenised(ids))

    assert [[*line, EOS] for line in again] == ids

    dropout = 0.3 if kind == "bpe" else 0.95
    indices = [5, 66, 60, 61, 62, 63, 64, 65, 67, 0]
    sources = [text.sources[index] for index in indices]
    targets = [text.targets[index] for index in indices]
    sampled = zip(*learnt.sample(sources, targets, dropout, 7), strict=True)
    expected = [Example([*source, EOS], [*target, EOS]) for source, target in sampled]

    assert resampler(shards, learnt, dropout)(indices, 7) == expected
    assert resampler(lists, learnt, dropout)(indices, 7) == expected
    assert expected != [lists[index] for index in indices]


def test_an_empty_corpus_is_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match="no sentence pair to write"):
        write_shards(tmp_path / "none", [], tokenizer)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("size", "dtype"), [(340, "uint16"), (70_000, "uint32")])
def test_tokens_take_no_more_bytes_than_they_need(
    tmp_path: Path, size: int, dtype: str
) -> None:
    learnt = Tokenizer.train(*sentences(120), TokenizerSettings(size=340))
    learnt.source.__class__ = type(
        "Wide", (type(learnt.source),), {"__len__": lambda _: size}
    )
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


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-9] = 0x7F
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["00002.target_tokens.npy", "index.json"])
def test_damaged_files_are_detected(
    tmp_path: Path, text: Corpus, tokenizer: Tokenizer, name: str
) -> None:
    folder = write_shards(tmp_path / "train", text.pairs, tokenizer, rows=64).folder
    content = (folder / name).read_bytes()

    for harm in (_cut, _flip, Path.unlink):
        (folder / name).write_bytes(content)
        harm(folder / name)
        message = r"train: damaged \(.*\); remove the folder"

        with pytest.raises(DataError, match=message) as caught:
            Shards.open(folder)
        assert name == "index.json" or name in str(caught.value)

    with pytest.raises(DataError, match="cannot be written"):
        write_shards(folder / "00000.source_tokens.npy" / "x", text.pairs, tokenizer)


def test_an_index_that_names_other_files_is_refused(
    tmp_path: Path, text: Corpus, tokenizer: Tokenizer
) -> None:
    folder = write_shards(tmp_path / "train", text.pairs, tokenizer).folder
    (tmp_path / "other.npy").write_bytes(b"")
    path = folder / "index.json"
    index = json.loads(path.read_bytes())
    first, *others = index["files"]
    changes: list[dict[str, object]] = [{"rows": 0}, {"version": 2}]
    for name in ("../other.npy", "/dev/zero", "index.json", "", 7):
        changes.append({"files": [{**first, "name": name}, *others]})

    for change in changes:
        path.write_text(json.dumps({**index, **change}))
        with pytest.raises(DataError, match="damaged"):
            Shards.open(folder)
