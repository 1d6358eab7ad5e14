"""Several models as one: the mean of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.models.interface import Batch, Model, top_tokens
from regard.shapes import Float, Int, Tensor

__all__ = ["Ensemble", "EnsembleState"]


@dataclass(frozen=True)
class EnsembleState:
    """The sources, or the states, of several models: what happens to one happens to all."""

    parts: tuple[Any, ...]

    @property
    def grid(self) -> tuple[int, int] | None:
        """The grid that the first model reads, of a source."""
        return self.parts[0].grid  # type: ignore[no-any-return]

    def select(self, rows: Int[Tensor, " M"]) -> EnsembleState:
        return EnsembleState(tuple(part.select(rows) for part in self.parts))

    def join(self, other: EnsembleState) -> EnsembleState:
        return EnsembleState(tuple(mine.join(theirs) for mine, theirs in zip(self.parts, other.parts, strict=True)))


class Ensemble(nn.Module):
    """The verbs of a model, over tuples: each model reads and steps by itself, and they agree on what comes next."""

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def max_target(self) -> int | None:
        """The longest target that all can write."""
        return min((model.max_target for model in self._all if model.max_target is not None), default=None)

    @property
    def encoder(self) -> nn.Module:
        """That of the first model, by whose cells a picture is read."""
        return self._all[0].encoder  # type: ignore[no-any-return]

    @property
    def _all(self) -> list[Any]:
        return list(self.models)

    def encode(self, batch: Batch) -> EnsembleState:
        return EnsembleState(tuple(model.encode(batch) for model in self._all))

    def begin(self, source: EnsembleState) -> EnsembleState:
        return EnsembleState(tuple(model.begin(own) for model, own in zip(self._all, source.parts, strict=True)))

    def step(
        self, tokens: Int[Tensor, "N T"], state: EnsembleState, source: EnsembleState
    ) -> tuple[tuple[Tensor, ...], EnsembleState]:
        each = zip(self._all, state.parts, source.parts, strict=True)
        features, states = zip(*(model.step(tokens, mine, own) for model, mine, own in each), strict=True)
        return features, EnsembleState(states)

    def project(self, features: tuple[Tensor, ...]) -> Float[Tensor, "N T V"]:
        """The logarithm of the mean probability: it serves as logits, and is already normalised."""
        logits = (model.project(own).float() for model, own in zip(self._all, features, strict=True))
        likely = torch.stack([some.log_softmax(-1) for some in logits])
        return likely.logsumexp(0) - math.log(len(self._all))

    def top_tokens(
        self, features: tuple[Tensor, ...], k: int, suppressed: Sequence[int] = ()
    ) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"], Float[Tensor, " N"]]:
        return top_tokens(self.project(tuple(some[:, -1:] for some in features))[:, 0], k, suppressed)

    def forward(self, batch: Batch, target_in: Int[Tensor, "B T"]) -> tuple[Tensor, ...]:
        """Teacher forcing: the features of each model, to be projected together."""
        return tuple(model(batch, target_in) for model in self._all)
