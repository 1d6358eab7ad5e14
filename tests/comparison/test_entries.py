"""What takes part: names, systems of several seeds, languages, files of outputs, and runs that have
not ended.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small import captioner_folder, folder

from regard.common.errors import DataError, UsageError
from regard.common.settings import merge
from regard.comparison.entries import (
    conflicts,
    has_ended,
    named_path,
    open_hypotheses,
    open_runs,
    status_of,
)
from regard.data.corpus import CorpusSettings
from regard.training import Recipe
from regard.training.recipe import preset
from regard.training.run_lock import lock_run


def _run(
    path: Path, seed: int, source: str = "train.ko", target: str = "train.en", rate: float = 1e-3
) -> Path:
    """Write a model folder with a recipe, as if it had been trained."""
    folder(path, languages=CorpusSettings(source=source, target=target).languages.pair)
    changes = {
        "data": {"source": source, "target": target},
        "training": {"seed": seed, "updates": 10 + seed},
        "schedule": {"peak": rate},
    }
    Recipe.parse(merge(preset("transformer-tiny"), changes), "test").write(path / "train.toml")
    return path


def _journal(path: Path, *events: dict[str, object]) -> None:
    (path / "journal.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def test_runs_that_differ_in_the_seed_alone_are_one_system(tmp_path: Path) -> None:
    paths = [_run(tmp_path / f"rnn-seed{seed}", seed) for seed in (1, 2)] + [
        _run(tmp_path / "fast", 1, rate=5e-3)
    ]
    entries = open_runs([("", path) for path in paths])
    assert [(e.name, e.system, e.seed) for e in entries] == [
        ("rnn seed 1", "rnn", 1),
        ("rnn seed 2", "rnn", 2),
        ("fast", "fast", 1),
    ]


def test_runs_of_one_given_name_are_one_system(tmp_path: Path) -> None:
    paths = [_run(tmp_path / name, 1, rate=rate) for name, rate in (("a", 1e-3), ("b", 2e-3))]
    entries = open_runs([("mine", path) for path in paths])
    assert [(e.name, e.system) for e in entries] == [("mine run 1", "mine"), ("mine run 2", "mine")]


def test_folders_of_one_name_get_the_folder_above(tmp_path: Path) -> None:
    paths = [folder(tmp_path / parent / "run") for parent in ("first", "second")]
    entries = open_runs([("", path) for path in paths])
    assert [e.name for e in entries] == ["first/run", "second/run"]


def test_a_path_with_an_equals_sign_is_a_path(tmp_path: Path) -> None:
    odd = tmp_path / "a=b"
    odd.mkdir()
    assert named_path(str(odd)) == ("", odd)
    assert named_path("mine=runs/x") == ("mine", Path("runs/x"))
    assert named_path("runs/x") == ("", Path("runs/x"))


def test_all_that_is_wrong_with_runs_is_said_at_once(tmp_path: Path) -> None:
    good = folder(tmp_path / "good")
    with pytest.raises(UsageError) as error:
        open_runs([("", good), ("", good), ("", tmp_path / "none")])
    assert "is given more than once" in str(error.value)
    assert "none" in str(error.value)


def test_other_tasks_and_languages_are_refused(tmp_path: Path) -> None:
    runs = [_run(tmp_path / "ko-en", 1), _run(tmp_path / "en-ko", 1, "train.en", "train.ko.gz")]
    runs += [
        _run(tmp_path / "unknown", 1, "a.src", "a.tgt"),
        captioner_folder(tmp_path / "captioner"),
    ]
    causes = conflicts(open_runs([("", path) for path in runs]), captions=False)
    assert len(causes) == 2
    assert "captions images, and the test set has sentences" in causes[0]
    assert "translates en → ko" in causes[1]
    assert "ko → en" in causes[1]
    causes = conflicts(open_runs([("", runs[0])]), captions=True)
    assert "translates sentences, and the test set has images" in causes[0]


def test_files_of_outputs_need_a_line_for_each_sentence(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("a\n\nb\n")
    (tmp_path / "short.txt").write_text("a\n")
    (entry,) = open_hypotheses([("other", tmp_path / "good.txt")], 3, "the test set")
    assert (entry.name, entry.outputs, entry.is_run) == ("other", ("a", "", "b"), False)
    with pytest.raises(DataError) as error:
        open_hypotheses(
            [("", tmp_path / "short.txt"), ("", tmp_path / "none.txt")], 3, "the test set"
        )
    assert "short.txt: has 1 line, and the test set has 3" in str(error.value)
    assert "none.txt" in str(error.value)


def test_a_run_that_has_not_ended_is_said_to_be(tmp_path: Path) -> None:
    start = {"event": "machine"}
    train = {"event": "train", "update": 7}
    end = {"event": "end", "reason": "all updates done", "update": 7}
    assert status_of(tmp_path) == ""  # not trained here
    assert not has_ended(tmp_path)
    _journal(tmp_path, start, train)
    assert status_of(tmp_path) == "stopped at update 7, before its end: compared as it is"
    _journal(tmp_path, start, train, {**end, "reason": "stopped by SIGINT"})
    assert not has_ended(tmp_path)
    _journal(tmp_path, start, train, end)
    assert has_ended(tmp_path)
    _journal(tmp_path, start, train, end, {"event": "resume", "update": 7})
    assert not has_ended(tmp_path)
    with lock_run(tmp_path):
        assert status_of(tmp_path) == "still training, at update 7: compared as it is now"
