"""Cache of machine-specific files, in folders and files that no other user can change."""

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
    """Yield the folders that the cache may be in, in order of preference."""
    if folder := os.environ.get(FOLDER):
        yield Path(folder)
        return
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    with suppress(RuntimeError):  # raised for a user without a home folder
        parent = configured if configured.is_absolute() else Path.home() / ".cache"
        yield parent / "regard"
    import tempfile  # late, since callers rarely ask for this folder

    yield Path(tempfile.gettempdir()) / f"regard-{_user()}"


def private_folders() -> Iterator[Path]:
    """Yield `lasting_folders`, or a temporary folder if there is none and the user has configured
    none.

    The temporary folder is deleted when the process ends.
    """
    is_lasting = False
    for folder in lasting_folders():
        is_lasting = True
        yield folder
    if not (is_lasting or os.environ.get(FOLDER)):
        yield from _process_folders()


def lasting_folders() -> Iterator[Path]:
    """Yield the cache folders that no other user can change; missing folders are created."""
    for folder in cache_folders():
        is_private = False
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_private = _is_private(folder)
        if is_private:
            yield folder


@functools.cache
def _process_folders() -> list[Path]:
    """Create a folder for this process alone, with a warning; return no folder if it is not
    private.
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
    """Read a file of this user.

    Returns None if it is missing, too large, a link, not a regular file, or writable by others.
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
    """Return whether this is a regular file of this user that nobody else can write to."""
    with suppress(OSError):
        status = path.lstat()
        return stat.S_ISREG(status.st_mode) and _is_own(status)
    return False


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only this user can read, sync it to disk, and rename it to its path.

    A link at that path is replaced, not followed. Raises OSError.
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
    """Return whether no other user can put a file into this folder, or replace the folder."""
    uid = _user()
    resolved = Path(os.path.realpath(folder))
    for part in (folder.absolute(), *folder.absolute().parents):
        status = part.lstat()
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, uid):
            return False  # another user decides where the link leads
    if not (resolved.is_dir() and _is_own(resolved.lstat())):
        return False
    # The root folder is not checked, since some containers leave it writable; whoever can replace
    # its subfolders can replace Python and the compiler, too.
    modes = [
        parent.stat().st_mode
        for parent in resolved.parents
        if parent != Path(resolved.anchor)
    ]
    return os.name == "nt" or not any(
        mode & stat.S_IWOTH and not mode & stat.S_ISVTX for mode in modes
    )


def _is_own(status: os.stat_result) -> bool:
    """Return whether a file or folder belongs to this user and only this user may write to it."""
    return os.name == "nt" or (
        status.st_uid == _user() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
