"""Lock of a run folder, so that two processes do not overwrite each other's checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from regard.common.atomic import lock_folder
from regard.common.errors import UsageError


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Create a folder and lock it while the block runs; a folder that stays empty is removed.

    The system releases the lock even if this process is killed. Raises UsageError if another
    process has locked the folder. On Windows, where folders cannot be locked, nothing is checked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_folder(folder, wait=False))
        except BlockingIOError:
            raise UsageError(
                f"{folder}: another process is training in it; wait for that or stop it, or choose "
                "another `out=`"
            ) from None
        try:
            yield
        finally:
            with suppress(OSError):
                folder.rmdir()


def is_locked(folder: Path) -> bool:
    """Return whether a process is training in this folder."""
    try:
        with lock_folder(folder, wait=False):
            return False
    except OSError:
        return True
