"""Options that every command takes, and what they mean."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from regard.errors import UsageError

__all__ = ["Debug", "Device", "Engine", "Precision", "Quiet", "Seed", "Threads", "device_named"]

Device = Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda or mps.")]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Processor threads; as many as cores if not given.")]
Engine = Annotated[
    Literal["auto", "native", "ctranslate2"],
    typer.Option(help="What decodes; auto: the fastest here that can do what is asked."),
]
Precision = Annotated[
    Literal["float32", "bfloat16", "int8"],
    typer.Option(help="Of the weights in decoding; int8 is the quickest on a processor."),
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
