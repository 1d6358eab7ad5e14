"""Unfused attention for CPUs, faster than the fused kernel on inputs as long as a sentence.

It consists of two batched matrix products. On such inputs the backward pass of PyTorch's fused
kernel takes six times as long in bfloat16, and one and a half times as long in float32. The softmax
is written out in five passes, because PyTorch's takes four times as long over a short last axis
(docs/log/speed.md).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from regard.common.shapes import Bool, Float, Tensor


def attend_unfused(
    query: Float[Tensor, "R H T E"],
    keys: Float[Tensor, "R H S E"],
    values: Float[Tensor, "R H S Ev"],
    keep: Bool[Tensor, "#R 1 #T S"] | None,
    scale: float,
) -> Float[Tensor, "R H T Ev"]:
    """Return softmax(scale · query · key) · values.

    The products are computed in the dtype of the inputs, the softmax in float32.
    """
    R, H, T, _ = query.shape
    shape = (R, H, T, keys.shape[2])
    if 0 in shape:
        return query.new_zeros(R, H, T, values.shape[3])
    bias = query.new_zeros(1)
    weights_keep = None
    if keep is not None:
        bias = query.new_zeros(keep.shape).masked_fill_(
            ~keep, torch.finfo(query.dtype).min / 2
        )
        # A query whose entries are all masked must give zeros; the bias alone would give uniform
        # weights.
        if not bool(keep.any(-1).all()):
            weights_keep = keep.expand(shape).flatten(0, 1)

    inputs = (query.flatten(0, 1), keys.flatten(0, 1), values.flatten(0, 1))
    bias = bias.expand(shape).flatten(0, 1)
    context: Tensor = _UnfusedAttention.apply(*inputs, bias, weights_keep, scale)  # type: ignore[no-untyped-call]
    return context.view(R, H, T, -1)


class _UnfusedAttention(torch.autograd.Function):
    """Softmax attention over rows of one head each, (R·H, T, E).

    It saves the weights in the dtype of the inputs for backward.
    """

    @staticmethod
    def forward(  # noqa: PLR0913 - autograd passes all inputs by position
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor,
        keep: Tensor | None,
        scale: float,
    ) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            weights = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=scale).float()
            weights.sub_(weights.amax(-1, keepdim=True)).exp_()
            weights.div_(weights.sum(-1, keepdim=True))
            if keep is not None:
                weights.mul_(keep)
            saved_weights = weights.to(q.dtype)
            ctx.save_for_backward(q, k, v, saved_weights)
            ctx.scale = scale
            return torch.bmm(saved_weights, v)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, saved_weights = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            weights = saved_weights.float()
            grad_weights = torch.bmm(gradient, v.transpose(1, 2)).float()
            centred = grad_weights.sub_((grad_weights * weights).sum(-1, keepdim=True))
            grad_scores = centred.mul_(weights).mul_(ctx.scale).to(q.dtype)
            grad_queries = torch.bmm(grad_scores, k)
            grad_keys = torch.bmm(grad_scores.transpose(1, 2), q)
            grad_values = torch.bmm(saved_weights.transpose(1, 2), gradient)
        return grad_queries, grad_keys, grad_values, None, None, None
