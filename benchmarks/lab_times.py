"""Time `regard lab NAME --quick` of every experiment beside its forecast; a quiet machine of two
cores is meant.

    python benchmarks/lab_times.py FOLDER [NAME …] [--full | --keep]

A table goes to FOLDER/times.md; the same command continues after a stop. `--full` times full sweeps
instead. `--keep` writes the seconds of each training into the results that Regard ships, by which
`--quick` forecasts: those of full sweeps may come from a busy machine.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any

import regard.learn.lab
from regard.common.atomic import write_text
from regard.learn.lab import EXPERIMENTS, run_experiment

RESULTS = Path(regard.learn.lab.__file__).parent / "results"
FORECAST = re.compile(r"training: about ([\d.]+) min")


def timed(name: str, folder: Path, *, full: bool) -> dict[str, Any]:
    """Run an experiment, or read what was measured before; return its minutes, and seconds by
    arm.
    """
    name += "-full" if full else ""
    path = folder / f"{name}.json"
    if path.is_file():
        return dict(json.loads(path.read_text(encoding="utf-8")))
    lines = list[str]()
    began = time.monotonic()
    run_experiment(
        name.removesuffix("-full"),
        folder / name,
        full=full,
        workers=2,
        say=lines.append,
    )
    minutes = (time.monotonic() - began) / 60
    result = json.loads((folder / name / "result.json").read_text(encoding="utf-8"))
    forecast = [float(match[1]) for line in lines if (match := FORECAST.match(line))]
    measured: dict[str, Any] = {
        "name": name,
        "forecast": forecast[0] if forecast else None,
        "minutes": minutes,
    }
    runs = result.get("sweep", {}).get("runs", [])
    own = {p.name for p in (folder / name / "runs").glob("*")}
    measured["seconds"] = {
        r["arm"]: r["seconds"]
        for r in runs
        if f"{r['arm']}-{r['rate']:.3g}-seed{r['seed']}" in own
    }
    write_text(path, json.dumps(measured, indent=1) + "\n")
    return measured


def keep(measured: dict[str, Any]) -> None:
    """Write the seconds of each arm's training into all of its shipped runs."""
    path = RESULTS / f"{measured['name']}.json"
    if not path.is_file():
        return
    text = path.read_text(encoding="utf-8")
    for arm, seconds in measured["seconds"].items():
        own = re.compile(rf'(\{{"arm": "{re.escape(arm)}",[^\n]*?"seconds": )[\d.e+-]+')
        text = own.sub(rf"\g<1>{seconds:.4g}", text)
    json.loads(text)
    write_text(path, text)


def main() -> None:
    """Time what is asked for, and write the table after each experiment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--full", action="store_true")
    only.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows = ["| experiment | forecast, minutes | took |", "|---|---|---|"]
    for name in arguments.names or EXPERIMENTS:
        measured = timed(name, arguments.folder, full=arguments.full)
        forecast = "" if measured["forecast"] is None else f"{measured['forecast']:.1f}"
        rows.append(f"| {name} | {forecast} | {measured['minutes']:.1f} |")
        print(rows[-1], flush=True)
        write_text(arguments.folder / "times.md", "\n".join(rows) + "\n")
        if arguments.keep:
            keep(measured)


if __name__ == "__main__":
    main()
