"""Several threads on one update: each computes the gradients of its share of the batches, and they are added up.

Small products gain little from a second processor core, and stall when something else takes it; two batches side by
side, one core each, keep both busy. What is random in a batch is drawn from a generator of its own, so that neither
the threads nor the processes that share the work change what comes out, rounding apart.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from regard.data.batch import TrainingBatch
from regard.layers.dropout import dropout_generator
from regard.training.loss import Loss, Objective
from regard.training.scheduled_sampling import with_own_outputs
from regard.training.sharding import last_of_update

__all__ = ["GradientWorkers", "first_line", "out_of_memory", "precision"]


class GradientWorkers:
    """Computes the gradients of an update's batches with as many threads as there are batches and cores for."""

    def __init__(self, objective: Objective, low: str, device: torch.device, threads: int, scale: float = 1.0) -> None:
        self.low, self.device, self.scale = low, device, scale
        self._each = max(1, torch.get_num_threads() // threads)
        self._replicas = [objective, *(_replica(objective) for _ in range(threads - 1))]
        self._pool = ThreadPoolExecutor(threads, "gradients", torch.set_num_threads, (self._each,))
        self._own = 0.0

    def gradients(self, batches: Sequence[tuple[TrainingBatch, str]], tokens: int) -> list[Loss]:
        """Add the gradients of the mean loss over `tokens` pieces to the weights. Each batch comes with a key that
        decides what is random in it.
        """
        many = len(self._replicas)
        for replica in self._replicas[1:]:
            for own, other in zip(self._replicas[0].modules(), replica.modules(), strict=True):
                other.training = own.training
        if many == 1:
            return self._share(self._replicas[0], batches, tokens)
        before = torch.get_num_threads()
        torch.set_num_threads(self._each)  # MKL has one number for all threads
        try:
            shares = [batches[i::many] for i in range(many)]
            futures = [
                self._pool.submit(self._share, *pair, tokens) for pair in zip(self._replicas, shares, strict=True)
            ]
            wait(futures)
            found = [future.result() for future in futures]
        except BaseException:
            for replica in self._replicas[1:]:
                replica.zero_grad(set_to_none=True)
            raise
        finally:
            torch.set_num_threads(before)
        self._add_up()
        return [found[place % many][place // many] for place in range(len(batches))]  # in the order given

    def configure(self, rdrop: float, own_outputs: float) -> None:
        """From now on: how much two passes should agree (0 makes one do), and how often own outputs are read."""
        self._own = own_outputs
        for replica in self._replicas:
            replica.rdrop = rdrop

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown()

    def _share(self, objective: Objective, batches: Sequence[tuple[TrainingBatch, str]], tokens: int) -> list[Loss]:
        generator, losses = torch.Generator(self.device), []
        for number, (batch, key) in enumerate(batches, 1):
            last_of_update(objective.model, number == len(batches))
            generator.manual_seed(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little", signed=True))
            batch = batch.to(self.device)
            with precision(self.low, self.device), dropout_generator(generator):
                if self._own:
                    batch = with_own_outputs(objective.model, batch, self._own, generator)
                loss: Loss = objective(batch)
            torch.autograd.backward(loss.smoothed * (self.scale / tokens))
            losses.append(loss.detached())
        return losses

    def _add_up(self) -> None:
        first, *others = (list(replica.parameters()) for replica in self._replicas)
        for other in others:
            mine = [a.grad for a, b in zip(first, other, strict=True) if a.grad is not None and b.grad is not None]
            theirs = [b.grad for a, b in zip(first, other, strict=True) if a.grad is not None and b.grad is not None]
            if mine:
                torch._foreach_add_(mine, theirs)
            for a, b in zip(first, other, strict=True):
                a.grad = b.grad if a.grad is None else a.grad
                b.grad = None


def _replica(objective: Objective) -> Objective:
    """The same weights, in the same memory, with gradients of its own."""
    shared: dict[int, Any] = {id(own): nn.Parameter(own.detach(), own.requires_grad) for own in objective.parameters()}
    return copy.deepcopy(objective, shared)


def precision(name: str, device: torch.device) -> Any:
    """Matrix products in bfloat16 where that is asked for; the weights stay in float32."""
    return torch.autocast(device.type, torch.bfloat16) if name == "bfloat16" else nullcontext()


def out_of_memory(problem: Exception) -> bool:
    """Whether there was no room: oneDNN says that it could not create something, PyTorch which allocator has none."""
    lacking = ("DefaultCPUAllocator", "could not create a primitive", "could not create a memory")
    return isinstance(problem, (MemoryError, torch.OutOfMemoryError)) or any(map(str(problem).__contains__, lacking))


def first_line(problem: Exception) -> str:
    """What an error says, in one line; its name where it says nothing."""
    return (str(problem).splitlines() or [type(problem).__name__])[0]
