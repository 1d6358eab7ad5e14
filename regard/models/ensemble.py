"""Ensemble of models with one vocabulary: the mean of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.common.shapes import Float, Int, Tensor
from regard.layers.module_list import ModuleList
from regard.models.interface import Batch, Model, TopTokens, top_tokens


@dataclass(frozen=True)
class EnsembleState:
    """The sources, or the states, of several models; `select` and `join` apply to all of them."""

    parts: tuple[Any, ...]

    @property
    def grid(self) -> tuple[int, int] | None:
        """Grid of the first model's source."""
        return self.parts[0].grid  # type: ignore[no-any-return]

    def select(self, rows: Int[Tensor, " M"]) -> EnsembleState:
        return EnsembleState(tuple(part.select(rows) for part in self.parts))

    def join(self, other: EnsembleState) -> EnsembleState:
        pairs = zip(self.parts, other.parts, strict=True)
        return EnsembleState(tuple(first.join(second) for first, second in pairs))


class Ensemble(nn.Module):
    """Ensemble with the methods of `Model`.

    Each model encodes and steps by itself, and their probabilities are averaged.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self.models = ModuleList(models)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def max_target(self) -> int | None:
        """Longest target that all models can produce, or None."""
        limits = (model.max_target for model in self.models)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def encoder(self) -> nn.Module:
        """Encoder of the first model, whose image grid is shown."""
        return self.models[0].encoder

    def encode(self, batch: Batch) -> EnsembleState:
        return EnsembleState(tuple(model.encode(batch) for model in self.models))

    def begin(self, source: EnsembleState) -> EnsembleState:
        pairs = zip(self.models, source.parts, strict=True)
        return EnsembleState(tuple(model.begin(part) for model, part in pairs))

    def step(
        self, tokens: Int[Tensor, "N T"], state: EnsembleState, source: EnsembleState
    ) -> tuple[tuple[Tensor, ...], EnsembleState]:
        features = []
        states = []
        for model, model_state, model_source in zip(
            self.models, state.parts, source.parts, strict=True
        ):
            model_features, next_state = model.step(tokens, model_state, model_source)
            features.append(model_features)
            states.append(next_state)
        return tuple(features), EnsembleState(tuple(states))

    def project(self, features: tuple[Tensor, ...]) -> Float[Tensor, "N T V"]:
        """Return the logarithm of the mean probability, which serves as logits.

        It is already normalised, so a softmax leaves it unchanged.
        """
        log_probs = torch.stack(
            [
                model.project(part).float().log_softmax(-1)
                for model, part in zip(self.models, features, strict=True)
            ]
        )
        return log_probs.logsumexp(0) - math.log(len(self.models))

    def top_tokens(
        self, features: tuple[Tensor, ...], k: int, suppressed: Sequence[int] = ()
    ) -> TopTokens:
        last_features = tuple(part[:, -1:] for part in features)
        return top_tokens(self.project(last_features)[:, 0], k, suppressed)

    def forward(
        self, batch: Batch, target_in: Int[Tensor, "B T"]
    ) -> tuple[Tensor, ...]:
        """Teacher forcing: return the features of each model, for `project`."""
        return tuple(model(batch, target_in) for model in self.models)
