"""Token embedding and output projection: token ids to vectors, vectors to logits."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from regard.common.monkey_patches import as_defined
from regard.common.shapes import Float, Int, Tensor


@as_defined
class Embedding(nn.Module):
    """Token embedding, multiplied by √D (Vaswani et al. 2017, section 3.4) if `scale_embedding`."""

    def __init__(self, vocabulary: int, size: int, scale_embedding: bool) -> None:
        super().__init__()
        self.scale = math.sqrt(size) if scale_embedding else 1.0
        self.weight = nn.Parameter(torch.randn(vocabulary, size).div_(math.sqrt(size)))

    def forward(self, tokens: Int[Tensor, "N T"]) -> Float[Tensor, "N T D"]:
        """Return the vector of each token."""
        vectors = F.embedding(tokens, self.weight)
        return vectors * self.scale if self.scale != 1 else vectors


@as_defined
class OutputProjection(nn.Module):
    """Map features to logits; `weight` may be tied to an embedding (Press and Wolf 2017)."""

    def __init__(self, vocabulary: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocabulary, size).div_(math.sqrt(size)))
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, features: Float[Tensor, "N T D"]) -> Float[Tensor, "N T V"]:
        """Return the logits of each position."""
        return F.linear(features, self.weight, self.bias)
