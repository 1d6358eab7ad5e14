"""Cases of the fuzzer, and what became of each: the verdicts that it counts."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz.kinds import SLOW, Kinds, grows
from fuzz.material import OUTSIDE, PLANTED, Material, contents, leaks, make_outside
from fuzz.process import PATIENCE, Outcome, run

BAD = ("silent", "wrong", "internal", "slow", "executed", "followed")
VERDICTS = ("unchanged", "done", "refused", "aloud", *BAD)


@dataclass(frozen=True)
class Case:
    """A command in a folder of its own.

    `prepare` makes what the command reads. `reference` names the same command on undamaged files:
    another output must be said. `outputs`: files that count as output, besides stdout. `double`:
    the same with twice the input. `is_right`: whether what came out at stdout, if it was not
    refused, is as every translation has to be. `before` is called in the process of the command.
    `patience`: seconds of wall time until it is believed to hang. `is_whole`: otherwise the input
    is none that could be read in full, which must be said.
    """

    name: str
    arguments: list[str]
    prepare: Callable[[Path], None]
    stdin: bytes = b""
    reference: str | None = None
    outputs: Sequence[str] = ()
    double: Case | None = None
    is_right: Callable[[bytes], bool] = lambda _: True
    before: Callable[[], object] = lambda: None
    patience: float = PATIENCE
    is_whole: bool = True


@dataclass(frozen=True)
class Result:
    case: Case
    verdict: str
    outcome: Outcome


KINDS = Kinds[Callable[[random.Random, Material], Case]]()
kind = KINDS.kind


class Judge:
    """Run cases and compare them with the same commands on undamaged files, which run once."""

    def __init__(self, material: Material, folder: Path) -> None:
        self.material = material
        self.folder = folder
        self.references: dict[str, list[bytes]] = {}
        self.outside: dict[str, bytes] = {}

    def __call__(self, case: Case) -> Result:
        outcome, outputs = self._run(case)
        return Result(case, self._verdict(case, outcome, outputs), outcome)

    def _verdict(self, case: Case, outcome: Outcome, outputs: list[bytes]) -> str:
        folder = self.folder / "case"
        if (folder / PLANTED).exists():
            return "executed"
        is_changed = contents(self.folder / OUTSIDE) != self.outside
        if is_changed or leaks(folder, outputs):
            return "followed"
        if verdict := self._problem(case, outcome):
            return verdict
        if outcome.status:
            return "refused"
        if not case.is_right(outcome.out):
            return "wrong"
        if case.is_whole and case.reference is None:
            return "aloud" if outcome.is_aloud else "done"
        if case.is_whole and outputs == self._reference(case):
            return "unchanged"
        return "aloud" if outcome.is_aloud else "silent"

    def _problem(self, case: Case, outcome: Outcome) -> str:
        """Say whether a case, or the same with twice the input, is slow or crashes."""
        if outcome.seconds > SLOW:
            return "slow"
        if outcome.is_internal:
            return "internal"
        if case.double is None:
            return ""
        twice, _ = self._run(case.double)
        if grows(outcome.seconds, twice.seconds):
            return "slow"
        return self._problem(case.double, twice)

    def _reference(self, case: Case) -> list[bytes]:
        assert case.reference is not None
        if case.reference not in self.references:
            prepare = self.material.fresh(case.reference)
            undamaged = Case(
                case.reference,
                case.arguments,
                prepare,
                case.stdin,
                outputs=case.outputs,
            )
            outcome, outputs = self._run(undamaged)
            assert outcome.status == 0, f"{case.reference}: {outcome.err}"
            self.references[case.reference] = outputs
        return self.references[case.reference]

    def _run(self, case: Case) -> tuple[Outcome, list[bytes]]:
        folder = self.folder / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        case.prepare(folder)
        self.outside = make_outside(self.folder / OUTSIDE)
        outcome = run(case.arguments, folder, case.stdin, case.before, case.patience)
        outputs = [outcome.out]
        for name in case.outputs:
            path = folder / name
            outputs.append(path.read_bytes() if path.is_file() else b"")
        return outcome, outputs
