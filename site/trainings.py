"""Small models that the pages speak of, trained on the sample: each of the recipes of docs/notes.md
with three seeds, and the two recurrent models of the start of attention.

They lie in build/trainings, and one that is complete is not trained again.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import regard
from regard.learn.samples.writing import write_sample

FOLDER = Path(__file__).resolve().parents[1] / "build" / "trainings"
SEEDS = (1, 2, 3)
KOREAN, ENGLISH = "ko", "en"

SCHEDULE = {"schedule.warmup": 100, "schedule.peak": 0.008}
SMALL = {
    "tokenizer.size": 1000,
    "batching.tokens": 1024,
    "training.updates": 1000,
    "training.validate_every": 300,
    **SCHEDULE,
}
"""The file small.toml of docs/notes.md."""
WORDS = {
    "data.max_length": 10,
    "tokenizer.kind": "whitespace",
    "batching.tokens": 1024,
    "training.updates": 1500,
    "training.validate_every": 100,
    **SCHEDULE,
}
"""The file words.toml of docs/notes.md."""
SIDES = ("encoder", "decoder")
TRANSFORMER = {
    f"model.{side}.{name}": size
    for side in SIDES
    for name, size in {"layers": 2, "size": 64, "feedforward": 128}.items()
}
RECURRENT = {
    "model.encoder.size": 64,
    "model.encoder.embedding": 64,
    "model.decoder.size": 128,
    "model.decoder.embedding": 64,
}
LONGER = {
    "data.max_length": 16,
    "training.validate_every": 500,
}
"""Settings of the two models beside each other, which translate longer sentences."""
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "first": ("transformer-tiny", {**SMALL, **TRANSFORMER}),
    "english": ("transformer-tiny", {**SMALL, **TRANSFORMER}),
    "luong": ("rnn-luong", {**WORDS, **RECURRENT}),
    "bahdanau": ("rnn-bahdanau", {**WORDS, **RECURRENT}),
    "with-attention": ("rnn-bahdanau", {**WORDS, **RECURRENT, **LONGER}),
    "without-attention": ("rnn", {**WORDS, **RECURRENT, **LONGER}),
}
"""Preset and settings of each model; all but `english` translate from Korean."""


def sample() -> Path:
    """Return the folder of the sample, which is written if it is not there."""
    folder = FOLDER / "sample"
    if not (folder / "SAMPLE.md").is_file():
        write_sample(folder)
    return folder


def trained(name: str, seed: int) -> Path:
    """Return the model folder of a recipe and a seed, which is trained if it is not there."""
    folder = FOLDER / f"{name}-{seed}"
    journal = folder / "journal.jsonl"
    if journal.is_file() and '"all updates done"' in journal.read_text(
        encoding="utf-8"
    ):
        return folder
    shutil.rmtree(folder, ignore_errors=True)  # a training that was stopped
    preset, settings = RECIPES[name]
    source, target = (ENGLISH, KOREAN) if name == "english" else (KOREAN, ENGLISH)
    data = sample()
    regard.train(
        out=folder,
        source=data / f"train.{source}",
        target=data / f"train.{target}",
        valid_source=data / f"valid.{source}",
        valid_target=data / f"valid.{target}",
        preset=preset,
        settings=settings,
        seed=seed,
        device="cpu",
        threads=1,
    )
    return folder
