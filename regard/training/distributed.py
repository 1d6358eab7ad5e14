"""Data-parallel training in processes that torchrun starts.

Each process computes the gradients of its share of an update's micro-batches, and an all-reduce
adds them up. An update consists of the same examples in the same micro-batches for any number of
processes, so the loss is equal except for rounding. Every process holds a copy of the model, or
(`sharded`) its shards of weights, gradients and optimizer state.
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

BUCKET = 2**24
"""Numbers in one message of an all-reduce."""
TIMEOUT = timedelta(hours=2)
"""Timeout of a collective: the other processes wait while the main one validates."""


def started_by_torchrun() -> bool:
    """Return whether torchrun, or another launcher of its kind, started this process."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys()


@dataclass(frozen=True)
class World:
    """The processes of a run, and their collectives; without torchrun a single process.

    `restarted` is true if torchrun has restarted all processes after one died, so that the run has
    to be resumed.
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
        """Return the indices of the items that this process computes."""
        return range(self.rank, len(items), self.size)

    def split(self, sharded: bool) -> World:
        """Return the same processes with the weights sharded or not; never without torchrun."""
        return replace(self, sharded=sharded and dist.is_initialized())

    def mark_started(self) -> None:
        """Make all processes that torchrun starts from now on resume this run.

        Call it when the run folder has all files that a resumption needs.
        """
        if self.rendezvous is not None:
            self.rendezvous.mark_started()

    def all_reduce_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replace each gradient with its sum over all processes."""
        # Sharded gradients were added up in the backward pass.
        if self.size == 1 or self.sharded:
            return
        gradients = [
            parameter.grad for parameter in parameters if parameter.grad is not None
        ]
        for bucket in _buckets(gradients):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            dist.all_reduce(flat)
            parts = torch.split(flat, [gradient.numel() for gradient in bucket])
            for gradient, part in zip(bucket, parts, strict=True):
                gradient.copy_(part.view_as(gradient))

    def all_reduce_sum(self, *numbers: float) -> list[float]:
        """Return the sum of each number over all processes."""
        return self._exchanged(numbers, dist.all_reduce)

    def all_reduce_max(self, *numbers: float) -> list[float]:
        """Return the maximum of each number over all processes.

        By it, a decision of one process becomes that of all.
        """
        return self._exchanged(numbers, partial(dist.all_reduce, op=dist.ReduceOp.MAX))

    def broadcast(self, *numbers: float) -> list[float]:
        """Return the numbers of the main process, in every process."""
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
        # The backend NCCL sends from GPU memory only.
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        values = torch.tensor(numbers, dtype=torch.float64, device=device)
        exchange(values)
        return [float(value) for value in values]


@contextmanager
def join_processes(
    device: str, threads: int | None = None
) -> Iterator[tuple[World, str]]:
    """Join torchrun's process group while the block runs; yield the world and the local device.

    Each process computes with this number of `threads`; by default the cores are divided evenly.
    Raises TrainingError if the processes do not find each other, or one ends before the others.
    """
    if not started_by_torchrun():
        yield World(), device
        return
    local = int(os.environ["LOCAL_RANK"])
    if device == "cuda":
        torch.cuda.set_device(local)
    else:  # torchrun allows each process one thread
        processes = int(os.environ["LOCAL_WORLD_SIZE"])
        evenly = max(1, (os.cpu_count() or 1) // processes)
        torch.set_num_threads(threads or evenly)
    with _explain_lost_process():
        world = _init_process_group("nccl" if device == "cuda" else "gloo")
        try:
            yield world, f"cuda:{local}" if device == "cuda" else device
        finally:
            dist.destroy_process_group()


def _init_process_group(backend: str) -> World:
    """Create the process group of all processes that torchrun started."""
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
    """Let processes of one machine communicate over its loopback interface.

    gloo would use the address that the host's name resolves to.
    """
    if os.name != "posix":
        return
    interfaces = [name for _, name in socket.if_nameindex()]
    loopback = [name for name in interfaces if name in ("lo", "lo0")]
    if loopback:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])


@contextmanager
def _explain_lost_process() -> Iterator[None]:
    """Raise TrainingError for the network error that follows if another process has ended."""
    try:
        yield
    except RuntimeError as problem:
        is_gloo = "gloo" in str(problem)
        if not isinstance(problem, dist.DistError) and not is_gloo:
            raise
        cause = str(problem)
        if is_gloo:
            cause = cause.splitlines()[0].rpartition("] ")[2]
        raise TrainingError(
            f"the processes of this run lost each other ({cause.split('. This is')[0]}): most "
            "often one of them ended, and said why. The last checkpoint is kept; `resume=True` "
            "continues from it, as torchrun's max-restarts does by itself"
        ) from problem


def full_tensor(tensor: Tensor) -> Tensor:
    """Return a whole tensor that may be sharded; every process must call this."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _buckets(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Group gradients into buckets of at most `BUCKET` numbers, if none is larger by itself."""
    bucket: list[Tensor] = []
    size = 0
    for gradient in gradients:
        if bucket and size + gradient.numel() > BUCKET:
            yield bucket
            bucket = []
            size = 0
        bucket.append(gradient)
        size += gradient.numel()
    if bucket:
        yield bucket
