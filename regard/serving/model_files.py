"""Files of the models that are served: their names, the exports of folders, and whether they have
changed.
"""

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

_NEEDED = {"config.json", "model.safetensors"}
"""Files without which a folder is no model folder."""


def model_names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each model: that of its file or folder; a number tells equal ones apart."""
    names: list[str] = []
    for path in paths:
        stem = (
            re.sub(
                r"[^\w.-]",
                "-",
                path.resolve().name if path.is_dir() else path.resolve().stem,
            )
            or "model"
        )
        name = stem
        number = 2
        while name in names:
            name = f"{stem}-{number}"
            number = number + 1
        names.append(name)
    return names


async def prepare(folder: Path, precision: str) -> Path:
    """Return what is opened for a model folder; see `regard.serving.export_process`.

    Raises ModelFolderError for a damaged folder, and WorkerError or OSError for what may pass.
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
    """Return what changes when the files of a model do: inode, size and time of each; nothing while
    one is missing.
    """
    try:
        is_file = path.is_file()
        status = {
            file.name: os.stat(file)
            for file in ([path] if is_file else export_files(path))
        }
    except (OSError, ModelFolderError):
        return ()
    if not is_file and not status.keys() >= _NEEDED:
        return ()
    return tuple(
        (name, item.st_ino, item.st_size, item.st_mtime_ns)
        for name, item in status.items()
    )


def is_kept(export: Path) -> bool:
    """Return whether an export is still there, and keep it from being removed as one that nobody
    uses.
    """
    try:
        mark_used(export)
    except FileNotFoundError:
        return False
    except OSError:  # such as that of a file system which can only be read
        pass
    return True
