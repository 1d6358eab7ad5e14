"""Cache for files that were made for this machine, only in folders and files that no other user can
change.
"""

from __future__ import annotations

import atexit
import functools
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from regard.common.atomic import sync

FOLDER = "REGARD_CACHE"


def cache_folders() -> Iterator[Path]:
    """Yield the folders that the cache may be in, the first choice first; mostly nobody asks for
    the second one.
    """
    if folder := os.environ.get(FOLDER):
        yield Path(folder)
        return
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    with suppress(RuntimeError):  # a user without a home
        yield (
            configured if configured.is_absolute() else Path.home() / ".cache"
        ) / "regard"
    import tempfile

    yield Path(tempfile.gettempdir()) / f"regard-{_user()}"


def private_folders() -> Iterator[Path]:
    """Yield `lasting_folders`.

    If there is none, although the user named none, files last as long as this process, in a folder
    of its own.
    """
    is_lasting = False
    for folder in lasting_folders():
        is_lasting = True
        yield folder
    if not (is_lasting or os.environ.get(FOLDER)):
        yield from _process_folders()


def lasting_folders() -> Iterator[Path]:
    """Yield those of `cache_folders` that are this user's alone; missing ones are created."""
    for folder in cache_folders():
        is_private = False
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_private = _is_private(folder)
        if is_private:
            yield folder


@functools.cache
def _process_folders() -> list[Path]:
    """Create a folder for this process alone, with a warning; empty if even that would be in the
    hands of others.
    """
    import shutil
    import tempfile

    with suppress(OSError):
        folder = Path(tempfile.mkdtemp(prefix="regard-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        if _is_private(folder):
            names = " and ".join(map(str, cache_folders()))
            warnings.warn(
                f"{names}: others can write there, or nobody can, so nothing is kept there; "
                f"kernels are compiled again by each process: set {FOLDER} to a folder that is "
                "writable and yours alone",
                stacklevel=2,
            )
            return [folder]
    return []


def read_private(path: Path, max_bytes: int) -> bytes | None:
    """Read a file of this user; None if it is missing, too large, a link, no regular file, or
    writable by others.
    """
    flags = (
        os.O_RDONLY
        | getattr(os, "O_NOFOLLOW", 0)
        | getattr(os, "O_NONBLOCK", 0)
        | getattr(os, "O_BINARY", 0)
    )
    with suppress(OSError), open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if (
            stat.S_ISREG(status.st_mode)
            and _is_own(status)
            and status.st_size <= max_bytes
        ):
            return file.read(max_bytes)
    return None


def is_private_file(path: Path) -> bool:
    """Return whether this is a regular file of this user, and nobody else can write to it."""
    with suppress(OSError):
        status = path.lstat()
        return stat.S_ISREG(status.st_mode) and _is_own(status)
    return False


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only this user can read, synced to disk, then renamed; a link is replaced,
    not followed.

    Raises OSError.
    """
    import tempfile

    handle, temporary = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    with suppress(OSError):  # some systems cannot sync folders
        sync(path.parent)


def _is_private(folder: Path) -> bool:
    """Return whether nobody else can put a file into this folder, nor another folder in its
    place.
    """
    uid = _user()
    resolved = Path(os.path.realpath(folder))
    for part in (folder.absolute(), *folder.absolute().parents):
        status = part.lstat()
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, uid):
            return False  # another user decides where it leads
    if not (resolved.is_dir() and _is_own(resolved.lstat())):
        return False
    # Whoever can exchange folders of the root can exchange Python and the compiler too; some
    # containers leave it open.
    modes = [
        parent.stat().st_mode
        for parent in resolved.parents
        if parent != Path(resolved.anchor)
    ]
    return os.name == "nt" or not any(
        mode & stat.S_IWOTH and not mode & stat.S_ISVTX for mode in modes
    )


def _is_own(status: os.stat_result) -> bool:
    """Return whether a file or folder belongs to this user, and only this user may write to it."""
    return os.name == "nt" or (
        status.st_uid == _user() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
