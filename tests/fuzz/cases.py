"""Cases of the fuzzer, and what became of each: the verdicts that it counts."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.material import OUTSIDE, PLANTED, Material, contents, leaks, make_outside
from fuzz.process import PATIENCE, Outcome, run

BAD = ("silent", "wrong", "internal", "slow", "executed", "followed")
VERDICTS = ("unchanged", "done", "refused", "aloud", *BAD)
SLOW = 10.0  # seconds of the processor
NOISE = 2.0  # seconds below which growth is not judged


@dataclass(frozen=True)
class Case:
    """A command in a folder of its own.

    `prepare` makes what the command reads. `reference` names the same command on undamaged files:
    another output must be said. `outputs`: files that count as output, besides stdout. `double`:
    the same with twice the input. `is_right`: whether what came out at stdout, if it was not
    refused, is as every translation has to be. `before` is called in the process of the command.
    `patience`: seconds of wall time until it is believed to hang. `is_kept`: whether what came out
    has what is promised; what has not must be said. `is_known`: a refusal would be wrong.
    """

    name: str
    arguments: list[str]
    prepare: Callable[[Path], None] = lambda _: None
    stdin: bytes = b""
    reference: str | None = None
    outputs: list[str] = field(default_factory=list)
    double: Case | None = None
    is_right: Callable[[bytes], bool] = lambda _: True
    before: Callable[[], object] = lambda: None
    patience: float = PATIENCE
    is_kept: Callable[[bytes], bool] = lambda _: True
    is_known: bool = False


@dataclass(frozen=True)
class Result:
    case: Case
    verdict: str
    outcome: Outcome


Generator = Callable[[random.Random, Material], Case]
KINDS: dict[str, Generator] = {}
SHARES: dict[str, int] = {}


def kind(share: int) -> Callable[[Generator], Generator]:
    """Register a generator of cases; `share` says how many of its cases are drawn for each one of
    the others.
    """

    def register(generator: Generator) -> Generator:
        KINDS[generator.__name__] = generator
        SHARES[generator.__name__] = share
        return generator

    return register


def draw(number: int, seed: int, material: Material) -> Case:
    """Return case `number`; it depends on the seed and the number alone."""
    chance = random.Random(f"{seed} {number}")
    (name,) = chance.choices(list(KINDS), list(SHARES.values()))
    return KINDS[name](chance, material)


class Judge:
    """Run cases and compare them with the same commands on undamaged files, which run once."""

    def __init__(self, material: Material, folder: Path) -> None:
        self.material = material
        self.folder = folder
        self.references: dict[str, tuple[bytes, ...]] = {}
        self.outside: dict[str, bytes] = {}

    def __call__(self, case: Case) -> Result:
        outcome, outputs = self._run(case)
        return Result(case, self._verdict(case, outcome, outputs), outcome)

    def _verdict(self, case: Case, outcome: Outcome, outputs: tuple[bytes, ...]) -> str:  # noqa: C901 - one branch for each verdict
        if (self.folder / "case" / PLANTED).exists():
            return "executed"
        if contents(self.folder / OUTSIDE) != self.outside or leaks(
            self.folder / "case", outputs
        ):
            return "followed"
        if outcome.seconds > SLOW:
            return "slow"
        if outcome.is_internal:
            return "internal"
        if case.double is not None:
            twice = self._run(case.double)[0]
            if twice.seconds > SLOW or twice.seconds > max(NOISE, 4 * outcome.seconds):
                return "slow"
            if twice.is_internal:
                return "internal"
        if outcome.status:
            return "wrong" if case.is_known else "refused"
        if not case.is_right(outcome.out):
            return "wrong"
        if not case.is_kept(outcome.out):
            return "aloud" if outcome.is_aloud else "silent"
        if case.reference is None:
            return "aloud" if outcome.is_aloud else "done"
        if outputs == self._reference(case):
            return "unchanged"
        return "aloud" if outcome.is_aloud else "silent"

    def _reference(self, case: Case) -> tuple[bytes, ...]:
        assert case.reference is not None
        if case.reference not in self.references:
            undamaged = Case(
                case.reference,
                case.arguments,
                self.material.fresh(case.reference),
                case.stdin,
                outputs=case.outputs,
            )
            outcome, outputs = self._run(undamaged)
            assert outcome.status == 0, f"{case.reference}: {outcome.err}"
            self.references[case.reference] = outputs
        return self.references[case.reference]

    def _run(self, case: Case) -> tuple[Outcome, tuple[bytes, ...]]:
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
        return outcome, tuple(outputs)
