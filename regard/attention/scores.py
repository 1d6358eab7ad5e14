"""Attention scores: dot, scaled dot, general (bilinear), additive and cosine.

To add a kind of attention, write a subclass of `Score` and register it with `register_score`;
`Attention` provides heads, mask and average.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

from regard.attention.normalisers import NORMALISERS, Normaliser, masked_softmax
from regard.common.errors import ConfigurationError
from regard.common.monkey_patches import as_defined
from regard.common.plugins import Registry
from regard.common.shapes import Bool, Float, Int, Tensor

SCORES: Registry[str, type[Score]] = Registry("attention score")
"""Score class of each name."""
ScoreName = Annotated[str, SCORES]
"""Name of an attention score."""
NormaliserName = Annotated[str, NORMALISERS]
"""Name of a normaliser."""
C = TypeVar("C")
TEMPERATURE = 0.1
"""Divisor of cosine scores.

Cosines lie between −1 and 1; undivided, they give the best of 20 entries less than a third of the
weight.
"""


def register_score(name: str) -> Callable[[C], C]:
    """Return a decorator that registers a subclass of `Score` under a new name.

    Raises ConfigurationError if the name is taken.
    """
    return SCORES.register(name)


@dataclass(frozen=True)
class ScoreContext:
    """Knowledge of a score beyond queries and keys (see `Score.in_context`).

    - `role`: "encoder", "decoder" or "cross".
    - `entries`: positions of the keys.
    - `queries`: positions of the queries; None in cross-attention.
    - `coverage`: sums of the weights of earlier steps, if the score has coverage.
    """

    role: str
    entries: Int[Tensor, "#R S"]
    queries: Int[Tensor, "#R T"] | None = None
    coverage: Float[Tensor, "R H T S"] | None = None


@as_defined
class Score(nn.Module):
    """Attention score: one number for each query and key, and how the scores become weights.

    Subclasses define `as_dot` if the score is a dot product, or else `forward`, or `in_context`;
    also `normalise` or `gate`, if these are not the usual ones. `size` and `query_size` are the
    sizes of a key and a query, per head. A score that is `linear` has its own matrix between the
    two, so their sizes may differ, and an `Attention` with one head leaves both unprojected. A
    score with `has_coverage` is computed step by step in cross-attention, and sees what its earlier
    steps attended to.
    """

    linear: ClassVar[bool] = False
    has_coverage: ClassVar[bool] = False
    normaliser: Normaliser = staticmethod(masked_softmax)

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

    def in_context(
        self,
        query: Float[Tensor, "R H T E"],
        prepared: Float[Tensor, "R H S E"],
        context: ScoreContext,  # noqa: ARG002
    ) -> Float[Tensor, "R H T S"]:
        """Score like `forward`, by a score that knows the role, positions or coverage too."""
        scores: Tensor = self(query, prepared)
        return scores

    def normalise(
        self, scores: Float[Tensor, "R H T S"], keep: Bool[Tensor, "#R 1 #T S"] | None
    ) -> Float[Tensor, "R H T S"]:
        """Turn scores into weights; entries that `keep` hides have the weight 0."""
        return self.normaliser(scores, keep)

    def gate(
        self,
        query: Float[Tensor, "R H T E"],  # noqa: ARG002
        context: Float[Tensor, "R H T Ev"],
    ) -> Float[Tensor, "R H T Ev"]:
        """Change the weighted sums of the values, such as by a gate computed from the query.

        `query` is projected and split into heads, as scores see it; in decoding T also runs over
        the beams of a sentence. The sums are projected to the output after this. A gate for each
        head:

        @regard.register_score("gated")
        class Gated(SCORES["scaled_dot"]):
            def __init__(self, heads, size, query_size=None):
                super().__init__(heads, size, query_size)
                self.weight = torch.nn.Parameter(torch.ones(heads, size, 1))

            def gate(self, query, context):
                return context * (query @ self.weight).sigmoid()
        """
        return context

    def next_coverage(
        self, coverage: Float[Tensor, "R H T S"], weights: Float[Tensor, "R H T S"]
    ) -> Float[Tensor, "R H T S"]:
        """Return what the next step sees of the weights so far: their sum."""
        return coverage + weights

    @property
    def is_plain(self) -> bool:
        """True if scores depend on query and key alone, and the softmax makes them weights."""
        kind = type(self)
        return (
            self.normaliser is masked_softmax
            and kind.normalise is Score.normalise
            and kind.in_context is Score.in_context
        )


@register_score("dot")
@as_defined
class Dot(Score):
    """q·k (Luong et al. 2015, section 3.1, `dot`)."""

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        return query, 1.0


@register_score("scaled_dot")
@as_defined
class ScaledDot(Score):
    """q·k / √E (Vaswani et al. 2017, equation 1).

    The scale keeps the softmax from saturating as E grows.
    """

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        return query, 1 / math.sqrt(self.size)


@register_score("general")
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


@register_score("cosine")
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


@register_score("cosine_fixed")
@as_defined
class CosineFixed(Score):
    """cos(q, k) / τ with τ = 0.1."""

    temperature: ClassVar[float] = TEMPERATURE

    def prepare(self, keys: Float[Tensor, "R H S E"]) -> Float[Tensor, "R H S Eq"]:
        return _unit(keys)

    def as_dot(self, query: Float[Tensor, "R H T E"]) -> tuple[Tensor, float]:
        return _unit(query), 1 / self.temperature


@register_score("cosine_plain")
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


@register_score("additive")
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


def build_score(
    name: str,
    heads: int,
    size: int,
    query_size: int | None = None,
    normaliser: str = "softmax",
) -> Score:
    """Create the score `name` for keys of `size` and queries of `query_size` (default: `size`)."""
    score = SCORES[name](heads, size, query_size)
    if normaliser != "softmax":
        score.normaliser = NORMALISERS[normaliser]
    return score
