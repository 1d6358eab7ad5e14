"""From settings to batches: shards give what memory gives; a resumed run finds the same data, or reports changes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from material import dirty, written

import regard
from regard.data import prepare
from regard.data.batch_stream import BatchingSettings, BatchStream, Position
from regard.data.corpus import CorpusSettings, corpora_report, read_corpora, read_corpus, texts_sha256
from regard.data.examples import corpus_resampler, encode_pairs
from regard.data.holdout import hold_out
from regard.data.mixture import Mixture
from regard.data.prepare import PreparedData, prepare_data
from regard.data.provenance import describe_changes
from regard.data.text import read_lines, write_lines
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import DataError

SIZES = TokenizerSettings(size=330)
BATCHING = BatchingSettings(tokens=200, micro_batches=2, buffer_size=70)


def settings(folder: Path, **more: Any) -> CorpusSettings:
    return CorpusSettings.parse({**written(folder, 150), **more}, "the test")


def mixed(folder: Path, suffix: str = "", **more: Any) -> CorpusSettings:
    """Return settings with two corpora and a third in one file."""
    rows = zip(*dirty(40, 9), strict=True)
    write_lines(folder / "c.tsv", (f"{source}\t{target}" for source, target in rows))
    second = {**written(folder, 60, 2, suffix, "b"), "weight": 2.0, "name": "news"}
    return settings(folder, mix=[second, {"pairs": str(folder / "c.tsv")}], **more)


def assert_same(one: PreparedData, other: PreparedData) -> None:
    """Assert that everything a run uses is the same."""
    assert one.report == other.report
    assert (one.pairs, one.longest_source, one.facts, one.valid) == (
        other.pairs,
        other.longest_source,
        other.facts,
        other.valid,
    )
    assert one.tokenizer.fingerprint == other.tokenizer.fingerprint
    assert one.batches.padding() == other.batches.padding()
    updates = zip(one.batches.updates(Position()), other.batches.updates(Position()), strict=True)
    assert all(left == right for left, right in itertools.islice(updates, 60))


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("valid", ["held out", "given"])
@pytest.mark.parametrize("make", [settings, mixed])
def test_shards_give_the_same_data_as_memory(tmp_path: Path, make: Any, valid: str, dropout: float) -> None:
    files = written(tmp_path, 30, 7, name="v")
    more: dict[str, Any] = {f"test_{side}": path for side, path in files.items()}
    if valid == "given":
        more |= {f"valid_{side}": path for side, path in written(tmp_path, 30, 8, ".gz", "w").items()}
    batching = BATCHING.with_values(subword_dropout=dropout)
    lists = prepare_data(make(tmp_path, shards=False, **more), SIZES, batching, 3, tmp_path / "lists")
    shards = prepare_data(make(tmp_path, shards=True, **more), SIZES, batching, 3, tmp_path / "shards")
    assert_same(lists, shards)
    assert lists.changes == shards.changes == ()
    assert isinstance(lists.batches, Mixture) is (make is mixed)
    assert not (tmp_path / "lists" / "shards").exists()
    told: list[str] = []
    again = prepare_data(
        make(tmp_path, shards=True, **more), shards.tokenizer, batching, 3, tmp_path / "shards", log=told.append
    )
    assert_same(shards, again)
    assert (told, again.changes) == ([], ()), "nothing was read again"


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_prepared_data_equal_the_single_steps(tmp_path: Path, dropout: float) -> None:
    """The single steps one after another give the same."""
    data = settings(tmp_path, **{f"test_{side}": path for side, path in written(tmp_path, 30, 7, name="v").items()})
    train_corpora, others = read_corpora(data, read_corpus)
    train_corpora, others["valid"] = hold_out(train_corpora, 3)
    corpora = {**train_corpora, **others}
    train = corpora["train"]
    tokenizer = Tokenizer.train(train.sources, train.targets, SIZES)
    pairs = encode_pairs(train.sources, train.targets, tokenizer)
    batching = BATCHING.with_values(subword_dropout=dropout)
    batches = BatchStream(pairs, batching, 3, corpus_resampler(train, tokenizer, dropout) if dropout else None)
    found = prepare_data(data, SIZES, batching, 3, tmp_path / "run")
    assert found.report == tuple(corpora_report(corpora))
    assert found.tokenizer.fingerprint == tokenizer.fingerprint
    assert found.longest_source == max(len(pair.source) for pair in pairs)
    assert (found.pairs, found.valid) == (len(pairs), corpora["valid"])
    assert [found.batches.epoch(n) for n in (0, 1)] == [batches.epoch(n) for n in (0, 1)]
    assert {name: (facts.pairs, facts.source, facts.target) for name, facts in found.facts.items()} == {
        name: (len(some), texts_sha256(some.sources), texts_sha256(some.targets)) for name, some in corpora.items()
    }


def test_no_corpus_of_a_mix_shares_a_side_with_validation(tmp_path: Path) -> None:
    data = settings(tmp_path, mix=[{**written(tmp_path, 150, name="same"), "name": "same"}], shards=True)
    found = prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
    held_out = {*found.valid.sources}
    assert isinstance(found.batches, Mixture)
    for part in found.batches.streams:
        texts = {found.tokenizer.source.decode(pair.source) for pair in part.examples}
        assert texts
        assert not texts & held_out


@pytest.mark.parametrize(("large", "expected"), [(10**9, False), (1000, True)])
def test_auto_depends_on_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int, expected: bool) -> None:
    monkeypatch.setattr(prepare, "SHARD_BYTES", large)
    prepare_data(settings(tmp_path), SIZES, BATCHING, 3, tmp_path / "run")
    assert (tmp_path / "run" / "shards").exists() is expected


def test_a_vocabulary_of_a_long_text_is_that_of_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.tokenizer._MAX_LINES", 50)
    found = [
        prepare_data(mixed(tmp_path, shards=shards), SIZES, BATCHING, 3, tmp_path / str(shards))
        for shards in (False, True)
    ]
    assert_same(*found)


def test_all_causes_are_reported_at_once(tmp_path: Path) -> None:
    for shards in (False, True):
        data = mixed(tmp_path, shards=shards, valid_pairs=str(tmp_path / "none.tsv"))
        (tmp_path / "a.target").write_bytes(b"one\n")
        (tmp_path / "c.tsv").write_bytes(b"no tab\n")
        with pytest.raises(DataError) as caught:
            prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
        assert len(caught.value.causes) == 3
        assert not (tmp_path / "run" / "data.json").exists()


def test_a_given_tokenizer_is_used_and_the_text_is_inspected(tmp_path: Path) -> None:
    parent = prepare_data(settings(tmp_path), SIZES, BATCHING, 3, tmp_path / "parent").tokenizer
    shown: list[tuple[Any, ...]] = []

    def look(*sides: Any) -> None:
        shown.append(sides)

    def refuse(*_: Any) -> None:
        raise DataError("not this text")

    for shards in (False, True):
        data = mixed(tmp_path, shards=shards)
        with pytest.raises(DataError, match="not this text"):
            prepare_data(data, parent, BATCHING, 3, tmp_path / "none", inspect=refuse)
        found = prepare_data(data, parent, BATCHING, 3, tmp_path / str(shards), inspect=look)
        assert found.tokenizer is parent
        assert found.changes == ()
        assert describe_changes(data, tmp_path / str(shards)) == (), "the run has begun with these"
        assert not (tmp_path / "none" / "data.json").exists()
    assert shown[0] == shown[1]
    assert len(shown[0][0]) == found.pairs


# --- a run that goes on


def _append(path: str) -> None:
    write_lines(path, [*read_lines(path), "ein neuer Satz"])


def test_a_changed_weight_is_reported(tmp_path: Path) -> None:
    data, run = mixed(tmp_path), tmp_path / "run"
    prepare_data(data, SIZES, BATCHING, 3, run)
    news, third = (each.model_dump() for each in data.mix)
    changed = data.with_values(mix=[{**news, "weight": 5.0}, third])
    assert describe_changes(changed, run) == ("data.weights.news is 5.0 and was 2.0 when the run began",)
    assert describe_changes(data, run) == ()


def test_changed_text_is_reported_and_tokenised_again(tmp_path: Path) -> None:
    data, run = settings(tmp_path, shards=True), tmp_path / "run"
    began = prepare_data(data, SIZES, BATCHING, 3, run)
    for path in (data.source, data.target):
        _append(str(path))
    found = prepare_data(data, began.tokenizer, BATCHING, 3, run)
    assert len(found.changes) == 2
    assert "a.source has changed since the run began" in found.changes[0]
    assert found.changes == describe_changes(data, run)
    assert "the shards were made with other text: made anew" in found.report[0]
    assert found.pairs >= began.pairs
    lists = prepare_data(data.with_values(shards=False), began.tokenizer, BATCHING, 3, tmp_path / "lists")
    assert list(found.batches.updates().__next__().plans) == list(lists.batches.updates().__next__().plans)
    assert prepare_data(data, began.tokenizer, BATCHING, 3, run).changes == found.changes, "still not as it began"


def test_missing_text_does_not_cost_the_shards(tmp_path: Path) -> None:
    data, run = settings(tmp_path, shards=True), tmp_path / "run"
    began = prepare_data(data, SIZES, BATCHING, 3, run)
    before = {path: path.read_bytes() for path in sorted((run / "shards").rglob("*")) if path.is_file()}
    assert before
    Path(str(data.source)).rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="no such file"):
        prepare_data(data, began.tokenizer, BATCHING, 3, run)
    assert {path: path.read_bytes() for path in sorted((run / "shards").rglob("*")) if path.is_file()} == before


@pytest.mark.parametrize(
    ("change", "said", "made_anew"),
    [
        ({"max_length": 7}, "data.max_length is 7 and was 200 when the run began", "filters"),
        ({"test_pairs": "v.tsv"}, None, None),
        ({"valid_pairs": "v.tsv"}, "valid.pairs: v.tsv was not there when the run began", "held-out pairs"),
        ({"mix": [{"pairs": "v.tsv"}]}, "mix1.pairs: v.tsv was not there when the run began", "text"),
    ],
    ids=["filter", "test", "valid", "mix"],
)
@pytest.mark.parametrize("shards", [False, True])
def test_changed_settings_are_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    said: str | None,
    made_anew: str | None,
    shards: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines("v.tsv", ["Hund\tDOG", "Ball\tBALL"])
    data = settings(tmp_path, shards=shards)
    began = prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
    found = prepare_data(data.with_values(**change), began.tokenizer, BATCHING, 3, tmp_path / "run")
    if said is None:
        assert found.changes == ()
    else:
        assert said in found.changes
    if shards and made_anew:
        assert found.report[0].endswith(f"the shards were made with other {made_anew}: made anew")
    else:
        assert not any("made anew" in line for line in found.report)
    if shards and "test_pairs" in change:
        assert "was not compared again" in found.report[-1]


def test_moved_files_are_the_same(tmp_path: Path) -> None:
    data = settings(tmp_path, shards=True)
    began = prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
    Path(str(data.source)).rename(tmp_path / "moved")
    moved = data.with_values(source=str(tmp_path / "moved"))
    found = prepare_data(moved, began.tokenizer, BATCHING, 3, tmp_path / "run")
    assert found.changes == ()
    assert not any("made anew" in line for line in found.report)


def test_another_vocabulary_remakes_the_shards(tmp_path: Path) -> None:
    data = settings(tmp_path, shards=True)
    prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
    other = prepare_data(data, SIZES.with_values(size=320), BATCHING, 3, tmp_path / "other")
    found = prepare_data(data, other.tokenizer, BATCHING, 3, tmp_path / "run")
    assert found.report[0].endswith("the shards were made with other vocabulary: made anew")
    assert found.batches.epoch(0) == other.batches.epoch(0)


@pytest.mark.parametrize("harm", ["shard", "summary", "no summary"])
def test_damaged_shards_are_made_anew(tmp_path: Path, harm: str) -> None:
    data, run = settings(tmp_path, shards=True), tmp_path / "run"
    began = prepare_data(data, SIZES, BATCHING, 3, run)
    path = run / "shards" / ("train/00000.source_tokens.npy" if harm == "shard" else "summary.json")
    path.write_bytes(path.read_bytes()[:-1])
    if harm == "no summary":
        path.unlink()
    found = prepare_data(data, began.tokenizer, BATCHING, 3, run)
    assert "made anew" in found.report[0]
    assert found.report[1:] == began.report
    assert found.batches.epoch(0) == began.batches.epoch(0)
    assert not any("made anew" in line for line in prepare_data(data, began.tokenizer, BATCHING, 3, run).report)


def test_preparation_killed_between_two_corpora_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, run = mixed(tmp_path, shards=True), tmp_path / "run"
    write, count = prepare.write_shards, itertools.count()

    def killed(*values: Any) -> Any:
        if next(count) == 1:
            raise KeyboardInterrupt
        return write(*values)

    monkeypatch.setattr(prepare, "write_shards", killed)
    with pytest.raises(KeyboardInterrupt):
        prepare_data(data, SIZES, BATCHING, 3, run)
    assert [entry.name for entry in (run / "shards").iterdir()] == ["train"]
    assert not (run / "data.json").exists()
    found = prepare_data(data, SIZES, BATCHING, 3, run)
    assert_same(found, prepare_data(data, SIZES, BATCHING, 3, tmp_path / "other"))


def test_a_run_without_fingerprints_is_not_compared(tmp_path: Path) -> None:
    data, run = settings(tmp_path), tmp_path / "run"
    began = prepare_data(data, SIZES, BATCHING, 3, run)
    (run / "data.json").unlink()
    assert describe_changes(data, run) == ()
    assert prepare_data(data, began.tokenizer, BATCHING, 3, run).changes == ()
    (run / "data.json").write_text("{")
    assert "is not known" in describe_changes(data, run)[0]


# --- memory

LINES = 1_000_000


def _grown(folder: str, lines: str, shards: str) -> None:
    """Print the peak growth of memory in bytes while a corpus is prepared and its batches are read."""
    import resource

    import regard.data.tokenizer

    regard.data.tokenizer._MAX_LINES = 20_000
    data = CorpusSettings.parse({**_numbered(Path(folder), int(lines)), "shards": shards == "True"}, "the test")
    tokenizer = Tokenizer.train(["1 2 3 4 5 6 7 8 9 0"] * 9, ["1 2 3 4 5 6 7 8 9 0"] * 9, TokenizerSettings(size=280))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = prepare_data(
        data, tokenizer, BatchingSettings(micro_batches=1, buffer_size=20_000), 1, Path(folder) / f"run{shards}"
    )
    plans = itertools.islice(found.batches.updates(), 500)
    read = sum(len(plan.indices) for update in plans for plan in update.plans)
    assert read > 20_000
    print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))


def _numbered(folder: Path, lines: int) -> dict[str, str]:
    paths = {side: str(folder / f"{lines}.{side}") for side in ("source", "target")}
    for side, path in paths.items():
        if not Path(path).exists():
            with Path(path).open("w") as file:
                file.writelines(f"{side} {number} of {number % 1000} and {number % 77}\n" for number in range(lines))
    return paths


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    def grown(lines: int, shards: bool) -> int:
        """In a process of its own, without the checks of every call."""
        call = [sys.executable, __file__, str(tmp_path), str(lines), str(shards)]
        place = os.pathsep.join([str(Path(regard.__file__).parents[1]), str(Path(__file__).parent)])
        done = subprocess.run(call, capture_output=True, check=True, env={**os.environ, "PYTHONPATH": place})
        return int(done.stdout)

    lists = grown(LINES // 10, False) * 10
    shards = grown(LINES, True)
    assert shards < lists / 8, f"{shards:,} bytes, and {lists:,} in lists"
    index = json.loads((tmp_path / "runTrue" / "shards" / "train" / "index.json").read_text())
    assert index["pairs"] > 0.99 * LINES


if __name__ == "__main__":
    _grown(*sys.argv[1:])


def test_a_pipe_cannot_be_read_more_than_once(tmp_path: Path) -> None:
    data = settings(tmp_path, shards=False)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(DataError, match="pipe: can be read only once, and training reads its files more often"):
        prepare_data(data.with_values(target=str(pipe)), SIZES, BATCHING, 3, tmp_path / "run")
