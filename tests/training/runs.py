"""Runs of the command line in processes of their own, small enough to be repeated many times."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from regard.learn.samples import korean_english
from regard.learn.samples.images import image_sample
from regard.training.journal import read

__all__ = [
    "SIDES",
    "arguments",
    "assert_same_weights",
    "command",
    "corpus",
    "has_checkpoint",
    "run_command",
    "torchrun",
    "train_losses",
    "workers",
]

SIDES: dict[str, dict[str, Any]] = {
    "transformer": {
        "kind": "transformer",
        "layers": 1,
        "size": 16,
        "heads": 2,
        "feedforward": 32,
    },
    "recurrent": {"kind": "recurrent", "size": 16, "embedding": 16},
    "no_attention": {"kind": "no_attention", "size": 16, "embedding": 16},
    "convolutional": {
        "kind": "convolutional",
        "layers": 2,
        "size": 16,
        "embedding": 16,
    },
    "resnet": {"kind": "resnet", "width": 8, "depths": "[1, 1]", "size": 16},
    "vit": {
        "kind": "vit",
        "patch_size": 8,
        "layers": 1,
        "size": 16,
        "heads": 2,
        "feedforward": 32,
    },
    "timm": {"kind": "timm", "name": "resnet10t", "stride": 16, "size": 16},
}
"""Small settings of each registered encoder and decoder kind."""
IMAGE_ENCODERS = {"resnet", "vit", "timm"}


def corpus(folder: Path) -> Path:
    """Write a few hundred Korean and English sentences, and a few images with captions."""
    image_sample(40, 8, 1).write(folder)
    sizes = {"train": 200, "valid": 8, "test": 0, "recombination": 0, "length": 0}
    korean_english(sizes=sizes, short=1.0).write(folder, "ko", "en")
    return folder


def arguments(
    data: Path, out: Path, encoder: str, decoder: str, **training: Any
) -> list[str]:
    """Build the arguments of `regard train`: sentences, or images for an image encoder."""
    overrides = {f"model.encoder.{key}": value for key, value in SIDES[encoder].items()}
    overrides |= {
        f"model.decoder.{key}": value for key, value in SIDES[decoder].items()
    }
    overrides |= {
        "tokenizer.size": 560,
        "batching.tokens": 256,
        "batching.micro_batches": 2,
        "schedule.warmup": 10,
    }
    overrides |= {f"training.{key}": value for key, value in training.items()}
    files = [
        f"--{prefix}{side}={data / f'{split}.{language}'}"
        for prefix, split in (("", "train"), ("valid-", "valid"))
        for side, language in (("source", "ko"), ("target", "en"))
    ]
    if encoder in IMAGE_ENCODERS:
        captions = [
            f"--captions={data / 'train.en.tsv'}",
            f"--valid-captions={data / 'valid.en.tsv'}",
        ]
        files = [f"--images={data / 'images'}", *captions]
        overrides |= {
            "tokenizer.size": 300,
            "data.images.height": 32,
            "data.images.width": 32,
        }
    return [
        "train",
        *files,
        "--out",
        str(out),
        *(f"--set={key}={_toml(value)}" for key, value in overrides.items()),
    ]


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def command(*options: str) -> list[str]:
    """Build the command line, to be run by this Python."""
    return [sys.executable, "-m", "regard", *options]


def torchrun(processes: int, *options: str) -> list[str]:
    """Build the same command line, started by torchrun."""
    launcher = ["--standalone", f"--nproc-per-node={processes}", "-m", "regard"]
    return [sys.executable, "-m", "torch.distributed.run", *launcher, *options]


def workers(torchrun: int) -> list[int]:
    """Return the ids of the processes that torchrun started."""
    process = subprocess.run(
        ["pgrep", "-P", str(torchrun)], capture_output=True, text=True, check=True
    )
    return [int(line) for line in process.stdout.split()]


def run_command(command_line: Sequence[str]) -> str:
    """Run a command line that must succeed; return its stderr."""
    process = subprocess.run(
        command_line, capture_output=True, text=True, timeout=300, check=False
    )

    assert process.returncode == 0, process.stderr[-3000:]

    return process.stderr


def assert_same_weights(run: Path, other: Path) -> None:
    """Compare the best weights, and all tensors of the last checkpoint."""
    last = sorted((other / "checkpoints").iterdir())[-1]
    for path in (other / "model.safetensors", *last.glob("*.safetensors")):
        actual = load_file(run / path.relative_to(other))
        expected = load_file(path)

        assert actual.keys() == expected.keys()

        for name in expected:
            assert torch.equal(actual[name], expected[name]), f"{path.name}: {name}"


def has_checkpoint(run: Path) -> bool:
    """Return whether a checkpoint is complete, which one that is only being written is not."""
    return any((run / "checkpoints").glob("update-????????"))


def train_losses(run: Path) -> list[tuple[float, float]]:
    """Return loss and gradient norm of each train event in the journal."""
    return [
        (line["loss"], line["gradient_norm"])
        for line in read(run / "journal.jsonl")
        if line["event"] == "train"
    ]
