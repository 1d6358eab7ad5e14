"""Attention scores: dot, scaled dot, general (bilinear), additive and cosine.

To add a kind of attention, write a subclass of `Score` and register it in `SCORES`; `Attention`
provides heads, mask, softmax and average.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

from regard.common.errors import ConfigurationError
from regard.common.monkey_patches import as_defined
from regard.common.shapes import Float, Tensor

ScoreName = Literal[
    "dot", "scaled_dot", "general", "additive", "cosine", "cosine_fixed", "cosine_plain"
]
"""Name of an attention score."""
TEMPERATURE = 0.1
"""Divisor of cosine scores.

Cosines lie between −1 and 1; undivided, they give the best of 20 entries less than a third of the
weight.
"""


@as_defined
class Score(nn.Module):
    """Attention score: one number for each query and key.

    Subclasses define `as_dot` if the score is a dot product, or else `forward`. `size` and
    `query_size` are the sizes of a key and a query, per head. A score that is `linear` has its own
    matrix between the two, so their sizes may differ, and an `Attention` with one head leaves both
    unprojected.
    """

    linear: ClassVar[bool] = False

    def __init__(self, heads: int, size: int, query_size: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.size = size
        self.query_size = query_size or size
        if self.query_size != size and not self.linear:
            kind = type(self).__name__
            raise ConfigurationError(
                f"{kind} compares queries and keys of one size, got {query_size} and {size}"
            )

    def prepare(self, keys: Float[Tensor, "R H S E"]) -> Float[Tensor, "R H S Eq"]:
        """Transform the keys once, before any query comes; the results have the size of a query."""
        return keys

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float] | None:  # noqa: ARG002
        """Return a query and a scale such that score = scale · query · key.

        Returns None if the score is not a dot product.
        """
        return None

    def forward(
        self, query: Float[Tensor, "R H T E"], prepared: Float[Tensor, "R H S E"]
    ) -> Float[Tensor, "R H T S"]:
        """Score each query against prepared keys."""
        dot = self.as_dot(query)
        assert dot is not None, f"{type(self).__name__} must define as_dot or forward"
        return torch.matmul(dot[0], prepared.transpose(-1, -2)) * dot[1]


@as_defined
class Dot(Score):
    """q·k (Luong et al. 2015, section 3.1, `dot`)."""

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        return query, 1.0


@as_defined
class ScaledDot(Score):
    """q·k / √E (Vaswani et al. 2017, equation 1).

    The scale keeps the softmax from saturating as E grows.
    """

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        return query, 1 / math.sqrt(self.size)


@as_defined
class General(Score):
    """q·Wk (Luong et al. 2015, section 3.1, `general`): bilinear, without bias.

    Query and key sizes may differ. W is applied to the keys once, when they are prepared; a query
    then costs a dot product.
    """

    linear = True

    def __init__(self, heads: int, size: int, query_size: int | None = None) -> None:
        super().__init__(heads, size, query_size)
        bound = math.sqrt(6 / (size + self.query_size))
        self.matrix = nn.Parameter(
            torch.empty(heads, self.query_size, size).uniform_(-bound, bound)
        )

    def prepare(self, keys: Float[Tensor, "R H S E"]) -> Float[Tensor, "R H S Eq"]:
        # einsum makes this one matrix product per head, not one per row.
        return torch.einsum("rhse,hqe->rhsq", keys, self.matrix)

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        return query, 1.0


@as_defined
class Cosine(Score):
    """cos(q, k) / τ with a learned temperature τ per head (Henry et al. 2020).

    The score does not depend on the lengths of the vectors.
    """

    def __init__(self, heads: int, size: int, query_size: int | None = None) -> None:
        super().__init__(heads, size, query_size)
        self.log_temperature = nn.Parameter(torch.full((heads,), math.log(TEMPERATURE)))

    def prepare(self, keys: Float[Tensor, "R H S E"]) -> Float[Tensor, "R H S Eq"]:
        return _unit(keys)

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        inverse = torch.exp(-self.log_temperature)[:, None, None]
        return _unit(query) * inverse.to(query.dtype), 1.0


@as_defined
class CosineFixed(Score):
    """cos(q, k) / τ with τ = 0.1."""

    temperature: ClassVar[float] = TEMPERATURE

    def prepare(self, keys: Float[Tensor, "R H S E"]) -> Float[Tensor, "R H S Eq"]:
        return _unit(keys)

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        return _unit(query), 1 / self.temperature


@as_defined
class CosinePlain(CosineFixed):
    """cos(q, k), for experiments.

    Attention cannot be sharp: none of 20 entries can have more than e / (e + 19 / e) = 29 % of the
    weight.
    """

    temperature = 1.0


def _unit(vectors: Tensor) -> Tensor:
    """Normalise vectors to length one; zeros stay zeros."""
    return F.normalize(vectors.float(), dim=-1).to(vectors.dtype)


@as_defined
class Additive(Score):
    """v·tanh(q + k) (Bahdanau et al. 2015, appendix A.1.2).

    `Attention` computes the projections inside the tanh.
    """

    def __init__(self, heads: int, size: int, query_size: int | None = None) -> None:
        super().__init__(heads, size, query_size)
        bound = 1 / math.sqrt(size)
        self.vector = nn.Parameter(torch.empty(heads, size).uniform_(-bound, bound))

    def forward(
        self, query: Float[Tensor, "R H T E"], prepared: Float[Tensor, "R H S E"]
    ) -> Float[Tensor, "R H T S"]:
        scores: Tensor = _Additive.apply(query, prepared, self.vector)  # type: ignore[no-untyped-call]
        return scores


class _Additive(torch.autograd.Function):
    """Additive score with a backward written by hand.

    It saves one tensor (R, H, T, S, E) for backward, of which autograd would save two.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
        activated = (query.unsqueeze(3) + keys.unsqueeze(2)).tanh_()
        v = vector.to(activated.dtype)
        ctx.save_for_backward(activated, v)
        ctx.dtype = vector.dtype
        if len(v) == 1:  # one head: a single matrix-vector product
            flat = activated.reshape(-1, activated.shape[-1])
            return torch.mv(flat, v[0]).view(activated.shape[:-1])
        return torch.matmul(activated, v[:, None, :, None]).squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        activated, v = ctx.saved_tensors
        gradient_col = gradient.to(activated.dtype).unsqueeze(-1)
        if len(v) == 1:
            flat = activated.reshape(-1, activated.shape[-1])
            grad_vector = torch.mv(flat.t(), gradient_col.flatten())[None]
        else:
            grad_vector = (activated * gradient_col).sum((0, 2, 3))

        # d/dx v·tanh(x) = v·(1 − tanh²(x)), for x = query + key
        v = v[:, None, None]
        grad_sum = torch.addcmul(v, activated * v, activated, value=-1)
        grad_sum.mul_(gradient_col)
        grad_query = grad_sum.sum(3)
        grad_keys = grad_sum.squeeze(2) if grad_sum.shape[2] == 1 else grad_sum.sum(2)
        return grad_query, grad_keys, grad_vector.to(ctx.dtype)


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general": General,
    "additive": Additive,
    "cosine": Cosine,
    "cosine_fixed": CosineFixed,
    "cosine_plain": CosinePlain,
}
"""Score class of each name."""
assert set(SCORES) == set(get_args(ScoreName)), "ScoreName must list the keys of SCORES"


def build_score(
    name: str, heads: int, size: int, query_size: int | None = None
) -> Score:
    """Create the score `name` for keys of `size` and queries of `query_size` (default: `size`)."""
    return SCORES[name](heads, size, query_size)
