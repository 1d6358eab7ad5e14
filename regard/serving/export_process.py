"""Prepare a model folder for the server, in a process of its own: the server itself never loads
PyTorch.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.common.errors import RegardError
from regard.pipeline.export_cache import are_kept, export_name, open_export


def prepare(folder: Path, precision: Any) -> Path:
    """Return what is opened: the folder's export in the cache, or the folder itself.

    PyTorch runs the folder if there can be no export, or the user switched exports off. Raises
    ModelFolderError if the folder is damaged, or a link in it leads out of it.
    """
    name = export_name(folder, precision)
    if not are_kept():
        return folder
    if (export := open_export(name)) is not None:
        return export.model.path
    from regard.interchange.runtime import keep_export
    from regard.model_folder import load_folder

    return keep_export(folder, name, load_folder(folder), precision) or folder


def main() -> None:
    """Prepare the folder that the arguments name, and print what is opened, or what is wrong, as
    JSON.

    `error`: of the folder; `passing`: of the system, which may have room later.
    """
    try:
        answer: dict[str, Any] = {"path": str(prepare(Path(sys.argv[1]), sys.argv[2]))}
    except RegardError as problem:
        answer = {"error": problem.causes}
    except ModuleNotFoundError as problem:
        answer = {"error": [str(problem)]}
    except OSError as problem:
        answer = {"passing": str(problem)}
    with suppress(BrokenPipeError):  # the server has ended
        print(json.dumps(answer), flush=True)
    os._exit(0)
