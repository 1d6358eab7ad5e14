"""Data preparation: shards give the same batches as memory; a resumed run uses the same data, or
reports changes.
"""

from __future__ import annotations

import itertools
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from helpers.text_table import rows
from material import noisy_sentences, write_corpus

from regard.common.errors import DataError
from regard.data import prepare
from regard.data.batch_stream import BatchingSettings, BatchStream, Position
from regard.data.corpus import read_corpora
from regard.data.corpus_facts import Overlap, texts_sha256
from regard.data.corpus_settings import CorpusSettings
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
    pairs = zip(*noisy_sentences(40, 9), strict=True)
    write_lines(folder / "c.tsv", map("\t".join, pairs))
    second = {**write_corpus(folder, 60, 2, suffix, "b"), "weight": 2.0, "name": "news"}
    return corpus_settings(
        folder, mix=[second, {"pairs": str(folder / "c.tsv")}], **more
    )


def evaluation_files(folder: Path, part: str, suffix: str = "") -> dict[str, str]:
    """Write pairs to validate on or to test on, and return their settings."""
    files = write_corpus(folder, 30, 7, suffix, part)
    return {f"{part}_{side}": path for side, path in files.items()}


def contents(folder: Path) -> dict[Path, bytes]:
    return {
        path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def first_updates(prepared: PreparedData) -> list[Any]:
    return list(itertools.islice(prepared.batches.updates(Position()), 60))


def assert_same(expected: PreparedData, actual: PreparedData) -> None:
    """Assert that everything a run uses is the same."""
    for name in ("report", "pairs", "longest_source", "facts", "valid", "sample"):
        assert getattr(expected, name) == getattr(actual, name)
    assert expected.tokenizer.fingerprint == actual.tokenizer.fingerprint
    assert expected.batches.padding() == actual.batches.padding()
    assert first_updates(expected) == first_updates(actual)


@pytest.mark.parametrize(
    ("make", "valid", "dropout"),
    [(corpus_settings, "held out", 0.0), (mixture_settings, "given", 0.2)],
)
def test_shards_give_the_same_data_as_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Any,
    valid: str,
    dropout: float,
) -> None:
    """The vocabulary is learnt from a sample of the text."""
    monkeypatch.setattr("regard.data.tokenizer._MAX_LINES", 50)
    more = evaluation_files(tmp_path, "test")
    if valid == "given":
        more |= evaluation_files(tmp_path, "valid", ".gz")
    batching = BATCHING.with_values(subword_dropout=dropout)
    in_lists = make(tmp_path, shards=False, **more)
    in_shards = make(tmp_path, shards=True, **more)
    run = tmp_path / "shards"
    lists = prepare_data(in_lists, SIZES, batching, 3, tmp_path / "lists")
    messages: list[str] = []
    shards = prepare_data(in_shards, SIZES, batching, 3, run, log=messages.append)

    assert_same(lists, shards)
    assert lists.changes == shards.changes == ()
    assert isinstance(lists.batches, Mixture) is (make is mixture_settings)
    assert not (tmp_path / "lists" / "shards").exists()
    assert messages[0] == "reading the training text, which stays on disk"
    assert messages[-1].startswith("tokenising the ")

    messages.clear()
    reopened = prepare_data(
        in_shards, shards.tokenizer, batching, 3, run, log=messages.append
    )

    assert_same(shards, reopened)
    assert messages == [], "nothing was read again"


def test_prepared_data_equal_the_single_steps(tmp_path: Path) -> None:
    """Compare with the single steps, called one after another."""
    test = evaluation_files(tmp_path, "test")
    data = corpus_settings(tmp_path, check=False, **test)
    evaluation = read_corpora(data, data.evaluation_files)
    train_corpora = read_corpora(data, data.training_files)
    train_corpora, evaluation["valid"] = hold_out(train_corpora, 3)
    corpora = {**train_corpora, **evaluation}
    train = corpora["train"]
    tokenizer = Tokenizer.train(train.sources, train.targets, SIZES)
    pairs = encode_pairs(train.sources, train.targets, tokenizer)
    batching = BATCHING.with_values(subword_dropout=0.2)
    batches = BatchStream(pairs, batching, 3, resampler(pairs, tokenizer, 0.2))
    report = [line for corpus in corpora.values() for line in corpus.report.lines()]
    for name, corpus in evaluation.items():
        overlap = Overlap(corpus)
        overlap.update(train.pairs)
        report += overlap.lines(name)

    prepared = prepare_data(data, SIZES, batching, 3, tmp_path / "run")

    assert prepared.report == tuple(report)
    assert prepared.tokenizer.fingerprint == tokenizer.fingerprint
    assert prepared.longest_source == max(len(pair.source) for pair in pairs)
    assert prepared.pairs == len(pairs)
    assert prepared.valid == corpora["valid"]
    for epoch in (0, 1):
        assert prepared.batches.epoch(epoch) == batches.epoch(epoch)
    assert prepared.facts.keys() == corpora.keys()
    for name, corpus in corpora.items():
        facts = prepared.facts[name]
        assert facts.pairs == len(corpus)
        assert facts.source == texts_sha256(corpus.sources)
        assert facts.target == texts_sha256(corpus.targets)


