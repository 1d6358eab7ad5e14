"""Train small models with different settings for equal processor time, to measure which suit which
data.

    python benchmarks/settings_grid.py DATA OUT --arms ARMS.toml [--corpora NAME ...] [--seconds
    720] [--seeds 1]
    python benchmarks/settings_grid.py DATA OUT --corpora --write
    regard/training/reference_scores.toml

DATA is the folder with the corpora (multi30k, koen, ted_enfr, localisation), OUT that of results,
--arms a TOML file with a table of settings for each arm. A run uses one thread; two run side by
side, and each is judged by the processor seconds of its training, without validation. A result is a
JSON file in OUT, one for each corpus, arm and seed; those that exist are not run again, so that a
stopped grid is continued by the same command. The table at the end shows chrF on validation pairs,
interpolated at each mark of processor seconds. --write stores what the arm "auto", which sets
nothing, reached: `regard train` tells it to those who train on about as many pairs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

MARKS = (120, 240, 480, 720, 1200, 2400)
"""Processor seconds at which the table shows chrF."""
CORPORA: dict[str, tuple[str, str, int]] = {
    "hsb": ("localisation/firefox.en-hsb", "tsv", 10**9),
    "ko": ("localisation/firefox.en-ko", "tsv", 10**9),
    "lohelp": ("localisation/lohelp.en-ko", "tsv", 10**9),
    "koen10k": ("koen", "ko-en", 10_000),
    "koen46k": ("koen", "ko-en", 10**9),
    "multi1k": ("multi30k", "en-de", 1_000),
    "multi3k": ("multi30k", "en-de", 3_000),
    "multi29k": ("multi30k", "en-de", 10**9),
    "multi29k-cs": ("multi30k", "en-cs", 10**9),
    "ted": ("ted_enfr", "en-fr", 10**9),
}
"""The folder of each corpus, its form, and how many of its first pairs are used."""
DESCRIPTIONS = {
    "hsb": "strings of a program, English to Upper Sorbian",
    "ko": "strings of a program, English to Korean",
    "lohelp": "paragraphs of a program's help, English to Korean",
    "koen10k": "sentences of mixed kinds, Korean to English",
    "koen46k": "sentences of mixed kinds, Korean to English",
    "multi1k": "captions of pictures, English to German",
    "multi3k": "captions of pictures, English to German",
    "multi29k": "captions of pictures, English to German",
    "ted": "sentences of talks, English to French",
}
"""The corpora that --write stores, as `regard train` calls them."""


def corpus_pairs(data: Path, name: str, split: str) -> Iterator[str]:
    """Yield lines of source, tab, target; no pair of which a side is empty or holds a tab."""
    folder, form, count = CORPORA[name]
    if form == "tsv":
        with gzip.open(
            data / f"{folder}.{split}.tsv.gz", "rt", encoding="utf-8"
        ) as lines:
            yield from islice(
                (line.rstrip("\n") for line in lines),
                count if split == "train" else None,
            )
        return
    split = "val" if split == "valid" else split
    texts = [
        (data / folder / f"{split}.{code}").read_text(encoding="utf-8").split("\n")
        for code in form.split("-")
    ]
    pairs = [
        f"{a}\t{b}"
        for a, b in zip(*texts, strict=True)
        if a and b and "\t" not in a + b
    ]
    yield from pairs[: count if split == "train" else None]


def train_arm(
    data: Path, name: str, settings: dict[str, Any], seconds: float, out: Path
) -> None:
    """Train one model in this process until its training has used so many processor seconds."""
    from regard import run

    points: list[dict[str, float]] = []
    state = {"validation": 0.0, "before": 0.0}

    def report(event: str, values: dict[str, Any]) -> None:
        now = time.process_time()
        if event == "train":
            state["before"] = now
        if event == "valid":
            used = state["before"] - state["validation"]
            state["validation"] += now - state["before"]
            kept = {
                key: values[key]
                for key in ("update", "tokens", "loss", "chrf", "bleu")
                if key in values
            }
            points.append({"cpu": used, **kept})
            if used >= seconds:
                os.kill(os.getpid(), signal.SIGINT)

    with TemporaryDirectory() as folder:
        files = {}
        for role, split in (("pairs", "train"), ("valid_pairs", "valid")):
            files[role] = Path(folder) / f"{split}.tsv"
            files[role].write_text(
                "\n".join(corpus_pairs(data, name, split)) + "\n", encoding="utf-8"
            )
        every = max(
            5,
            round(
                settings.pop("validate_tokens", 100_000)
                / settings.get("batching.tokens", 4096)
                / 5
            )
            * 5,
        )
        values = {
            "training.validate_every": every,
            "training.log_every": 5,
            "training.patience": 10**6,
        } | settings
        run.train(
            out=Path(folder) / "run", settings=values, threads=1, report=report, **files
        )
    if not points or points[-1]["cpu"] < seconds:
        raise SystemExit("stopped before its time: run it again")
    out.write_text(
        json.dumps({"settings": settings, "points": points}, indent=1), encoding="utf-8"
    )


def chrf_at(points: list[dict[str, float]], seconds: float) -> float | None:
    """Interpolate chrF at this many processor seconds; None if the run ended before."""
    for before, after in zip(
        [{"cpu": 0.0, "chrf": 0.0}, *points], points, strict=False
    ):
        if before["cpu"] <= seconds <= after["cpu"]:
            share = (seconds - before["cpu"]) / max(1e-9, after["cpu"] - before["cpu"])
            return before["chrf"] + share * (after["chrf"] - before["chrf"])
    return None


def table(out: Path) -> Iterator[str]:
    """Yield the lines of a table of all results in a folder."""
    yield f"| corpus | arm | {' | '.join(f'{mark} s' for mark in MARKS)} | updates, target tokens |"
    yield "|---" * (len(MARKS) + 3) + "|"
    for path in sorted(out.glob("*.json")):
        points = json.loads(path.read_text(encoding="utf-8"))["points"]
        name, arm = path.stem.split("+", 1)
        values = [chrf_at(points, mark) for mark in MARKS]
        cells = " | ".join("" if value is None else f"{value:.1f}" for value in values)
        yield (
            f"| {name} | {arm} | {cells} | {points[-1]['update']:,}, "
            f"{points[-1]['tokens'] / 1e6:.2f} M |"
        )


def reached(data: Path, out: Path) -> dict[str, Any]:
    """Return pairs, characters and the mean chrF at each mark of the corpora that the arm "auto"
    was trained on.
    """
    corpora = []
    for name, description in DESCRIPTIONS.items():
        runs = [
            json.loads(path.read_text(encoding="utf-8"))["points"]
            for path in out.glob(f"{name}+auto.*.json")
        ]
        values = {mark: [chrf_at(points, mark) for points in runs] for mark in MARKS}
        means = {
            str(mark): round(sum(v) / len(v), 1)
            for mark, v in values.items()
            if v and None not in v
        }
        if means:
            lines = list(corpus_pairs(data, name, "train"))
            characters = sum(map(len, lines)) - len(lines)
            corpora.append(
                {
                    "text": description,
                    "pairs": len(lines),
                    "characters": characters,
                    "chrf": means,
                }
            )
    return {"corpora": corpora}


def main() -> None:
    """Run what is missing of the grid, two runs at a time, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--corpora", nargs="*", default=list(CORPORA), choices=list(CORPORA)
    )
    parser.add_argument(
        "--arms", type=Path, help="a TOML file with a table of settings for each arm"
    )
    parser.add_argument("--seconds", type=float, default=720)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--write", type=Path, help="the TOML file that what was reached is written to"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.child:
        request = json.loads(options.child)
        train_arm(
            options.data,
            request["corpus"],
            request["settings"],
            options.seconds,
            Path(request["out"]),
        )
        return
    from regard.common.settings import read_toml

    jobs = []
    for seed in options.seeds:
        for name in options.corpora:
            for arm, settings in (
                read_toml(options.arms) if options.arms else {}
            ).items():
                out = options.out / f"{name}+{arm}.{seed}.json"
                request = {
                    "corpus": name,
                    "settings": {**settings, "training.seed": seed},
                    "out": str(out),
                }
                if not out.exists():
                    jobs.append(request)

    def start(request: dict[str, Any]) -> None:
        command = [
            sys.executable,
            __file__,
            str(options.data),
            str(options.out),
            "--seconds",
            str(options.seconds),
        ]
        done = subprocess.run(
            [*command, "--child", json.dumps(request)],
            capture_output=True,
            text=True,
            check=False,
        )
        print(
            request["out"],
            "done" if done.returncode == 0 else done.stderr[-500:],
            flush=True,
        )

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(start, jobs))
    if options.write:
        import tomli_w

        note = (
            "# Written by benchmarks/settings_grid.py: "
            "chrF by processor seconds of one thread.\n"
        )
        options.write.write_text(
            note + tomli_w.dumps(reached(options.data, options.out)), encoding="utf-8"
        )
    print("\n".join(table(options.out)))


if __name__ == "__main__":
    main()
