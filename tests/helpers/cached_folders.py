"""Folders that take long to make, made once: shared by the workers of a test run, and by runs until
their sources change.

What a folder of the command line depends on is half of the package: the modules that the process
which makes it imports. Run as a script, this file makes such a folder and notes them.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "regard"
TESTS = ROOT / "tests"
VERSIONS = f"{sys.version} {version('torch')}"


class FolderCache:
    """Folders by name, with what they were made from."""

    def __init__(self, config: pytest.Config, fallback: Path) -> None:
        has_cache = config.pluginmanager.hasplugin("cacheprovider")
        self.root = (
            config.cache.mkdir("folders") if has_cache and config.cache else fallback
        )

    def __call__(
        self, name: str, make: Callable[[Path], object], *sources: Path
    ) -> Path:
        """Return the folder `name`, made by `make(folder)` unless it was made from the same sources
        before.

        `sources` are files and folders of Python and C. Nobody may write into the folder.
        """
        key = _hash_of(sources)
        return self._made(
            name, lambda made: made == key, lambda folder: (make(folder), key)[1]
        )

    def in_process(
        self, name: str, make: Callable[..., object], *arguments: str
    ) -> Path:
        """Return the folder `name`, made by `make(folder, *arguments)` in a new process, unless
        that was done before.

        It is made again if a file that this process had imported has changed, or another folder
        that the arguments name. `make` is a function of a module. Nobody may write into the folder.
        """
        given = " ".join(arguments)
        notes = sorted(self.root.glob("*.complete"))
        used = [n.read_text("utf-8") for n in notes if str(self.root / n.stem) in given]
        made_from = [VERSIONS, make.__qualname__, arguments, used]
        key = _digest(json.dumps(made_from))

        def is_current(made: Any) -> bool:
            files = made["files"]
            is_same = all(_hash_of([ROOT / file]) == files[file] for file in files)
            return made["key"] == key and is_same

        def start(folder: Path) -> dict[str, Any]:
            module = importlib.import_module(make.__module__)
            assert module.__file__
            command = [sys.executable, __file__, module.__name__, module.__file__]
            done = subprocess.run(
                [*command, make.__qualname__, str(folder), *arguments],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            noted = folder.with_name(f"{folder.name}.imports").read_text("utf-8")
            files = {name: _hash_of([ROOT / name]) for name in noted.split()}
            return {"key": key, "files": files}

        return self._made(name, is_current, start)

    def _made(
        self, name: str, is_current: Callable[[Any], bool], make: Callable[[Path], Any]
    ) -> Path:
        folder = self.root / name
        note = self.root / f"{name}.complete"
        with FileLock(self.root / f"{name}.lock"):
            if not (note.exists() and is_current(json.loads(note.read_text("utf-8")))):
                note.unlink(missing_ok=True)
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                note.write_text(json.dumps(make(folder), indent=0), encoding="utf-8")
        return folder


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _hash_of(sources: Iterable[Path]) -> str:
    """Return a hash of files, and of the sources and tables in folders."""
    digest = hashlib.sha256(VERSIONS.encode())
    for source in sources:
        for path in [source] if source.is_file() else sorted(source.rglob("*")):
            if path.suffix in {".py", ".c", ".h", ".toml", ".json"}:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _make_and_note(
    module: str, file: str, function: str, folder: Path, arguments: list[str]
) -> None:
    """Make a folder, and write beside it which files of this project were imported, in forked
    processes too.
    """
    noted = folder.parent / f"{folder.name}.imports"
    log = os.open(noted, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def audit(event: str, details: tuple[Any, ...]) -> None:
        if event == "import":
            os.write(log, f"{details[0]}\n".encode())

    sys.path[:0] = [str(ROOT), str(TESTS), str(Path(file).parent)]
    sys.addaudithook(audit)  # cannot be removed; forked processes have it
    os.fsync = lambda _: None  # as in conftest.py
    make = getattr(importlib.import_module(module), function)
    try:
        make(folder, *arguments)
    except SystemExit as ended:  # a command that has ended well
        if ended.code:
            raise
    files = map(_file_of, {*noted.read_text("utf-8").split(), *list(sys.modules)})
    names = {"regard/runtime/c"}
    for path in files:
        if path and path.is_relative_to(ROOT):
            name = str(path.relative_to(ROOT))
            if name.startswith(("regard/", "tests/")):
                names.add(name)
    noted.write_text("\n".join(sorted(names)), encoding="utf-8")


def _file_of(name: str) -> Path | None:
    """Return the file of a module; None: it has none, or is not to be had."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec and spec.origin and spec.has_location:
        return Path(spec.origin).resolve()
    return None


if __name__ == "__main__":
    module, file, function, folder, *arguments = sys.argv[1:]
    _make_and_note(module, file, function, Path(folder), arguments)
