"""One optimizer update: gradient accumulation over micro-batches, gradient clipping, learning rate,
Adam step.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from typing import Any

import torch

from regard.common.processes import torch_threads
from regard.data.batch import TrainingBatch
from regard.models import Model, device_of
from regard.training.distributed import World, full_tensor
from regard.training.gradient_workers import GradientWorkers
from regard.training.guided import Guide
from regard.training.loss import Loss, Objective
from regard.training.recipe import Recipe
from regard.training.sharding import shard

WEIGHTS_A_THREAD = 2**24
"""Weights for which the optimizer's step takes a further thread: with fewer, two OpenMP threads
gain milliseconds on a quiet machine, and beside other work wait a second for each other's core.
"""


class Updater:
    """Computes gradients of a model's micro-batches and steps its optimizer.

    `share` is the number of micro-batches an update has for this process. With `world.sharded` the
    model is split over the processes here, in place.
    """

    def __init__(
        self, model: Model, recipe: Recipe, share: int, world: World | None = None
    ) -> None:
        self.model = model
        self.settings = recipe.training
        self.world = world or World()
        s = self.settings
        self.guide = Guide.of(model, s)
        objective = Objective(
            model, s.label_smoothing, s.rdrop, self.guide, s.doubly_stochastic
        )
        if self.world.sharded:
            shard(model, layers=s.sharded == "layers")
        self.optimizer = _optimizer(model, recipe)
        self._step_threads = max(
            1,
            sum(parameter.numel() for parameter in model.parameters())
            // WEIGHTS_A_THREAD,
        )
        device = device_of(model)
        threads = (
            min(torch.get_num_threads(), share)
            if device.type == "cpu" and not self.world.sharded
            else 1
        )
        # Sharded gradients are averaged over the processes.
        scale = self.world.size if self.world.sharded else 1
        self.workers = GradientWorkers(
            objective, s.precision, device, threads, float(scale)
        )

    def accumulate(
        self,
        number: int,
        batches: Sequence[tuple[int, TrainingBatch]],
        tokens: int,
        parts: int = 1,
    ) -> list[Loss]:
        """Accumulate the gradients of the mean loss of update `number` over all micro-batches and
        processes.

        `batches` are those of this process with their indices in the update, `tokens` the target
        tokens of the whole update; each micro-batch is computed in so many `parts`.
        """
        keyed = []
        for index, batch in batches:
            key = f"{self.settings.seed}/{number}/{index}"
            keyed += (
                [(batch, key)]
                if parts == 1
                else [(b, f"{key}/{i}") for i, b in enumerate(batch.split(parts))]
            )
        losses = self.workers.gradients(keyed, tokens)
        for parameter in self.model.parameters():
            # Of a layer that LayerDrop left out of every batch.
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.world.all_reduce_gradients(list(self.model.parameters()))
        return losses

    def clip(self) -> float:
        """Clip the gradients to `max_grad_norm` and return their norm before."""
        norm = torch.nn.utils.clip_grad_norm_(
            self.model.parameters(), self.settings.max_grad_norm or math.inf
        )
        return float(full_tensor(norm))

    def step(self, learning_rate: float) -> None:
        """Move the weights along the gradients, and forget the gradients; the number of threads
        changes no bit.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate * group["lr_factor"]
        with torch_threads(min(torch.get_num_threads(), self._step_threads)):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def free_memory(self) -> None:
        """Forget the gradients of a failed pass and return cached memory."""
        self.optimizer.zero_grad(set_to_none=True)
        gc.collect()
        torch.cuda.empty_cache()  # does nothing where CUDA is not in use


def _optimizer(model: Model, recipe: Recipe) -> torch.optim.Optimizer:
    s = recipe.training
    kind = torch.optim.AdamW if s.optimizer == "adamw" else torch.optim.Adam
    groups = _parameter_groups(model, s.encoder_rate)
    # The rate is set before every step; fused is three to five times as fast on a CPU.
    return kind(
        groups,
        lr=0.0,
        betas=(s.beta1, s.beta2),
        eps=1e-9,
        weight_decay=s.weight_decay,
        fused=True,
    )


def _parameter_groups(model: Model, encoder_rate: float) -> list[dict[str, Any]]:
    """Parameter groups: the encoder at `encoder_rate`; shared and decoder weights at the full
    rate.
    """
    trainable = [
        parameter for parameter in model.parameters() if parameter.requires_grad
    ]
    decoder = set(model.decoder.parameters())
    if encoder_rate == 1:
        return [{"params": trainable, "lr_factor": 1.0}]
    groups = [
        {
            "params": [parameter for parameter in trainable if parameter in decoder],
            "lr_factor": 1.0,
        },
        {
            "params": [
                parameter for parameter in trainable if parameter not in decoder
            ],
            "lr_factor": encoder_rate,
        },
    ]
    return [group for group in groups if group["params"]]
