"""What the benchmarks share: runs in processes of their own, repeated where others disturbed them."""

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
    "table",
    "whole",
    "write",
]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WORK = HERE / ".work"
DISTURBED = 0.15  # cores that others may use before a run counts as disturbed
LINES_SHOWN = 12

Run = dict[str, Any]


def run_adapter(
    module: str, peer: str | None, given: dict[str, Any], log: Path, threads: int, timeout: float, path: Path = ROOT
) -> Run:
    """Run one adapter; its result, or the last lines of what it said before it failed.

    `peer` names the environment; None is that of this process, and then `path` is where regard is imported from.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable if peer is None else str(python_of(peer)), "-m", module]
    command += [f"--{key}={value}" for key, value in given.items() if value is not None]
    with log.open("w") as said:
        ended = _run_alone(command, said, _environ(threads, path if peer is None else None), timeout)
    lines = log.read_text(errors="replace").splitlines()
    results = [line.partition("RESULT ")[2] for line in lines if "RESULT {" in line]
    if not results:
        last = [line for line in lines if line.strip()][-LINES_SHOWN:] or ["it said nothing"]
        return {"error": "\n    ".join([f"{last[-1]} ({ended})", *last, f"all of it: {log}"])}
    result: Run = json.loads(results[-1])
    return {**result, "disturbed": _disturbed(result)}


def quiet(measure: Callable[[], Run], line: Callable[[Run], str]) -> Run:
    """Measure, once more if others used the processor meanwhile; of two such runs the quieter one."""
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
    """Measure all systems in as many rounds as `measured` says was asked for, every other round backwards.

    Each run is said and written as it ends.
    """
    for number in range(measured["settings"]["rounds"]):
        for name in systems if number % 2 == 0 else reversed(systems):
            print(f"round {number + 1}, {name}: ", end="", flush=True)
            run = quiet(lambda name=name: measure(name), line)
            print(line(run), flush=True)
            measured["runs"].append({"system": name, **run})
            write(measured, results)


def whole(measured: dict[str, Any], system: str) -> list[Run]:
    """The runs of a system that did not fail."""
    return [run for run in measured["runs"] if run["system"] == system and "error" not in run]


def matrix_rates(threads: int) -> Run:
    """The rate of its matrix products, measured now, which is the most that any system could reach."""

    def measure() -> Run:
        command = [sys.executable, "machine.py", str(threads)]
        done = subprocess.run(command, cwd=HERE, env=_environ(threads), check=True, stdout=subprocess.PIPE)
        told: Run = json.loads(done.stdout)
        return {**told, "disturbed": _disturbed(told)}

    def line(run: Run) -> str:
        return ", ".join(f"{name} {rate / 1e9:,.0f} GFLOP/s" for name, rate in run["matrix_rate"].items()) + noise(run)

    print(f"matrix products on {threads} threads: ", end="", flush=True)
    told = quiet(measure, line)
    print(line(told), flush=True)
    return {"cores": os.cpu_count(), **told}


def environments(peers: Iterable[str]) -> dict[str, str]:
    """Make what is missing of the peers' environments; the peers that have none in the end, with the reason."""
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
    """The first line of what went wrong."""
    return "failed: " + str(run["error"]).strip().splitlines()[0].strip()


def noise(run: Run) -> str:
    """What is said where others used the processor."""
    return f" (others used {run['other_cores']:.2f} cores)" if run["disturbed"] else ""


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """What was asked for, and when."""
    given = {key: value for key, value in vars(options).items() if key != "data"}
    kept: dict[str, Any] = json.loads(json.dumps(given, default=str))
    return {**kept, "began": datetime.now(timezone.utc).isoformat(timespec="seconds")}


def write(measured: dict[str, Any], results: Path) -> None:
    """Write what was measured so far beside, then rename."""
    results.parent.mkdir(parents=True, exist_ok=True)
    beside = results.with_name(results.name + ".part")
    beside.write_text(json.dumps(measured, indent=1) + "\n")
    beside.replace(results)


def names(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Reads names between commas, in the order of `known`."""
    known = list(known)

    def read(text: str) -> list[str]:
        given = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in given if name not in known]
        if unknown or not given:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}: choose from {', '.join(known)}")
        return [name for name in known if name in given]

    return read


def table(cells: Sequence[Sequence[str]]) -> str:
    """Cells as a table, the heads first."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def ends_tidily(main: Callable[[], int]) -> int:
    """The exit status of `main`, which ends through `finally` when it is stopped, as with Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return main()
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130


def _run_alone(command: list[str], said: Any, environ: dict[str, str], timeout: float) -> str:
    """Run a command in a group of processes of its own, none of which is left however this ends."""
    process = subprocess.Popen(
        command, cwd=HERE, env=environ, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
    )
    try:
        return f"exit status {process.wait(timeout)}"
    except subprocess.TimeoutExpired:
        return f"stopped after {timeout:g} s"
    finally:
        with suppress(ProcessLookupError, PermissionError):  # nobody is left in it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environ(threads: int, path: Path | None = None) -> dict[str, str]:
    """The environment of a run: so many threads, no accelerator, no network, no warnings in the log."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    count = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    others = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1"}
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    return {**kept, **count, **others, **({"PYTHONPATH": str(path)} if path else {})}


def _disturbed(run: Run) -> bool:
    """Whether others used the processor meanwhile; where the system does not tell, it is taken not to be so."""
    return (run.get("other_cores") or 0.0) > DISTURBED
