"""Processes: commands that start them, which import nothing from the current folder; their memory
and threads.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

# Which need not be on the path of Python, if it is this process's folder.
_ROOT = str(Path(__file__).parents[2])


def module_command(module: str, *arguments: str, call: str = "main()") -> list[str]:
    """Return the command that calls a function of a module; unlike `python -m`, it imports nothing
    from this folder.

    That folder is taken off the path before any import, as by the option -P, which Python 3.10
    lacks.
    """
    path = f"import sys; sys.path[:] = [*filter(None, sys.path), {_ROOT!r}]"
    code = f"{path}; from {module} import {call.partition('(')[0]}; sys.exit({call})"
    return [sys.executable, "-c", code, *arguments]


class HasThreads(Protocol):
    """An object that has threads or locks, which do not exist, or are held for ever, in a process
    that was forked.
    """

    def forget_threads(self) -> None: ...


_WITH_THREADS: WeakSet[HasThreads] = WeakSet()


def forget_threads_after_fork(owner: HasThreads) -> None:
    """Let an object forget its threads in each process that is forked from this one."""
    _WITH_THREADS.add(owner)


def _forget_threads() -> None:
    for owner in [*_WITH_THREADS]:
        owner.forget_threads()


if hasattr(os, "register_at_fork"):  # where processes are forked
    os.register_at_fork(after_in_child=_forget_threads)


def peak_memory() -> float | None:
    """Return the peak memory of this process in MiB; None on Windows, which does not keep it.

    On Linux `ru_maxrss` is never below that of the process that started this one, so the kernel's
    own record is read.
    """
    status = Path("/proc/self/status")
    if peak := re.search(
        rb"VmHWM:\s+(\d+)", status.read_bytes() if status.exists() else b""
    ):
        return int(peak[1]) / 1024
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        2**20 if sys.platform == "darwin" else 1024
    )


@contextmanager
def torch_threads(count: int | None = None) -> Iterator[None]:
    """Let PyTorch compute with so many threads as long as the block runs, and with as many as
    before after it.
    """
    import torch

    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
