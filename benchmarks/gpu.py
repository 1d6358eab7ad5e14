"""Check and measure on a GPU everything that Regard promises there: `make gpu`, in less than ten
minutes.

It prints each failure, then two lines: how many laws, decodings and trainings hold, and the speed
of training. Without a GPU it says so and ends well. `--device cpu --quick` runs its own code on any
machine.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from regard.common.settings import merge
from regard.data.batch import Example
from regard.data.batch_stream import BatchStream
from regard.data.vocabulary import EOS
from regard.models import build
from regard.training import Recipe, Trainer, preset

from machine import peak_memory
from shapes import SHAPES, VOCABULARY, Shape, useful_flops

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "gpu"))
from gpu_checks import decoding, laws, processes, training

BIG = Shape(
    "transformer",
    layers=6,
    size=1024,
    feedforward=4096,
    heads=16,
    dropout=0.1,
    warmup=3,
)
TOKENS = 16_384  # a side of an update
ENDLESS = 10**9


def main() -> int:
    """Run all checks, then all measurements."""
    parser = argparse.ArgumentParser(
        description="Laws, decoding, training and speed on a GPU."
    )
    parser.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print(
            "make gpu is skipped: PyTorch finds no GPU on this machine; `regard doctor` says what "
            "it finds"
        )
        return 0
    began = time.monotonic()
    failures: list[str] = []
    with TemporaryDirectory() as folder:
        work = Path(folder)
        device = options.device
        quick = options.quick
        counts = [
            _count("laws", laws(device, 180, quick), failures),
            _count("decoding", decoding(device, work / "decoding", quick), failures),
            _count(
                "training and resume",
                training(device, work / "training", quick),
                failures,
            ),
        ]
        counts += (
            []
            if quick
            else [_count("processes", processes(device, work / "processes"), failures)]
        )
        speeds = _speeds(device, quick, work, failures)
    print(f"{time.monotonic() - began:,.0f} seconds on {_name(device)}")
    checked = counts[3] if counts[3:] else "not run"
    print(
        f"gpu laws {counts[0]}, decoding {counts[1]}, training {counts[2]}, processes {checked}"
    )
    print(f"gpu train {'; '.join(speeds)}")
    return 1 if failures else 0


def _count(name: str, lines: Iterable[str], failures: list[str]) -> str:
    """Print the failures among the lines of a check; return how many cases hold."""
    began = time.monotonic()
    total = 0
    failed = 0
    for line in lines:
        total += 1
        if line:
            failed += 1
            failures.append(line)
            print(f"FAILED {line}", flush=True)
    print(
        f"{name}: {total - failed} of {total} hold ({time.monotonic() - began:.0f} s)",
        flush=True,
    )
    return f"{total - failed} of {total}"


def _name(device: str) -> str:
    return (
        torch.cuda.get_device_name() if device.startswith("cuda") else "the processor"
    )


# Speed


def matrix_rate(device: str, size: int, tries: int = 10) -> float:
    """Return the floating-point operations per second of the fastest of several bfloat16 products
    of this size.
    """
    a, b = (
        torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2)
    )
    seconds = []
    for _ in range(tries):
        _synchronise(device)
        began = time.perf_counter()
        torch.mm(a, b)
        _synchronise(device)
        seconds.append(time.perf_counter() - began)
    return 2 * size**3 / min(seconds)


def _speeds(device: str, quick: bool, work: Path, failures: list[str]) -> list[str]:
    """Measure training at each shape, with its share of the matrix rate and its peak memory."""
    rate = matrix_rate(device, 256 if quick else 8192)
    print(f"matrix products in bfloat16: {rate / 1e12:.3g} TFLOP/s", flush=True)
    shapes = (
        {"tiny": SHAPES["tiny"]}
        if quick
        else {"tiny": SHAPES["tiny"], "base": SHAPES["base"], "big": BIG}
    )
    lines = []
    for name, shape in shapes.items():
        try:
            speed = measure(
                shape, device, work / name, 1 if quick else 25, 256 if quick else TOKENS
            )
        except Exception as error:
            # Such as a GPU whose memory is too small: the others are still measured.
            lines.append(
                f"{name} {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            )
            failures.append(lines[-1])
            print(f"FAILED {lines[-1]}", flush=True)
            continue
        share = speed.flops / rate
        lines.append(
            f"{name} {speed.tokens:,.0f} target tokens/s, {share:.1%} of the matrix rate, "
            f"{speed.memory:,} MB"
        )
        print(lines[-1], flush=True)
    return lines


@dataclass(frozen=True)
class Speed:
    """Target tokens and useful floating-point operations a second, and the peak memory in MB."""

    tokens: float
    flops: float
    memory: int


class _Measured(Exception):
    """Enough updates have been measured."""


def measure(
    shape: Shape, device: str, folder: Path, seconds: float, tokens: int
) -> Speed:
    """Train on random sentences of 5 to 40 tokens for so many seconds, after the shape's first
    updates.
    """
    recipe = _recipe(shape, device, tokens)
    examples = _examples(12 * tokens // 22)
    ratio = sum(len(example.source) for example in examples) / sum(
        len(example.target) for example in examples
    )
    torch.manual_seed(1)
    model = build(recipe.model, VOCABULARY, VOCABULARY, True).to(device)
    batches = BatchStream(examples, recipe.batching, 1)
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    clock: list[tuple[float, float]] = []  # time and tokens so far, after each update

    def on_event(event: str, values: dict[str, Any]) -> None:
        if event != "train":
            return
        _synchronise(device)
        clock.append((time.perf_counter(), values["tokens"]))
        if (
            len(clock) > shape.warmup + 1
            and clock[-1][0] - clock[shape.warmup][0] > seconds
        ):
            raise _Measured

    folder.mkdir()
    with suppress(_Measured):
        Trainer(model, batches, recipe, folder, lambda _: {"chrf": 0.0}, on_event).run()
    took, target = (clock[-1][i] - clock[shape.warmup][i] for i in range(2))
    memory = (
        torch.cuda.max_memory_allocated() // 2**20
        if device.startswith("cuda")
        else peak_memory()
    )
    flops = useful_flops(shape, target * ratio, target)
    assert flops is not None, "the shapes are Transformers"
    return Speed(target / took, flops / took, memory)


def _recipe(shape: Shape, device: str, tokens: int) -> Recipe:
    side = {
        "layers": shape.layers,
        "size": shape.size,
        "feedforward": shape.feedforward,
        "heads": shape.heads,
    }
    values = merge(
        preset("transformer-base"),
        {"model": dict.fromkeys(("encoder", "decoder"), side)},
    )
    values = merge(
        values,
        {
            "model": {
                part: {"dropout": shape.dropout} for part in ("encoder", "decoder")
            }
        },
    )
    # Where a processor has none, it is emulated.
    precision = "bfloat16" if device.startswith("cuda") else "auto"
    training = {
        "updates": ENDLESS,
        "validate_every": ENDLESS,
        "log_every": 1,
        "precision": precision,
    }
    data = {"source": "random", "target": "random"}  # names only
    values = merge(
        values,
        {
            "data": data,
            "batching": {"tokens": tokens, "micro_batches": 1},
            "training": training,
        },
    )
    return Recipe.parse(values, "the benchmark").resolved(device)


def _examples(count: int) -> list[Example]:
    rng = random.Random(1)

    def sentence(length: int) -> list[int]:
        return [*(rng.randrange(EOS + 1, VOCABULARY) for _ in range(length)), EOS]

    lengths = [rng.randint(4, 39) for _ in range(count)]
    return [
        Example(sentence(n), sentence(max(1, n + rng.randint(-3, 3)))) for n in lengths
    ]


def _synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main())
