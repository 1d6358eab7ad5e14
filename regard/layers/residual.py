"""Residual connection with layer norm (add & norm) around a Transformer sublayer; masked mean; autocast cast."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from regard.layers.dropout import Dropout
from regard.shapes import Float, Tensor

Norm = Literal["pre", "post"]


class Residual(nn.Module):
    """Residual connection, normalised before the sublayer (`pre`) or after the sum (`post`, as published).

    Use: `x = residual.after(x, sublayer(residual.before(x)))`.
    """

    def __init__(self, size: int, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout, self.pre = nn.LayerNorm(size), Dropout(dropout), norm == "pre"

    def before(self, x: Float[Tensor, "N T D"]) -> Float[Tensor, "N T D"]:
        """Return the input of the sublayer: normalised if pre-norm."""
        return to_autocast(self.norm(x) if self.pre else x)

    def after(self, x: Float[Tensor, "N T D"], branch: Float[Tensor, "N T D"]) -> Float[Tensor, "N T D"]:
        """Add the output of the sublayer, and normalise if post-norm."""
        total: Tensor = x + self.dropout(branch)
        return total if self.pre else self.norm(total)


def to_autocast(x: Tensor) -> Tensor:
    """Cast to the autocast dtype once, if several matrix products would each do it."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


def masked_mean(x: Float[Tensor, "B S D"], keep: Tensor | None) -> Float[Tensor, "B 1 D"]:
    """Return the mean over the visible entries."""
    if keep is None:
        return x.mean(1, keepdim=True)
    weights = keep.to(x.dtype) / keep.sum(1, keepdim=True)
    return (x.masked_fill(~keep.unsqueeze(-1), 0) * weights.unsqueeze(-1)).sum(1, keepdim=True)
