"""Many processes on one run: torchrun starts them, each computes its share of an update's batches, gradients add up.

An update is the same examples in the same batches however many processes there are, so the loss is the same too,
rounding apart. Copies of the model on every process, or (`sharded`) gradients, optimizer and average split over them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from regard.errors import TrainingError
from regard.shapes import Tensor
from regard.training.rendezvous import Rendezvous, meet, torchrun_store

__all__ = ["World", "full", "joined", "started_by_torchrun"]

BUCKET = 2**24  # numbers that travel in one message
PATIENCE = timedelta(hours=2)  # the others wait while the first process validates


def started_by_torchrun() -> bool:
    """Whether this process is one of several."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys()


@dataclass(frozen=True)
class World:
    """Which of how many processes this one is; without torchrun the only one. `again`: they were started anew after one
    of them died, and the run that had begun is to be resumed.
    """

    rank: int = 0
    size: int = 1
    sharded: bool = False
    restarted: bool = False
    rendezvous: Rendezvous | None = None

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and tells the user."""
        return self.rank == 0

    def share(self, things: Sequence[object]) -> range:
        """The places of the things that are this process's to do."""
        return range(self.rank, len(things), self.size)

    def split(self, sharded: bool) -> World:
        """The same processes, with the weights split over them or not; without torchrun there is nobody to help."""
        return replace(self, sharded=sharded and dist.is_initialized())

    def begun(self) -> None:
        """The run's folder has all that is needed to go on: what torchrun starts from now on resumes it."""
        if self.rendezvous is not None:
            self.rendezvous.begun()

    def all_reduce_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replace each gradient with its sum over all processes."""
        if self.size == 1 or self.sharded:  # sharded gradients were added up in the backward pass
            return
        for bucket in _buckets([parameter.grad for parameter in parameters if parameter.grad is not None]):
            together = torch.cat([gradient.flatten() for gradient in bucket])
            dist.all_reduce(together)
            parts = torch.split(together, [gradient.numel() for gradient in bucket])
            for gradient, part in zip(bucket, parts, strict=True):
                gradient.copy_(part.view_as(gradient))

    def all_reduce_sum(self, *numbers: float) -> list[float]:
        """The sum of each number over all processes."""
        return self._reduced(numbers, dist.ReduceOp.SUM) if self.size > 1 else list(numbers)

    def all_reduce_max(self, *numbers: float) -> list[float]:
        """The largest of each number over all processes: a decision of one becomes that of all."""
        return self._reduced(numbers, dist.ReduceOp.MAX) if self.size > 1 else list(numbers)

    def broadcast(self, *numbers: float) -> list[float]:
        """The numbers of the first process."""
        if self.size == 1:
            return list(numbers)
        values = torch.tensor(numbers, dtype=torch.float64, device=_messenger())
        dist.broadcast(values, 0)
        return [float(value) for value in values]

    def barrier(self) -> None:
        """Until all processes have come here."""
        if self.size > 1:
            dist.barrier()

    def _reduced(self, numbers: Sequence[float], how: dist.ReduceOp.RedOpType) -> list[float]:
        values = torch.tensor(numbers, dtype=torch.float64, device=_messenger())
        dist.all_reduce(values, how)
        return [float(value) for value in values]


@contextmanager
def joined(device: str, threads: int | None = None) -> Iterator[tuple[World, str]]:
    """The processes that torchrun started, for as long as the block runs, and the device of this one. Each computes
    with so many `threads`; without a number the cores are shared out.

    Raises TrainingError where they do not find each other, or one ends before the others.
    """
    if not started_by_torchrun():
        yield World(), device
        return
    local = int(os.environ["LOCAL_RANK"])
    if device == "cuda":
        torch.cuda.set_device(local)
    else:  # torchrun allows each process one thread
        torch.set_num_threads(threads or max(1, (os.cpu_count() or 1) // int(os.environ["LOCAL_WORLD_SIZE"])))
    with _lost_each_other():
        world = _met("nccl" if device == "cuda" else "gloo")
        try:
            yield world, f"cuda:{local}" if device == "cuda" else device
        finally:
            dist.destroy_process_group()


def _met(backend: str) -> World:
    """The world of all processes of this start."""
    rank, size, lasting = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), torchrun_store()
    if lasting is not None:
        meeting = meet(lasting, rank, size)
        dist.init_process_group(backend, store=meeting.store, rank=rank, world_size=size, timeout=PATIENCE)
        return World(rank, size, restarted=meeting.restarted, rendezvous=meeting)
    dist.init_process_group(backend, timeout=PATIENCE)
    world = World(rank, size)
    restarts = float(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    return replace(world, restarted=world.all_reduce_max(restarts) > [0.0])


@contextmanager
def _lost_each_other() -> Iterator[None]:
    """When one process ends, the others notice by an error of the network: it is told as what it is."""
    try:
        yield
    except RuntimeError as problem:
        if not isinstance(problem, dist.DistError) and "gloo" not in str(problem):
            raise
        what = str(problem).splitlines()[0].rpartition("] ")[2] if "gloo" in str(problem) else str(problem)
        raise TrainingError(
            f"the processes of this run lost each other ({what.split('. This is')[0]}): most often one of them ended, "
            "and said why. The last checkpoint is kept; --resume goes on from it, as torchrun --max-restarts 3 does by "
            "itself"
        ) from problem


def full(tensor: Tensor) -> Tensor:
    """All of a tensor that may be split over the processes; every process must ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _buckets(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    for gradient in gradients:
        if bucket and sum(some.numel() for some in bucket) + gradient.numel() > BUCKET:
            yield bucket
            bucket = []
        bucket.append(gradient)
    if bucket:
        yield bucket


def _messenger() -> str:
    """Where small numbers are sent from."""
    return "cuda" if dist.get_backend() == "nccl" else "cpu"
