"""Data-parallel training: torchrun starts processes, each computes its share of an update,
gradients all-reduce.

An update is the same examples in the same micro-batches however many processes there are, so the
loss is the same too, rounding apart. Every process holds a copy of the model, or (`sharded`) its
share of weights, gradients and optimizer.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from regard.common.errors import TrainingError
from regard.common.shapes import Tensor
from regard.training.rendezvous import Rendezvous, rendezvous, torchrun_store

BUCKET = 2**24  # numbers in one message
# Of a collective: the others wait while the main process validates.
TIMEOUT = timedelta(hours=2)


def started_by_torchrun() -> bool:
    """Return whether torchrun, or another launcher of its kind, started this process."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys()


@dataclass(frozen=True)
class World:
    """Rank and number of the processes of a run, and their collectives; without torchrun a single
    process.

    `restarted`: torchrun has started all processes again after one died, and the run they had begun
    is to be resumed.
    """

    rank: int = 0
    size: int = 1
    sharded: bool = False
    restarted: bool = False
    rendezvous: Rendezvous | None = None

    @property
    def is_main(self) -> bool:
        """True for the process that writes files and reports."""
        return self.rank == 0

    def share(self, items: Sequence[object]) -> range:
        """Indices of the items that this process computes."""
        return range(self.rank, len(items), self.size)

    def split(self, sharded: bool) -> World:
        """The same processes with the weights split over them or not; never without torchrun."""
        return replace(self, sharded=sharded and dist.is_initialized())

    def mark_started(self) -> None:
        """Make processes that torchrun starts from now on resume this run: its folder has all that
        this takes.
        """
        if self.rendezvous is not None:
            self.rendezvous.mark_started()

    def all_reduce_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replace each gradient with its sum over all processes."""
        # Sharded gradients were added up in the backward pass.
        if self.size == 1 or self.sharded:
            return
        for bucket in _buckets(
            [parameter.grad for parameter in parameters if parameter.grad is not None]
        ):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            dist.all_reduce(flat)
            parts = torch.split(flat, [gradient.numel() for gradient in bucket])
            for gradient, part in zip(bucket, parts, strict=True):
                gradient.copy_(part.view_as(gradient))

    def all_reduce_sum(self, *numbers: float) -> list[float]:
        """Sum of each number over all processes."""
        return self._exchanged(numbers, dist.all_reduce)

    def all_reduce_max(self, *numbers: float) -> list[float]:
        """Maximum of each number over all processes: a decision of one becomes that of all."""
        return self._exchanged(numbers, partial(dist.all_reduce, op=dist.ReduceOp.MAX))

    def broadcast(self, *numbers: float) -> list[float]:
        """The numbers of the main process, on every process."""
        return self._exchanged(numbers, partial(dist.broadcast, src=0))

    def barrier(self) -> None:
        """Wait until all processes have reached this call."""
        if self.size > 1:
            dist.barrier()

    def _exchanged(
        self, numbers: Sequence[float], exchange: Callable[[Tensor], object]
    ) -> list[float]:
        if self.size == 1:
            return list(numbers)
        # From which the backend sends.
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        values = torch.tensor(numbers, dtype=torch.float64, device=device)
        exchange(values)
        return [float(value) for value in values]


@contextmanager
def join_processes(
    device: str, threads: int | None = None
) -> Iterator[tuple[World, str]]:
    """Join the process group of torchrun as long as the block runs; yields the world and the device
    of this process.

    Each process computes with so many `threads`; without a number the cores are divided evenly.
    Raises TrainingError if the processes do not find each other, or one ends before the others.
    """
    if not started_by_torchrun():
        yield World(), device
        return
    local = int(os.environ["LOCAL_RANK"])
    if device == "cuda":
        torch.cuda.set_device(local)
    else:  # torchrun allows each process one thread
        torch.set_num_threads(
            threads
            or max(1, (os.cpu_count() or 1) // int(os.environ["LOCAL_WORLD_SIZE"]))
        )
    with _explain_lost_process():
        world = _init_process_group("nccl" if device == "cuda" else "gloo")
        try:
            yield world, f"cuda:{local}" if device == "cuda" else device
        finally:
            dist.destroy_process_group()


def _init_process_group(backend: str) -> World:
    """Join all processes of this start."""
    rank = int(os.environ["RANK"])
    size = int(os.environ["WORLD_SIZE"])
    lasting = torchrun_store()
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]:
        _stay_on_loopback()
    if lasting is not None:
        start = rendezvous(lasting, rank, size)
        dist.init_process_group(
            backend, store=start.store, rank=rank, world_size=size, timeout=TIMEOUT
        )
        return World(rank, size, restarted=start.restarted, rendezvous=start)
    dist.init_process_group(backend, timeout=TIMEOUT)
    world = World(rank, size)
    restarts = float(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    return replace(world, restarted=world.all_reduce_max(restarts) > [0.0])


def _stay_on_loopback() -> None:
    """Let processes of one machine talk over its loopback interface; gloo would take the address of
    the host's name.
    """
    loopback = (
        [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
        if os.name == "posix"
        else []
    )
    if loopback:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])


@contextmanager
def _explain_lost_process() -> Iterator[None]:
    """Turn the network error by which the others notice that a process has ended into a
    TrainingError.
    """
    try:
        yield
    except RuntimeError as problem:
        if not isinstance(problem, dist.DistError) and "gloo" not in str(problem):
            raise
        cause = (
            str(problem).splitlines()[0].rpartition("] ")[2]
            if "gloo" in str(problem)
            else str(problem)
        )
        raise TrainingError(
            f"the processes of this run lost each other ({cause.split('. This is')[0]}): most "
            "often one of them ended, and said why. The last checkpoint is kept; `resume=True` "
            "continues from it, as torchrun's max-restarts does by itself"
        ) from problem


def full_tensor(tensor: Tensor) -> Tensor:
    """The whole of a tensor that may be split over the processes; every process must call this."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _buckets(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    for gradient in gradients:
        if (
            bucket
            and sum(member.numel() for member in bucket) + gradient.numel() > BUCKET
        ):
            yield bucket
            bucket = []
        bucket.append(gradient)
    if bucket:
        yield bucket
