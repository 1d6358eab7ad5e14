"""Resumable output: if the process is killed between any two steps, part file and journal still
match.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from helpers.system_marks import posix

from regard.common.errors import DataError, UsageError
from regard.pipeline.bulk import ResumableOutput, chunks, remaining, resumable_output
from regard.pipeline.bulk.lines import Chunk

LINES = [f"line {number}" for number in range(5)]
CONDITIONS = {"option": {"--chunk": 3}}


def upper(lines: Sequence[str]) -> str:
    """Return the work that is to be done with lines."""
    return "".join(f"{line.upper()}\n" for line in lines)


def finish_work(path: Path, resume: bool = True, lines: Sequence[str] = LINES) -> int:
    """Finish the remaining work and return its number of chunks."""
    with ResumableOutput(path, CONDITIONS).open(resume) as part:
        done = add(part, remaining(chunks(lines, 3), part, "lines"))
        part.finish()

    return done


def add(part: ResumableOutput, todo: Iterable[Chunk]) -> int:
    done = 0
    for chunk in todo:
        mark = part.mark.after(chunk.end, chunk.digest, 0, 0)
        part.add(upper(chunk.lines), mark)
        done += 1
    return done


def leave_part(path: Path, count: int = 2) -> ResumableOutput:
    """Leave the files of a process that was killed after so many chunks."""
    with ResumableOutput(path, CONDITIONS).open(False) as part:
        add(part, islice(chunks(LINES, 3), count))
    return part


def leave_finished_part(path: Path) -> None:
    """Leave the files of a process that was killed before its last step."""
    part = leave_part(path)
    os.replace(part.path, path)

    assert part.journal.exists()


WHOLE = upper(LINES).encode()


def run_and_kill(
    path: Path, step: int, resume: bool, lines: Sequence[str] = LINES
) -> bool:
    """Work in a process that is killed after `step` executed lines of the module; return whether it
    was killed.
    """
    process = os.fork()
    if process == 0:
        try:
            steps_left = iter(range(step))
            sys.settrace(lambda *_: _kill_after(steps_left, *_))
            finish_work(path, resume, lines)
            sys.settrace(None)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])


def _kill_after(
    steps_left: Iterator[int], frame: FrameType, event: str, value: Any
) -> Any:
    if frame.f_code.co_filename != resumable_output.__file__:
        return None
    if event == "line" and next(steps_left, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    return lambda *_: _kill_after(steps_left, *_)


@pytest.mark.system
@posix
# Fork beside idle threads.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("apart", [11, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("resume", "before"),
    [
        (False, "nothing"),
        (True, "an earlier result"),
        (False, "a journal without a part"),
    ],
)
def test_a_kill_between_any_two_steps_loses_nothing(
    tmp_path: Path, before: str, resume: bool, apart: int
) -> None:
    """By default at some of the lines that are executed, in the slow tests at every one."""
    step = len(before) % apart
    repeated = set[int]()
    while True:
        path = tmp_path / f"{step}" / "out"
        path.parent.mkdir()
        if before == "an earlier result":
            path.write_bytes(b"earlier")
        elif before == "a journal without a part":
            leave_finished_part(path)
        if not run_and_kill(path, step, resume):
            break
        if path.exists() and path.read_bytes() != WHOLE:
            assert before == "an earlier result"
            assert path.read_bytes() == b"earlier", (
                "an incomplete result took the final name"
            )
        repeated.add(finish_work(path))

        assert path.read_bytes() == WHOLE
        assert os.listdir(path.parent) == ["out"]

        step += apart

    assert step > 50, "killed at nearly every line of the module"
    assert repeated == {0, 1, 2}, "finished chunks are not repeated"


@posix
def test_running_work_is_not_reported_as_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "out"
    message = "another process is writing it"
    with ResumableOutput(path, {}).open(False) as part:
        for resume in (False, True):
            process = os.fork()
            if process == 0:  # locks belong to processes
                try:
                    ResumableOutput(path, {}).open(resume)
                except UsageError as problem:
                    os._exit(7 if message in problem.causes[0] else 8)
                finally:
                    os._exit(9)
            _, status = os.waitpid(process, 0)

            assert os.waitstatus_to_exitcode(status) == 7
        part.add("1\n", part.mark.after(1, "", 0, 0))
        part.finish()

    assert path.read_text() == "1\n"


@pytest.mark.parametrize(("more", "chunks"), [(1, 1), (2, 2), (7, 3)])
def test_a_file_that_grew_after_its_last_short_chunk_is_continued(
    tmp_path: Path, more: int, chunks: int
) -> None:
    path = tmp_path / "out"
    grown = [*LINES, *(f"more {number}" for number in range(more))]
    part = leave_part(path)
    with part.path.open("ab") as file:
        file.write(b"half a li")
    done = finish_work(path, lines=grown)

    assert done == chunks, "the short chunk is done again, whole ones are not"
    assert path.read_text() == upper(grown)
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize(
    "lines",
    [LINES[:4], [*LINES[:4], "other", "line 5"], ["other", *LINES[1:], "line 5"], []],
)
def test_a_file_whose_translated_lines_changed_is_refused(
    tmp_path: Path, lines: list[str]
) -> None:
    path = tmp_path / "out"
    leave_part(path)
    because = "lines: lines 1 to 5 are translated already, and have changed since"

    with pytest.raises(DataError, match=because):
        finish_work(path, lines=lines)
    assert (tmp_path / "out.part").read_bytes() == WHOLE, "nothing is taken back"


@pytest.mark.system
@posix
# Fork beside idle threads.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("apart", [29, pytest.param(7, marks=pytest.mark.slow)])
def test_a_kill_while_a_chunk_is_taken_back_loses_nothing(
    tmp_path: Path, apart: int
) -> None:
    grown = [*LINES, "line 5", "line 6"]
    step = 0
    while True:
        path = tmp_path / f"{step}" / "out"
        path.parent.mkdir()
        leave_part(path)
        if not run_and_kill(path, step, True, grown):
            break
        finish_work(path, lines=grown)

        assert path.read_text() == upper(grown), step

        step += apart

    assert step > 100
