"""How well a key answers a query. A new kind of attention is a new score; all else is `Read`'s."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

from regard.shapes import Float, Tensor

__all__ = ["SCORES", "Additive", "Cosine", "Dot", "General", "ScaledDot", "Score", "ScoreName", "score"]

ScoreName = Literal["dot", "scaled_dot", "general", "additive", "cosine", "cosine_fixed"]
TEMPERATURE = 0.1
"""Of cosines, which lie between −1 and 1: at 1 the best of twenty entries could not get a third of the weight."""


class Score(nn.Module):
    """One number for each query and key. Subclasses say it by `forward`, or by `as_dot` where it is a dot product.

    `size` is that of a key in one head, `query_size` that of a query. `linear`: the score has a matrix of its own
    between the two, which may then differ in size, and a `Read` with one head compares them without projecting them.
    """

    linear: ClassVar[bool] = False

    def __init__(self, heads: int, size: int, query_size: int | None = None) -> None:
        super().__init__()
        self.heads, self.size, self.query_size = heads, size, query_size or size
        different = self.query_size != size and not self.linear
        assert not different, f"queries of {query_size} cannot be compared with keys of {size} by {type(self).__name__}"

    def prepare(self, keys: Float[Tensor, "R H S E"]) -> Float[Tensor, "R H S Eq"]:
        """What can be computed from the keys once, before any query comes; as large as a query."""
        return keys

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float] | None:  # noqa: ARG002
        """A query and a scale such that score = scale · query · key, or None if there are none."""
        return None

    def forward(self, query: Float[Tensor, "R H T E"], prepared: Float[Tensor, "R H S E"]) -> Float[Tensor, "R H T S"]:
        """The scores, from keys that were prepared."""
        dot = self.as_dot(query)
        assert dot is not None, f"{type(self).__name__} needs as_dot or a forward of its own"
        return torch.matmul(dot[0], prepared.transpose(-1, -2)) * dot[1]


class Dot(Score):
    """q·k (Luong et al. 2015, section 3.1, `dot`)."""

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        return query, 1.0


class ScaledDot(Score):
    """q·k / √E (Vaswani et al. 2017, equation 1): the scale keeps the softmax from saturating as E grows."""

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        return query, 1 / math.sqrt(self.size)


class General(Score):
    """q·Wk (Luong et al. 2015, section 3.1, `general`): bilinear, without a bias; query and key may differ in size.

    W meets the keys once, when they are prepared; a query then costs a dot product.
    """

    linear = True

    def __init__(self, heads: int, size: int, query_size: int | None = None) -> None:
        super().__init__(heads, size, query_size)
        bound = math.sqrt(6 / (size + self.query_size))
        self.matrix = nn.Parameter(torch.empty(heads, self.query_size, size).uniform_(-bound, bound))

    def prepare(self, keys: Float[Tensor, "R H S E"]) -> Float[Tensor, "R H S Eq"]:
        return torch.einsum("rhse,hqe->rhsq", keys, self.matrix)  # one product a head, not one a row

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        return query, 1.0


class Cosine(Score):
    """cos(q, k) / τ: direction alone counts, length does not. τ is learnt, one for each head (Henry et al. 2020)."""

    def __init__(self, heads: int, size: int, query_size: int | None = None) -> None:
        super().__init__(heads, size, query_size)
        self.log_temperature = nn.Parameter(torch.full((heads,), math.log(TEMPERATURE)))

    def prepare(self, keys: Float[Tensor, "R H S E"]) -> Float[Tensor, "R H S Eq"]:
        return _directions(keys)

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        sharpness = torch.exp(-self.log_temperature)[:, None, None]
        return _directions(query) * sharpness.to(query.dtype), 1.0


class CosineFixed(Score):
    """cos(q, k) / τ with τ = 0.1."""

    def prepare(self, keys: Float[Tensor, "R H S E"]) -> Float[Tensor, "R H S Eq"]:
        return _directions(keys)

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        return _directions(query), 1 / TEMPERATURE


def _directions(vectors: Tensor) -> Tensor:
    """Vectors of length one; nothing stays nothing."""
    return F.normalize(vectors.float(), dim=-1).to(vectors.dtype)


class Additive(Score):
    """v·tanh(q + k) (Bahdanau et al. 2015, appendix A.1.2); the two projections inside the tanh are `Read`'s."""

    def __init__(self, heads: int, size: int, query_size: int | None = None) -> None:
        super().__init__(heads, size, query_size)
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


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general": General,
    "additive": Additive,
    "cosine": Cosine,
    "cosine_fixed": CosineFixed,
}
assert set(SCORES) == set(get_args(ScoreName)), "every score can be named in a configuration"


def score(name: str, heads: int, size: int, query_size: int | None = None) -> Score:
    """The score called `name`, for keys of `size` in each of `heads` heads, and queries of the same size or another."""
    return SCORES[name](heads, size, query_size)
