"""Runs of the benchmarks, each in a process of its own, repeated if other processes disturbed
it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from setup import SetupError, make, python_of

__all__ = [
    "HERE",
    "ROOT",
    "WORK",
    "Run",
    "ends_tidily",
    "environments",
    "failure",
    "in_rounds",
    "matrix_rates",
    "names",
    "noise",
    "quiet",
    "run_adapter",
    "settings",
    "successful",
    "table",
    "write",
]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WORK = HERE / ".work"
DISTURBED = 0.15  # cores that others may use before a run counts as disturbed
LINES_SHOWN = 12

Run = dict[str, Any]


def run_adapter(  # noqa: PLR0913 - all that one run depends on
    module: str,
    peer: str | None,
    options: dict[str, Any],
    log: Path,
    threads: int,
    timeout: float,
    path: Path = ROOT,
) -> Run:
    """Run one adapter and return its result or, if it failed, the last lines of its output.

    `peer` names the environment; None is that of this process, which imports regard from `path`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable if peer is None else str(python_of(peer)), "-m", module]
    command += [
        f"--{key}={value}" for key, value in options.items() if value is not None
    ]
    with log.open("w") as output:
        status = _run_alone(
            command, output, _environ(threads, path if peer is None else None), timeout
        )
    lines = log.read_text(errors="replace").splitlines()
    results = [line.partition("RESULT ")[2] for line in lines if "RESULT {" in line]
    if not results:
        last = [line for line in lines if line.strip()][-LINES_SHOWN:] or ["no output"]
        return {
            "error": "\n    ".join(
                [f"{last[-1]} ({status})", *last, f"full output: {log}"]
            )
        }
    result: Run = json.loads(results[-1])
    return {**result, "disturbed": _disturbed(result)}


def quiet(measure: Callable[[], Run], line: Callable[[Run], str]) -> Run:
    """Measure, and once more if other processes used the processor; return the less disturbed
    run.
    """
    run = measure()
    if not run.get("disturbed"):
        return run
    print(f"{line(run)}; again: ", end="", flush=True)
    again = measure()
    if "error" not in again and again["other_cores"] <= run["other_cores"]:
        return again
    print(f"{line(again)}; kept: ", end="", flush=True)
    return run


def in_rounds(
    systems: Sequence[str],
    measured: dict[str, Any],
    results: Path,
    measure: Callable[[str], Run],
    line: Callable[[Run], str],
) -> None:
    """Measure all systems in the number of rounds that the settings in `measured` give, every other
    round in reverse.

    Each run is printed and written as it ends.
    """
    for number in range(measured["settings"]["rounds"]):
        for name in systems if number % 2 == 0 else reversed(systems):
            print(f"round {number + 1}, {name}: ", end="", flush=True)
            run = quiet(lambda name=name: measure(name), line)
            print(line(run), flush=True)
            measured["runs"].append({"system": name, **run})
            write(measured, results)


def successful(measured: dict[str, Any], system: str) -> list[Run]:
    """Return the runs of a system that did not fail."""
    return [
        run
        for run in measured["runs"]
        if run["system"] == system and "error" not in run
    ]


def matrix_rates(threads: int) -> Run:
    """Measure the rate of matrix products on this machine, the upper bound for any system."""

    def measure() -> Run:
        command = [sys.executable, "machine.py", str(threads)]
        process = subprocess.run(
            command, cwd=HERE, env=_environ(threads), check=True, stdout=subprocess.PIPE
        )
        rates: Run = json.loads(process.stdout)
        return {**rates, "disturbed": _disturbed(rates)}

    def line(run: Run) -> str:
        return ", ".join(
            f"{name} {rate / 1e9:,.0f} GFLOP/s"
            for name, rate in run["matrix_rate"].items()
        ) + noise(run)

    print(f"matrix products on {threads} threads: ", end="", flush=True)
    run = quiet(measure, line)
    print(line(run), flush=True)
    return {"cores": os.cpu_count(), **run}


def environments(peers: Iterable[str]) -> dict[str, str]:
    """Make missing environments of peers; return the peers without one in the end, with the
    reason.
    """
    broken = {}
    for peer in sorted(set(peers)):
        try:
            if make(peer):
                print(f"set up {peer}", flush=True)
        except SetupError as error:
            broken[peer] = str(error)
            print(error, flush=True)
    return broken


def failure(run: Run) -> str:
    """Return the first line of a failure."""
    return "failed: " + str(run["error"]).strip().splitlines()[0].strip()


def noise(run: Run) -> str:
    """Return a note on the load of other processes, empty if there was none."""
    return f" (others used {run['other_cores']:.2f} cores)" if run["disturbed"] else ""


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the command line, and the time."""
    values = {key: value for key, value in vars(options).items() if key != "data"}
    serialisable: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return {
        **serialisable,
        "began": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def write(measured: dict[str, Any], results: Path) -> None:
    """Write the measurements so far to a temporary file, then rename it."""
    results.parent.mkdir(parents=True, exist_ok=True)
    temporary = results.with_name(results.name + ".part")
    temporary.write_text(json.dumps(measured, indent=1) + "\n")
    temporary.replace(results)


def names(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a parser of comma-separated names, which orders them as in `known`."""
    known = list(known)

    def read(text: str) -> list[str]:
        chosen = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in chosen if name not in known]
        if unknown or not chosen:
            raise argparse.ArgumentTypeError(
                f"{', '.join(unknown) or 'nothing'}: choose from {', '.join(known)}"
            )
        return [name for name in known if name in chosen]

    return read


def table(cells: Sequence[Sequence[str]]) -> str:
    """Format rows of cells as a Markdown table; the first row is the header."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def ends_tidily(main: Callable[[], int]) -> int:
    """Return the exit status of `main`; SIGTERM and SIGHUP unwind it through `finally` as Ctrl-C
    does.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return main()
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130


def _run_alone(
    command: list[str], output: Any, environ: dict[str, str], timeout: float
) -> str:
    """Run a command in a process group of its own, which is killed however this ends."""
    process = subprocess.Popen(
        command,
        cwd=HERE,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        return f"exit status {process.wait(timeout)}"
    except subprocess.TimeoutExpired:
        return f"stopped after {timeout:g} s"
    finally:
        with suppress(ProcessLookupError, PermissionError):  # the group is empty
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environ(threads: int, path: Path | None = None) -> dict[str, str]:
    """Return the environment variables of a run: its threads, no accelerator, no network, no
    warnings in the log.
    """
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    count = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    others = {
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "PYTHONWARNINGS": "ignore",
        "PYTHONUNBUFFERED": "1",
    }
    inherited = {key: value for key, value in os.environ.items() if key not in dropped}
    return {
        **inherited,
        **count,
        **others,
        **({"PYTHONPATH": str(path)} if path else {}),
    }


def _disturbed(run: Run) -> bool:
    """Return whether other processes used the processor; unknown counts as no."""
    return (run.get("other_cores") or 0.0) > DISTURBED
