"""Exponential moving average (EMA) of a model's weights, for validation and the model folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from regard.model_folder import named_weights
from regard.models import Model
from regard.training.sharding import reshard


class MovingAverage:
    """Moving average of a model's weights; with a `decay` of 0 it equals the weights."""

    def __init__(self, model: Model, decay: float) -> None:
        self.model = model
        self.decay = decay
        self.weights = {
            name: weight.clone() for name, weight in named_weights(model).items()
        }

    def update(self, number: int) -> None:
        """Move the average towards the weights after update 1, 2, …; it moves faster at first."""
        decay = min(self.decay, (1 + number) / (10 + number))
        averages = list(self.weights.values())
        weights = list(named_weights(self.model).values())
        torch._foreach_lerp_(averages, weights, 1 - decay)

    @contextmanager
    def swapped_in(self, sharded: bool = False) -> Iterator[None]:
        """Give the model the averaged weights while the block runs."""
        if not self.decay:
            yield
            return
        current = named_weights(self.model)
        trained = {name: weight.clone() for name, weight in current.items()}
        try:
            for name, weight in current.items():
                weight.copy_(self.weights[name])
            yield
        finally:
            if sharded:
                reshard(self.model)
                current = named_weights(self.model)
            for name, weight in current.items():
                weight.copy_(trained[name])
