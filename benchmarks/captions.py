"""Measure the speed of a captioner, in training and decoding, beside the same model in plain
torch.nn.

`make bench-train` and `make bench-translate` include these tables. README.md defines what is
measured.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median
from typing import Any

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

TASKS = ("train", "caption")
RESULTS = WORK / "captions.json"
# Label, adapter, task, precision, beam.
SYSTEMS: dict[str, tuple[str, str, str, str, int]] = {
    "regard": ("Regard", "regard_captions", "train", "bfloat16", 1),
    "regard-float32": ("Regard", "regard_captions", "train", "float32", 1),
    "plain": ("plain PyTorch", "plain_captions", "train", "bfloat16", 1),
    "plain-float32": ("plain PyTorch", "plain_captions", "train", "float32", 1),
    "captions": ("Regard", "regard_captions", "caption", "int8", 1),
    "captions-bfloat16": ("Regard", "regard_captions", "caption", "bfloat16", 1),
    "captions-float32": ("Regard", "regard_captions", "caption", "float32", 1),
    "captions-beam5": ("Regard, beam 5", "regard_captions", "caption", "int8", 5),
    "plain-captions": ("plain PyTorch", "plain_captions", "caption", "bfloat16", 1),
    "plain-captions-float32": (
        "plain PyTorch",
        "plain_captions",
        "caption",
        "float32",
        1,
    ),
}


def main() -> int:
    """Run the measurements of the command line and print the tables."""
    options = _options()
    chosen = {
        name: system for name, system in SYSTEMS.items() if system[2] in options.tasks
    }
    measured: dict[str, Any] = {"settings": settings(options), "runs": []}
    in_rounds(
        list(chosen), measured, RESULTS, lambda name: _measure(name, options), _line
    )
    for task in options.tasks:
        print(f"\n## {task}\n\n{_table(measured, task)}")
    return 0


def _measure(name: str, options: argparse.Namespace) -> Run:
    _, adapter, task, precision, beam = SYSTEMS[name]
    arguments = {"task": task, "precision": precision, "beam": beam}
    arguments |= {
        key: getattr(options, key) for key in ("seconds", "threads", "images")
    }
    log = WORK / "logs" / f"captions-{name}.txt"
    return run_adapter(
        f"peers.{adapter}", None, arguments, log, options.threads, options.timeout
    )


def _line(run: Run) -> str:
    if "error" in run:
        return failure(run)
    return (
        f"{run['images_s']:,.1f} images/s, {run['tokens_s']:,.0f} tokens/s{noise(run)}"
    )


def _table(measured: dict[str, Any], task: str) -> str:
    """Return the rows of a task, the fastest first, and Regard's speed over that of the fastest
    other system.
    """
    rows = []
    best = {True: 0.0, False: 0.0}
    for name, (label, _, system_task, precision, beam) in SYSTEMS.items():
        runs = successful(measured, name)
        if system_task != task or not runs:
            continue
        images, tokens = (
            median(run[field] for run in runs) for field in ("images_s", "tokens_s")
        )
        if beam == 1:
            ours = label.startswith("Regard")
            best[ours] = max(best[ours], images)
        alone = (
            f"{median(run['p50_ms'] for run in runs):,.1f}" if task == "caption" else ""
        )
        star = " *" if any(run["disturbed"] for run in runs) else ""
        memory = f"{median(run['peak_rss_mb'] for run in runs):,.0f}"
        rows.append(
            (
                images,
                (
                    label + star,
                    precision,
                    f"{images:,.1f}",
                    f"{tokens:,.0f}",
                    alone,
                    memory,
                ),
            )
        )
    header = ("system", "precision", "images/s", "tokens/s", "p50 ms alone", "peak MB")
    cells = [header, *(cells for _, cells in sorted(rows, key=lambda row: -row[0]))]
    ratio = f"{best[True] / best[False]:.2f}" if best[True] and best[False] else "-"
    return f"{table(cells)}\n\nRegard / plain PyTorch, each at its best: {ratio}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure the speed of a captioner, in training and decoding."
    )
    parser.add_argument(
        "--tasks", type=names(TASKS), default=list(TASKS), help=",".join(TASKS)
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=20, help="measured in each run"
    )
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--timeout",
        type=float,
        default=600,
        help="seconds after which a run has failed",
    )
    options = parser.parse_args()
    if min(options.rounds, options.threads, options.images) < 1:
        parser.error("--rounds, --threads and --images are 1 or more")
    return options


if __name__ == "__main__":
    sys.exit(ends_tidily(main))
