"""One optimizer update: gradient accumulation, gradient clipping and the step of Adam."""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence

import torch

from regard.common.processes import torch_threads
from regard.data.batch import TrainingBatch
from regard.models import Model, device_of
from regard.training.distributed import World, full_tensor
from regard.training.gradient_workers import GradientWorkers
from regard.training.guided import Guide
from regard.training.loss import Loss, LossFunction, Objective
from regard.training.recipe import Recipe
from regard.training.sharding import shard

WEIGHTS_A_THREAD = 2**24
"""Weights for each thread of the optimizer's step.

With fewer, a second thread gains milliseconds on an idle machine, but can wait a second for its
core on a busy one.
"""


class Updater:
    """Computes gradients of a model's micro-batches and steps its optimizer.

    `share` is the number of an update's micro-batches that this process computes. An `objective`
    replaces the loss that the recipe describes. If `world.sharded`, the model is sharded over the
    processes here, in place.
    """

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        share: int,
        world: World | None = None,
        objective: LossFunction | None = None,
    ) -> None:
        self.model = model
        self.settings = recipe.training
        self.world = world or World()
        s = self.settings
        self.guide = Guide.of(model, s) if objective is None else None
        objective = objective or Objective(
            s.label_smoothing, s.rdrop, self.guide, s.doubly_stochastic
        )
        if self.world.sharded:
            shard(model, layers=s.sharded == "layers")
        self.optimizer = _optimizer(model, recipe)
        weights = sum(parameter.numel() for parameter in model.parameters())
        self._step_threads = max(1, weights // WEIGHTS_A_THREAD)

        device = device_of(model)
        threads = 1
        if device.type == "cpu" and not self.world.sharded:
            threads = min(torch.get_num_threads(), share)
        # FSDP averages gradients over the processes, and the scale turns the mean into a sum.
        scale = float(self.world.size) if self.world.sharded else 1.0
        self.workers = GradientWorkers(
            model, objective, s.precision, device, threads, scale
        )

    def accumulate(
        self,
        number: int,
        batches: Sequence[tuple[int, TrainingBatch]],
        tokens: int,
        parts: int = 1,
    ) -> list[Loss]:
        """Accumulate the gradients of the mean loss of an update over micro-batches and processes.

        `number` is that of the update. `batches` are the micro-batches of this process with their
        indices in the update; `tokens` are the target tokens of the whole update. Each micro-batch
        is computed in `parts` parts.
        """
        keyed_batches = []
        for index, batch in batches:
            key = f"{self.settings.seed}/{number}/{index}"
            if parts == 1:
                keyed_batches.append((batch, key))
            else:
                for i, part in enumerate(batch.split(parts)):
                    keyed_batches.append((part, f"{key}/{i}"))
        losses = self.workers.gradients(keyed_batches, tokens)
        for parameter in self.model.parameters():
            # LayerDrop can skip a layer in all micro-batches of this process.
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.world.all_reduce_gradients(list(self.model.parameters()))
        return losses

    def clip(self) -> float:
        """Clip the gradients to `max_grad_norm`, and return their norm before that."""
        norm = torch.nn.utils.clip_grad_norm_(
            self.model.parameters(), self.settings.max_grad_norm or math.inf
        )
        return float(full_tensor(norm))

    def step(self, learning_rate: float) -> None:
        """Step the optimizer and free the gradients; the number of threads changes no bit."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate * group["lr_factor"]
        with torch_threads(min(torch.get_num_threads(), self._step_threads)):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def free_memory(self) -> None:
        """Free the gradients of a failed pass and return cached memory."""
        self.optimizer.zero_grad(set_to_none=True)
        gc.collect()
        torch.cuda.empty_cache()  # does nothing if CUDA is not in use


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


def _parameter_groups(model: Model, encoder_rate: float) -> list[dict[str, object]]:
    """Return parameter groups: the encoder at `encoder_rate`, all others at the full rate.

    Weights that encoder and decoder share are among the others.
    """
    trainable = [
        parameter for parameter in model.parameters() if parameter.requires_grad
    ]
    if encoder_rate == 1:
        return [{"params": trainable, "lr_factor": 1.0}]
    in_decoder = set(model.decoder.parameters())
    decoder = [parameter for parameter in trainable if parameter in in_decoder]
    encoder = [parameter for parameter in trainable if parameter not in in_decoder]
    groups = [
        {"params": decoder, "lr_factor": 1.0},
        {"params": encoder, "lr_factor": encoder_rate},
    ]
    return [group for group in groups if group["params"]]
