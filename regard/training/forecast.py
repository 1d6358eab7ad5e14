"""Forecast of training with several processes of this machine: time and memory."""

from __future__ import annotations

import statistics
import subprocess
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as torch_distributed

from regard.common.errors import UsageError
from regard.common.processes import module_command, torch_threads
from regard.data.batch_stream import BatchSource
from regard.training.budget import trial
from regard.training.recipe import Recipe

SHARDED_COPIES = {True: 4.0, "layers": 5.5}
"""Copies of the weights, at peak memory, that sharding divides; measured (docs/log/speed.md)."""
_MESSAGE_SIZE = 1 << 23
"""Numbers in a message."""
_MESSAGES = 4

dist: Any = torch_distributed  # its annotations omit documented names


@dataclass(frozen=True)
class Forecast:
    """Time and memory of each of `processes`, with `threads` each.

    `seconds` is the time of an update, and `communication` the part of it in which gradients are
    added up. `mebibytes` is the memory of each process; None if the system does not report memory.
    """

    processes: int
    threads: int
    seconds: float
    communication: float
    mebibytes: float | None


def forecast(
    recipe: Recipe,
    batches: BatchSource,
    vocabularies: tuple[int, int],
    device: str,
    processes: int,
    mebibytes: float | None = None,
) -> Forecast:
    """Time the share of one process with its share of the cores, and add the communication.

    `mebibytes` is the memory of a single process. Gradients are added up in a ring: each of N
    processes sends 2 (N - 1) / N times their size (Patarasuk and Yuan, 2009). On GPUs each process
    has its own, and the time of communication is unknown. Raises UsageError if an update has fewer
    micro-batches than there are processes.
    """
    if processes > batches.per_update:
        raise UsageError(
            f"`processes={processes}`: so many cannot share the {batches.per_update} micro-batches "
            f"of an update; set batching.micro_batches={processes}"
        )
    is_cpu = device == "cpu"
    before = torch.get_num_threads()
    threads = max(1, before // processes)
    with torch_threads(threads):
        timed = trial(recipe, batches, vocabularies, device, processes)
    # More processes than cores take turns.
    queueing = max(1.0, processes * threads / before) if is_cpu else 1.0
    communication = 0.0
    if processes > 1 and is_cpu:
        sent_bytes = 2 * (processes - 1) / processes * 4 * timed.weights
        if recipe.training.sharded:
            sent_bytes *= 1.5
        communication = sent_bytes * processes / 2 / loopback_speed()
    memory = mebibytes
    if memory is not None and recipe.training.sharded:
        copies = SHARDED_COPIES[recipe.training.sharded]
        # The other processes hold their shares of the copies.
        memory -= copies * (1 - 1 / processes) * 4 * timed.weights / 2**20
    return Forecast(
        processes,
        threads,
        timed.seconds * queueing + communication,
        communication,
        memory,
    )


def loopback_speed() -> float:
    """Return the bytes a second that two processes of this machine each send in an all-reduce."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    command = module_command(
        "regard.training.forecast", call=f"take_part(1, {store.port})"
    )
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as other:
        try:
            seconds = take_part(0, store.port)[1:]
            return 4 * _MESSAGE_SIZE / statistics.median(seconds)
        finally:
            other.terminate()


def take_part(rank: int, port: int) -> list[float]:
    """All-reduce a few messages with the other process, and return the seconds of each."""
    gloo = dist.ProcessGroupGloo
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    options = gloo._Options()
    seconds = []
    options._devices = [gloo.create_device(hostname="127.0.0.1")]
    options._timeout = timedelta(seconds=60)
    group = gloo(store, rank, 2, options)
    message = torch.ones(_MESSAGE_SIZE)
    for _ in range(_MESSAGES):
        began = time.perf_counter()
        group.allreduce(message).wait()
        seconds.append(time.perf_counter() - began)
    return seconds
