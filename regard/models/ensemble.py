"""Ensemble of models with one vocabulary: the mean of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.common.shapes import Float, Int, Tensor
from regard.models.interface import Batch, Model, TopTokens, top_tokens


@dataclass(frozen=True)
class EnsembleState:
    """Sources, or states, of several models; `select` and `join` apply to all."""

    parts: tuple[Any, ...]

    @property
    def grid(self) -> tuple[int, int] | None:
        """Grid of the first model's source."""
        return self.parts[0].grid  # type: ignore[no-any-return]

    def select(self, rows: Int[Tensor, " M"]) -> EnsembleState:
        return EnsembleState(tuple(part.select(rows) for part in self.parts))

    def join(self, other: EnsembleState) -> EnsembleState:
        return EnsembleState(
            tuple(
                first.join(second)
                for first, second in zip(self.parts, other.parts, strict=True)
            )
        )


class Ensemble(nn.Module):
    """Ensemble with the methods of `Model`: each model encodes and steps, and their probabilities
    are averaged.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def max_target(self) -> int | None:
        """Longest target that all models can produce, or None."""
        return min(
            (model.max_target for model in self._all if model.max_target is not None),
            default=None,
        )

    @property
    def encoder(self) -> nn.Module:
        """Encoder of the first model, whose image grid is shown."""
        return self._all[0].encoder  # type: ignore[no-any-return]

    @property
    def _all(self) -> list[Any]:
        return list(self.models)

    def encode(self, batch: Batch) -> EnsembleState:
        return EnsembleState(tuple(model.encode(batch) for model in self._all))

    def begin(self, source: EnsembleState) -> EnsembleState:
        return EnsembleState(
            tuple(
                model.begin(part)
                for model, part in zip(self._all, source.parts, strict=True)
            )
        )

    def step(
        self, tokens: Int[Tensor, "N T"], state: EnsembleState, source: EnsembleState
    ) -> tuple[tuple[Tensor, ...], EnsembleState]:
        parts = zip(self._all, state.parts, source.parts, strict=True)
        steps = (
            model.step(tokens, model_state, model_source)
            for model, model_state, model_source in parts
        )
        features, states = zip(*steps, strict=True)
        return features, EnsembleState(states)

    def project(self, features: tuple[Tensor, ...]) -> Float[Tensor, "N T V"]:
        """Return the log of the mean probability, which serves as logits and is already
        normalised.
        """
        logits = (
            model.project(part).float()
            for model, part in zip(self._all, features, strict=True)
        )
        log_probs = torch.stack([part.log_softmax(-1) for part in logits])
        return log_probs.logsumexp(0) - math.log(len(self._all))

    def top_tokens(
        self, features: tuple[Tensor, ...], k: int, suppressed: Sequence[int] = ()
    ) -> TopTokens:
        return top_tokens(
            self.project(tuple(part[:, -1:] for part in features))[:, 0], k, suppressed
        )

    def forward(
        self, batch: Batch, target_in: Int[Tensor, "B T"]
    ) -> tuple[Tensor, ...]:
        """Teacher forcing: return the features of each model, for `project`."""
        return tuple(model(batch, target_in) for model in self._all)
