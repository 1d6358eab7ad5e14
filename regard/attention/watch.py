"""Watching attention from outside: weights are collected while someone listens, and cost nothing when nobody does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import nn

from regard.shapes import Float, Tensor

__all__ = ["AttentionRecorder", "active_recorders", "watch"]

_RECORDERS: ContextVar[tuple[AttentionRecorder, ...]] = ContextVar("listeners", default=())


class AttentionRecorder(Mapping[str, Tensor]):
    """The weights collected so far: layer name → (N, H, T, S), in the order the layers were first read.

    Reads made one after another stand one below another on the T axis; a memory that grew meanwhile (a decoder's
    own past) is filled up with zeros, the weight of entries that were not there yet.
    """

    def __init__(self, names: dict[nn.Module, str], gradients: bool = False) -> None:
        self._names, self._gradients = names, gradients
        self._recorded: dict[str, list[Tensor]] = {}

    def watches(self, module: nn.Module) -> bool:
        """Whether this module is watched; those of other models are not ours to note."""
        return module in self._names

    def record(self, module: nn.Module, weights: Float[Tensor, "N H T S"]) -> None:
        """Note the weights of one read."""
        self._recorded.setdefault(self._names[module], []).append(weights if self._gradients else weights.detach())

    def __getitem__(self, name: str) -> Tensor:
        parts = self._recorded[name]
        longest = max(part.shape[-1] for part in parts)
        return torch.cat([F.pad(part, (0, longest - part.shape[-1])) for part in parts], 2)

    def __iter__(self) -> Iterator[str]:
        return iter(self._recorded)

    def __len__(self) -> int:
        return len(self._recorded)


@contextmanager
def watch(model: nn.Module, gradients: bool = False, role: str | None = None) -> Iterator[AttentionRecorder]:
    """Collect every attention weight of `model` while the block runs: `with watch(model) as readings: …`.

    The weights are computed beside the same kernel, so that the outputs are the same to the bit. `model` may be a part
    of one, such as a single read: only reads in it compute weights. With `gradients` they can be learnt from.
    `role`: of the reads that have it ("encoder", "decoder", "cross") only.
    """
    modules = {module: name for name, module in model.named_modules()}
    if role is not None:
        modules = {module: name for module, name in modules.items() if getattr(module, "role", None) == role}
    watched = AttentionRecorder(modules, gradients)
    token = _RECORDERS.set((*_RECORDERS.get(), watched))
    try:
        yield watched
    finally:
        _RECORDERS.reset(token)


def active_recorders(module: nn.Module) -> tuple[AttentionRecorder, ...]:
    """Who is watching this module in this thread, if anybody; one block may stand inside another."""
    return tuple(watched for watched in _RECORDERS.get() if watched.watches(module))
