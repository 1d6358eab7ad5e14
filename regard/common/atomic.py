"""Write files and folders atomically, beside their path and then renamed; hash files by SHA-256."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from regard.common.errors import DataError

_CHUNK = 1 << 20  # bytes
_LEFTOVERS = ".*.regard-*.partial"  # temporary folders of commands that were killed
_REPLACED = ".replaced"


@contextlib.contextmanager
def atomic_file(
    path: str | Path, *, durable: bool = False, unnamed: bool = False
) -> Iterator[Path]:
    """Yield a temporary path beside `path`; at the end, the file written to it replaces `path`.

    A reader never sees an incomplete file, and after an error the temporary file is removed. If
    `path` is a symbolic link, its target is replaced and the link stays. `durable` syncs the data
    to disk before the rename, and the name after it. `unnamed` writes to a file without a name
    until it is complete, if the system supports this, so that a killed process leaves nothing
    behind; such a file must be written by opening the yielded path, and neither replaced nor
    removed. Raises OSError.
    """
    final = Path(os.path.realpath(path))
    with contextlib.ExitStack() as stack:
        stack.enter_context(_named_in_errors(path))
        source = stack.enter_context(_unnamed_file(final.parent)) if unnamed else None
        if source is not None:
            yield source
            if durable:
                sync(source)
        private = stack.enter_context(_private_folder(final))
        temporary = private / final.name
        if source is not None:
            _give_name(source, temporary)
        else:
            yield temporary
            if durable:
                sync(temporary)
        os.replace(temporary, final)
    if durable:
        _sync_names(final.parent)


@contextlib.contextmanager
def _named_in_errors(path: str | Path) -> Iterator[None]:
    """Give a failed write, such as one to a full disk, the path that was to be written."""
    try:
        yield
    except OSError as problem:
        if problem.filename is None:
            problem.filename = str(path)
        raise


@contextlib.contextmanager
def _unnamed_file(folder: Path) -> Iterator[Path | None]:
    """Yield a path by which this process can open a new file without a name; None if unsupported.

    Unless the file has been given a name, the system removes it when it is closed or this process
    ends.
    """
    try:
        handle = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    except (AttributeError, OSError):  # another system, or another file system
        yield None
        return
    try:
        path = Path(f"/proc/self/fd/{handle}")
        yield path if path.exists() else None
    finally:
        os.close(handle)


def _give_name(unnamed: Path, path: Path) -> None:
    """Link an unnamed file into its folder."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # Python follows the link only if a folder descriptor is given.
        os.link(unnamed, path.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


@contextlib.contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a new, empty folder; at the end it replaces `folder`, or is removed after an error.

    Its content is synced to disk before the rename, so that a power failure does not leave empty
    files. If the process is killed between two renames, the next write beside the folder gives the
    old folder its name back. A symbolic link stays, and its target is replaced. Raises OSError.
    """
    import shutil

    final = Path(os.path.realpath(folder))
    final.parent.mkdir(parents=True, exist_ok=True)
    with _named_in_errors(folder), _private_folder(final) as private:
        temporary = private / final.name
        replaced = private / f"{final.name}{_REPLACED}"
        temporary.mkdir()
        yield temporary
        for path in temporary.rglob("*"):
            if path.is_file() and not path.is_symlink():
                sync(path)
        inner_folders = [path for path in temporary.rglob("*") if path.is_dir()]
        for path in (temporary, *inner_folders):
            _sync_names(path)
        # Another process may replace the folder at the same time: the last one wins.
        while True:
            try:
                temporary.rename(final)
                break
            except OSError:
                if not final.is_dir():
                    raise
            shutil.rmtree(replaced, ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):
                final.rename(replaced)
    _sync_names(final.parent)


@contextlib.contextmanager
def _private_folder(final: Path) -> Iterator[Path]:
    """Yield a new folder beside `final` that only this user may enter, and remove it at the end.

    The folder is locked meanwhile. Folders of killed commands, which are no longer locked, are
    removed first.
    """
    import shutil
    import tempfile

    for left in final.parent.glob(_LEFTOVERS):
        with contextlib.suppress(OSError):
            if not left.is_symlink():
                with lock_folder(left, wait=False) as is_locked:
                    _give_back(left)
                    if is_locked:
                        shutil.rmtree(left, ignore_errors=True)
    while True:
        try:
            prefix = f".{final.name[:50]}.regard-"
            private = Path(tempfile.mkdtemp(".partial", prefix, final.parent))
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror, str(final)) from None
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(FileNotFoundError):
                stack.enter_context(lock_folder(private))
            # Another process may have removed it as a leftover before it was locked.
            if not private.is_dir():
                continue
            stack.callback(shutil.rmtree, private, ignore_errors=True)
            stack.callback(_give_back, private)
            yield private
            return


def _give_back(private: Path) -> None:
    """Give replaced folders their names back, unless something new has the name."""
    for replaced in private.glob(f"*{_REPLACED}"):
        final = private.parent / replaced.name.removesuffix(_REPLACED)
        if not os.path.lexists(final):
            replaced.rename(final)


@contextlib.contextmanager
def lock_folder(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a folder; yield whether it is locked, which some systems do not support.

    Windows and some network file systems cannot lock folders. The system releases the lock when
    this process ends. Raises OSError; BlockingIOError if another process holds the lock and `wait`
    is False.
    """
    try:
        import fcntl
    except ImportError:
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    is_locked = True
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except OSError:
            is_locked = False
        yield is_locked
    finally:
        os.close(handle)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file atomically, synced to disk. A device or a pipe, which cannot be replaced, is
    written directly.

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
        raise DataError(
            f"{path}: cannot be written ({problem.strerror}); choose another path"
        ) from None


def write_text(path: str | Path, text: str) -> None:
    """Write a text as UTF-8 without changing line breaks; see `write_bytes`."""
    write_bytes(path, text.encode())


def replaceable(path: Path) -> bool:
    """Return whether a file may be put at this path: it is not a device, a pipe, or an open
    file.
    """
    opened = _is_open(path) or path.absolute().parent == Path("/dev")
    return (path.is_file() and not opened) or not path.exists()


def check_readable(path: Path) -> None:
    """Raise OSError for a pipe or a device, which could block a reader for ever or have no end.

    A file that is open already, such as /dev/stdin or the pipe of a shell's <(...), is accepted.
    """
    if (
        "://" in str(path)
        or path.is_file()
        or path.is_dir()
        or not path.exists()
        or _is_open(path)
    ):
        return  # errors of missing files, folders and URLs are raised when they are opened
    raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))


def _is_open(path: Path) -> bool:
    """Return whether a path names an open file of a process, such as /dev/stdin."""
    folder = path.absolute().parent
    is_stream = folder == Path("/dev") and path.name in ("stdin", "stdout", "stderr")
    return is_stream or folder == Path("/dev/fd") or folder.is_relative_to("/proc")


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
    """Return the SHA-256 of a file in hexadecimal, or of the contents of several files in a row."""
    digest = hashlib.sha256()
    for path in paths:
        path = Path(path) if isinstance(path, str) else path
        check_readable(path)
        with path.open("rb") as file:
            while data := file.read(_CHUNK):
                digest.update(data)
    return digest.hexdigest()
