"""Atomic writing of files and folders (written beside, then renamed), and the SHA-256 of files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from regard.errors import DataError

_CHUNK = 1 << 20  # bytes


@contextlib.contextmanager
def atomic_file(path: str | Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to; at the end it replaces `path`, or is removed after an error.

    A reader never sees half a file. If `path` is a symbolic link, its target is replaced and the link stays.
    `durable` syncs the data to disk before the rename, and the name after it. Raises OSError.
    """
    final = os.path.realpath(path)
    temporary = Path(f"{final}.partial")
    if temporary.is_symlink():  # not ours: writing would follow it
        temporary.unlink()
    try:
        yield temporary
        if durable:
            sync(temporary)
        os.replace(temporary, final)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        _sync_names(Path(final).parent)


@contextlib.contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a new, empty folder beside `folder`; at the end it replaces `folder`, or is removed after an error.

    What is in it is synced to disk before the rename, so that no power failure leaves a folder of empty files. A kill
    at any point loses neither: between two renames the old folder is `.folder.regard-replaced`, which nobody else calls
    a folder, and the next call gives it its name back. A symbolic link stays, and what it leads to is replaced. Raises
    OSError.
    """
    final = Path(os.path.realpath(folder))
    temporary, replaced = final.with_name(f"{final.name}.partial"), final.with_name(f".{final.name}.regard-replaced")
    _undo_replacement(final, replaced)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for path in temporary.rglob("*"):
            if path.is_file() and not path.is_symlink():
                sync(path)
        for path in (temporary, *(path for path in temporary.rglob("*") if path.is_dir())):
            _sync_names(path)
        if final.is_dir():
            final.rename(replaced)
        temporary.rename(final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        _undo_replacement(final, replaced)
        raise
    _sync_names(final.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _undo_replacement(final: Path, replaced: Path) -> None:
    """Give a folder its name back if nothing new has it; else remove it. A link of this name is not ours."""
    if replaced.is_symlink() or not replaced.is_dir():
        return
    if os.path.lexists(final):
        shutil.rmtree(replaced, ignore_errors=True)
    else:
        replaced.rename(final)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file atomically, synced to disk; write directly to what cannot be replaced, such as /dev/null or a pipe.

    Raises DataError if the file cannot be written.
    """
    try:
        if not replaceable(Path(path)):
            with Path(path).open("ab") as file:
                file.write(data)
            return
        with atomic_file(path, durable=True) as temporary:
            temporary.write_bytes(data)
    except OSError as problem:
        raise DataError(f"{path}: cannot be written ({problem.strerror}); choose another path") from None


def write_text(path: str | Path, text: str) -> None:
    """Like `write_bytes`, as UTF-8 with the line breaks as they are."""
    write_bytes(path, text.encode())


def replaceable(path: Path) -> bool:
    """Return whether another file may replace this path: not a device, a pipe, or a file that is open already."""
    folder = path.absolute().parent
    opened = folder in (Path("/dev"), Path("/dev/fd")) or folder.is_relative_to("/proc")  # /dev/stdout and the like
    return (path.is_file() and not opened) or not path.exists()


def sync(path: Path) -> None:
    """Flush a file, or a folder's list of names, to disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_names(folder: Path) -> None:
    """Flush a folder's list of names to disk, if its file system can."""
    with contextlib.suppress(OSError):
        sync(folder)


def file_sha256(*paths: str | Path) -> str:
    """Return the SHA-256 of a file in hexadecimal; of several files, that of their contents one after another."""
    digest = hashlib.sha256()
    for path in paths:
        with (Path(path) if isinstance(path, str) else path).open("rb") as file:
            while data := file.read(_CHUNK):
                digest.update(data)
    return digest.hexdigest()
