"""Kill training and bulk translation with SIGKILL, resume them, and compare the results with
undisturbed ones.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
import torch._dynamo  # by the optimizer
from fuzz import moments
from fuzz.families import (
    FORMATS,
    TRANSLATOR,
    Families,
    Undisturbed,
    differences,
    why_unusable,
)
from fuzz.process import Outcome, run

import regard.cli
import regard.pipeline
import regard.pipeline.bulk
import regard.run

VERDICTS = ("equal", "different", "broken")
KILLED = -signal.SIGKILL
MOST_KILLS = 4  # of one case
PATIENCE = 20.0  # seconds until processes whose parent was killed have to be gone


@dataclass(frozen=True)
class Case:
    """A training of a family or, if `form` is given, a translation of a file in one of the
    `FORMATS`.
    """

    number: int
    seed: int
    family: str
    where: str  # "checkpoint", "file" or "time"
    form: int | None = None
    packed: bool = False  # as .gz

    @property
    def command(self) -> tuple[object, ...]:
        """What is killed: cases with the same command have one undisturbed run."""
        return self.family, self.form, self.packed

    @property
    def name(self) -> str:
        if self.form is None:
            return f"train {self.family}"
        ending = [".gz"] if self.packed else []
        return " ".join(["translate", *FORMATS[self.form], *ending])


@dataclass(frozen=True)
class Result:
    """What became of a case: the moments at which it was killed, and what is wrong."""

    case: Case
    verdict: str
    moments: list[moments.Moment]
    problems: list[str]


class Broken(Exception):
    """A command failed that should have succeeded, or left something behind that it should not."""


@cache
def families(folder: Path) -> Families:
    """Return the families with their data; made before processes are forked, with all modules
    imported.
    """
    torch.set_num_threads(1)
    os.environ["REGARD_CACHE"] = str(folder / "cache")
    assert all((regard.pipeline.bulk, regard.cli, regard.pipeline, regard.run)), (
        "imported once"
    )
    return Families(folder / "families")


def draw(number: int, seed: int, names: Sequence[str]) -> Case:
    """Return case `number`: every fifth translates a file, the others train one family after the
    other.
    """
    chance = random.Random(f"{seed} kill {number}")
    if number % 5 == 4:
        form = number // 5 % len(FORMATS)
        where = chance.choice(("file", "time"))
        return Case(number, seed, TRANSLATOR, where, form, chance.random() < 0.3)
    family = names[(number // 5 * 4 + number % 5) % len(names)]
    (where,) = chance.choices(("checkpoint", "file", "time"), (3, 2, 5))
    return Case(number, seed, family, where)


def make(work: tuple[Case, Path]) -> None:
    """Run the command of a case undisturbed, unless that was done before."""
    _undisturbed(families(work[1]), work[0])


def attempt(work: tuple[Case, Path], folder: Path | None = None) -> Result:
    """Kill the command of a case, once or more often, resume it, and compare; it works in
    `folder`.
    """
    case, root = work
    folder = folder or root / f"work-{os.getpid()}"
    known = families(root)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    undisturbed = _undisturbed(known, case)
    killed = list[moments.Moment]()
    try:
        for moment in _kill(case, undisturbed, folder):
            killed.append(moment)
            if case.form is None:
                problem = why_unusable(known, folder / "run", folder)
                if problem:
                    raise Broken(problem)
        problems = differences(undisturbed.folder, folder)
        verdict = "different" if problems else "equal"
    except Broken as broken:
        problems = [str(broken)]
        verdict = "broken"
    return Result(case, verdict, killed, problems)


def _undisturbed(known: Families, case: Case) -> Undisturbed:
    if case.form is None:
        return known.trained(case.family)
    return known.translated(case.form, case.packed)


def _kill(
    case: Case, undisturbed: Undisturbed, folder: Path
) -> Iterator[moments.Moment]:
    """Kill the command, yield when, resume it, and so on; at last let it finish. Raises Broken if
    it cannot.
    """
    chance = random.Random(f"{case.seed} moments {case.number}")
    where = case.where
    for number in range(MOST_KILLS):
        while True:  # until it is killed before its end, but later ones may end
            moment = moments.draw(chance, undisturbed.calls, where)
            outcome = _continue(case, undisturbed, folder, moment)
            if outcome.status == KILLED or number:
                break
            shutil.rmtree(folder)
            folder.mkdir()
        if outcome.status != KILLED:
            return
        yield moment
        if chance.random() < 0.7:
            break
        where = chance.choice(
            ("time", "file" if case.form is not None else "checkpoint")
        )
    _continue(case, undisturbed, folder, None)


def _continue(
    case: Case, undisturbed: Undisturbed, folder: Path, moment: moments.Moment | None
) -> Outcome:
    """Run the command as its user would: resume it or, if there is nothing to resume, begin
    again.
    """
    before = moment.arm if moment else lambda: None
    begin = undisturbed.arguments
    resume = ["train", "--out=run", "--resume", "--threads=1"]
    if case.form is not None:
        resume = [*begin, "--resume"]
    is_first = not any(folder.iterdir())
    order = [begin]
    if not is_first:
        order = [resume, begin] if case.number % 3 else [begin, resume]
    for arguments in order:
        outcome = run(arguments, folder, before=before)
        _wait_for_end(outcome)
        if outcome.status not in (1, 2):
            break
    if outcome.status not in (0, KILLED) or (
        not is_first and "warning: " in outcome.err
    ):
        raise Broken(f"regard {' '.join(arguments)}: {outcome.status} {outcome.err}")
    return outcome


def _wait_for_end(outcome: Outcome) -> None:
    """Wait for the processes that a command started. Raises Broken, and kills them, if they outlive
    it for long.
    """
    end = time.monotonic() + PATIENCE
    # macOS says PermissionError of a group of zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < end:
            os.killpg(outcome.group, 0)
            time.sleep(0.02)
        os.killpg(outcome.group, signal.SIGKILL)
        raise Broken("its processes outlive it")


def summary(results: Sequence[Result]) -> str:
    """Count what was killed, and how often again while it was resumed."""
    training = [result for result in results if result.case.form is None]
    inside = sum(
        any(moment.in_checkpoint for moment in result.moments) for result in training
    )
    again = sum(len(result.moments[1:]) for result in results)
    families = {result.case.family for result in training}
    return (
        f"{len(training)} trainings of {len(families)} families, of them {inside} inside checkpoint"
        f" writes; {len(results) - len(training)} translations; {again} more of what was resumed"
    )