@pytest.mark.parametrize(("shard_bytes", "expected"), [(10**9, False), (1000, True)])
def test_auto_makes_shards_of_large_corpora_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shard_bytes: int, expected: bool
) -> None:
    monkeypatch.setattr(prepare, "SHARD_BYTES", shard_bytes)
    prepare_data(corpus_settings(tmp_path), SIZES, BATCHING, 3, tmp_path / "run")

    assert (tmp_path / "run" / "shards").exists() is expected


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    for shards in (False, True):
        data = mixture_settings(
            tmp_path, shards=shards, valid_pairs=str(tmp_path / "none.tsv")
        )
        (tmp_path / "a.target").write_bytes(b"one\n")
        (tmp_path / "c.tsv").write_bytes(b"no tab\n")

        with pytest.raises(DataError) as caught:
            prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
        assert len(caught.value.causes) == 3
        assert not (tmp_path / "run" / "data.json").exists()


def test_a_given_tokenizer_is_used_and_the_text_is_inspected(tmp_path: Path) -> None:
    data = mixture_settings(tmp_path)
    parent = prepare_data(data, SIZES, BATCHING, 3, tmp_path / "parent").tokenizer
    inspected: list[tuple[Any, ...]] = []

    def record(*sides: Any) -> None:
        inspected.append(sides)
        if len(inspected) == 1:
            raise DataError("not this text")

    for shards in (False, True):
        data = data.with_values(shards=shards)
        run = tmp_path / str(shards)

        if not inspected:
            with pytest.raises(DataError, match="not this text"):
                prepare_data(data, parent, BATCHING, 3, run, check_text=record)
            assert not (run / "data.json").exists()

        prepared = prepare_data(data, parent, BATCHING, 3, run, check_text=record)
        assert prepared.tokenizer is parent
        assert prepared.changes == ()

    assert inspected[0] == inspected[1] == inspected[2]
    assert len(inspected[0][0]) == prepared.pairs


# --- resumed runs


@pytest.mark.parametrize("shards", [False, True])
def test_changed_text_is_refused_of_a_resumed_run(tmp_path: Path, shards: bool) -> None:
    """Also of validation and of other corpora; not of a test file, nor if the same content is
    elsewhere now.
    """
    more: dict[str, Any] = {"shards": shards}
    more |= evaluation_files(tmp_path, "valid") | evaluation_files(tmp_path, "test")
    data = mixture_settings(tmp_path, **more)
    run = tmp_path / "run"
    tokenizer = prepare_data(data, SIZES, BATCHING, 3, run).tokenizer
    whole = contents(run)

    for name, role in (
        ("a.target", "train.target"),
        ("b.source", "news.source"),
        ("valid.target", "valid.target"),
    ):
        path = tmp_path / name
        content = path.read_bytes()
        path.write_bytes(content.swapcase())

        with pytest.raises(DataError) as refused:
            prepare_data(data, tokenizer, BATCHING, 3, run, resumed=True)

        (cause,) = refused.value.causes
        assert cause.startswith(f"{role}: {path} has changed since the run began (")
        assert "put back what it was to go on, or train anew in another `out=`" in cause
        assert contents(run) == whole

        path.write_bytes(content)
        os.utime(path, (1, 1))

    for name in ("test.source", "test.target"):
        lines = read_lines(tmp_path / name)
        write_lines(tmp_path / name, [*lines, "ein neuer Satz"])

    (tmp_path / "a.source").rename(tmp_path / "moved.source")
    moved = data.with_values(source=str(tmp_path / "moved.source"))
    prepared = prepare_data(moved, tokenizer, BATCHING, 3, run, resumed=True)

    assert prepared.changes == ()
    assert not any("made anew" in line for line in prepared.report)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_shards_that_cannot_be_used_are_made_anew(tmp_path: Path) -> None:
    """Damaged shards, those of another vocabulary, but none if there is no text any more."""
    data = corpus_settings(tmp_path, shards=True)
    run = tmp_path / "run"
    original = prepare_data(data, SIZES, BATCHING, 3, run)

    for name, harm in (
        ("train/00000.source_tokens.npy", _cut),
        ("summary.json", _cut),
        ("summary.json", Path.unlink),
    ):
        harm(run / "shards" / name)
        prepared = prepare_data(data, original.tokenizer, BATCHING, 3, run)

        assert "made anew" in prepared.report[0]
        assert prepared.report[1:] == original.report
        assert prepared.batches.epoch(0) == original.batches.epoch(0)

    again = prepare_data(data, original.tokenizer, BATCHING, 3, run)
    assert again.report == original.report

    smaller = SIZES.with_values(size=320)
    expected = prepare_data(data, smaller, BATCHING, 3, tmp_path / "other")
    prepared = prepare_data(data, expected.tokenizer, BATCHING, 3, run)
    message = "the shards were made with other vocabulary: made anew"

    assert prepared.report[0].endswith(message)
    assert prepared.batches.epoch(0) == expected.batches.epoch(0)

    before = contents(run / "shards")
    Path(str(data.source)).rename(tmp_path / "elsewhere")

    with pytest.raises(DataError, match="no such file"):
        prepare_data(data, original.tokenizer, BATCHING, 3, run)
    assert contents(run / "shards") == before


