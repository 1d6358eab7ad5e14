"""How well a key answers a query. A new kind of attention is a new score; all else is `Read`'s."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from regard.shapes import Float, Tensor

__all__ = ["SCORES", "Additive", "ScaledDot", "Score", "score"]


class Score(nn.Module):
    """One number for each query and key. Subclasses say it by `forward`, or by `as_dot` where it is a dot product."""

    def __init__(self, heads: int, size: int) -> None:
        super().__init__()
        self.heads, self.size = heads, size

    def prepare(self, keys: Float[Tensor, "R H S E"]) -> Float[Tensor, "R H S E"]:
        """What can be computed from the keys once, before any query comes."""
        return keys

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float] | None:  # noqa: ARG002
        """A query and a scale such that score = scale · query · key, or None if there are none."""
        return None

    def forward(self, query: Float[Tensor, "R H T E"], prepared: Float[Tensor, "R H S E"]) -> Float[Tensor, "R H T S"]:
        dot = self.as_dot(query)
        assert dot is not None, f"{type(self).__name__} needs as_dot or a forward of its own"
        return torch.matmul(dot[0], prepared.transpose(-1, -2)) * dot[1]


class ScaledDot(Score):
    """q·k / √E (Vaswani et al. 2017, equation 1): the scale keeps the softmax from saturating as E grows."""

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        return query, 1 / math.sqrt(self.size)


class Additive(Score):
    """v·tanh(q + k) (Bahdanau et al. 2015, appendix A.1.2); the two projections inside the tanh are `Read`'s."""

    def __init__(self, heads: int, size: int) -> None:
        super().__init__(heads, size)
        bound = 1 / math.sqrt(size)
        self.vector = nn.Parameter(torch.empty(heads, size).uniform_(-bound, bound))

    def forward(self, query: Float[Tensor, "R H T E"], prepared: Float[Tensor, "R H S E"]) -> Float[Tensor, "R H T S"]:
        scores: Tensor = _Additive.apply(query, prepared, self.vector)  # type: ignore[no-untyped-call]
        return scores


class _Additive(torch.autograd.Function):
    """Keeps one tensor of (R, H, T, S, E) where autograd would keep two, and passes over it as seldom as can be."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
        bent = (query.unsqueeze(3) + keys.unsqueeze(2)).tanh_()
        v = vector.to(bent.dtype)
        ctx.save_for_backward(bent, v)
        ctx.dtype = vector.dtype
        if len(v) == 1:  # one head: one product with a vector
            return torch.mv(bent.view(-1, bent.shape[-1]), v[0]).view(bent.shape[:-1])
        return torch.matmul(bent, v[:, None, :, None]).squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        bent, v = ctx.saved_tensors
        weighed = gradient.to(bent.dtype).unsqueeze(-1)
        if len(v) == 1:
            by_vector = torch.mv(bent.view(-1, bent.shape[-1]).t(), weighed.flatten())[None]
        else:
            by_vector = (bent * weighed).sum((0, 2, 3))
        by_sums = torch.addcmul(v[:, None, None], bent * v[:, None, None], bent, value=-1).mul_(weighed)
        by_query = by_sums.sum(3)
        by_keys = by_sums.squeeze(2) if by_sums.shape[2] == 1 else by_sums.sum(2)
        return by_query, by_keys, by_vector.to(ctx.dtype)


SCORES: dict[str, type[Score]] = {"scaled_dot": ScaledDot, "additive": Additive}


def score(name: str, heads: int, size: int) -> Score:
    """The score called `name`, for keys of `size` in each of `heads` heads."""
    return SCORES[name](heads, size)
