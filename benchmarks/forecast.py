"""Compare what `regard train --dry-run --processes N` predicts with training by N processes on this
machine.

`python benchmarks/forecast.py --data FOLDER [--preset transformer-tiny] [--processes 1 2 4]
[--sharded]`: FOLDER has multi30k/. Printed for each N: seconds of an update, and memory of a
process, predicted and measured, and their ratios. Measured seconds are the median of those between
lines of the journal, validation left out; memory is the largest resident size of any process until
the end of training, validation and saving included.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LINE = re.compile(
    r"(\d+) processes on this machine: ([\d,]+) MiB each, .*?; ([\d.]+) s an update"
)
ALONE = re.compile(
    r"at most ([\d,]+) MiB in all.*?speed: ([\d.]+) s an update", re.DOTALL
)
VALID = 50  # sentences to validate on
EVERY = 4  # updates between lines of the journal


def main() -> None:
    """Print a table."""
    options = _options()
    print(
        "processes  seconds: predicted measured ratio   MiB: predicted measured ratio",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        options.folder = Path(folder)
        for processes in options.processes:
            predicted = _predict(options, processes)
            measured = _measure(options, processes)
            shown = [
                f"{p:9.2f} {m:8.2f} {p / m:5.2f}"
                for p, m in zip(predicted, measured, strict=True)
            ]
            print(f"{processes:9}           {shown[0]}        {shown[1]}", flush=True)


def _options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--preset", default="transformer-tiny")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--sharded", action="store_true")
    return parser.parse_args()


def _arguments(options: Any) -> list[str]:
    files = options.data / "multi30k"
    names = {
        "source": "train.en",
        "target": "train.de",
        "valid-source": "val.en",
        "valid-target": "val.de",
    }
    chosen = {
        "batching.micro_batches": 4,
        "batching.tokens": options.tokens,
        "training.updates": options.updates,
        "training.log_every": EVERY,
        "training.sharded": str(options.sharded).lower(),
    }
    sets = [f"--set={key}={value}" for key, value in chosen.items()]
    paths = {key: files / name for key, name in names.items()}
    # Few sentences: translating them takes longer than these updates.
    for key in (
        "valid-source",
        "valid-target",
    ):
        short = options.folder / names[key]
        short.write_text(
            "".join(paths[key].read_text("utf-8").splitlines(True)[:VALID]), "utf-8"
        )
        paths[key] = short
    return [
        "train",
        "--preset",
        options.preset,
        *(f"--{key}={path}" for key, path in paths.items()),
        *sets,
    ]


def _predict(options: Any, processes: int) -> tuple[float, float]:
    command = [
        sys.executable,
        "-m",
        "regard",
        *_arguments(options),
        "--dry-run",
        "--processes",
        str(processes),
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if match := LINE.search(text):
        return float(match[3]), float(match[2].replace(",", ""))
    alone = ALONE.search(text)
    assert alone is not None, text
    return float(alone[2]), float(alone[1].replace(",", ""))


def _measure(options: Any, processes: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        out = Path(folder) / "run"
        launcher = (
            []
            if processes == 1
            else [
                "torch.distributed.run",
                "--standalone",
                f"--nproc-per-node={processes}",
                "-m",
            ]
        )
        command = [
            sys.executable,
            "-m",
            *launcher,
            "regard",
            *_arguments(options),
            "--out",
            str(out),
        ]
        program = (
            "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
            "capture_output=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        text = subprocess.run(
            [sys.executable, "-c", program, *command],
            check=True,
            capture_output=True,
            text=True,
        )
        lines = [
            json.loads(line)
            for line in (out / "journal.jsonl").read_text("utf-8").splitlines()
        ]
        train = [line["seconds"] for line in lines if line["event"] == "train"]
        steps = [
            (after - before) / EVERY for before, after in itertools.pairwise(train)
        ]
        return statistics.median(steps), int(text.stdout) / 1024


if __name__ == "__main__":
    main()
