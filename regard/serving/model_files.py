"""Files of the models that are served: their names, the exports of folders, and whether they have changed."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.common.errors import ModelFolderError
from regard.common.processes import module_command
from regard.pipeline.export_cache import export_files, mark_used

_NEEDED = {"config.json", "model.safetensors"}
"""Files without which a folder is no model folder."""


def model_names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each model: that of its file or folder; a number tells equal ones apart."""
    names: list[str] = []
    for path in paths:
        stem = re.sub(r"[^\w.-]", "-", path.resolve().name if path.is_dir() else path.resolve().stem) or "model"
        name, number = stem, 2
        while name in names:
            name, number = f"{stem}-{number}", number + 1
        names.append(name)
    return names


class Exports:
    """The exports that are served in the place of model folders."""

    def __init__(self) -> None:
        self._of = dict[Path, Path]()
        self._removals = Counter[Path]()

    async def prepare(self, path: Path, precision: str) -> Path:
        """Return what is opened for a model; see `regard.serving.prepare`. Raises RegardError for a damaged folder."""
        if path.is_file():
            return path
        pipe = asyncio.subprocess.PIPE
        command = module_command("regard.serving.prepare", str(path), precision)
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stdin=asyncio.subprocess.DEVNULL)
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode or not output.strip():
            raise ModelFolderError(f"its preparation ended with status {process.returncode}")
        answer = json.loads(output.splitlines()[-1])
        if "error" in answer:
            raise ModelFolderError(*answer["error"])
        opened = Path(answer["path"])
        if opened != path:
            self._of[path] = opened
        return opened

    def state_of(self, path: Path) -> tuple[Any, ...]:
        """Return what changes when the files of a model do: inode, size and time of each; nothing while one is missing.

        It changes too when somebody has removed the export, without which no process could start again; else this
        keeps the export from being removed as one that nobody uses.
        """
        try:
            if path in self._of:
                mark_used(self._of[path])
        except FileNotFoundError:
            del self._of[path]
            self._removals[path] += 1
        except OSError:  # such as that of a file system which can only be read
            pass
        try:
            files = [path] if path.is_file() else export_files(path)
            status = {file.name: os.stat(file) for file in files}
        except (OSError, ModelFolderError):
            return ()
        if not path.is_file() and not status.keys() >= _NEEDED:
            return ()
        changes = ((name, item.st_ino, item.st_size, item.st_mtime_ns) for name, item in status.items())
        return (self._removals[path], *changes)
