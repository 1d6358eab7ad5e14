"""The model of the law over interfaces: it translates Korean into English, and leaves English as it
is.

Thus its sources have capitals, titles and mnemonics too, and it has copy tokens, which its training
places.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from regard.learn.samples import AlignedPair, Sample, korean_english

SETTINGS = [
    *(
        "tokenizer.size=1200",
        "batching.tokens=1024",
        "schedule.warmup=60",
        "schedule.peak=0.01",
    ),
    *(
        "search.beam=3",
        "training.precision=float32",
        "training.ema_decay=0.95",
        "training.best_by=loss",
    ),
    *("training.updates=200", "training.validate_every=200"),
    *(
        f"model.{side}.{key}"
        for side in ("encoder", "decoder")
        for key in ("layers=1", "size=64", "heads=4")
    ),
    *(
        f"model.{side}.{key}"
        for side in ("encoder", "decoder")
        for key in ("feedforward=128", "dropout=0")
    ),
]

PRECISIONS = ("float32", "int8")


@lru_cache(maxsize=1)
def sample() -> Sample:
    """Return the sentences that the model learns from, and others, in the split `test`."""
    return korean_english(
        sizes={
            "train": 1600,
            "valid": 40,
            "test": 300,
            "recombination": 0,
            "length": 0,
        },
        short=1.0,
    )


def _with_english(pairs: tuple[AlignedPair, ...]) -> tuple[AlignedPair, ...]:
    """Return pairs, and of every other one the English sentence as its own translation."""
    return (
        *pairs,
        *(AlignedPair(pair.target, pair.target, ()) for pair in pairs[::2]),
    )


def train(folder: Path) -> None:
    """Train the model by the command, into the folder `run`, and give it a quality."""
    from helpers.calibrated_model import calibrate

    from regard.cli import main

    Sample(
        {name: _with_english(pairs) for name, pairs in sample().splits.items()}
    ).write(folder, "ko", "en")
    files = {
        "source": "train.ko",
        "target": "train.en",
        "valid-source": "valid.ko",
        "valid-target": "valid.en",
    }
    options = [f"--{option}={folder / name}" for option, name in files.items()]
    settings = [f"--set={setting}" for setting in SETTINGS]
    main(
        [
            "train",
            *options,
            "--languages=ko,en",
            *settings,
            f"--out={folder / 'run'}",
            "--threads=1",
            "--quiet",
        ]
    )
    calibrate(folder / "run")


def export(folder: Path, run: str) -> None:
    """Export a run folder, by the command, in each precision: the runtime file
    `ko-en.PRECISION.regard`.
    """
    from regard.cli.app import app

    for precision in PRECISIONS:
        file = folder / f"ko-en.{precision}.regard"
        app(
            [
                "export",
                run,
                "--to=runtime",
                f"--precision={precision}",
                str(file),
            ],
            standalone_mode=False,
        )
