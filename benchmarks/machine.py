"""Matrix rates of the machine, and the load of other processes. `python machine.py THREADS` prints
the rates.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Clock", "children", "clock", "matrix_rate", "others", "peak_memory"]

PROC = Path("/proc")


class Clock(NamedTuple):
    """Core-seconds used so far by the whole machine, and by this process with its children."""

    machine: float
    own: float
    wall: float


def matrix_rate(
    precision: str, threads: int, size: int = 2048, tries: int = 12
) -> float:
    """Return the floating-point operations per second of the fastest of several square matrix
    products.
    """
    import torch

    torch.set_num_threads(threads)
    a, b = (torch.randn(size, size, dtype=getattr(torch, precision)) for _ in range(2))
    seconds = []
    for _ in range(tries):
        began = time.perf_counter()
        torch.mm(a, b)
        seconds.append(time.perf_counter() - began)
    return 2 * size**3 / min(seconds)


def clock() -> Clock | None:
    """Return the clocks now, read from /proc; None if the system has none."""
    try:
        # user, nice, system, (idle, waiting,) interrupts, soft interrupts, stolen
        fields = [
            int(x) for x in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]
        ]
    except OSError:
        return None
    tick = os.sysconf("SC_CLK_TCK")
    busy = sum(fields[:3]) + sum(fields[5:8])
    alive = sum(float(x) for child in children() for x in _stat(child)[11:13])
    return Clock(busy / tick, sum(os.times()[:4]) + alive / tick, time.perf_counter())


def others(before: Clock | None, after: Clock | None) -> float | None:
    """Return the number of cores that other processes used between two clocks."""
    if before is None or after is None:
        return None
    used = (after.machine - before.machine) - (after.own - before.own)
    return round(used / (after.wall - before.wall), 2)


def peak_memory() -> int:
    """Return the peak memory in MB of this process and its living children."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # Linux counts in KB
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return (own + sum(_peak_of(child) for child in children())) // 2**20


def children() -> Iterator[int]:
    """Yield the living children of this process: some systems read their data in one."""
    for folder in PROC.glob("[0-9]*"):
        if _stat(int(folder.name))[1] == str(os.getpid()):
            yield int(folder.name)


def _stat(process: int) -> list[str]:
    """Return the fields of /proc/N/stat from the state on; zeros if the process has ended."""
    try:
        return (PROC / str(process) / "stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ["0"] * 50


def _peak_of(process: int) -> int:
    try:
        lines = (PROC / str(process) / "status").read_text().splitlines()
    except OSError:
        return 0
    return sum(
        int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")
    )


if __name__ == "__main__":
    threads = int(sys.argv[1])
    before = clock()
    rates = {name: matrix_rate(name, threads) for name in ("float32", "bfloat16")}
    print(json.dumps({"matrix_rate": rates, "other_cores": others(before, clock())}))
