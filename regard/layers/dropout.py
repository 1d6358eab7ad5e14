"""Dropout, word dropout and LayerDrop with masks of random bytes.

PyTorch's own dropout would take a sixth of a training step on a CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from regard.common.monkey_patches import as_defined
from regard.common.shapes import Tensor

_GENERATOR: ContextVar[torch.Generator | None] = ContextVar(
    "dropout_generator", default=None
)


@contextmanager
def dropout_generator(generator: torch.Generator) -> Iterator[None]:
    """Draw the masks inside the block from `generator`, so that threads need not share one."""
    token = _GENERATOR.set(generator)
    try:
        yield
    finally:
        _GENERATOR.reset(token)


@as_defined
class Dropout(nn.Module):
    """Zero each element with this probability while training, and scale up the others.

    The probability is rounded to a multiple of 1/256. With `per_position` whole vectors are zeroed
    or kept, which is word dropout (Gal and Ghahramani 2016).
    """

    def __init__(self, probability: float, per_position: bool = False) -> None:
        super().__init__()
        assert 0 <= probability < 1, (
            f"dropout needs 0 <= probability < 1, got {probability}"
        )
        self.probability = probability
        self.per_position = per_position

    def forward(self, x: Tensor) -> Tensor:
        threshold = min(round(self.probability * 256), 255)
        if not self.training or threshold == 0:
            return x
        if self.per_position:
            positions = x.shape[:-1]
            draws = random_bytes(positions.numel(), x.device).view(*positions, 1)
            return x * (draws >= threshold) * (256 / (256 - threshold))
        return _Drop.apply(x, threshold)  # type: ignore[no-any-return, no-untyped-call]

    def extra_repr(self) -> str:
        return f"{self.probability}{', per_position=True' if self.per_position else ''}"


def layer_drop(probability: float, training: bool, device: torch.device) -> bool:
    """Return whether to skip a layer in this step (LayerDrop, Fan et al. 2020)."""
    threshold = min(round(probability * 256), 255)
    return training and threshold > 0 and int(random_bytes(1, device)[0]) < threshold


def random_bytes(count: int, device: torch.device) -> Tensor:
    """Draw `count` independent random bytes, eight per draw of the generator."""
    words = torch.empty((count + 7) // 8, dtype=torch.int64, device=device)
    words.random_(-(2**63), None, generator=_GENERATOR.get())
    return words.view(torch.uint8)[:count]


class _Drop(torch.autograd.Function):
    """Elementwise dropout that saves a mask of one byte per element."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        mask = random_bytes(x.numel(), x.device).view(x.shape) >= threshold
        ctx.scale = 256 / (256 - threshold)
        ctx.save_for_backward(mask)
        return (x * mask).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return (gradient * mask).mul_(ctx.scale), None
