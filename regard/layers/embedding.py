"""Pieces into vectors, and vectors into one score for each piece."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from regard.shapes import Float, Int, Tensor

__all__ = ["Embedding", "OutputProjection"]


class Embedding(nn.Module):
    """A vector for each piece, multiplied by √D (Vaswani et al. 2017, section 3.4) if `scaled`."""

    def __init__(self, vocabulary: int, size: int, scaled: bool) -> None:
        super().__init__()
        self.scale = math.sqrt(size) if scaled else 1.0
        self.weight = nn.Parameter(torch.randn(vocabulary, size) / math.sqrt(size))

    def forward(self, pieces: Int[Tensor, "N T"]) -> Float[Tensor, "N T D"]:
        vectors = F.embedding(pieces, self.weight)
        return vectors * self.scale if self.scale != 1 else vectors


class OutputProjection(nn.Module):
    """Features into logits; `weight` may be the very matrix of an embedding (Press and Wolf 2017)."""

    def __init__(self, vocabulary: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocabulary, size) / math.sqrt(size))
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, features: Float[Tensor, "N T D"]) -> Float[Tensor, "N T V"]:
        return F.linear(features, self.weight, self.bias)
