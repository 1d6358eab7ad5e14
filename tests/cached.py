"""Folders that take long to make, made once: shared by the workers of a test run, and by runs until their sources change."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from filelock import FileLock

PACKAGE = Path(__file__).parents[1] / "regard"


class FolderCache:
    """Folders by name and by a hash of everything that they are made from."""

    def __init__(self, config: pytest.Config, fallback: Path) -> None:
        has_cache = config.pluginmanager.hasplugin("cacheprovider")
        self.root = config.cache.mkdir("folders") if has_cache and config.cache else fallback

    def __call__(self, name: str, make: Callable[[Path], object], *sources: Path) -> Path:
        """Return the folder `name`, made by `make(folder)` unless it was made from the same sources before.

        `sources` are files and folders of Python; by default the whole package. Nobody may write into the folder.
        """
        folder = self.root / f"{name}-{_hash_of(sources or (PACKAGE,))}"
        with FileLock(self.root / f"{name}.lock"):
            complete = folder.with_suffix(".complete")
            if not complete.exists():
                for old in self.root.glob(f"{name}-*"):
                    shutil.rmtree(old) if old.is_dir() else old.unlink()
                folder.mkdir()
                make(folder)
                complete.touch()
        return folder


def _hash_of(sources: Iterable[Path]) -> str:
    digest = hashlib.sha256(f"{sys.version} {torch.__version__}".encode())
    for source in sources:
        for path in [source] if source.is_file() else sorted(source.rglob("*")):
            if path.suffix in {".py", ".c", ".h", ".toml", ".json"}:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
