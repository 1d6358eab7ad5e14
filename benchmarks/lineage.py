"""Measure the speed of the models that led to the Transformer, beside the same models in plain
torch.nn.

`make bench-train` and `make bench-translate` include these tables. README.md defines what is
measured.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from models import PRESET
from prepare import MissingData, prepare, test_files, training_files
from runs import (
    WORK,
    Run,
    ends_tidily,
    failure,
    in_rounds,
    names,
    noise,
    run_adapter,
    settings,
    successful,
    table,
)
from shapes import LINEAGE
from translators import FORCED

RESULTS = WORK / "lineage.json"
TASKS = ("train", "translate")
OURS = "Regard"
PLAIN = "plain PyTorch"


class System(NamedTuple):
    """An adapter of peers/ and its options."""

    label: str
    adapter: str
    precision: str
    beam: int = 1


SYSTEMS = {
    "train": {
        "regard": System(OURS, "regard", "bfloat16"),
        "regard-float32": System(OURS, "regard", "float32"),
        "plain": System(PLAIN, "plain_lineage", "bfloat16"),
        "plain-float32": System(PLAIN, "plain_lineage", "float32"),
    },
    "translate": {
        "regard": System(OURS, "regard_translate", "int8"),
        "regard-bfloat16": System(OURS, "regard_translate", "bfloat16"),
        "regard-float32": System(OURS, "regard_translate", "float32"),
        "regard-beam5": System(f"{OURS}, beam 5", "regard_translate", "int8", beam=5),
        "plain": System(PLAIN, "plain_lineage_translate", "bfloat16"),
        "plain-float32": System(PLAIN, "plain_lineage_translate", "float32"),
    },
}


def main() -> int:
    """Run the measurements of the command line and print the tables."""
    options = _options()
    try:
        bench = Bench(options)
    except MissingData as missing:
        print(missing, file=sys.stderr)
        return 2
    plan = [
        f"{task} {model} {name}"
        for task in options.tasks
        for model in options.models
        for name in SYSTEMS[task]
    ]
    measured: dict[str, Any] = {"settings": settings(options), "runs": []}
    in_rounds(plan, measured, RESULTS, bench.measure, _line)
    for task in options.tasks:
        print(f"\n## {task}\n\n{_report(measured, task)}")
    return 0


class Bench:
    """The data, and the models made so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self._made = dict[str, Run]()
        self.data = prepare(training_files(options.data), WORK / "data")
        self.lines = (
            test_files(options.data)[0] if "translate" in options.tasks else None
        )

    def measure(self, name: str) -> Run:
        """Run a system once; the name is task, model and system."""
        task, model, system = name.split()
        return (
            self._train(name, model)
            if task == "train"
            else self._translate(name, model, system)
        )

    def _train(self, name: str, model: str) -> Run:
        system = _system(name)
        arguments = {"shape": model, "precision": system.precision, "data": self.data}
        arguments |= {
            "work": WORK / "runs" / f"lineage-{system.adapter}-{system.precision}"
        }
        return self._run(
            system.adapter, name, {**arguments, "seconds": self.options.seconds}
        )

    def _translate(self, name: str, model: str, system: str) -> Run:
        chosen = _system(name)
        folder = WORK / "models" / f"lineage-{model}"
        if model not in self._made:
            arguments = {
                "model": PRESET + model,
                "data": self.data,
                "lines": self.lines,
                "folder": folder,
            }
            self._made[model] = run_adapter(
                "models",
                None,
                arguments,
                _log(f"make {model}"),
                self.options.threads,
                600,
            )
        if "error" in self._made[model]:
            return self._made[model]
        arguments = {
            "model": model,
            "folder": folder,
            "source": folder / "source.txt",
            "precision": chosen.precision,
        }
        arguments |= {
            "beam": chosen.beam,
            "forced": FORCED,
            "whole": int(chosen.label != PLAIN),
            "out": _output_file(model, system),
        }
        return self._run(
            chosen.adapter, name, {**arguments, "seconds": self.options.seconds}
        )

    def _run(self, adapter: str, name: str, arguments: dict[str, Any]) -> Run:
        threads = self.options.threads
        arguments = {**arguments, "threads": threads}
        return run_adapter(
            f"peers.{adapter}",
            None,
            arguments,
            _log(name),
            threads,
            self.options.timeout,
        )


def _system(name: str) -> System:
    task, _, system = name.split()
    return SYSTEMS[task][system]


def _log(name: str) -> Path:
    return WORK / "logs" / f"lineage-{name.replace(' ', '-')}.txt"


