"""Prepare a model folder for the server, in a process of its own, so that the server never imports
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
    """Return the path to open: the cached export of the folder, or the folder itself.

    The folder itself is run by PyTorch, if it cannot be exported or if the user has disabled the
    cache of exports. Raises ModelFolderError if the folder is damaged, or if a link in it points
    outside.
    """
    name = export_name(folder, precision)
    if not are_kept():
        return folder
    export = open_export(name)
    if export is not None:
        return export.model.path
    from regard.interchange.runtime import keep_export
    from regard.model_folder import load_folder

    return keep_export(folder, name, load_folder(folder), precision) or folder


def main() -> None:
    """Prepare the folder that the arguments name, and print the result as a line of JSON.

    Its key is `path` (the path to open), `error` (causes in the folder), or `passing` (a temporary
    error of the system).
    """
    try:
        answer: dict[str, Any] = {"path": str(prepare(Path(sys.argv[1]), sys.argv[2]))}
    except RegardError as problem:
        answer = {"error": problem.causes}
    except ModuleNotFoundError as problem:
        answer = {"error": [str(problem)]}
    except OSError as problem:
        answer = {"passing": str(problem)}
    with suppress(BrokenPipeError):  # the server may have ended
        print(json.dumps(answer), flush=True)
    os._exit(0)
