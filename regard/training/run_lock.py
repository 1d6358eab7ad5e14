"""Lock of a run folder: two processes that train in the same one would overwrite each other's checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import UsageError


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Create the folder and lock it as long as the block runs; the system unlocks it however this process ends. A
    folder that stays empty is removed.

    Raises UsageError if another process has locked it. If folders cannot be locked (Windows), nothing is checked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = _lock(folder)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
        with suppress(OSError):
            folder.rmdir()


def is_locked(folder: Path) -> bool:
    """Return whether a process is training in this folder."""
    try:
        handle = _lock(folder)
    except (UsageError, OSError):
        return True
    if handle is not None:
        os.close(handle)
    return False


def _lock(folder: Path) -> int | None:
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
            f"{folder}: another process is training in it; wait for that or stop it, or choose another `out=`"
        ) from None
    except OSError:  # some network file systems lock no folders
        os.close(handle)
        return None
    return handle
