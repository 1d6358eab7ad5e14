"""Record attention weights from outside a model; nothing is computed unless a recorder is active."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import nn

from regard.common.shapes import Float, Tensor

_RECORDERS: ContextVar[tuple[AttentionRecorder, ...]] = ContextVar("recorders", default=())


class AttentionRecorder(Mapping[str, Tensor]):
    """Recorded attention weights, or scores: layer name → (N, H, T, S), in the order in which the layers first ran.

    Successive steps are concatenated on the T axis; if the memory grew meanwhile (a decoder's KV cache), earlier
    steps are padded with the weight of entries that did not exist yet, 0, or with their score, −∞.
    """

    def __init__(self, names: dict[nn.Module, str], gradients: bool = False, scores: bool = False) -> None:
        self._names, self._gradients, self._scores = names, gradients, scores
        self._recorded: dict[str, list[Tensor]] = {}

    def watches(self, module: nn.Module) -> bool:
        """True if the module belongs to the watched model, and has the wanted role."""
        return module in self._names

    def record(self, module: nn.Module, weights: Float[Tensor, "N H T S"], scores: Float[Tensor, "N H T S"]) -> None:
        """Record the weights of one forward pass of `module`, or their scores."""
        part = scores if self._scores else weights
        self._recorded.setdefault(self._names[module], []).append(part if self._gradients else part.detach())

    def __getitem__(self, name: str) -> Tensor:
        parts = self._recorded[name]
        longest = max(part.shape[-1] for part in parts)
        missing = -torch.inf if self._scores else 0.0
        return torch.cat([F.pad(part, (0, longest - part.shape[-1]), value=missing) for part in parts], 2)

    def __iter__(self) -> Iterator[str]:
        return iter(self._recorded)

    def __len__(self) -> int:
        return len(self._recorded)


@contextmanager
def watch(
    model: nn.Module, gradients: bool = False, role: str | None = None, scores: bool = False
) -> Iterator[AttentionRecorder]:
    """Record all attention weights of `model` while the block runs: `with watch(model) as readings: …`.

    The weights are computed beside the same kernel, so the outputs are unchanged to the bit. `model` may be part of a
    model, such as a single `Attention`. With `gradients` the weights stay in the autograd graph. `role` restricts the
    recording to the attentions of that role ("encoder", "decoder" or "cross"). `scores`: record what softmax makes the
    weights of instead; −∞: what a query does not see.
    """
    modules = {module: name for name, module in model.named_modules()}
    if role is not None:
        modules = {module: name for module, name in modules.items() if getattr(module, "role", None) == role}
    recorder = AttentionRecorder(modules, gradients, scores)
    token = _RECORDERS.set((*_RECORDERS.get(), recorder))
    try:
        yield recorder
    finally:
        _RECORDERS.reset(token)


def are_watched(model: nn.Module) -> bool:
    """Return whether a recorder of this thread or task watches any module of a model."""
    recorders = _RECORDERS.get()
    return bool(recorders) and any(recorder.watches(module) for recorder in recorders for module in model.modules())


def active_recorders(module: nn.Module) -> tuple[AttentionRecorder, ...]:
    """Return the recorders that watch this module in this thread or task; `watch` blocks may be nested."""
    return tuple(recorder for recorder in _RECORDERS.get() if recorder.watches(module))
