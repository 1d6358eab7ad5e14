"""A comparison of two models that are trained, with two seeds each, made once for all tests."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

SMALL = {
    "model.encoder.size": 16,
    "model.decoder.size": 16,
    "model.encoder.embedding": 16,
    "model.decoder.embedding": 16,
    "tokenizer.kind": "whitespace",
    "batching.tokens": 256,
    "training.validate_with": 8,
    "schedule.peak": 0.02,
}
PRESETS = ["rnn", "rnn-luong"]
UPDATES = 12


def files(data: Path) -> dict[str, Path]:
    """Return the files to train, validate and test on, and gold links of the test pairs."""
    return {
        "source": data / "train.xx",
        "target": data / "train.yy",
        "valid_source": data / "valid.xx",
        "valid_target": data / "valid.yy",
        "test_source": data / "test.xx",
        "test_target": data / "test.yy",
        "test_alignments": data / "test.align",
    }


def arguments(folder: Path, out: Path) -> list[str]:
    """Return the command line of the comparison."""
    presets = ",".join(PRESETS)
    command: list[Any] = ["compare", "--presets", presets, "--updates", UPDATES]
    command += ["--seeds", 2, "--threads", 1, "--out", out]
    for name, file in files(folder / "data").items():
        command += [f"--{name.replace('_', '-')}", file]
    for key, value in SMALL.items():
        command += ["--set", f"{key}={value}"]

    return [str(argument) for argument in command]


def make(folder: Path) -> None:
    """Write the data, sentences whose translation is in capitals, and compare."""
    from regard.cli import main

    rng = random.Random(1)
    data = folder / "data"
    data.mkdir()

    for name, count in (("train", 100), ("valid", 8), ("test", 16)):
        lines = [rng.choices("abcdefgh", k=rng.randint(1, 9)) for _ in range(count)]
        source = "".join(" ".join(line) + "\n" for line in lines)
        (data / f"{name}.xx").write_text(source)
        (data / f"{name}.yy").write_text(source.upper())

        links = ""
        for line in lines:
            links += " ".join(f"{place}-{place}" for place in range(len(line))) + "\n"
        (data / f"{name}.align").write_text(links)

    main(arguments(folder, folder / "out"))
