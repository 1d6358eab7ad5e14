"""Try the verdicts of the lab with grids of learning rates shifted down and up by a factor of two.

    python benchmarks/lab_rates.py FOLDER [NAME …] [--shifts 1,0.5,2]

Runs are kept in FOLDER/store, named after their settings, so that experiments and shifts share
them; the same command continues after a stop. The results of shift 1 go to FOLDER/NAME-full, as
`regard lab NAME --full` writes them. A table of the outcomes of all parts of the claims goes to
FOLDER/table.md, and those of shifts 0.5 and 2 to FOLDER/shifts.json, for
`docs/make_experiments.py`: parts that came out otherwise are undecided.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.common.atomic import write_text
from regard.common.errors import LineWarning
from regard.common.version import __version__
from regard.learn.lab import EXPERIMENTS
from regard.learn.lab.bench import Bench, Plan
from regard.learn.lab.experiment_runs import BEGUN, with_sweep, write_result
from regard.learn.lab.sweep import Sweep
from regard.learn.lab.training import Job

UNTRAINED = ("costs", "dictionary")
"""Experiments whose verdicts do not depend on a learning rate."""


class SharedBench(Bench):
    """Bench whose data and runs are in a store, and whose learning rates are shifted by a
    factor.
    """

    store: Path
    shift: float

    def data(self, name: str = "sample") -> Path:
        return Bench(self.store, True, 1, 1, self.say).data(name)

    def job(self, arm: str, rate: float, seed: int) -> Job:
        folder = self.store / "runs" / f"{self.digests[arm]}-{rate:.3g}-seed{seed}"
        return replace(super().job(arm, rate, seed), folder=folder)

    def sweep(self, arms: Any, names: Any, plan: Plan, *others: Any) -> Sweep:
        return super().sweep(
            arms,
            names,
            replace(plan, rates=tuple(self.shift * r for r in plan.rates)),
            *others,
        )


def outcomes(name: str, folder: Path, shift: float) -> list[str]:
    """Run an experiment with its grid shifted; return the outcome of each part of its claim."""
    experiment = EXPERIMENTS[name]
    out = folder / (f"{name}-full" if shift == 1 else f"{name}-{shift:g}")
    out.mkdir(parents=True, exist_ok=True)
    begun = {"experiment": name, "effort": "full", "seed": 1, "regard": __version__}
    write_text(out / BEGUN, json.dumps(begun, indent=1) + "\n")
    bench = SharedBench(out, True, 2, 1, _say)
    bench.store = folder / "store"
    bench.shift = shift
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*trained for an experiment, not for use"
        )
        warnings.filterwarnings("ignore", category=LineWarning)
        findings = with_sweep(experiment.run(bench), bench, experiment)
    write_result(out, experiment, findings, begun, "en", bench)
    return [part.outcome for part in findings.verdict.parts]


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}   {line}", flush=True)


def table(results: dict[str, dict[str, list[str]]], shifts: Sequence[float]) -> str:
    """Return a table of outcomes; * marks a part whose outcome depends on the shift."""
    lines = [
        "| experiment | part | "
        + " | ".join(f"× {shift:g}" for shift in shifts)
        + " | |"
    ]
    lines.append("|---" * (len(shifts) + 3) + "|")
    for name, by_shift in results.items():
        columns = [
            by_shift[f"{shift:g}"] for shift in shifts if f"{shift:g}" in by_shift
        ]
        for number, row in enumerate(zip(*columns, strict=True), 1):
            cells = [*row, *[""] * (len(shifts) - len(row))]
            lines.append(
                f"| {name} | {number} | {' | '.join(cells)} | {'*' if len(set(row)) > 1 else ''} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is asked for, and write the table after each experiment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--shifts", default="1,0.5,2")
    arguments = parser.parse_args()
    shifts = [float(text) for text in arguments.shifts.split(",")]
    results: dict[str, dict[str, list[str]]] = {}
    for shift in shifts:
        for name in arguments.names or [
            name for name in EXPERIMENTS if shift == 1 or name not in UNTRAINED
        ]:
            began = time.monotonic()
            results.setdefault(name, {})[f"{shift:g}"] = outcomes(
                name, arguments.folder, shift
            )
            print(
                f"{name} × {shift:g}: {results[name][f'{shift:g}']}, "
                f"{time.monotonic() - began:.0f} s",
                flush=True,
            )
            write_text(arguments.folder / "table.md", table(results, shifts))
            moved = {
                each: [by["0.5"], by["2"]]
                for each, by in results.items()
                if {"0.5", "2"} <= by.keys()
            }
            write_text(
                arguments.folder / "shifts.json", json.dumps(moved, indent=1) + "\n"
            )


if __name__ == "__main__":
    main()
