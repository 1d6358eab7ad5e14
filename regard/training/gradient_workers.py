"""Gradient accumulation: threads compute the gradients of micro-batches and add them up.

Small matrix products gain little from a second processor core, and stall if another program takes
it; two micro-batches in parallel, one core each, keep both busy. Each micro-batch has its own
random number generator, so the number of threads and processes changes the result only by rounding.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from regard.common.arguments import describe
from regard.common.processes import torch_threads
from regard.data.batch import TrainingBatch
from regard.layers.dropout import dropout_generator
from regard.models import Model
from regard.training.loss import Loss, LossFunction, Objective
from regard.training.scheduled_sampling import sample_target_inputs
from regard.training.sharding import set_last_of_update


class GradientWorkers:
    """Threads that accumulate the gradients of an update's micro-batches.

    Each has a replica of the model. `precision` is float32 or bfloat16; gradients are
    multiplied by `scale`.
    """

    def __init__(
        self,
        model: Model,
        objective: LossFunction,
        precision: str,
        device: torch.device,
        threads: int,
        scale: float = 1.0,
    ) -> None:
        self.objective = objective
        self.precision = precision
        self.device = device
        self.scale = scale
        self._threads_each = max(1, torch.get_num_threads() // threads)
        self._replicas = [model, *(_replica(model) for _ in range(threads - 1))]
        self._pool = ThreadPoolExecutor(
            threads, "gradients", torch.set_num_threads, (self._threads_each,)
        )
        self._scheduled_sampling = 0.0

    def gradients(
        self, batches: Sequence[tuple[TrainingBatch, str]], tokens: int
    ) -> list[Loss]:
        """Add the gradients of the mean loss over `tokens` target tokens to the weights' gradients.

        Each micro-batch comes with a key that seeds its random numbers. Returns the losses of the
        micro-batches in order.
        """
        count = len(self._replicas)
        for replica in self._replicas[1:]:
            for module, copied in zip(
                self._replicas[0].modules(), replica.modules(), strict=True
            ):
                copied.training = module.training
        if count == 1:
            return self._accumulate(self._replicas[0], batches, tokens)
        try:
            # MKL has one number of threads for the whole process.
            with torch_threads(self._threads_each):
                futures = [
                    self._pool.submit(
                        self._accumulate, replica, batches[i::count], tokens
                    )
                    for i, replica in enumerate(self._replicas)
                ]
                wait(futures)
            losses = [future.result() for future in futures]
        except BaseException:
            for replica in self._replicas[1:]:
                replica.zero_grad(set_to_none=True)
            raise
        self._sum_gradients()
        return [losses[i % count][i // count] for i in range(len(batches))]

    def configure(self, rdrop: float, scheduled_sampling: float) -> None:
        """Set the weight of R-Drop (0: a single pass) and the probability of scheduled sampling."""
        self._scheduled_sampling = scheduled_sampling
        if isinstance(self.objective, Objective):
            self.objective.rdrop = rdrop

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _accumulate(
        self,
        model: Model,
        batches: Sequence[tuple[TrainingBatch, str]],
        tokens: int,
    ) -> list[Loss]:
        generator = torch.Generator(self.device)
        losses = []
        for number, (batch, key) in enumerate(batches, 1):
            set_last_of_update(model, number == len(batches))
            digest = hashlib.sha256(key.encode()).digest()
            generator.manual_seed(int.from_bytes(digest[:8], "little", signed=True))
            batch = batch.to(self.device)
            with autocast(self.precision, self.device), dropout_generator(generator):
                if self._scheduled_sampling:
                    batch = sample_target_inputs(
                        model, batch, self._scheduled_sampling, generator
                    )
                loss = self.objective(model, batch)
            if not isinstance(loss, Loss):
                raise TypeError(
                    f"wanted a regard.training.loss.Loss, got {describe(loss)}; return "
                    "Loss(smoothed, cross_entropy, batch.tokens)"
                )
            torch.autograd.backward(loss.smoothed * (self.scale / tokens))
            losses.append(loss.detached())
        return losses

    def _sum_gradients(self) -> None:
        """Move the gradients of all replicas to the first one, whose weights are the model's."""
        first, *others = (list(replica.parameters()) for replica in self._replicas)
        for other in others:
            sums = []
            terms = []
            for parameter, copied in zip(first, other, strict=True):
                if parameter.grad is None:
                    parameter.grad = copied.grad
                elif copied.grad is not None:
                    sums.append(parameter.grad)
                    terms.append(copied.grad)
                copied.grad = None
            if sums:
                torch._foreach_add_(sums, terms)


def _replica(model: Model) -> Model:
    """Return a copy that shares the memory of the weights and has its own gradients."""
    # `deepcopy` takes these parameters in place of copies.
    shared: dict[int, object] = {
        id(p): nn.Parameter(p.detach(), p.requires_grad) for p in model.parameters()
    }
    return copy.deepcopy(model, shared)


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Return a context for matrix products in this precision; weights stay in float32."""
    if precision == "bfloat16":
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def out_of_memory(problem: Exception) -> bool:
    """Return whether an error means lack of memory.

    oneDNN and the CPU allocator raise plain errors, which are recognised by their texts.
    """
    if isinstance(problem, (MemoryError, torch.OutOfMemoryError)):
        return True
    messages = (
        "DefaultCPUAllocator",
        "could not create a primitive",
        "could not create a memory",
    )
    return any(message in str(problem) for message in messages)
