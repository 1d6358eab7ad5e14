"""Data preparation: shards give the same batches as memory; a resumed run uses the same data, or
reports changes.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from material import noisy_sentences, write_corpus
from systems import linux

import regard
from regard.common.errors import DataError
from regard.common.processes import peak_memory
from regard.data import prepare
from regard.data.batch_stream import BatchingSettings, BatchStream, Position
from regard.data.corpus import CorpusSettings, Overlap, read_corpora, read_corpus, texts_sha256
from regard.data.examples import encode_pairs, resampler
from regard.data.holdout import hold_out
from regard.data.mixture import Mixture
from regard.data.prepare import PreparedData, prepare_data
from regard.data.provenance import describe_changes
from regard.data.text import read_lines, write_lines
from regard.data.tokenizer import Tokenizer, TokenizerSettings

SIZES = TokenizerSettings(size=330)
BATCHING = BatchingSettings(tokens=200, micro_batches=2, buffer_size=70)


def corpus_settings(folder: Path, **more: Any) -> CorpusSettings:
    return CorpusSettings.parse({**write_corpus(folder, 150), **more}, "the test")


def mixture_settings(folder: Path, suffix: str = "", **more: Any) -> CorpusSettings:
    """Return settings with two corpora and a third in one file."""
    rows = zip(*noisy_sentences(40, 9), strict=True)
    write_lines(folder / "c.tsv", (f"{source}\t{target}" for source, target in rows))
    second = {**write_corpus(folder, 60, 2, suffix, "b"), "weight": 2.0, "name": "news"}
    return corpus_settings(folder, mix=[second, {"pairs": str(folder / "c.tsv")}], **more)


def assert_same(expected: PreparedData, actual: PreparedData) -> None:
    """Assert that everything a run uses is the same."""
    assert expected.report == actual.report
    assert (expected.pairs, expected.longest_source, expected.facts, expected.valid) == (
        actual.pairs,
        actual.longest_source,
        actual.facts,
        actual.valid,
    )
    assert expected.tokenizer.fingerprint == actual.tokenizer.fingerprint
    assert expected.batches.padding() == actual.batches.padding()
    updates = zip(
        expected.batches.updates(Position()), actual.batches.updates(Position()), strict=True
    )
    assert all(left == right for left, right in itertools.islice(updates, 60))


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("valid", ["held out", "given"])
@pytest.mark.parametrize("make", [corpus_settings, mixture_settings])
def test_shards_give_the_same_data_as_memory(
    tmp_path: Path, make: Any, valid: str, dropout: float
) -> None:
    files = write_corpus(tmp_path, 30, 7, name="v")
    more: dict[str, Any] = {f"test_{side}": path for side, path in files.items()}
    if valid == "given":
        more |= {
            f"valid_{side}": path
            for side, path in write_corpus(tmp_path, 30, 8, ".gz", "w").items()
        }
    batching = BATCHING.with_values(subword_dropout=dropout)
    lists = prepare_data(
        make(tmp_path, shards=False, **more), SIZES, batching, 3, tmp_path / "lists"
    )
    shards = prepare_data(
        make(tmp_path, shards=True, **more), SIZES, batching, 3, tmp_path / "shards"
    )
    assert_same(lists, shards)
    assert lists.changes == shards.changes == ()
    assert isinstance(lists.batches, Mixture) is (make is mixture_settings)
    assert not (tmp_path / "lists" / "shards").exists()
    messages: list[str] = []
    reopened = prepare_data(
        make(tmp_path, shards=True, **more),
        shards.tokenizer,
        batching,
        3,
        tmp_path / "shards",
        log=messages.append,
    )
    assert_same(shards, reopened)
    assert (messages, reopened.changes) == ([], ()), "nothing was read again"


def test_what_takes_long_with_shards_is_logged(tmp_path: Path) -> None:
    steps: list[str] = []
    data = CorpusSettings.parse({**write_corpus(tmp_path, 40), "shards": True}, "the test")
    prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run", log=steps.append)
    assert steps[:3] == [
        "reading the training text, which stays on disk",
        "holding out pairs for validation",
        "learning the vocabulary",
    ]
    assert steps[3].startswith("tokenising the ")


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_prepared_data_equal_the_single_steps(tmp_path: Path, dropout: float) -> None:
    """Compare with the single steps, called one after another."""
    data = corpus_settings(
        tmp_path,
        **{f"test_{side}": path for side, path in write_corpus(tmp_path, 30, 7, name="v").items()},
    )
    train_corpora, evaluation = read_corpora(data, read_corpus)
    train_corpora, evaluation["valid"] = hold_out(train_corpora, 3)
    corpora = {**train_corpora, **evaluation}
    train = corpora["train"]
    tokenizer = Tokenizer.train(train.sources, train.targets, SIZES)
    pairs = encode_pairs(train.sources, train.targets, tokenizer)
    batching = BATCHING.with_values(subword_dropout=dropout)
    batches = BatchStream(
        pairs, batching, 3, resampler(pairs, tokenizer, dropout) if dropout else None
    )
    prepared = prepare_data(data, SIZES, batching, 3, tmp_path / "run")
    reports = [line for corpus in corpora.values() for line in corpus.report.lines()]
    overlaps = {name: Overlap(corpora[name]) for name in evaluation}
    for overlap in overlaps.values():
        overlap.update(train.pairs)
    shared = [line for name, overlap in overlaps.items() for line in overlap.lines(name)]
    assert prepared.report == (*reports, *shared)
    assert prepared.tokenizer.fingerprint == tokenizer.fingerprint
    assert prepared.longest_source == max(len(pair.source) for pair in pairs)
    assert (prepared.pairs, prepared.valid) == (len(pairs), corpora["valid"])
    assert [prepared.batches.epoch(n) for n in (0, 1)] == [batches.epoch(n) for n in (0, 1)]
    assert {
        name: (facts.pairs, facts.source, facts.target) for name, facts in prepared.facts.items()
    } == {
        name: (len(corpus), texts_sha256(corpus.sources), texts_sha256(corpus.targets))
        for name, corpus in corpora.items()
    }


def test_no_corpus_of_a_mix_shares_a_side_with_validation(tmp_path: Path) -> None:
    data = corpus_settings(
        tmp_path, mix=[{**write_corpus(tmp_path, 150, name="same"), "name": "same"}], shards=True
    )
    prepared = prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
    held_out = {*prepared.valid.sources}
    assert isinstance(prepared.batches, Mixture)
    for part in prepared.batches.streams:
        texts = {prepared.tokenizer.source.decode(pair.source) for pair in part.examples}
        assert texts
        assert not texts & held_out


@pytest.mark.parametrize(("shard_bytes", "expected"), [(10**9, False), (1000, True)])
def test_auto_makes_shards_of_large_corpora_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shard_bytes: int, expected: bool
) -> None:
    monkeypatch.setattr(prepare, "SHARD_BYTES", shard_bytes)
    prepare_data(corpus_settings(tmp_path), SIZES, BATCHING, 3, tmp_path / "run")
    assert (tmp_path / "run" / "shards").exists() is expected


def test_the_vocabulary_of_a_long_text_is_learnt_from_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.data.tokenizer._MAX_LINES", 50)
    prepared = [
        prepare_data(
            mixture_settings(tmp_path, shards=shards), SIZES, BATCHING, 3, tmp_path / str(shards)
        )
        for shards in (False, True)
    ]
    assert_same(*prepared)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    for shards in (False, True):
        data = mixture_settings(tmp_path, shards=shards, valid_pairs=str(tmp_path / "none.tsv"))
        (tmp_path / "a.target").write_bytes(b"one\n")
        (tmp_path / "c.tsv").write_bytes(b"no tab\n")
        with pytest.raises(DataError) as caught:
            prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
        assert len(caught.value.causes) == 3
        assert not (tmp_path / "run" / "data.json").exists()


def test_a_given_tokenizer_is_used_and_the_text_is_inspected(tmp_path: Path) -> None:
    parent = prepare_data(
        corpus_settings(tmp_path), SIZES, BATCHING, 3, tmp_path / "parent"
    ).tokenizer
    inspected: list[tuple[Any, ...]] = []

    def record(*sides: Any) -> None:
        inspected.append(sides)

    def refuse(*_: Any) -> None:
        raise DataError("not this text")

    for shards in (False, True):
        data = mixture_settings(tmp_path, shards=shards)
        with pytest.raises(DataError, match="not this text"):
            prepare_data(data, parent, BATCHING, 3, tmp_path / "none", inspect=refuse)
        prepared = prepare_data(data, parent, BATCHING, 3, tmp_path / str(shards), inspect=record)
        assert prepared.tokenizer is parent
        assert prepared.changes == ()
        assert describe_changes(data, tmp_path / str(shards)) == (), "the run started with these"
        assert not (tmp_path / "none" / "data.json").exists()
    assert inspected[0] == inspected[1]
    assert len(inspected[0][0]) == prepared.pairs


# --- resumed runs


def _append(path: str) -> None:
    write_lines(path, [*read_lines(path), "ein neuer Satz"])


def test_a_changed_weight_is_reported(tmp_path: Path) -> None:
    data = mixture_settings(tmp_path)
    run = tmp_path / "run"
    prepare_data(data, SIZES, BATCHING, 3, run)
    news, third = (corpus.model_dump() for corpus in data.mix)
    changed = data.with_values(mix=[{**news, "weight": 5.0}, third])
    assert describe_changes(changed, run) == (
        "data.weights.news is 5.0 and was 2.0 when the run began",
    )
    assert describe_changes(data, run) == ()


def test_changed_text_is_reported_and_tokenised_again(tmp_path: Path) -> None:
    data = corpus_settings(tmp_path, shards=True)
    run = tmp_path / "run"
    original = prepare_data(data, SIZES, BATCHING, 3, run)
    for path in (data.source, data.target):
        _append(str(path))
    prepared = prepare_data(data, original.tokenizer, BATCHING, 3, run)
    assert len(prepared.changes) == 2
    assert "a.source has changed since the run began" in prepared.changes[0]
    assert prepared.changes == describe_changes(data, run)
    assert "the shards were made with other text: made anew" in prepared.report[0]
    assert prepared.pairs >= original.pairs
    lists = prepare_data(
        data.with_values(shards=False), original.tokenizer, BATCHING, 3, tmp_path / "lists"
    )
    assert list(prepared.batches.updates().__next__().plans) == list(
        lists.batches.updates().__next__().plans
    )
    assert prepare_data(data, original.tokenizer, BATCHING, 3, run).changes == prepared.changes, (
        "still different from the start of the run"
    )


@pytest.mark.parametrize("shards", [False, True])
def test_changed_text_is_refused_of_a_resumed_run(tmp_path: Path, shards: bool) -> None:
    """Also of validation and of other corpora; not of a test file, nor if the same content is
    elsewhere now.
    """
    more: dict[str, Any] = {"shards": shards}
    for prefix, name in (("valid_", "v"), ("test_", "w")):
        more |= {
            f"{prefix}{side}": path
            for side, path in write_corpus(tmp_path, 20, 8, name=name).items()
        }
    data = mixture_settings(tmp_path, **more)
    run = tmp_path / "run"
    tokenizer = prepare_data(data, SIZES, BATCHING, 3, run).tokenizer
    whole = {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}
    for name, role in (
        ("a.target", "train.target"),
        ("b.source", "news.source"),
        ("v.target", "valid.target"),
    ):
        content = (tmp_path / name).read_bytes()
        changed = content.replace(b"Hund", b"Kuh", 1) if name == "b.source" else content.swapcase()
        (tmp_path / name).write_bytes(changed)
        with pytest.raises(DataError) as refused:
            prepare_data(data, tokenizer, BATCHING, 3, run, resumed=True)
        (cause,) = refused.value.causes
        assert cause.startswith(f"{role}: {tmp_path / name} has changed since the run began (")
        assert "put back what it was to go on, or train anew in another `out=`" in cause
        assert {
            path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()
        } == whole
        (tmp_path / name).write_bytes(content)
        os.utime(tmp_path / name, (1, 1))
    _append(str(tmp_path / "w.source"))
    _append(str(tmp_path / "w.target"))
    (tmp_path / "a.source").rename(tmp_path / "moved.source")
    moved = data.with_values(source=str(tmp_path / "moved.source"))
    assert prepare_data(moved, tokenizer, BATCHING, 3, run, resumed=True).changes == ()
    _append(str(tmp_path / "moved.source"))
    with pytest.raises(
        DataError, match=r"moved.source is not what .*a.source was when the run began; put back"
    ):
        prepare_data(moved, tokenizer, BATCHING, 3, run, resumed=True)


def test_missing_text_leaves_the_shards_intact(tmp_path: Path) -> None:
    data = corpus_settings(tmp_path, shards=True)
    run = tmp_path / "run"
    original = prepare_data(data, SIZES, BATCHING, 3, run)
    before = {
        path: path.read_bytes() for path in sorted((run / "shards").rglob("*")) if path.is_file()
    }
    assert before
    Path(str(data.source)).rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="no such file"):
        prepare_data(data, original.tokenizer, BATCHING, 3, run)
    assert {
        path: path.read_bytes() for path in sorted((run / "shards").rglob("*")) if path.is_file()
    } == before


@pytest.mark.parametrize(
    ("change", "expected", "made_anew"),
    [
        ({"max_length": 7}, "data.max_length is 7 and was 200 when the run began", "filters"),
        ({"test_pairs": "v.tsv"}, None, None),
        (
            {"valid_pairs": "v.tsv"},
            "valid.pairs: v.tsv was not there when the run began",
            "held-out pairs",
        ),
        (
            {"mix": [{"pairs": "v.tsv"}]},
            "mix1.pairs: v.tsv was not there when the run began",
            "text",
        ),
    ],
    ids=["filter", "test", "valid", "mix"],
)
@pytest.mark.parametrize("shards", [False, True])
def test_changed_settings_are_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    expected: str | None,
    made_anew: str | None,
    shards: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines("v.tsv", ["Hund\tDOG", "Ball\tBALL"])
    data = corpus_settings(tmp_path, shards=shards)
    original = prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
    prepared = prepare_data(
        data.with_values(**change), original.tokenizer, BATCHING, 3, tmp_path / "run"
    )
    if expected is None:
        assert prepared.changes == ()
    else:
        assert expected in prepared.changes
    if shards and made_anew:
        assert prepared.report[0].endswith(
            f"the shards were made with other {made_anew}: made anew"
        )
    else:
        assert not any("made anew" in line for line in prepared.report)
    if shards and "test_pairs" in change:
        assert "was not compared again" in prepared.report[-1]


def test_moved_files_count_as_unchanged(tmp_path: Path) -> None:
    data = corpus_settings(tmp_path, shards=True)
    original = prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
    Path(str(data.source)).rename(tmp_path / "moved")
    moved = data.with_values(source=str(tmp_path / "moved"))
    prepared = prepare_data(moved, original.tokenizer, BATCHING, 3, tmp_path / "run")
    assert prepared.changes == ()
    assert not any("made anew" in line for line in prepared.report)


def test_another_vocabulary_remakes_the_shards(tmp_path: Path) -> None:
    data = corpus_settings(tmp_path, shards=True)
    prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
    expected = prepare_data(data, SIZES.with_values(size=320), BATCHING, 3, tmp_path / "other")
    prepared = prepare_data(data, expected.tokenizer, BATCHING, 3, tmp_path / "run")
    assert prepared.report[0].endswith("the shards were made with other vocabulary: made anew")
    assert prepared.batches.epoch(0) == expected.batches.epoch(0)


@pytest.mark.parametrize("harm", ["shard", "summary", "no summary"])
def test_damaged_shards_are_made_anew(tmp_path: Path, harm: str) -> None:
    data = corpus_settings(tmp_path, shards=True)
    run = tmp_path / "run"
    original = prepare_data(data, SIZES, BATCHING, 3, run)
    path = run / "shards" / ("train/00000.source_tokens.npy" if harm == "shard" else "summary.json")
    path.write_bytes(path.read_bytes()[:-1])
    if harm == "no summary":
        path.unlink()
    prepared = prepare_data(data, original.tokenizer, BATCHING, 3, run)
    assert "made anew" in prepared.report[0]
    assert prepared.report[1:] == original.report
    assert prepared.batches.epoch(0) == original.batches.epoch(0)
    assert not any(
        "made anew" in line
        for line in prepare_data(data, original.tokenizer, BATCHING, 3, run).report
    )


def test_preparation_killed_between_two_corpora_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = mixture_settings(tmp_path, shards=True)
    run = tmp_path / "run"
    write = prepare.write_shards
    count = itertools.count()

    def interrupted_write(*values: Any) -> Any:
        if next(count) == 1:
            raise KeyboardInterrupt
        return write(*values)

    monkeypatch.setattr(prepare, "write_shards", interrupted_write)
    with pytest.raises(KeyboardInterrupt):
        prepare_data(data, SIZES, BATCHING, 3, run)
    assert [entry.name for entry in (run / "shards").iterdir()] == ["train"]
    assert not (run / "data.json").exists()
    prepared = prepare_data(data, SIZES, BATCHING, 3, run)
    assert_same(prepared, prepare_data(data, SIZES, BATCHING, 3, tmp_path / "other"))


def test_a_run_without_fingerprints_is_not_compared(tmp_path: Path) -> None:
    data = corpus_settings(tmp_path)
    run = tmp_path / "run"
    original = prepare_data(data, SIZES, BATCHING, 3, run)
    (run / "data.json").unlink()
    assert describe_changes(data, run) == ()
    assert prepare_data(data, original.tokenizer, BATCHING, 3, run).changes == ()
    (run / "data.json").write_text("{")
    assert "is not known" in describe_changes(data, run)[0]


def test_a_run_that_held_out_other_pairs_is_refused(tmp_path: Path) -> None:
    files = write_corpus(tmp_path, 30, 8, name="v")
    valid = {f"valid_{side}": path for side, path in files.items()}
    for name, more in (("held_out", {}), ("given", valid)):
        data = corpus_settings(tmp_path, **more)
        run = tmp_path / name
        tokenizer = prepare_data(data, SIZES, BATCHING, 3, run).tokenizer
        record = json.loads((run / "data.json").read_text())
        (run / "data.json").write_text(json.dumps({**record, "version": 1}))
        if more:
            assert prepare_data(data, tokenizer, BATCHING, 3, run).changes == ()
        else:
            with pytest.raises(
                DataError, match=r"held out other pairs for validation, .*train anew"
            ):
                prepare_data(data, tokenizer, BATCHING, 3, run)


# --- memory

LINES = 1_000_000


def _print_memory_growth(folder: str, lines: str, shards: str) -> None:
    """Print the peak growth of memory in MiB while a corpus is prepared and its batches are
    read.
    """
    import regard.data.tokenizer

    regard.data.tokenizer._MAX_LINES = 20_000
    data = CorpusSettings.parse(
        {**_write_numbered(Path(folder), int(lines)), "shards": shards == "True"}, "the test"
    )
    tokenizer = Tokenizer.train(
        ["1 2 3 4 5 6 7 8 9 0"] * 9, ["1 2 3 4 5 6 7 8 9 0"] * 9, TokenizerSettings(size=280)
    )
    before = peak_memory()
    prepared = prepare_data(
        data,
        tokenizer,
        BatchingSettings(micro_batches=1, buffer_size=20_000),
        1,
        Path(folder) / f"run{shards}",
    )
    plans = itertools.islice(prepared.batches.updates(), 500)
    example_count = sum(len(plan.indices) for update in plans for plan in update.plans)
    assert example_count > 20_000
    print((peak_memory() or 0) - (before or 0))


def _write_numbered(folder: Path, lines: int) -> dict[str, str]:
    paths = {side: str(folder / f"{lines}.{side}") for side in ("source", "target")}
    for side, path in paths.items():
        if not Path(path).exists():
            with Path(path).open("w") as file:
                file.writelines(
                    f"{side} {number} of {number % 1000} and {number % 77}\n"
                    for number in range(lines)
                )
    return paths


@linux
@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    def memory_growth(lines: int, shards: bool) -> float:
        """Return the growth in a separate process, without annotation checks."""
        command = [sys.executable, __file__, str(tmp_path), str(lines), str(shards)]
        python_path = os.pathsep.join(
            map(str, (Path(regard.__file__).parents[1], *Path(__file__).parents[:2]))
        )
        process = subprocess.run(
            command, capture_output=True, check=True, env={**os.environ, "PYTHONPATH": python_path}
        )
        return float(process.stdout)

    lists = memory_growth(LINES // 10, False) * 10
    shards = memory_growth(LINES, True)
    assert shards < lists / 8, f"{shards:.0f} MiB, and {lists:.0f} in lists"
    index = json.loads((tmp_path / "runTrue" / "shards" / "train" / "index.json").read_text())
    assert index["pairs"] > 0.99 * LINES


if __name__ == "__main__":
    _print_memory_growth(*sys.argv[1:])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
def test_a_pipe_cannot_be_read_more_than_once(tmp_path: Path) -> None:
    data = corpus_settings(tmp_path, shards=False)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(
        DataError, match="pipe: can be read only once, and training reads its files more often"
    ):
        prepare_data(data.with_values(target=str(pipe)), SIZES, BATCHING, 3, tmp_path / "run")
