"""Options that every command takes, or that several do, and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.errors import UsageError

__all__ = [
    "Beam",
    "Debug",
    "Device",
    "Diversity",
    "Engine",
    "Forbid",
    "Groups",
    "LengthPenalty",
    "MaxLength",
    "Mbr",
    "MinLength",
    "NBest",
    "NoRepeat",
    "Precision",
    "Prefix",
    "Quiet",
    "Sample",
    "Seed",
    "Temperature",
    "Threads",
    "TopK",
    "TopP",
    "With",
    "device_named",
]

Device = Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda or mps.")]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Processor threads; as many as cores if not given.")]
Engine = Annotated[
    Literal["auto", "native", "ctranslate2"],
    typer.Option(help="What decodes; auto: the fastest here that can do what is asked."),
]
Precision = Annotated[
    Literal["float32", "bfloat16", "int8"],
    typer.Option(help="Of the weights in decoding; int8 is the quickest for text on a processor."),
]
Beam = Annotated[int | None, typer.Option(min=1, help="Hypotheses kept side by side; 1 is greedy search.")]
NBest = Annotated[int, typer.Option(min=1, help="Hypotheses given for each.")]
LengthPenalty = Annotated[float | None, typer.Option(min=0, help="α of the length penalty.")]
Sample = Annotated[bool, typer.Option("--sample", help="Draw each piece by its probability.")]
Temperature = Annotated[float | None, typer.Option(help="Of sampling; below 1: likely pieces get likelier.")]
TopK = Annotated[int | None, typer.Option(min=1, help="Draw from so many likeliest pieces only.")]
TopP = Annotated[float | None, typer.Option(help="Draw from the likeliest pieces with this share.")]
Groups = Annotated[int | None, typer.Option(min=1, help="Groups of beams that avoid each other's pieces.")]
Diversity = Annotated[float | None, typer.Option(min=0, help="How much they do.")]
MinLength = Annotated[int | None, typer.Option(min=0, help="Pieces of what is written at least.")]
MaxLength = Annotated[int | None, typer.Option(min=1, help="Pieces of what is written at most.")]
NoRepeat = Annotated[int | None, typer.Option(min=0, help="No run of so many pieces twice.")]
Mbr = Annotated[bool, typer.Option("--mbr", help="Take the hypothesis most like the others (chrF).")]
Prefix = Annotated[str, typer.Option(help="What each begins with.")]
Forbid = Annotated[list[str] | None, typer.Option(help="A word that must not appear; as often as there are.")]
With = Annotated[
    list[Path] | None,
    typer.Option("--with", help="One more model of the same vocabulary, averaged with the first."),
]
Seed = Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Of everything random.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print results and errors only.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in the program an error came from.")]


def device_named(name: str) -> str:
    """The device to compute on. Raises UsageError where it is not there."""
    import torch

    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if there[device])
    if name not in there:
        raise UsageError(f"--device {name}: wanted auto, cpu, cuda or mps")
    if not there[name]:
        usable = " or ".join(device for device, here in there.items() if here)
        raise UsageError(f"--device {name}: this machine has none that PyTorch can use; use {usable}")
    return name
