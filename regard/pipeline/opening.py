"""Open whatever translates or captions: a runtime file, which needs no PyTorch, or model folders, which do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.common.arguments import PATH, TEXT, problems_of_types
from regard.common.errors import UsageError
from regard.common.lazy import needs_extra
from regard.pipeline.runtime_translator import RuntimeTranslator

if TYPE_CHECKING:
    from regard.runtime.engine import EngineName, Precision


ENGINES = ("auto", "library", "pytorch")
"""Names of `regard.runtime.engine.EngineName`, which imports PyTorch."""


def load(
    folder: str | Path | Sequence[str | Path],
    device: str = "cpu",
    precision: Precision | None = None,
    engine: EngineName = "auto",
) -> Any:
    """Load a translator from a runtime file, or a Translator or Captioner from a model folder; from several folders,
    an ensemble that averages probabilities.

    `precision` is that of weights and products (float32 if not given): `int8` is the fastest on a CPU. A runtime file
    has its precision. `engine`: decode with the C library ("library"), with PyTorch ("pytorch"), or ("auto") with the
    library if it can; both find the same outputs. The type is Any because the folder or file decides which it is;
    `load_translator` and `load_captioner` of `regard.pipeline` are typed. Raises ModelFolderError if a file is missing
    or damaged, UsageError if this machine or model lacks the device, precision or engine, or the models share no
    vocabulary.
    """
    check_folders(folder, device, precision, engine)
    if isinstance(folder, (str, os.PathLike)) and Path(folder).is_file():
        if engine == "pytorch":
            raise UsageError(f"`engine=pytorch`: {folder} is a runtime file, which the C library decodes; leave it out")
        return open_runtime(Path(folder), device, precision)
    with needs_extra("train", "model folders"):
        from regard.pipeline.loading import load
    return load(folder, device, precision or "float32", engine)


def check_folders(folders: Any, device: Any, precision: Any, engine: Any = "auto") -> None:
    """Raise UsageError, with all causes, for what names no file or folder, and for options that are no texts."""
    are_several = isinstance(folders, Sequence) and not isinstance(folders, (str, bytes))
    paths = folders if are_several else [folders]
    causes = [cause for path in paths for cause in problems_of_types(PATH, {"folder": path})]
    causes += problems_of_types(TEXT, {"device": device})
    causes += problems_of_types(TEXT, {"precision": precision}, optional=True)
    if not isinstance(engine, str) or engine not in ENGINES:
        causes.append(f"`engine={engine!r}`: wanted {', '.join(ENGINES[:-1])} or {ENGINES[-1]}")
    UsageError.raise_all(causes)


def open_runtime(
    path: Path, device: str = "cpu", precision: str | None = None, threads: int | None = None
) -> RuntimeTranslator:
    """Open a runtime file. Raises UsageError, with all causes, for what such a file has decided already."""
    check_folders(path, device, precision)
    translator = RuntimeTranslator(path, threads)
    kept = translator.model.card["precision"]
    wrong = {f"`device={device}`": "which runs on the CPU"} if device not in ("cpu", "auto") else {}
    if precision not in (None, kept):
        wrong[f"`precision={precision}`"] = f"whose precision is {kept}"
    UsageError.raise_all(f"{option}: {path} is a runtime file, {why}; leave it out" for option, why in wrong.items())
    return translator
