"""Measure the training throughput of Regard and its peers on this machine: `make bench-train`, or
the options below.

Every run is a process of its own. The systems take turns in rounds and the median of the rounds
counts, so that a machine that slows down slows all of them. README.md defines what is measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prepare import MissingData, prepare, training_files
from report import RESULTS, report
from runs import (
    WORK,
    Run,
    ends_tidily,
    environments,
    failure,
    matrix_rates,
    names,
    noise,
    quiet,
    run_adapter,
    settings,
    write,
)
from shapes import SHAPES
from systems import SYSTEMS, System


def main() -> int:
    """Run the measurements of the command line and print the tables."""
    options = _options()
    try:
        files = training_files(options.data)
    except MissingData as missing:
        print(missing, file=sys.stderr)
        return 2
    data = prepare(files, WORK / "data")
    broken = environments(
        SYSTEMS[name].peer for name in options.systems if not SYSTEMS[name].ours
    )
    measured: dict[str, Any] = {
        "machine": matrix_rates(options.threads),
        "settings": settings(options),
        "runs": [],
    }
    for index, (number, shape, name) in enumerate(plan := list(_plan(options)), 1):
        system = SYSTEMS[name]
        print(
            f"{index}/{len(plan)}  round {number + 1}, {shape}, {name}: ",
            end="",
            flush=True,
        )
        if system.peer in broken:
            run: Run = {"error": broken[system.peer]}
        else:
            run = quiet(
                lambda system=system, shape=shape: _measure(
                    system, shape, data, options
                ),
                _line,
            )
        print(_line(run), flush=True)
        measured["runs"].append(
            {"system": name, "shape": shape, "round": number, **run}
        )
        write(measured, RESULTS)
    print("\n" + report(measured))
    return 0


def _plan(options: argparse.Namespace) -> Iterator[tuple[int, str, str]]:
    """Yield round, shape and system of each run, every other round in reverse order."""
    for number in range(options.rounds):
        for shape in options.shapes:
            systems = [
                name
                for name in options.systems
                if SYSTEMS[name].recurrent or SHAPES[shape].kind != "gru"
            ]
            for name in systems if number % 2 == 0 else reversed(systems):
                yield number, shape, name


def _measure(
    system: System, shape: str, data: Path, options: argparse.Namespace
) -> Run:
    """Run one system once."""
    name = f"{system.peer}-{system.precision}-{shape}"
    arguments = {
        "shape": shape,
        "precision": system.precision,
        "data": data,
        "work": WORK / "runs" / name,
    }
    arguments |= {
        key: getattr(options, key) for key in ("threads", "seconds", "warmup")
    }
    log = WORK / "logs" / f"{name}.txt"
    peer = None if system.ours else system.peer
    return run_adapter(
        f"peers.{system.peer}", peer, arguments, log, options.threads, options.timeout
    )


def _line(run: Run) -> str:
    """Format the result of a run in one line."""
    if "error" in run:
        return failure(run)
    return f"{run['tgt_tok_s']:,.0f} target tokens/s over {run['updates']} updates{noise(run)}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Training throughput of Regard and its peers on this machine."
    )
    parser.add_argument(
        "--data", help="folder with multi30k/ in it (REGARD_DATA, else ../shared/data)"
    )
    parser.add_argument(
        "--shapes", type=names(SHAPES), default=list(SHAPES), help=",".join(SHAPES)
    )
    parser.add_argument(
        "--systems", type=names(SYSTEMS), default=list(SYSTEMS), help=",".join(SYSTEMS)
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--seconds",
        type=float,
        default=30,
        help="measured in each run, two updates at least",
    )
    parser.add_argument(
        "--warmup", type=int, help="updates before that; each shape has its own number"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--timeout",
        type=float,
        default=900,
        help="seconds after which a run has failed",
    )
    options = parser.parse_args()
    if (
        options.rounds < 1
        or options.threads < 1
        or options.seconds < 0
        or (options.warmup or 0) < 0
    ):
        parser.error(
            "--rounds and --threads are 1 or more, --seconds and --warmup not below 0"
        )
    return options


if __name__ == "__main__":
    sys.exit(ends_tidily(main))
