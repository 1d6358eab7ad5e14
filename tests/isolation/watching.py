"""Watch processes from outside their own code: which files they open, and what they connect to,
unpickle or start.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from helpers.text_table import items

import regard
from regard.runtime.native import COMPILERS

HERE = Path(__file__).parent
TESTS = HERE.parent
PACKAGE = Path(regard.__file__).parent
PRIVATE = re.compile(r"/\.([^/]+)\.regard-[^/]+\.partial(?:/\1(?=/|$))?")
"""A folder that an atomic write makes beside what it replaces, and what is written in it under that
name.
"""
FILES = ("read", "write", "list", "execute", "library")
INSTALLATION = [
    *(sys.prefix, sys.base_prefix, *map(sysconfig.get_path, ("purelib", "stdlib"))),
    *(entry for entry in sys.path if entry.endswith("-packages")),
    *(PACKAGE, HERE, TESTS / "fuzz"),
]
"""Python, its packages and the code under test; nothing in them is written."""
SYSTEM = items("/proc /sys /dev /usr/lib /lib /usr/share /etc/ssl /bin /usr/bin")
"""What the system has for every program: devices, libraries, fonts, time zones."""


UNSET = items("""
    XDG_CACHE_HOME HF_HOME TORCH_HOME COVERAGE_PROCESS_CONFIG COVERAGE_PROCESS_START
""")


def environment(folder: Path, cache: Path) -> dict[str, str]:
    """Return an environment in which everything is noted; home and temporary folder are `folder`'s
    own.
    """
    for name in ("home", "tmp", "watched", "work"):
        (folder / name).mkdir(parents=True, exist_ok=True)

    more = {
        "HOME": folder / "home",
        "TMPDIR": folder / "tmp",
        "REGARD_CACHE": cache,
        "OMP_NUM_THREADS": 1,
        "REGARD_WATCH": folder / "watched" / "start",
        "PYTHONDONTWRITEBYTECODE": 1,
        "PYTHONPATH": f"{HERE / 'hook'}{os.pathsep}{PACKAGE.parent}",
    }
    if (library := _interposer(folder)) is not None:
        more["LD_PRELOAD"] = library
    env = {name: os.environ[name] for name in os.environ if name not in UNSET}
    return env | {name: str(value) for name, value in more.items()}


def _interposer(folder: Path) -> Path | None:
    """Compile what sees files that are opened by C, C++ and Rust; None if that is impossible
    here.
    """
    compiler = shutil.which("cc")
    library = folder / "interposer.so"
    if compiler is None or sys.platform != "linux":
        return None
    source = HERE / "interposer.c"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


def events(log: Path) -> Iterator[tuple[str, str]]:
    """Yield what was noted, each once, without the notes themselves."""
    if not log.exists():
        return
    text = log.read_text(encoding="utf-8", errors="surrogateescape")
    for line in dict.fromkeys(text.splitlines()):
        event, _, what = line.partition("\t")
        is_note = Path(what).parent.name == log.parent.name == "watched"
        if event not in FILES or not is_note:
            yield event, what


def strange(
    log: Path, given: Iterable[Path], own: Iterable[Path], current: Path
) -> list[str]:
    """Return the events that a command has no right to.

    It may read the folders and files `given` and the installation, write what it was told to write
    and in `own` folders, and open and list the `current` folder itself, where syncing names and
    leftovers of killed commands lie. The folder of the package is listed by imports, whenever its
    content has changed. A name that begins with that of a file given is one beside it, as marks
    are, and so is one in a folder that atomic writes make for it. Of programs it may start C
    compilers.
    """
    given = _real(given)
    own = _real(own)
    installed = [*_real([*INSTALLATION, *SYSTEM]), *SYSTEM]
    listed = _real([current, PACKAGE.parent])
    seen = []
    for event, what in events(log):
        path = os.path.realpath(what)
        is_current = event in ("read", "write", "list") and path == listed[0]
        is_listed = event == "list" and path == listed[1]
        is_right = _is_right(event, what, given, own, installed)
        if not (is_current or is_listed or is_right):
            seen.append(f"{event} {what}")

    return seen


def _is_right(
    event: str, what: str, given: list[str], own: list[str], installed: list[str]
) -> bool:
    if event == "start":
        return Path(what).name in COMPILERS
    if event not in FILES:
        return False
    if event == "library" and "/" not in what:
        return True
    path = PRIVATE.sub(r"/\1", os.path.realpath(what))
    if event in ("execute", "library"):
        return _is_in(path, [*installed, *own])
    if any(path.startswith(root) for root in given) or _is_in(path, own):
        return True
    if what.startswith("/proc/self/fd/"):  # it has that open already
        return True
    if event == "write":
        return path.startswith("/dev/")
    return _is_in(path, installed)


def _real(paths: Iterable[str | Path]) -> list[str]:
    return [os.path.realpath(path) for path in paths]


def _is_in(path: str, roots: list[str]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)
