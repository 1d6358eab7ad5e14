"""Runs that are killed and resumed: eight in the slow tests; `make fuzz` kills 250 times."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from helpers.cached_folders import FolderCache

pytest.importorskip(
    "resource",
    reason="the fuzzer forks processes and limits them, as on Linux and macOS",
)
from fuzz import kills
from fuzz.families import Families, differences
from fuzz.moments import Moment

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
    """Make the data and the undisturbed runs once, until the sources change."""
    folder = cached.in_process("kills", make)
    kills.families(folder)
    return folder


def make(folder: Path) -> None:
    """Run the commands undisturbed."""
    for case in _cases(kills.families(folder)):
        kills.make((case, folder))


def _cases(families: Families) -> list[kills.Case]:
    """Six kills of training, two of them inside a checkpoint, and two of translation."""
    cases = [kills.draw(number, 1, families.names) for number in range(1000)]
    training = [case for case in cases if case.family in TRAINED]
    inside = [case for case in training if case.where == "checkpoint"]
    others = [case for case in training if case.where != "checkpoint"]
    lines = next(case for case in cases if case.form == 1)
    alignments = next(case for case in cases if case.form == 2)
    return [*inside[:2], *others[:4], lines, alignments]


@pytest.mark.slow
@pytest.mark.parametrize("index", range(8))
def test_a_killed_command_is_resumed_to_the_same_bytes(
    folder: Path, tmp_path: Path, index: int
) -> None:
    case = _cases(kills.families(folder))[index]
    result = kills.attempt((case, folder), tmp_path / "work")
    assert result.verdict == "equal", result
    assert 1 <= len(result.moments) <= kills.MOST_KILLS
    assert result.moments[0].in_checkpoint == (index < 2)


def test_every_preset_and_kind_is_killed(tmp_path: Path) -> None:
    families = Families(tmp_path / "families")
    assert set(presets()) < set(families.names)
    options = {option for name in families.names for option in families.options[name]}
    for side, kinds in (("encoder", ENCODERS), ("decoder", DECODERS)):
        for kind in {kind.model_fields["kind"].default for kind in kinds} - {"timm"}:
            assert f"model.{side}.kind={kind}" in options


@pytest.mark.slow
def test_another_result_is_noticed(folder: Path, tmp_path: Path) -> None:
    run = kills.families(folder).trained("rnn").folder
    shutil.copytree(run, tmp_path / "copy")
    assert differences(run, tmp_path / "copy") == []
    weights = tmp_path / "copy" / "run" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert differences(run, tmp_path / "copy") == ["run/model.safetensors: other bytes"]


@pytest.mark.parametrize(
    ("stage", "content"), [("before", None), ("amid", b"ab"), ("after", b"abcd")]
)
def test_a_process_is_killed_at_a_stage_of_a_call(
    tmp_path: Path, stage: str, content: bytes | None
) -> None:
    second = tmp_path / "second"
    child = os.fork()
    if child == 0:
        os.setsid()
        Moment(call=1, stage=stage).arm()
        (tmp_path / "first").write_bytes(b"abcd")
        second.write_bytes(b"abcd")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert (tmp_path / "first").read_bytes() == b"abcd"
    assert (second.read_bytes() if second.exists() else None) == content
