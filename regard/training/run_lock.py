"""One process a run folder: two that trained in the same one would overwrite each other's checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import UsageError

__all__ = ["lock_run"]


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Make the folder, and keep other processes out of it for as long as the block runs; the system lets go of it when
    this process ends, however it does. A folder that stays empty is taken away again.

    Raises UsageError where another process holds it. Where folders cannot be locked (Windows), nothing is checked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    held = _held(folder)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)
        with suppress(OSError):
            folder.rmdir()


def _held(folder: Path) -> int | None:
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise UsageError(
            f"{folder}: another process is training in it; wait for that or stop it, or choose another --out"
        ) from None
    except OSError:  # some network file systems lock no folders
        os.close(handle)
        return None
    return handle
