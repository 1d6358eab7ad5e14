"""Coverage (Tu et al. 2016): additive attention that sees what it has attended to already.

    regard train --preset rnn-bahdanau --set model.decoder.score=coverage \
                 --source train.ko --target train.en --plugin ./coverage.py --out runs/coverage

The score is v·tanh(q + k + c·u), where c is the sum of the weights that an entry has had in the
earlier steps. The model learns from u to leave what is translated, or to return to it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

import regard
from regard.attention import Score, ScoreContext


@regard.register_score("coverage")
class Coverage(Score):
    """Additive score with coverage, the linguistic one of Tu et al. without fertility."""

    has_coverage = True

    def __init__(self, heads: int, size: int, query_size: int | None = None) -> None:
        super().__init__(heads, size, query_size)
        bound = 1 / math.sqrt(size)
        self.vector = nn.Parameter(torch.empty(heads, size).uniform_(-bound, bound))
        self.coverage = nn.Parameter(torch.empty(heads, size).uniform_(-bound, bound))

    def in_context(
        self, query: Tensor, prepared: Tensor, context: ScoreContext
    ) -> Tensor:
        """Score queries (R, H, T, E) against keys (R, H, S, E): (R, H, T, S)."""
        inner = query.unsqueeze(3) + prepared.unsqueeze(2)
        seen = inner.new_zeros(inner.shape[:-1])
        if context.coverage is not None:  # self-attention has no earlier steps
            seen = context.coverage.to(inner.dtype)
        inner = inner + seen.unsqueeze(-1) * self.coverage[:, None, None]
        return (torch.tanh(inner) * self.vector[:, None, None]).sum(-1)
