"""Check the arguments by which models are opened, before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.common.arguments import PATH, TEXT, problems_of_types
from regard.common.errors import UsageError

ENGINES = ("auto", "library", "pytorch")
"""Names of `regard.runtime.engine.EngineName`, which imports PyTorch."""


def check_folders(
    folders: Any, device: object, precision: object, engine: object = "auto"
) -> None:
    """Raise UsageError, with all causes, unless the arguments name files or folders and valid
    options.
    """
    are_several = isinstance(folders, Sequence) and not isinstance(
        folders, (str, bytes)
    )
    paths = folders if are_several else [folders]
    causes = [
        cause for path in paths for cause in problems_of_types(PATH, {"folder": path})
    ]
    causes += problems_of_types(TEXT, {"device": device})
    causes += problems_of_types(TEXT, {"precision": precision}, optional=True)
    if not isinstance(engine, str) or engine not in ENGINES:
        causes.append(
            f"`engine={engine!r}`: wanted {', '.join(ENGINES[:-1])} or {ENGINES[-1]}"
        )
    UsageError.raise_all(causes)
