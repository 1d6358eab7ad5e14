"""The C library of kernels and runtime: ready-made, or compiled on this machine and cached by
content.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from regard.common.errors import MissingKernels

if TYPE_CHECKING:
    CType = type[ctypes._CDataType]

FOLDER_OF_SOURCES = Path(__file__).with_name("c")
SOURCES = sorted(FOLDER_OF_SOURCES.glob("*.c"))
HEADERS = sorted(FOLDER_OF_SOURCES.glob("*.h"))
COMPILERS = ("cc", "gcc", "clang")
FOLDER_OF_LIBRARIES = Path(__file__).with_name("lib")
OPTIMISATION = ("-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno")
FLAGS = (*OPTIMISATION, "-march=native", "-shared", "-fPIC")
SWITCH = "REGARD_KERNELS"
LEVEL = "REGARD_LEVEL"
"""Environment variable that selects a processor level instead of the best one."""
_TIMEOUT = 600
_MAX_BYTES = 1 << 26


class _Unavailable(Exception):
    """Error that states why there are no kernels."""


def why_unavailable() -> str | None:
    """Return the reason why the kernels cannot be used here; None if they can."""
    loaded = _load()
    return None if isinstance(loaded, ctypes.CDLL) else loaded


def kernels() -> ctypes.CDLL:
    """Load the kernels, compiling them first if needed. Raises MissingKernels if they cannot be
    used.
    """
    loaded = _load()
    if not isinstance(loaded, ctypes.CDLL):
        raise MissingKernels(
            f"the C library, which translates runtime files, cannot be used here: {loaded}"
        )
    return loaded


def level() -> str:
    """Return the processor level of the kernels in use; "native" if compiled for this very
    processor.
    """
    return str(kernels().regard_level().decode())


def is_ready_made() -> bool:
    """Return whether the kernels in use came with the package, rather than being compiled here."""
    return bool(kernels().regard_sources())


@functools.cache
def _load() -> ctypes.CDLL | str:
    """Load the library that came with the package, or compile one; otherwise return the reason.

    Compilation is meant for source checkouts and rare machines; the environment variable can ask
    for it.
    """
    switch = os.environ.get(SWITCH, "").lower()
    if switch in ("off", "0", "no"):
        return f"the environment variable {SWITCH} switches them off"
    library: ctypes.CDLL | str | None = None
    if switch != "compile":
        library = _ready_made()
    if library is None:
        library = _compiled()
    return library if isinstance(library, str) else _checked(library)


def _ready_made() -> ctypes.CDLL | None:
    """Load the library that came with the package.

    Returns None if there is none for this machine, or if it was built from other sources.
    """
    system = {"win32": "windows", "darwin": "macos"}.get(sys.platform, sys.platform)
    for path in FOLDER_OF_LIBRARIES.glob(f"{system}-{machine()}/*regard.*"):
        # The file may be truncated, or need another C standard library.
        with suppress(OSError, AttributeError):
            library = _with_signatures(ctypes.CDLL(str(path)))
            runs_here = os.environ.get(LEVEL) or library.regard_level() is not None
            if runs_here and library.regard_sources().decode() == hash_of_sources():
                return library
    return None


def _compiled() -> ctypes.CDLL | str:
    """Load the library from the cache, compiling it if no folder has an intact one; otherwise
    return the reason.
    """
    # Imported late, since a ready-made library needs no cache.
    from regard.runtime.private_cache import FOLDER, private_folders

    reason = f"no cache folder is writable and yours alone; set {FOLDER} to one that is"
    try:
        compiler = _compiler()
        key = _key(compiler)
        for folder in private_folders():
            try:
                path = _cached_library(folder, key)
                if path is None:
                    path = _compile_into(folder, key, compiler)
                return _with_signatures(ctypes.CDLL(str(path)))
            except (OSError, AttributeError) as problem:
                # The disk may be full, or mounted without permission to execute.
                reason = (
                    f"they cannot be kept in {folder} ({problem}); set {FOLDER} to another folder "
                    "of yours"
                )
    except _Unavailable as problem:
        return str(problem)
    return reason


def _checked(library: ctypes.CDLL) -> ctypes.CDLL | str:
    """Return the library if it has the level that the environment asks for; otherwise the
    reason.
    """
    if library.regard_level() is not None:
        return library
    levels = levels_of(library)
    wanted = os.environ.get(LEVEL, "")
    reason = (
        "this processor lacks it"
        if wanted in levels
        else "this library has no such level"
    )
    here = ", ".join(name for name, runs in levels.items() if runs) or "none"
    return (
        f"the environment variable {LEVEL} asks for {wanted!r}, and {reason}; "
        f"here there is: {here}"
    )


def levels_of(library: ctypes.CDLL) -> dict[str, bool]:
    """Return the levels of a library from the lowest to the best, each with whether it runs
    here.
    """
    levels = dict[str, bool]()
    runs = ctypes.c_int()
    while (
        name := library.regard_level_at(len(levels), ctypes.addressof(runs))
    ) is not None:
        levels[name.decode()] = bool(runs.value)
    return levels


def _compiler() -> str:
    import shutil

    for name in (os.environ.get("CC") or "", *COMPILERS):
        compiler = shutil.which(name)
        if compiler:
            return compiler
    raise _Unavailable(
        f"there is no C compiler; install one of {', '.join(COMPILERS)} (Debian: apt install "
        "gcc)"
    )


def _key(compiler: str) -> str:
    """Hash the sources, the flags, the compiler and the processor of a library."""
    _, version, _ = _run(compiler, "--version")
    parts = (
        *(path.read_bytes() for path in (*SOURCES, *HEADERS)),
        " ".join(FLAGS),
        version,
        processor(),
    )
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]


def _cached_library(folder: Path, key: str) -> Path | None:
    """Return the library of a key if it is intact: its name holds the hash of its content.

    Damaged libraries are removed: a truncated one would kill the process with a bus error when
    used.
    """
    from regard.runtime.private_cache import read_private

    for path in sorted(folder.glob(f"kernels-{key}-*.so")):
        content = read_private(path, _MAX_BYTES)
        if content is not None and path.name == _library_name(key, content):
            return path
        with suppress(OSError):
            path.unlink()
    return None


def _compile_into(folder: Path, key: str, compiler: str) -> Path:
    """Compile the library and write it into a folder, synced to disk. Raises OSError on failure."""
    import tempfile

    from regard.runtime.private_cache import write_private

    with tempfile.TemporaryDirectory(prefix="kernels-", dir=folder) as temporary:
        compiled = Path(temporary) / "kernels.so"
        _compile(compiler, compiled)
        content = compiled.read_bytes()
    path = folder / _library_name(key, content)
    write_private(path, content)
    return path


def _library_name(key: str, content: bytes) -> str:
    return f"kernels-{key}-{hashlib.sha256(content).hexdigest()[:32]}.so"


def _compile(compiler: str, library: Path) -> None:
    status, _, errors = _run(
        compiler, *FLAGS, "-o", str(library), *map(str, SOURCES), "-lm", "-lpthread"
    )
    if status:
        error_lines = [line for line in errors.splitlines() if "error" in line]
        error_line = error_lines[0] if error_lines else errors.strip()[-200:]
        raise _Unavailable(f"the C compiler {compiler} failed: {error_line}")


def _run(compiler: str, *arguments: str) -> tuple[int, str, str]:
    """Run the compiler; return its status, stdout and stderr."""
    import subprocess

    try:
        done = subprocess.run(
            [compiler, *arguments], capture_output=True, text=True, timeout=_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unavailable(f"the C compiler {compiler} did not run: {error}") from error
    return done.returncode, done.stdout, done.stderr


def hash_of_sources(folder: Path = FOLDER_OF_SOURCES) -> str:
    """Hash the C sources of a folder.

    A ready-made library is used only with the sources that it was built from.
    """
    digest = hashlib.sha256()
    for path in sorted((*folder.glob("*.c"), *folder.glob("*.h"))):
        digest.update(
            f"{path.name}\0".encode()
            + path.read_bytes().replace(b"\r\n", b"\n")
            + b"\0"
        )
    return digest.hexdigest()[:32]


def wasm_file() -> Path:
    """Return the path of the library for browsers.

    Raises RuntimeError if it was not built, or was built from other sources.
    """
    # The installation is editable, since a copy would not contain the library.
    command = "pip install -e '.[build]' && python tools/build_library.py wasm"
    path = FOLDER_OF_LIBRARIES / "wasm" / "regard.wasm"
    if not path.is_file():
        raise RuntimeError(
            f"the library for browsers is missing: {path}; in the folder of the source: `{command}`"
        )
    if hash_of_sources().encode() not in path.read_bytes():
        raise RuntimeError(
            f"{path} was built from other sources of the library; build it again: `{command}`"
        )
    return path


def machine() -> str:
    """Return the processor architecture in the form that folders of libraries are named by."""
    if sys.platform == "win32":
        import platform

        name = platform.machine().lower()
    else:
        name = os.uname().machine.lower()
    return {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}.get(name, name)


@functools.cache
def processor() -> str:
    """Describe the processor's features, since different machines may share a home folder."""
    names = ("model name", "flags", "Features", "CPU part")
    return " ".join(processor_fields(*names))