def test_a_run_without_fingerprints_is_not_compared(tmp_path: Path) -> None:
    """Fingerprints of the first version do not tell which pairs were held out."""
    data = corpus_settings(tmp_path)
    run = tmp_path / "run"
    record = run / "data.json"
    tokenizer = prepare_data(data, SIZES, BATCHING, 3, run).tokenizer
    content = json.loads(record.read_text())
    record.unlink()

    assert describe_changes(data, run) == ()
    assert prepare_data(data, tokenizer, BATCHING, 3, run).changes == ()

    record.write_text("{")
    assert "is not known" in describe_changes(data, run)[0]

    record.write_text(json.dumps({**content, "version": 1}))
    message = r"held out other data for validation, .*train anew"

    with pytest.raises(DataError, match=message):
        prepare_data(data, tokenizer, BATCHING, 3, run)


# --- memory


@pytest.mark.slow
def test_the_text_of_shards_is_not_held_in_memory(tmp_path: Path) -> None:
    for side in ("source", "target"):
        lines = (f"{side} {n} of {n % 1000} and {n % 77}" for n in range(60_000))
        write_lines(tmp_path / side, lines)

    files = {side: str(tmp_path / side) for side in ("source", "target")}
    digits = ["1 2 3 4 5 6 7 8 9 0"] * 9
    tokenizer = Tokenizer.train(digits, digits, TokenizerSettings(size=280))
    peaks = []
    for shards in (False, True):
        data = CorpusSettings.parse({**files, "shards": shards}, "the test")
        tracemalloc.start()
        run = tmp_path / str(shards)
        prepared = prepare_data(data, tokenizer, BATCHING, 1, run)
        first_updates(prepared)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    in_lists, in_shards = peaks

    assert in_shards < in_lists / 4


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
def test_a_pipe_cannot_be_read_more_than_once(tmp_path: Path) -> None:
    data = corpus_settings(tmp_path, shards=False)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    piped = data.with_values(target=str(pipe))
    message = "pipe: can be read only once, and training reads its files more often"

    with pytest.raises(DataError, match=message):
        prepare_data(piped, SIZES, BATCHING, 3, tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "expected", "made_anew"),
    rows("""
        {"max_length": 7} | data.max_length is 7 and was 200 when the run began | filters
        {"valid_pairs": "v.tsv"} | valid.pairs: v.tsv was not there when | held-out pairs
        {"mix": [{"pairs": "c.tsv", "weight": 5.0}]} | data.weights.mix1 is 5.0 and was 1.0 |
        {"mix": [{"pairs": "v.tsv"}]} | mix1.pairs: v.tsv is not what c.tsv was | text
        {"test_pairs": "v.tsv"} | |
    """),
)
def test_changed_settings_are_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    expected: str,
    made_anew: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines("v.tsv", ["Hund\tDOG", "Ball\tBALL"])
    write_lines("c.tsv", ["Hut\tHAT", "Katze\tCAT"])
    data = corpus_settings(tmp_path, shards=True, mix=[{"pairs": "c.tsv"}])
    run = tmp_path / "run"
    tokenizer = prepare_data(data, SIZES, BATCHING, 3, run).tokenizer
    changed = data.with_values(**json.loads(change))
    prepared = prepare_data(changed, tokenizer, BATCHING, 3, run)

    assert prepared.changes == describe_changes(changed, run)
    assert len(prepared.changes) == bool(expected)
    assert all(entry.startswith(expected) for entry in prepared.changes)

    anew = [line for line in prepared.report if "made anew" in line]
    assert len(anew) == bool(made_anew)
    assert not anew or f"with other {made_anew}: made anew" in anew[0]

    is_compared = "was not compared again" not in prepared.report[-1]
    assert is_compared is ("test_pairs" not in change)

    in_lists = changed.with_values(shards=False)
    lists = prepare_data(in_lists, tokenizer, BATCHING, 3, tmp_path / "lists")

    assert first_updates(prepared) == first_updates(lists)

    again = prepare_data(changed, tokenizer, BATCHING, 3, run)
    assert again.changes == prepared.changes, "still unlike the start of the run"
