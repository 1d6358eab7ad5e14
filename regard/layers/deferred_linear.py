"""A linear layer used at every step of a loop, at the cost of using it once on all steps together."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

from regard.shapes import Float, Tensor

__all__ = ["DeferredLinear"]


class DeferredLinear:
    """A weight and bias for one loop: cast once, and their gradients formed once, from the inputs of all steps.

    Autograd alone would form a gradient as large as the weight at each step, and add them all up.
    """

    def __init__(self, weight: Float[Tensor, "Dv Dk"], bias: Float[Tensor, " Dv"] | None = None) -> None:
        device = weight.device.type
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        self._low, self._steps = low, list[tuple[int, Tensor, Tensor]]()
        self._weight = weight.detach().to(low)
        self._bias = None if bias is None else bias.detach().to(low)
        learnt = torch.is_grad_enabled() and (weight.requires_grad or (bias is not None and bias.requires_grad))
        self._anchor = _Anchor.apply(weight, bias, self._steps) if learnt else None  # type: ignore[no-untyped-call]

    @classmethod
    def of(cls, layer: nn.Module) -> DeferredLinear:
        """The linear layer `layer`, repeated."""
        assert isinstance(layer, nn.Linear), f"a linear layer is wanted, got {type(layer).__name__}"
        return cls(layer.weight, layer.bias)

    def __call__(self, x: Float[Tensor, "N Dk"]) -> Float[Tensor, "N Dv"]:
        x = x.to(self._low)
        with torch.autocast(x.device.type, enabled=False):
            if self._anchor is None:
                return F.linear(x, self._weight, self._bias)
            return _Step.apply(x, self._anchor, self._weight, self._bias, self._steps)  # type: ignore[no-any-return, no-untyped-call]


class _Anchor(torch.autograd.Function):
    """Stands before all steps, so that its backward comes after all of theirs."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, steps: list[tuple[int, Tensor, Tensor]]) -> Tensor:
        ctx.steps, ctx.dtype, ctx.biased = steps, weight.dtype, bias is not None
        return weight.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> Any:
        now = torch._C._current_graph_task_id()
        mine = [pair for task, *pair in ctx.steps if task == now]
        inputs, gradients = (torch.cat(parts) for parts in zip(*mine, strict=True))
        ctx.steps.clear()
        bias = gradients.sum(0, dtype=ctx.dtype) if ctx.biased else None
        return torch.mm(gradients.t(), inputs).to(ctx.dtype), bias, None


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, _: Tensor, weight: Tensor, bias: Tensor | None, steps: list[tuple[int, Tensor, Tensor]]
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.steps = steps
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        ctx.steps.append((torch._C._current_graph_task_id(), x, gradient))
        return torch.mm(gradient, weight), gradient.new_zeros(()), None, None, None
