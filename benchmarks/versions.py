"""Compare two checkouts of Regard: python benchmarks/versions.py OLD NEW [--rounds 8]

Each makes its own model folders once, from the sample: `transformer-tiny` (60 updates) and `transformer-base` (one).
Then they take turns, a process for each measurement, one thread: translating one line from a new process, loading
`base`, translating 200 lines into twelve tokens each, greedily and with a beam of 5. Printed are medians, and the
median of new by old within a round.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from regard.learn.samples import korean_english

MEASURED = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import torch
torch.set_num_threads(1)
import regard
what, folder, lines = sys.argv[1:]
texts = open(lines, encoding="utf-8").read().splitlines()[:200]
if what == "load":
    regard.load(folder)  # what the first call imports is not measured
    call = lambda: regard.load(folder)
else:
    translator = regard.load(folder)
    search = {"beam": int(what), "min_length": 12, "max_length": 12}  # the model has learnt too little to end by itself
    translator.translate(texts, **search)
    call = lambda: translator.translate(texts, **search)
wall, cpu = time.perf_counter(), time.process_time()
call()
print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall]))
"""
NAMES = {
    "start": "a line, from a new process",
    "load": "loading transformer-base",
    "1": "200 lines, greedy",
    "5": "200 lines, beam 5",
}


def main() -> None:
    """Measure both checkouts and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkouts", type=Path, nargs=2, metavar=("OLD", "NEW"))
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    checkouts = [path.absolute() for path in options.checkouts]
    with tempfile.TemporaryDirectory(prefix="regard-versions-") as name:
        folder = Path(name)
        korean_english().write(folder / "data", "ko", "en")
        folders = [
            _prepare(checkout, folder / str(number), folder / "data") for number, checkout in enumerate(checkouts)
        ]
        seconds: dict[str, list[list[tuple[float, float]]]] = {what: [] for what in NAMES}
        for _ in range(options.rounds):
            for what in NAMES:
                pair = [_measure(what, checkouts[i], folders[i], folder / "data") for i in (0, 1)]
                seconds[what].append(pair)
        _print(seconds)


def _run(checkout: Path, *command: str, stdin: str = "") -> str:
    env = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], env=env, cwd=checkout, input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{checkout}: {' '.join(command)[:100]}\n{done.stderr}")
    return done.stdout


def _prepare(checkout: Path, folder: Path, data: Path) -> Path:
    """Train the models of a checkout."""
    files = [f"--{side}={data}/train.{end}" for side, end in (("source", "ko"), ("target", "en"))]
    files += [f"--valid-{side}={data}/valid.{end}" for side, end in (("source", "ko"), ("target", "en"))]
    for model, updates in (("tiny", 60), ("base", 1)):
        sets = [f"--set=training.updates={updates}", "--set=training.validate_with=4", f"--preset=transformer-{model}"]
        _run(checkout, "-m", "regard", "train", *files, *sets, f"--out={folder / model}", "--threads=1", "--quiet")
    return folder


def _measure(what: str, checkout: Path, folder: Path, data: Path) -> tuple[float, float]:
    """Return seconds of the processor and of the clock."""
    if what == "start":
        before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        _run(checkout, "-m", "regard", "translate", str(folder / "tiny"), "--threads=1", stdin="나는 집에 간다\n")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return used, time.perf_counter() - wall
    model = folder / ("base" if what == "load" else "tiny")
    cpu, wall = json.loads(_run(checkout, "-c", MEASURED, what, str(model), str(data / "test.ko")))
    return cpu, wall


def _print(seconds: dict[str, list[list[tuple[float, float]]]]) -> None:
    print("| | old, processor s | new | new by old | old, clock s | new | new by old |\n|---|---|---|---|---|---|---|")
    for what, rounds in seconds.items():
        cells = []
        for clock in (0, 1):
            old, new = ([pair[i][clock] for pair in rounds] for i in (0, 1))
            ratio = median(b / a for a, b in zip(old, new, strict=True))
            cells += [f"{median(old):.3f}", f"{median(new):.3f}", f"{ratio:.2f}"]
        print(f"| {NAMES[what]} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
