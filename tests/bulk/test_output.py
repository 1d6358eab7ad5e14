"""Resumable output: if the process is killed between any two steps, part file and journal still match."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from regard.bulk import ResumableOutput, chunks, output, remaining
from regard.errors import UsageError

LINES = [f"line {number}" for number in range(5)]
WHOLE = "".join(f"{line.upper()}\n" for line in LINES).encode()


def worked(path: Path, resume: bool = True) -> int:
    """Do the remaining work; return the number of its chunks."""
    count = 0
    with ResumableOutput(path, {"option": {"--chunk": 3}}).open(resume) as part:
        for chunk in remaining(chunks(LINES, 3), part.mark, "lines"):
            part.add(
                "".join(f"{line.upper()}\n" for line in chunk.lines), part.mark.after(chunk.end, chunk.digest, 0, 0)
            )
            count += 1
        part.finish()
    return count


def killed(path: Path, step: int, resume: bool) -> bool:
    """Work in a process that is killed after `step` lines of the module; return whether it was killed."""
    process = os.fork()
    if process == 0:
        try:
            left = iter(range(step))
            sys.settrace(lambda *_: _watched(left, *_))
            worked(path, resume)
            sys.settrace(None)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])


def _watched(left: Iterator[int], frame: FrameType, event: str, value: Any) -> Any:
    if frame.f_code.co_filename != output.__file__:
        return None
    if event == "line" and next(left, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    return lambda *_: _watched(left, *_)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of a copy made beside idle threads
@pytest.mark.parametrize(
    ("resume", "before"), [(False, "nothing"), (True, "an earlier result"), (False, "a journal without a part")]
)
def test_killed_between_any_two_steps_nothing_is_lost(tmp_path: Path, before: str, resume: bool) -> None:
    step, repeated = 0, []
    while True:
        folder = tmp_path / f"{step}"
        folder.mkdir()
        path = folder / "out"
        if before == "an earlier result":
            path.write_bytes(b"earlier")
        elif before == "a journal without a part":
            _journal_only(path)
        if not killed(path, step, resume):
            break
        if path.exists() and path.read_bytes() != WHOLE:
            assert (before, path.read_bytes()) == ("an earlier result", b"earlier"), "half a result has the name"
        repeated.append(worked(path))
        assert path.read_bytes() == WHOLE
        assert os.listdir(folder) == ["out"]
        step += 1
    assert step > 50, "nearly every line of the module was the last"
    assert set(repeated) == {0, 1, 2}, "what was done is not done again"


def _journal_only(path: Path) -> None:
    """Leave what a process leaves that was killed before its last step."""
    with ResumableOutput(path, {"option": {"--chunk": 3}}).open(False) as part:
        for chunk in chunks(LINES, 3):
            part.add(
                "".join(f"{line.upper()}\n" for line in chunk.lines), part.mark.after(chunk.end, chunk.digest, 0, 0)
            )
    os.replace(part.path, path)
    assert part.journal.exists()


def test_only_the_last_step_was_missing(tmp_path: Path) -> None:
    path = tmp_path / "out"
    _journal_only(path)
    assert worked(path) == 0
    assert path.read_bytes() == WHOLE
    assert os.listdir(tmp_path) == ["out"]


def test_results_that_the_journal_does_not_cover_are_truncated(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with ResumableOutput(path, {"option": {"--chunk": 3}}).open(False) as part:
        chunk = next(chunks(LINES, 3))
        part.add("".join(f"{line.upper()}\n" for line in chunk.lines), part.mark.after(chunk.end, chunk.digest, 0, 0))
    with part.path.open("ab") as file:
        file.write(b"half a li")
    assert worked(path) == 1
    assert path.read_bytes() == WHOLE


def test_work_that_still_runs_is_not_called_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with ResumableOutput(path, {}).open(False) as part:
        part.add("1\n", part.mark.after(1, "", 0, 0))
        for resume in (False, True):
            process = os.fork()
            if process == 0:  # locks are those of a process
                try:
                    ResumableOutput(path, {}).open(resume)
                except UsageError as problem:
                    os._exit(7 if "another process is writing it" in problem.causes[0] else 8)
                finally:
                    os._exit(9)
            assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
        part.add("2\n", part.mark.after(2, "", 0, 0))
        part.finish()
    assert path.read_text() == "1\n2\n"