def _output_file(model: str, system: str) -> Path:
    """Return the file for the translations of a system."""
    return WORK / "translations" / f"lineage-{model}-{system}.txt"


def _line(run: Run) -> str:
    if "error" in run:
        return failure(run)
    if "tgt_tok_s" in run:
        return f"{run['tgt_tok_s']:,.0f} target tokens/s over {run['updates']} updates{noise(run)}"
    return (
        f"{run['sentences_s']:,.1f} sentences/s of {run['sentences']}, {run['p50_ms']:,.2f} ms "
        f"alone{noise(run)}"
    )


def _report(measured: dict[str, Any], task: str) -> str:
    """Return the rows of each model, the fastest first, and Regard's speed over that of plain
    PyTorch.
    """
    speed = {"train": "tgt_tok_s", "translate": "sentences_s"}[task]
    heads = {
        "train": ("target tokens/s", "parameters"),
        "translate": ("sentences/s", "p50 ms alone", "tokens as float32"),
    }
    cells: list[tuple[str, ...]] = [
        ("model", "system", "precision", *heads[task], "peak MB")
    ]
    for model in measured["settings"]["models"]:
        rows = []
        for name, system in SYSTEMS[task].items():
            if runs := successful(measured, f"{task} {model} {name}"):
                medians = {
                    field: median(run[field] for run in runs)
                    for field in (speed, "peak_rss_mb")
                }
                star = " *" if any(run["disturbed"] for run in runs) else ""
                details = (
                    (f"{runs[-1]['params']:,}",)
                    if task == "train"
                    else _details(runs, model, name)
                )
                row = (
                    model,
                    system.label + star,
                    system.precision,
                    f"{medians[speed]:,.0f}",
                    *details,
                )
                rows.append((medians[speed], (*row, f"{medians['peak_rss_mb']:,.0f}")))
        cells += [row for _, row in sorted(rows, key=lambda row: -row[0])]
    lines = [
        f"{OURS} / {PLAIN}, each at its best, {_ratios(measured, task, speed, max)}"
    ]
    if task == "translate":
        lines.insert(
            0,
            f"{PLAIN} / {OURS}, milliseconds alone, {_ratios(measured, task, 'p50_ms', min)}",
        )
    return "\n".join([table(cells), "", *lines])


def _details(runs: list[Run], model: str, system: str) -> tuple[str, str]:
    """Return milliseconds per sentence and, for greedy search, the share of sentences as Regard's
    in float32.
    """
    alone = f"{median(run['p50_ms'] for run in runs):,.2f}"
    if SYSTEMS["translate"][system].beam > 1:
        return alone, ""
    ours, outputs = (
        _sentences(_output_file(model, name)) for name in ("regard-float32", system)
    )
    same = (
        sum(a == b for a, b in zip(ours, outputs, strict=False)) / len(outputs)
        if ours and outputs
        else None
    )
    return alone, "" if same is None else f"{same:.1%}"


def _sentences(file: Path) -> list[str]:
    return file.read_text("utf-8").split("\n")[:-1] if file.is_file() else []


def _ratios(measured: dict[str, Any], task: str, field: str, best: Any) -> str:
    """Return, for each model, how many times better Regard is than plain PyTorch with greedy
    search.
    """
    ratios = []
    for model in measured["settings"]["models"]:
        figures: dict[str, float] = {}
        for name, system in SYSTEMS[task].items():
            if runs := successful(measured, f"{task} {model} {name}"):
                figure = median(run[field] for run in runs)
                figures[system.label] = best(figures.get(system.label, figure), figure)
        both = OURS in figures and PLAIN in figures
        ratio = figures[OURS] / figures[PLAIN] if both else 0.0
        ratios.append(
            f"{model} {(ratio if best is max else 1 / ratio):.2f}"
            if both
            else f"{model} -"
        )
    return " ".join(ratios)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Speed of the lineage, in training and in translation."
    )
    parser.add_argument(
        "--data", help="folder with multi30k/ in it (REGARD_DATA, else ../shared/data)"
    )
    parser.add_argument(
        "--tasks", type=names(TASKS), default=list(TASKS), help=",".join(TASKS)
    )
    parser.add_argument(
        "--models", type=names(LINEAGE), default=list(LINEAGE), help=",".join(LINEAGE)
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--seconds",
        type=float,
        default=5,
        help="measured in each run, two updates at least",
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--timeout",
        type=float,
        default=600,
        help="seconds after which a run has failed",
    )
    options = parser.parse_args()
    if min(options.rounds, options.threads) < 1:
        parser.error("--rounds and --threads are 1 or more")
    return options


if __name__ == "__main__":
    sys.exit(ends_tidily(main))
