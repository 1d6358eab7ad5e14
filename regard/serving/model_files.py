"""Files of served models: names of models, exports of model folders, and detection of changes."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.common.errors import ModelFolderError, WorkerError
from regard.common.processes import module_command
from regard.pipeline.export_cache import export_files, mark_used

_REQUIRED = {"config.json", "model.safetensors"}
"""Files that every model folder has."""


def model_names(paths: Sequence[Path]) -> list[str]:
    """Return a unique name for each model: that of its file or folder, with a number if needed."""
    names: list[str] = []
    for path in paths:
        resolved = path.resolve()
        file_name = resolved.name if path.is_dir() else resolved.stem
        stem = re.sub(r"[^\w.-]", "-", file_name) or "model"

        name = stem
        number = 2
        while name in names:
            name = f"{stem}-{number}"
            number += 1
        names.append(name)
    return names


async def prepare(folder: Path, precision: str) -> Path:
    """Return the path to open for a model folder; see `regard.serving.export_process`.

    Raises ModelFolderError if the folder is damaged, and WorkerError or OSError for errors that may
    be temporary.
    """
    pipe = asyncio.subprocess.PIPE
    command = module_command("regard.serving.export_process", str(folder), precision)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=pipe, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode or not output.strip():
        raise WorkerError(f"its preparation ended with status {process.returncode}")
    answer = json.loads(output.splitlines()[-1])
    if "error" in answer:
        raise ModelFolderError(*answer["error"])
    if "passing" in answer:
        raise WorkerError(answer["passing"])
    return Path(answer["path"])


def files_state(path: Path) -> tuple[Any, ...]:
    """Return inode, size and time of the files of a model, which change when the files do.

    Returns an empty tuple while a file is missing.
    """
    try:
        is_file = path.is_file()
        files = [path] if is_file else export_files(path)
        stats = {file.name: os.stat(file) for file in files}
    except (OSError, ModelFolderError):
        return ()
    if not is_file and not stats.keys() >= _REQUIRED:
        return ()
    return tuple(
        (name, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        for name, stat in stats.items()
    )


def is_kept(export: Path) -> bool:
    """Return whether an export still exists, and mark it as used, so that the cache keeps it."""
    try:
        mark_used(export)
    except FileNotFoundError:
        return False
    except OSError:  # for instance, the file system is read-only
        pass
    return True
