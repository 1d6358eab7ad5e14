"""Entries of a comparison: names, systems of several seeds, languages, files of outputs, and runs
that have not ended.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.small_models import captioner_folder, folder

from regard.common.errors import DataError, UsageError
from regard.common.settings import merge
from regard.comparison.entries import (
    conflicts,
    has_ended,
    open_hypotheses,
    open_runs,
    status_of,
)
from regard.data.corpus_settings import CorpusSettings
from regard.requests.compare_request import named_path
from regard.training import Recipe
from regard.training.recipe import preset
from regard.training.run_lock import lock_run


def _run(
    path: Path,
    seed: int,
    source: str = "train.ko",
    target: str = "train.en",
    rate: float = 1e-3,
    pairs: str = "",
) -> Path:
    """Write a model folder with a recipe, as if it had been trained."""
    folder(path, languages=CorpusSettings(source=source, target=target).languages.pair)
    changes = {
        "data": {"pairs": pairs} if pairs else {"source": source, "target": target},
        "training": {"seed": seed, "updates": 10 + seed},
        "schedule": {"peak": rate},
    }
    Recipe.parse(merge(preset("transformer-tiny"), changes), "test").write(
        path / "train.toml"
    )

    return path


def test_runs_are_named_after_their_folders_and_seeds(tmp_path: Path) -> None:
    """Runs that differ in the seed alone are one system, and so are those of one given name."""
    first = _run(tmp_path / "rnn-seed1", 1)
    second = _run(tmp_path / "rnn-seed2", 2)
    fast = _run(tmp_path / "fast", 1, rate=5e-3)
    entries = open_runs([("", first), ("", second), ("", fast)])

    assert [(e.name, e.system, e.seed) for e in entries] == [
        ("rnn seed 1", "rnn", 1),
        ("rnn seed 2", "rnn", 2),
        ("fast", "fast", 1),
    ]

    entries = open_runs([("mine", first), ("mine", fast)])
    assert [(e.name, e.system) for e in entries] == [
        ("mine run 1", "mine"),
        ("mine run 2", "mine"),
    ]

    paths = [folder(tmp_path / parent / "run") for parent in ("first", "second")]
    entries = open_runs([("", path) for path in paths])
    assert [e.name for e in entries] == ["first/run", "second/run"]


def test_pairs_of_an_iterable_are_compared_by_their_bytes(tmp_path: Path) -> None:
    runs = []
    for seed, text in enumerate(("same\n", "same\n", "other\n")):
        file = tmp_path / f"own{seed}" / "pairs.jsonl"
        runs.append(("", _run(file.parent, seed, pairs=str(file))))
        file.write_text(text)
    first, second, third = open_runs(runs)

    assert first.system == second.system != third.system


def test_a_path_with_an_equals_sign_is_a_path(tmp_path: Path) -> None:
    odd = tmp_path / "a=b"
    odd.mkdir()
    assert named_path(str(odd)) == ("", odd)
    assert named_path("mine=runs/x") == ("mine", Path("runs/x"))
    assert named_path("runs/x") == ("", Path("runs/x"))


def test_all_that_is_wrong_with_runs_is_said_at_once(tmp_path: Path) -> None:
    good = folder(tmp_path / "good")
    with pytest.raises(UsageError, match=r"(?s)is given more than once.*none"):
        open_runs([("", good), ("", good), ("", tmp_path / "none")])


def test_other_tasks_and_languages_are_refused(tmp_path: Path) -> None:
    run = _run(tmp_path / "ko-en", 1)
    other = _run(tmp_path / "en-ko", 1, "train.en", "train.ko.gz")
    unknown = _run(tmp_path / "unknown", 1, "a.src", "a.tgt")
    captioner = captioner_folder(tmp_path / "captioner")
    entries = open_runs([("", path) for path in (run, other, unknown, captioner)])
    of_task, of_languages = conflicts(entries, captions=False)

    assert "captions images, and the test set has sentences" in of_task
    assert "translates en → ko" in of_languages
    assert "ko → en" in of_languages

    (cause,) = conflicts(entries[:1], captions=True)
    assert "translates sentences, and the test set has images" in cause

    (cause,) = conflicts(entries[:1] * 2, captions=False)
    assert "two of them have this name" in cause


def test_files_of_outputs_need_a_line_for_each_sentence(tmp_path: Path) -> None:
    good = tmp_path / "good.txt"
    good.write_text("a\n\nb\n")
    short = tmp_path / "short.txt"
    short.write_text("a\n")
    (entry,) = open_hypotheses([("other", good)], 3, "the test set")

    assert (entry.name, entry.outputs, entry.is_run) == ("other", ("a", "", "b"), False)

    message = r"(?s)short.txt: has 1 line, and the test set has 3.*none.txt"
    with pytest.raises(DataError, match=message):
        open_hypotheses([("", short), ("", tmp_path / "none.txt")], 3, "the test set")


def test_a_run_that_has_not_ended_is_said_to_be(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    events: list[dict[str, object]] = []

    def write(*more: dict[str, object]) -> None:
        events.extend(more)
        journal.write_text("".join(json.dumps(event) + "\n" for event in events))

    assert (status_of(tmp_path), has_ended(tmp_path)) == ("", False)  # not trained here

    write({"event": "machine"}, {"event": "train", "update": 7})
    assert (
        status_of(tmp_path) == "stopped at update 7, before its end: compared as it is"
    )

    write({"event": "end", "reason": "stopped by Ctrl-C", "update": 7})
    assert not has_ended(tmp_path)

    write({"event": "end", "reason": "all updates done", "update": 7})
    assert (status_of(tmp_path), has_ended(tmp_path)) == ("", True)

    write({"event": "resume", "update": 7})
    assert not has_ended(tmp_path)

    with lock_run(tmp_path):
        assert (
            status_of(tmp_path) == "still training, at update 7: compared as it is now"
        )
