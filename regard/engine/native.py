"""The kernels: compiled once for this machine by the compiler that it has, and kept."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["available", "folders", "kernels", "processor", "why_unavailable"]

SOURCE = Path(__file__).with_name("kernels.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-std=gnu11", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC")
SWITCH, FOLDER = "REGARD_KERNELS", "REGARD_CACHE"
_TIMEOUT = 120


class _Missing(Exception):
    """Why there are no kernels."""


def available() -> bool:
    """Whether the kernels are to be had on this machine."""
    return why_unavailable() is None


def why_unavailable() -> str | None:
    """Why the kernels are not to be had, in a sentence; None where they are."""
    return None if isinstance(found := _found(), ctypes.CDLL) else found


def kernels() -> ctypes.CDLL:
    """The kernels. Raises RuntimeError, saying why, where there are none."""
    found = _found()
    if not isinstance(found, ctypes.CDLL):
        raise RuntimeError(found)
    return found


@functools.cache
def _found() -> ctypes.CDLL | str:
    if os.environ.get(SWITCH, "").lower() in ("off", "0", "no"):
        return f"the environment variable {SWITCH} says that they are not wanted"
    try:
        return _described(ctypes.CDLL(str(_compiled())))
    except (_Missing, OSError) as error:
        return str(error)


def _compiled() -> Path:
    """The library for this machine: kept from before, or compiled now, beside first and then renamed."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC") or "", *COMPILERS))), None)
    if compiler is None:
        raise _Missing(f"there is no C compiler; one of {', '.join(COMPILERS)} would do (Debian: apt install gcc)")
    known = (SOURCE.read_bytes(), " ".join(FLAGS), _version(compiler), processor())
    name = hashlib.sha256("\0".join(map(str, known)).encode()).hexdigest()[:16]
    for folder in folders():
        library = folder / f"kernels-{name}.so"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _ours(folder):
                continue
            if library.exists():
                return library
            handle, beside = tempfile.mkstemp(suffix=".so", dir=folder)
        except OSError:
            continue
        os.close(handle)
        try:
            _compile(compiler, Path(beside))
            Path(beside).replace(library)
        finally:
            Path(beside).unlink(missing_ok=True)
        return library
    raise _Missing(f"no folder to keep them in is ours alone and can be written to; set {FOLDER} to one that is")


def _compile(compiler: str, library: Path) -> None:
    command = [compiler, *FLAGS, "-o", str(library), str(SOURCE), "-lm", "-lpthread"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Missing(f"the C compiler {compiler} did not run: {error}") from error
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[-200:])
        raise _Missing(f"the C compiler {compiler} failed: {said}")


def folders() -> list[Path]:
    """Where what was made for this machine is kept, the first choice first."""
    if own := os.environ.get(FOLDER):
        return [Path(own)]
    temporary = Path(tempfile.gettempdir()) / f"regard-{_user()}"
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"
    except RuntimeError:  # a user without a home
        return [temporary]
    return [cache, temporary]


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _ours(folder: Path) -> bool:
    """Whether nobody else can put a library there for us to run."""
    about = folder.stat()
    return not hasattr(os, "getuid") or (about.st_uid == os.getuid() and not about.st_mode & 0o022)


def _version(compiler: str) -> str:
    try:
        return subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=_TIMEOUT).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Missing(f"the C compiler {compiler} did not run: {error}") from error


@functools.cache
def processor() -> str:
    """What the processor can do: a home folder may be shared by machines that differ."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    told = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in lines}
    return " ".join(told.get(key, "") for key in ("model name", "flags", "Features", "CPU part"))


def _described(library: ctypes.CDLL) -> ctypes.CDLL:
    """The functions with what they take and give."""
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    library.regard_open.restype, library.regard_open.argtypes = pointer, [ctypes.c_int]
    library.regard_close.restype, library.regard_close.argtypes = None, [pointer]
    library.regard_parts.restype, library.regard_parts.argtypes = ctypes.c_int, [pointer]
    library.regard_run.restype, library.regard_run.argtypes = None, [pointer, pointer, integer, pointer]
    library.regard_pack.restype = None
    library.regard_pack.argtypes = [pointer, integer, integer, ctypes.c_int, pointer, pointer, pointer]
    library.regard_sizes.restype, library.regard_sizes.argtypes = None, [pointer]
    return library
