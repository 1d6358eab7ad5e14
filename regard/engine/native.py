"""Native CPU kernels: C compiled for this machine by the compiler it has, and cached by content hash."""

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

SOURCE = Path(__file__).with_name("kernels.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-std=gnu11", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC")
SWITCH, FOLDER = "REGARD_KERNELS", "REGARD_CACHE"
_TIMEOUT = 120


class _Unavailable(Exception):
    """Reason why there are no kernels."""


def why_unavailable() -> str | None:
    """Return why the kernels cannot be used here, in a sentence; None if they can."""
    return None if isinstance(loaded := _load(), ctypes.CDLL) else loaded


def kernels() -> ctypes.CDLL:
    """Load the kernels, compiling them first if needed. Raises RuntimeError with the reason if they cannot be used."""
    loaded = _load()
    if not isinstance(loaded, ctypes.CDLL):
        raise RuntimeError(loaded)
    return loaded


@functools.cache
def _load() -> ctypes.CDLL | str:
    """Load the library, or return the reason why not."""
    if os.environ.get(SWITCH, "").lower() in ("off", "0", "no"):
        return f"the environment variable {SWITCH} switches them off"
    try:
        return _with_signatures(ctypes.CDLL(str(_compiled_library())))
    except (_Unavailable, OSError) as error:
        return str(error)


def _compiled_library() -> Path:
    """Return the library for this machine from the cache, or compile it: beside first, then renamed."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC") or "", *COMPILERS))), None)
    if compiler is None:
        raise _Unavailable(f"there is no C compiler; install one of {', '.join(COMPILERS)} (Debian: apt install gcc)")
    parts = (SOURCE.read_bytes(), " ".join(FLAGS), _version(compiler), processor())
    name = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]
    for folder in cache_folders():
        library = folder / f"kernels-{name}.so"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(folder):
                continue
            if library.exists():
                return library
            handle, temporary = tempfile.mkstemp(suffix=".so", dir=folder)
        except OSError:
            continue
        os.close(handle)
        try:
            _compile(compiler, Path(temporary))
            Path(temporary).replace(library)
        finally:
            Path(temporary).unlink(missing_ok=True)
        return library
    raise _Unavailable(f"no cache folder is ours alone and writable; set {FOLDER} to one that is")


def _compile(compiler: str, library: Path) -> None:
    command = [compiler, *FLAGS, "-o", str(library), str(SOURCE), "-lm", "-lpthread"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unavailable(f"the C compiler {compiler} did not run: {error}") from error
    if done.returncode:
        error_line = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[-200:])
        raise _Unavailable(f"the C compiler {compiler} failed: {error_line}")


def cache_folders() -> list[Path]:
    """Return the folders for what was made for this machine, the first choice first."""
    if folder := os.environ.get(FOLDER):
        return [Path(folder)]
    temporary = Path(tempfile.gettempdir()) / f"regard-{_user()}"
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"
    except RuntimeError:  # a user without a home
        return [temporary]
    return [cache, temporary]


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _is_private(folder: Path) -> bool:
    """Return whether nobody else can put a library there for us to run."""
    status = folder.stat()
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)


def _version(compiler: str) -> str:
    try:
        return subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=_TIMEOUT).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unavailable(f"the C compiler {compiler} did not run: {error}") from error


@functools.cache
def processor() -> str:
    """Describe the processor's features: machines that differ may share a home folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    fields = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in lines}
    return " ".join(fields.get(key, "") for key in ("model name", "flags", "Features", "CPU part"))


def _with_signatures(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declare argument and result types of the functions."""
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    library.regard_open.restype, library.regard_open.argtypes = pointer, [ctypes.c_int]
    library.regard_close.restype, library.regard_close.argtypes = None, [pointer]
    library.regard_parts.restype, library.regard_parts.argtypes = ctypes.c_int, [pointer]
    library.regard_run.restype, library.regard_run.argtypes = None, [pointer, pointer, integer, pointer]
    library.regard_pack.restype = None
    library.regard_pack.argtypes = [pointer, integer, integer, ctypes.c_int, pointer, pointer, pointer]
    library.regard_sizes.restype, library.regard_sizes.argtypes = None, [pointer]
    return library
