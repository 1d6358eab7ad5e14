"""Prepare a model for the server, in a process of its own: a run folder becomes a runtime file, if it can.

The file lies in the folder, under `exports/`, and is written again when anything that goes into it has changed. The
process that serves it then needs no PyTorch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from regard.common.errors import ExportError, ModelFolderError, RegardError
from regard.common.reading import check_links
from regard.pipeline.export_cache import export_name
from regard.runtime.private_cache import cache_folders, private_folders
from regard.serving.frames import error_message


def prepare(folder: Path, precision: Any) -> Path:
    """Return what an engine opens: the folder's runtime file, or the folder itself if only PyTorch can run it.

    Raises ModelFolderError if the folder is damaged, or a link in it leads out of it.
    """
    from regard.interchange.runtime import export, obstacles
    from regard.model_folder import load_folder

    check_links(folder, "exports", written=True)
    path = folder / "exports" / f"runtime-{precision}.regard"
    name = export_name(folder, precision)
    if _name_of(path) == name:
        return path
    if obstacles(load_folder(folder)):
        return folder
    try:
        path.parent.mkdir(exist_ok=True)
        export(folder, path, precision, name=name)
    except OSError:  # such as a folder that only others may write; what is kept elsewhere has to be this user's alone
        kept = [cache for cache in private_folders() if cache in cache_folders()]
        if not kept:
            return folder
        path = kept[0] / f"runtime-{name}"
        if _name_of(path) != name:
            export(folder, path, precision, name=name)
    except ExportError:
        return folder
    return path


def _name_of(path: Path) -> str:
    """Return the name of an export, the hash of all that it was made from; empty if it cannot be used."""
    from regard.runtime.model import RuntimeModel

    if not path.is_file():
        return ""
    try:
        return str(RuntimeModel(path).card["name"])
    except (ModelFolderError, KeyError):
        return ""


def main() -> None:
    """Prepare the folder that the arguments name, and print what an engine opens, or what is wrong, as JSON."""
    try:
        answer: dict[str, Any] = {"path": str(prepare(Path(sys.argv[1]), sys.argv[2]))}
    except (RegardError, OSError, ModuleNotFoundError) as problem:
        answer = {"error": error_message(problem)}
    print(json.dumps(answer))
