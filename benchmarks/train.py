"""Training throughput of Regard and its peers on this machine: `make bench-train`, or with the options below.

Every run is a process of its own. The systems take turns in rounds and the median of the rounds counts, so that a
machine that slows down slows all of them. README.md says what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from prepare import MissingData, prepare, training_files
from report import RESULTS, report
from setup import SetupError, make, python_of
from shapes import SHAPES
from systems import SYSTEMS, System

HERE = Path(__file__).resolve().parent
WORK = HERE / ".work"
DISTURBED = 0.15  # cores that others may use before a run counts as disturbed
LINES_SHOWN = 12

Run = dict[str, Any]


def main() -> int:
    """Measure what the command line asks for and print the tables."""
    options = _options()
    try:
        files = training_files(options.data)
    except MissingData as missing:
        print(missing, file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):  # ends through `finally`, as Ctrl-C does
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    data = prepare(files, WORK / "data")
    broken = _environments({SYSTEMS[name] for name in options.systems})
    measured: dict[str, Any] = {"machine": _machine(options.threads), "settings": _settings(options), "runs": []}
    for place, (number, shape, name) in enumerate(plan := list(_plan(options)), 1):
        system = SYSTEMS[name]
        print(f"{place}/{len(plan)}  round {number + 1}, {shape}, {name}: ", end="", flush=True)
        if system.peer in broken:
            run: Run = {"error": broken[system.peer]}
        else:
            run = _quiet(lambda system=system, shape=shape: _measure(system, shape, data, options))
        print(_line(run), flush=True)
        measured["runs"].append({"system": name, "shape": shape, "round": number, **run})
        _write(measured)
    print("\n" + report(measured))
    return 0


def _plan(options: argparse.Namespace) -> Iterator[tuple[int, str, str]]:
    """Round, shape and system of each run, every other round in the opposite order."""
    for number in range(options.rounds):
        for shape in options.shapes:
            there = [name for name in options.systems if SYSTEMS[name].recurrent or SHAPES[shape].kind != "gru"]
            for name in there if number % 2 == 0 else reversed(there):
                yield number, shape, name


def _environments(systems: set[System]) -> dict[str, str]:
    """Make what is missing of the peers' environments; the peers that have none in the end, with the reason."""
    broken = {}
    for peer in sorted({system.peer for system in systems if not system.ours}):
        try:
            if make(peer):
                print(f"set up {peer}", flush=True)
        except SetupError as error:
            broken[peer] = str(error)
            print(error, flush=True)
    return broken


def _machine(threads: int) -> dict[str, Any]:
    """The rate of its matrix products, measured now, which is the most that any system could reach."""
    print(f"matrix products on {threads} threads: ", end="", flush=True)
    told = _quiet(lambda: _matrix_rate(threads))
    print(_line(told), flush=True)
    return {"cores": os.cpu_count(), **told}


def _matrix_rate(threads: int) -> Run:
    command = [sys.executable, "machine.py", str(threads)]
    done = subprocess.run(command, cwd=HERE, env=_environ(threads), check=True, stdout=subprocess.PIPE)
    told: Run = json.loads(done.stdout)
    return {**told, "disturbed": _disturbed(told)}


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    kept = {key: value for key, value in vars(options).items() if key != "data"}
    return {**kept, "began": datetime.now(timezone.utc).isoformat(timespec="seconds")}


def _quiet(measure: Callable[[], Run]) -> Run:
    """Measure, once more if others used the processor meanwhile; of two such runs the quieter one."""
    run = measure()
    if not run.get("disturbed"):
        return run
    print(f"{_line(run)}; again: ", end="", flush=True)
    again = measure()
    if "error" not in again and again["other_cores"] <= run["other_cores"]:
        return again
    print(f"{_line(again)}; kept: ", end="", flush=True)
    return run


def _measure(system: System, shape: str, data: Path, options: argparse.Namespace) -> Run:
    """Run one adapter; its result, or the last lines of what it said before it failed."""
    name = f"{system.peer}-{system.precision}-{shape}"
    log = WORK / "logs" / f"{name}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable if system.ours else str(python_of(system.peer)), "-m", f"peers.{system.peer}"]
    given = {"shape": shape, "precision": system.precision, "data": data, "work": WORK / "runs" / name}
    given |= {key: getattr(options, key) for key in ("threads", "seconds", "warmup")}
    command += [f"--{key}={value}" for key, value in given.items() if value is not None]
    with log.open("w") as said:
        ended = _run_alone(command, said, _environ(options.threads), options.timeout)
    lines = log.read_text(errors="replace").splitlines()
    results = [line.partition("RESULT ")[2] for line in lines if "RESULT {" in line]
    if not results:
        last = [line for line in lines if line.strip()][-LINES_SHOWN:] or ["it said nothing"]
        return {"error": "\n    ".join([f"{last[-1]} ({ended})", *last, f"all of it: {log}"])}
    result: Run = json.loads(results[-1])
    return {**result, "disturbed": _disturbed(result)}


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


def _environ(threads: int) -> dict[str, str]:
    """The environment of a run: so many threads, no accelerator, no network, no warnings in the log."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    count = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    others = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1"}
    return {**{key: value for key, value in os.environ.items() if key not in dropped}, **count, **others}


def _disturbed(run: Run) -> bool:
    """Whether others used the processor meanwhile; where the system does not tell, it is taken not to be so."""
    return (run["other_cores"] or 0.0) > DISTURBED


def _line(run: Run) -> str:
    """What is said of a run as it ends."""
    if "error" in run:
        return "failed: " + run["error"].strip().splitlines()[0].strip()
    disturbance = f" (others used {run['other_cores']:.2f} cores)" if run["disturbed"] else ""
    if rates := run.get("matrix_rate"):
        return ", ".join(f"{name} {rate / 1e9:,.0f} GFLOP/s" for name, rate in rates.items()) + disturbance
    return f"{run['tgt_tok_s']:,.0f} target tokens/s over {run['updates']} updates{disturbance}"


def _write(measured: dict[str, Any]) -> None:
    beside = RESULTS.with_name(RESULTS.name + ".part")
    beside.write_text(json.dumps(measured, indent=1) + "\n")
    beside.replace(RESULTS)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Training throughput of Regard and its peers on this machine.")
    parser.add_argument("--data", help="folder with multi30k/ in it (REGARD_DATA, else ../shared/data)")
    parser.add_argument("--shapes", type=_names(SHAPES), default=list(SHAPES), help=",".join(SHAPES))
    parser.add_argument("--systems", type=_names(SYSTEMS), default=list(SYSTEMS), help=",".join(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30, help="measured in each run, two updates at least")
    parser.add_argument("--warmup", type=int, help="updates before that; each shape has its own number")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=900, help="seconds after which a run has failed")
    options = parser.parse_args()
    if options.rounds < 1 or options.threads < 1 or options.seconds < 0 or (options.warmup or 0) < 0:
        parser.error("--rounds and --threads are 1 or more, --seconds and --warmup not below 0")
    return options


def _names(known: dict[str, Any]) -> Callable[[str], list[str]]:
    """Reads names between commas, in the order of `known`."""

    def read(text: str) -> list[str]:
        given = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in given if name not in known]
        if unknown or not given:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}: choose from {', '.join(known)}")
        return [name for name in known if name in given]

    return read


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)
