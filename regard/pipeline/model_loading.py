"""Open whatever translates or captions: a runtime file, which needs no PyTorch, or model folders,
which do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.common.errors import UsageError
from regard.common.lazy import needs_extra
from regard.pipeline.arguments import check_folders
from regard.pipeline.runtime_translator import RuntimeTranslator

if TYPE_CHECKING:
    from regard.runtime.engine import EngineName, Precision


def load(
    folder: str | Path | Sequence[str | Path],
    device: str = "cpu",
    precision: Precision | None = None,
    engine: EngineName = "auto",
) -> Any:
    """Load a translator from a runtime file, or a Translator or Captioner from a model folder; from
    several folders, an ensemble that averages probabilities.

    `precision` is that of weights and products (float32 if not given): `int8` is the fastest on a
    CPU. A runtime file has its precision. `engine`: decode with the C library ("library"), with
    PyTorch ("pytorch"), or ("auto") with the library if it can; both find the same outputs. The
    type is Any because the folder or file decides which it is; `load_translator` and
    `load_captioner` of `regard.pipeline` are typed. Raises ModelFolderError if a file is missing or
    damaged, UsageError if this machine or model lacks the device, precision or engine, or the
    models share no vocabulary.
    """
    check_folders(folder, device, precision, engine)
    if isinstance(folder, (str, os.PathLike)) and Path(folder).is_file():
        if engine == "pytorch":
            raise UsageError(
                f"`engine=pytorch`: {folder} is a runtime file, which the C library decodes; leave "
                "it out"
            )
        return open_runtime(Path(folder), device, precision)
    with needs_extra("train", "model folders"):
        from regard.pipeline.folder_loading import load
    return load(folder, device, precision or "float32", engine)


def open_runtime(
    path: Path,
    device: str = "cpu",
    precision: str | None = None,
    threads: int | None = None,
) -> RuntimeTranslator:
    """Open a runtime file. Raises UsageError, with all causes, for what such a file has decided
    already.
    """
    check_folders(path, device, precision)
    translator = RuntimeTranslator(path, threads)
    kept = translator.model.card["precision"]
    wrong = (
        {f"`device={device}`": "which runs on the CPU"}
        if device not in ("cpu", "auto")
        else {}
    )
    if precision not in (None, kept):
        wrong[f"`precision={precision}`"] = f"whose precision is {kept}"
    UsageError.raise_all(
        f"{option}: {path} is a runtime file, {why}; leave it out"
        for option, why in wrong.items()
    )
    return translator
