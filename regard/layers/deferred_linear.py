"""Linear layer for a recurrent loop; its weight gradient is computed once for all steps."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

from regard.common.shapes import Float, Tensor


class DeferredLinear:
    """Weight and bias for one loop: both are cast to the autocast dtype once.

    Their gradients are computed once, after all steps. Autograd alone would form a gradient as
    large as the weight at each step, and add them up.
    """

    def __init__(
        self, weight: Float[Tensor, "Dv Dk"], bias: Float[Tensor, " Dv"] | None = None
    ) -> None:
        device = weight.device.type
        dtype = weight.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        self._dtype = dtype
        self._steps = list[tuple[int, Tensor, Tensor]]()
        self._weight = weight.detach().to(dtype)
        self._bias = None if bias is None else bias.detach().to(dtype)
        needs_grad = torch.is_grad_enabled() and (
            weight.requires_grad or (bias is not None and bias.requires_grad)
        )
        self._anchor = _Anchor.apply(weight, bias, self._steps) if needs_grad else None  # type: ignore[no-untyped-call]

    @classmethod
    def from_layer(cls, layer: nn.Module) -> DeferredLinear:
        """Wrap an `nn.Linear` for one loop."""
        assert isinstance(layer, nn.Linear), (
            f"expected an nn.Linear, got {type(layer).__name__}"
        )
        return cls(layer.weight, layer.bias)

    def __call__(self, x: Float[Tensor, "N Dk"]) -> Float[Tensor, "N Dv"]:
        x = x.to(self._dtype)
        with torch.autocast(x.device.type, enabled=False):
            if self._anchor is None:
                return F.linear(x, self._weight, self._bias)
            return _Step.apply(x, self._anchor, self._weight, self._bias, self._steps)  # type: ignore[no-any-return, no-untyped-call]


class _Anchor(torch.autograd.Function):
    """Input of every step, so that its backward runs after the backward of all steps.

    It then computes the weight gradient from the inputs and output gradients of all steps.
    """

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        bias: Tensor | None,
        steps: list[tuple[int, Tensor, Tensor]],
    ) -> Tensor:
        ctx.steps = steps
        ctx.dtype = weight.dtype
        ctx.biased = bias is not None
        return weight.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:
        # Steps of another backward pass, which may have failed halfway, are left out.
        this_task = torch._C._current_graph_task_id()
        steps = [(x, gradient) for task, x, gradient in ctx.steps if task == this_task]
        ctx.steps.clear()
        inputs = torch.cat([x for x, _ in steps])
        gradients = torch.cat([gradient for _, gradient in steps])
        grad_weight = torch.mm(gradients.t(), inputs).to(ctx.dtype)
        grad_bias = gradients.sum(0, dtype=ctx.dtype) if ctx.biased else None
        return grad_weight, grad_bias, None


class _Step(torch.autograd.Function):
    """One step: backward computes the input gradient, and notes the other tensors for `_Anchor`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        _: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        steps: list[tuple[int, Tensor, Tensor]],
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.steps = steps
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        ctx.steps.append((torch._C._current_graph_task_id(), x, gradient))
        return torch.mm(gradient, weight), gradient.new_zeros(()), None, None, None
