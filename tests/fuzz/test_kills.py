"""Runs that are killed and resumed: nine in the slow tests; `make fuzz` kills 250 times."""

from __future__ import annotations

import os
import random
import shutil
import signal
from pathlib import Path

import pytest
from cached import FolderCache

pytest.importorskip(
    "resource", reason="the fuzzer forks processes and limits them, as on Linux and macOS"
)
from fuzz import kills, moments
from fuzz.families import Families, differences
from fuzz.moments import Call, Moment

from regard.models import DECODERS, ENCODERS
from regard.training.recipe import presets

# Forks.
pytestmark = [
    pytest.mark.system,
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

TRAINED = ("rnn", "shards", "guided")


@pytest.fixture(scope="module")
def folder(cached: FolderCache) -> Path:
    """Make the data and the undisturbed run of one family once, until the sources change."""
    folder = cached.in_process("kills", make)
    kills.families(folder)
    return folder


@pytest.fixture(scope="module")
def all_folders(cached: FolderCache) -> Path:
    """Make the data and all undisturbed runs."""
    folder = cached.in_process("all-kills", make, "all")
    kills.families(folder)
    return folder


def make(folder: Path, which: str = "") -> None:
    """Run the commands of one family undisturbed, or all."""
    for case in _cases(kills.families(folder)):
        if which or case.family == "rnn":
            kills.make((case, folder))


def _cases(families: Families) -> list[kills.Case]:
    """Six kills of training, two of them inside a checkpoint, and two of translation."""
    cases = [kills.draw(number, 1, families.names) for number in range(1000)]
    training = [case for case in cases if case.family in TRAINED]
    inside = [case for case in training if case.where == "checkpoint"][1::-1]
    others = [case for case in training if case.where != "checkpoint"][:4]
    translation = [case for case in cases if case.form is not None]
    return [
        *inside,
        *others,
        *(next(case for case in translation if case.form == form) for form in (1, 2)),
    ]


@pytest.mark.slow
def test_a_run_killed_inside_a_checkpoint_is_resumed_to_the_same_bytes(
    folder: Path, tmp_path: Path
) -> None:
    """Kill one run; the tests that come next kill more."""
    case = _cases(kills.families(folder))[0]
    assert case.family == "rnn", "the run that is made"
    result = kills.attempt((case, folder), tmp_path / "work")
    assert result.verdict == "equal", result
    assert 1 <= len(result.moments) <= kills.MOST_KILLS
    assert result.moments[0].in_checkpoint


@pytest.mark.slow
@pytest.mark.parametrize("index", range(8))
def test_a_killed_command_is_resumed_to_the_same_bytes(
    all_folders: Path, tmp_path: Path, index: int
) -> None:
    folder = all_folders
    case = _cases(kills.families(folder))[index]
    result = kills.attempt((case, folder), tmp_path / "work")
    assert result.verdict == "equal", result
    assert 1 <= len(result.moments) <= kills.MOST_KILLS
    assert result.moments[0].in_checkpoint == (index < 2)


def test_every_preset_and_kind_is_killed(tmp_path: Path) -> None:
    families = Families(tmp_path / "families")
    assert set(presets()) < set(families.names)
    options = " ".join(option for name in families.names for option in families.options[name])
    for side, kinds in (("encoder", ENCODERS), ("decoder", DECODERS)):
        for kind in {kind.model_fields["kind"].default for kind in kinds} - {"timm"}:
            assert f"model.{side}.kind={kind}" in options
    drawn = [kills.draw(number, 1, families.names) for number in range(250)]
    assert {case.family for case in drawn if case.form is None} == set(families.names)
    assert sum(case.where == "checkpoint" for case in drawn) >= 28
    assert sum(case.form is not None for case in drawn) == 50
    assert {case.form for case in drawn} == {None, *range(len(kills.FORMATS))}
    assert drawn == [kills.draw(number, 1, families.names) for number in range(250)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda run: _flip(run / "model.safetensors", -3), "run/model.safetensors: other bytes"),
        (lambda run: _other_loss(run / "journal.jsonl"), "run/journal.jsonl: other bytes"),
        (lambda run: _flip(run / "journal.jsonl", 0), "run/journal.jsonl: other bytes"),
        (lambda run: (run / "README.md").unlink(), "run/README.md: missing"),
        (lambda run: (run / "config.json.partial").touch(), "run/config.json.partial: left behind"),
        (
            lambda run: _replace(run / "checkpoints/update-00000040/state.json"),
            "update-00000040/state.json: other",
        ),
    ],
)
def test_a_difference_is_seen(
    folder: Path, tmp_path: Path, change: object, difference: str
) -> None:
    undisturbed = kills.families(folder).trained("rnn").folder
    shutil.copytree(undisturbed, tmp_path / "copy")
    assert differences(undisturbed, tmp_path / "copy") == []
    change(tmp_path / "copy" / "run")  # type: ignore[operator]
    (problem,) = differences(undisturbed, tmp_path / "copy")
    assert difference in problem


@pytest.mark.slow
def test_a_case_whose_result_differs_is_counted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumed with another seed, a run that is killed before it has a folder ends with other
    weights.
    """
    families = kills.families(folder)
    number = next(n for n in range(0, 1000, 3) if kills.draw(n, 1, families.names).family == "rnn")
    case = kills.draw(number, 1, families.names)
    plain = families.trained("rnn")
    other = kills.Undisturbed(plain.folder, [*plain.arguments, "--seed=2"], plain.calls)
    monkeypatch.setattr(kills, "_undisturbed", lambda *_: other)
    monkeypatch.setattr(moments, "draw", lambda *_: Moment(call=0, stage="before"))
    result = kills.attempt((case, folder), tmp_path / "work")
    assert result.verdict == "different"
    assert "run/model.safetensors: other bytes" in result.problems
    assert kills.verdicts([result]) == "equal 0, different 1, broken 0"
    assert kills.summary([result], 1).startswith(
        "1 (seed 1; 1 training, of them 0 inside checkpoint writes, 1 famil"
    )


@pytest.mark.parametrize(
    ("stage", "content"), [("before", None), ("amid", b"ab"), ("after", b"abcd")]
)
def test_a_process_is_killed_at_a_stage_of_a_call(
    tmp_path: Path, stage: str, content: bytes | None
) -> None:
    child = os.fork()
    if child == 0:
        os.setsid()
        Moment(call=1, stage=stage).arm()
        (tmp_path / "first").write_bytes(b"abcd")
        (tmp_path / "second").write_bytes(b"abcd")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert (tmp_path / "first").read_bytes() == b"abcd"
    second = tmp_path / "second"
    assert (second.read_bytes() if second.exists() else None) == content


def test_moments_are_drawn_where_they_are_wanted() -> None:
    calls = [Call("fsync", number in (3, 4), number / 10) for number in range(8)]
    for seed in range(50):
        chance = random.Random(seed)
        assert moments.draw(chance, calls, "checkpoint").call in (3, 4)
        assert moments.draw(chance, calls, "file").call in (0, 1, 2, 5, 6, 7)
        assert 0 <= moments.draw(chance, calls, "time").seconds <= 0.7


def _flip(path: Path, index: int) -> None:
    content = bytearray(path.read_bytes())
    content[index] ^= 1
    path.write_bytes(content)


def _other_loss(journal: Path) -> None:
    journal.write_text(journal.read_text("utf-8").replace('"loss": ', '"loss": 1', 1), "utf-8")


def _replace(path: Path) -> None:
    path.write_text(path.read_text().replace('"batch":', '"batches":'))
