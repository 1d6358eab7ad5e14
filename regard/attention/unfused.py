"""Attention as two batched products in low precision: on a CPU, for sentences, quicker than the fused kernel.

The bfloat16 backward of the fused kernel takes six times as long as what is here, its float32 backward half as long
again, and a softmax over a short last axis four times as long as the same in five passes (docs/log.md, 2026-11-20).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from regard.shapes import Bool, Float, Tensor

__all__ = ["attend_unfused"]


def attend_unfused(
    query: Float[Tensor, "R H T E"],
    keys: Float[Tensor, "R H S E"],
    values: Float[Tensor, "R H S Ev"],
    keep: Bool[Tensor, "#R 1 #T S"] | None,
    scale: float,
) -> Float[Tensor, "R H T Ev"]:
    """The values weighed by softmax(scale · query · key); products in the dtype given, the softmax in float32."""
    R, H, T, _ = query.shape
    shape = (R, H, T, keys.shape[2])
    if 0 in shape:
        return query.new_zeros(R, H, T, values.shape[3])
    bias, some = query.new_zeros(1), None
    if keep is not None:
        bias = query.new_zeros(keep.shape).masked_fill_(~keep, torch.finfo(query.dtype).min / 2)
        if not bool(keep.any(-1).all()):  # a row with nothing to read is to give zeros
            some = keep.expand(shape).flatten(0, 1)
    flat = (query.flatten(0, 1), keys.flatten(0, 1), values.flatten(0, 1))
    answer: Tensor = _Products.apply(*flat, bias.expand(shape).flatten(0, 1), some, scale)  # type: ignore[no-untyped-call]
    return answer.view(R, H, T, -1)


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, keep: Tensor | None, scale: float) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            weights = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=scale).float()
            weights.sub_(weights.amax(-1, keepdim=True)).exp_()
            weights.div_(weights.sum(-1, keepdim=True))
            if keep is not None:
                weights.mul_(keep)
            low = weights.to(q.dtype)
            ctx.save_for_backward(q, k, v, low)
            ctx.scale = scale
            return torch.bmm(low, v)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        q, k, v, low = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            weights, by_weight = low.float(), torch.bmm(gradient, v.transpose(1, 2)).float()
            by_weight.sub_((by_weight * weights).sum(-1, keepdim=True))
            by_score = by_weight.mul_(weights).mul_(ctx.scale).to(q.dtype)
            by_value = torch.bmm(low.transpose(1, 2), gradient)
            return torch.bmm(by_score, k), torch.bmm(by_score.transpose(1, 2), q), by_value, None, None, None
