"""Normalisers: functions that turn attention scores into weights.

The package has the softmax; a plug-in registers others with `register_normaliser`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import torch

from regard.common.plugins import Registry
from regard.common.shapes import Bool, Float, Tensor

C = TypeVar("C")


class Normaliser(Protocol):
    """Function from scores (R, H, T, S) to weights of the same shape.

    The weights of a query sum to one; hidden entries have 0, as do all if every one is hidden.

    `keep` is the mask (True = visible), or None if every entry is visible.
    """

    def __call__(
        self, scores: Float[Tensor, "R H T S"], keep: Bool[Tensor, "#R 1 #T S"] | None
    ) -> Float[Tensor, "R H T S"]: ...


NORMALISERS: Registry[str, Normaliser] = Registry("normaliser")
"""Function of each name, from scores to weights."""


def register_normaliser(name: str) -> Callable[[C], C]:
    """Return a decorator that registers a function from scores to weights under a new name.

    Raises ConfigurationError if the name is taken.
    """
    return NORMALISERS.register(name)


@register_normaliser("softmax")
def masked_softmax(
    scores: Float[Tensor, "R H T S"], keep: Bool[Tensor, "#R 1 #T S"] | None
) -> Float[Tensor, "R H T S"]:
    """Turn scores into attention weights that sum to one over the visible entries.

    A row without visible entries has the weight 0 everywhere.
    """
    if keep is None:
        return scores.softmax(-1)
    hidden = ~keep
    weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(hidden, 0)
