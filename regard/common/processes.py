"""Start processes that import nothing from the current folder; handle their memory and threads."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

# If this is the current folder, it may be missing on the path of Python.
_ROOT = str(Path(__file__).parents[2])


def module_command(module: str, *arguments: str, call: str = "main()") -> list[str]:
    """Return the command that calls a function of a module; unlike `python -m`, it imports nothing
    from the current folder.

    That folder is removed from the path before any import, as by the option -P, which Python 3.10
    lacks.
    """
    path = f"import sys; sys.path[:] = [*filter(None, sys.path), {_ROOT!r}]"
    code = f"{path}; from {module} import {call.partition('(')[0]}; sys.exit({call})"
    return [sys.executable, "-c", code, *arguments]


class HasThreads(Protocol):
    """An object with threads or locks, which do not exist, or are held for ever, in a forked
    process.
    """

    def forget_threads(self) -> None: ...


_WITH_THREADS: WeakSet[HasThreads] = WeakSet()


def forget_threads_after_fork(owner: HasThreads) -> None:
    """Let an object forget its threads in each process that is forked from this one."""
    _WITH_THREADS.add(owner)


def _forget_threads() -> None:
    for owner in [*_WITH_THREADS]:
        owner.forget_threads()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_threads)


def peak_memory() -> float | None:
    """Return the peak memory of this process in MiB; None on Windows, which does not record it.

    On Linux, `ru_maxrss` includes the peak of the parent process, so the kernel's own record is
    read.
    """
    status = Path("/proc/self/status")
    if status.exists():
        peak = re.search(rb"VmHWM:\s+(\d+)", status.read_bytes())
        if peak is not None:
            return int(peak[1]) / 1024
    try:
        import resource
    except ImportError:
        return None
    unit = 2**20 if sys.platform == "darwin" else 1024  # bytes on macOS, else KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


@contextmanager
def torch_threads(count: int | None = None) -> Iterator[None]:
    """Let PyTorch use `count` threads in the block, and restore the previous number afterwards."""
    import torch

    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
