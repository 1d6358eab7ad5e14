"""Cache of exports: a model folder that has translated on the CPU once opens without PyTorch next
time.

An export is a runtime file in the private cache of the user, which the command line and the server
share. Its name is the hash of everything that it depends on, so an outdated export is never found.
This module does not import PyTorch; `regard.interchange.runtime` makes exports.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from regard.common.atomic import file_sha256
from regard.common.checksums import json_digest, model_files
from regard.common.errors import ModelFolderError, RegardError
from regard.common.version import __version__
from regard.pipeline.runtime_translator import RuntimeTranslator
from regard.runtime.native import hash_of_sources
from regard.runtime.private_cache import is_private_file, lasting_folders, write_private

SWITCH = "REGARD_EXPORTS"
LIMIT = 2 << 30
"""Maximum number of bytes of all exports; beyond it, the least recently used ones are removed."""
LARGEST = LIMIT // 8
"""Maximum number of bytes of a model that a command exports, which takes a multiple of them in
memory.
"""
RECENT = 3600
"""Seconds after its last use in which an export is not removed, since a process may be opening
it.
"""
_GPUS = ("/dev/nvidiactl", "/dev/nvmap", "/dev/kfd", "/dev/dxg")
"""Devices of Linux; if PyTorch finds a GPU, at least one of them exists."""


def find_export(
    folder: Path,
    precision: str = "float32",
    device: str = "auto",
    threads: int | None = None,
) -> tuple[str, RuntimeTranslator | None]:
    """Return the name of a model folder's export, and the export, opened, if it is in the cache and
    intact.

    The name is empty if there can be no export, if the user switched exports off, or if PyTorch may
    find a GPU.
    """
    may_be_gpu = device != "cpu" and (
        device != "auto" or sys.platform != "linux" or any(map(os.path.exists, _GPUS))
    )
    if not may_be_gpu and are_kept():
        # Errors of the folder are reported when it is loaded.
        with suppress(RegardError, OSError):
            if sum(path.stat().st_size for path in export_files(folder)) <= LARGEST:
                name = export_name(folder, precision)
                return name, open_export(name, threads)
    return "", None


def are_kept() -> bool:
    """Return whether exports are read and written, which the user may switch off."""
    return os.environ.get(SWITCH, "").lower() not in ("off", "0", "no")


def export_name(folder: Path, precision: str) -> str:
    """Return the name of the export of a folder in its present state.

    Raises RegardError or OSError if it is not a model folder.
    """
    digests = [(path.name, file_sha256(path)) for path in export_files(folder)]
    return f"model-{json_digest([__version__, hash_of_sources(), precision, digests])}.regard"


def export_files(folder: Path) -> list[Path]:
    """Return the files of a model folder that its exports depend on. Raises ModelFolderError."""
    return model_files(folder, "languages.json", "README.md")


def open_export(name: str, threads: int | None = None) -> RuntimeTranslator | None:
    """Open the export of a name; None if the cache has no intact one. A damaged export is
    removed.
    """
    for path in (cache / name for cache in lasting_folders()):
        if is_private_file(path):
            with suppress(ModelFolderError):
                translator = RuntimeTranslator(path, threads)
                if translator.model.card.get("name") == name:
                    with suppress(OSError):
                        mark_used(path)
                    return translator
            with suppress(OSError):
                path.unlink()  # damaged, or another export
    return None


def mark_used(path: Path) -> None:
    """Set the access time of an export to now, and keep its modification time. Raises OSError."""
    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


def write_export(name: str, content: bytes) -> Path | None:
    """Write an export into the first cache folder that can hold it; return None if there is none.

    Exports beyond the limit are removed, the least recently used first, as are unfinished files of
    killed processes.
    """
    for folder in lasting_folders():
        with suppress(OSError):
            write_private(folder / name, content)
            _remove_old(folder)
            return folder / name
    return None


def _remove_old(folder: Path) -> None:
    size = 0
    now = time.time()
    with suppress(OSError):  # another process may remove them at the same time
        status = {path: path.stat() for path in folder.glob("model-*")}
        for path in sorted(status, key=lambda path: -status[path].st_atime_ns):
            size += status[path].st_size
            is_superfluous = size > LIMIT or path.suffix != ".regard"
            if is_superfluous and now - status[path].st_atime > RECENT:
                path.unlink()
