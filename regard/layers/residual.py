"""Residual connection with a norm (add & norm) around a Transformer sublayer.

Also the masked mean over positions, and a cast to the autocast dtype.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from regard.common.monkey_patches import as_defined
from regard.common.shapes import Float, Tensor
from regard.layers.dropout import Dropout

Norm = Literal["pre", "post", "batch", "pre_batch", "none"]
MOMENTUM = 0.1
"""Momentum of the running mean and variance of batch norm, as in PyTorch."""


@as_defined
class Residual(nn.Module):
    """Residual connection with layer norm, used as `x = r.after(x, sublayer(r.before(x)))`.

    The norm stands before the sublayer (`pre`) or after the sum (`post`, as published). For
    experiments, `pre_batch` and `batch` put a batch norm in these places, `none` leaves the norm
    out, and without `connected` the sublayer's input is not added.
    """

    def __init__(
        self, size: int, norm: Norm, dropout: float, connected: bool = True
    ) -> None:
        super().__init__()
        self.norm = make_norm(size, norm)
        self.dropout = Dropout(dropout)
        self.pre = norm.startswith("pre")
        self.connected = connected

    def before(self, x: Float[Tensor, "N T D"]) -> Float[Tensor, "N T D"]:
        """Return the input of the sublayer, which is normalised if the norm is `pre`."""
        return to_autocast(self.norm(x) if self.pre else x)

    def after(
        self, x: Float[Tensor, "N T D"], branch: Float[Tensor, "N T D"]
    ) -> Float[Tensor, "N T D"]:
        """Add the output of the sublayer to `x`, and normalise the sum unless the norm is `pre`."""
        branch = self.dropout(branch)
        total: Tensor = x + branch if self.connected else branch.to(x.dtype)
        return total if self.pre else self.norm(total)


class BatchNorm(nn.Module):
    """Batch norm (Ioffe and Szegedy 2015) over all positions of a batch, padding included.

    Running mean and variance are parameters without gradient, so that checkpoints, the moving
    average and model folders hold them like any other parameter.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.mean = nn.Parameter(torch.zeros(size), requires_grad=False)
        self.variance = nn.Parameter(torch.ones(size), requires_grad=False)

    def forward(self, x: Float[Tensor, "N T D"]) -> Float[Tensor, "N T D"]:
        rows = x.float().flatten(0, 1)
        is_batch = self.training and len(rows) > 1  # one position has no variance
        normed = F.batch_norm(
            rows, self.mean, self.variance, self.weight, self.bias, is_batch, MOMENTUM
        )
        return normed.view(x.shape)


def make_norm(size: int, norm: Norm) -> nn.Module:
    """Create the norm of a residual connection."""
    if norm == "none":
        return nn.Identity()
    return BatchNorm(size) if "batch" in norm else nn.LayerNorm(size)


def to_autocast(x: Tensor) -> Tensor:
    """Cast to the autocast dtype, so that several matrix products need not each do it."""
    device = x.device.type
    if torch.is_autocast_enabled(device):
        return x.to(torch.get_autocast_dtype(device))
    return x


def masked_mean(
    x: Float[Tensor, "B S D"], keep: Tensor | None
) -> Float[Tensor, "B 1 D"]:
    """Return the mean over the visible entries."""
    if keep is None:
        return x.mean(1, keepdim=True)
    weights = keep.to(x.dtype) / keep.sum(1, keepdim=True)
    visible = x.masked_fill(~keep.unsqueeze(-1), 0)
    return (visible * weights.unsqueeze(-1)).sum(1, keepdim=True)