def processor_fields(*names: str) -> list[str]:
    """Return fields of the last core in /proc/cpuinfo, such as "model name"; those of another
    system are one description.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        import platform

        return [machine(), platform.processor()]
    fields = dict[str, str]()
    for line in lines:
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    return [fields.get(name, "") for name in names]


def _with_signatures(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declare argument and result types of the functions."""
    pointer = ctypes.c_void_p
    integer = ctypes.c_int64
    text = ctypes.c_char_p
    declare(
        library,
        "pack",
        None,
        pointer,
        integer,
        integer,
        ctypes.c_int,
        pointer,
        pointer,
        pointer,
    )
    declare(library, "level", text)
    declare(library, "sources", text)
    declare(library, "level_at", text, ctypes.c_int, pointer)
    declare(library, "use_level", ctypes.c_int, text)
    declare(library, "sizes", None, pointer)
    declare(library, "checksum", ctypes.c_uint64, pointer, ctypes.c_size_t)
    return library


def declare(
    library: ctypes.CDLL | ctypes.PyDLL,
    name: str,
    result: CType | None,
    *arguments: CType,
) -> Callable[..., object]:
    """Declare the types of a function of the library; return it."""
    function: ctypes._NamedFuncPointer = getattr(library, f"regard_{name}")
    function.restype = result
    function.argtypes = arguments
    return function


def typed(kind: CType, *names: str) -> Iterator[tuple[str, CType]]:
    """Declare fields of one type of a structure."""
    return ((name, kind) for name in names)


def checksum(data: bytes) -> int:
    """Return the checksum of data, as a runtime file stores that of its content."""
    return checksum_at(data, len(data))


def checksum_at(data: bytes | int, size: int) -> int:
    """Return the checksum of `size` bytes of an object, or from an address on."""
    return int(kernels().regard_checksum(data, size))
