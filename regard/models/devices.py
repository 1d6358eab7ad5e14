"""The device that a model computes on: the best one of this machine, or one chosen by name."""

from __future__ import annotations

import torch

from regard.common.errors import UsageError


def device_of(model: torch.nn.Module) -> torch.device:
    """Return the device of a module's weights."""
    return next(model.parameters()).device


def check_device(name: str) -> str:
    """Return the device of a name such as cuda:1, or the best one for `auto`.

    Raises UsageError if the device is absent.
    """
    kind, colon, number = name.partition(":")
    device = select_device(kind)
    if not colon:
        return device
    counts = {"cuda": torch.cuda.device_count(), "mps": 1}
    if not (number.isdecimal() and int(number) < counts.get(device, 0)):
        raise UsageError(f"`device={name}`: there is no device of this number")
    return f"{device}:{number}"


def select_device(name: str) -> str:
    """Return the device to compute on: cpu, cuda or mps; `auto` selects the best one here.

    Raises UsageError if the device is absent.
    """
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return next(device for device, usable in available.items() if usable)
    if name not in available:
        raise UsageError(f"`device={name}`: wanted auto, cpu, cuda or mps")
    if not available[name]:
        names = " or ".join(
            device for device, usable in reversed(available.items()) if usable
        )
        raise UsageError(
            f"`device={name}`: this machine has none that PyTorch can use; use {names}"
        )
    return name
