"""Open a model: a runtime file, which needs no PyTorch, or model folders, which do."""

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
    """Load a translator from a runtime file, or a Translator or Captioner from a model folder.

    - `folder`: a folder, or a runtime file. Several folders become an ensemble that averages
      probabilities.
    - `precision`: of weights and products, float32 by default; `int8` is the fastest on a CPU. A
      runtime file has its own.
    - `engine`: "library" for the C library, "pytorch", or "auto" for the library if it can decode
      the model. Both find the same outputs.

    The return type is Any because the folder or file determines it; `load_translator` and
    `load_captioner` of `regard.pipeline` are typed.

    Raises ModelFolderError if a file is missing or damaged, UsageError if this machine or model
    lacks the device, precision or engine, or if the models share no vocabulary.
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
        from regard.pipeline import folder_loading
    return folder_loading.load(folder, device, precision or "float32", engine)


def open_runtime(
    path: Path,
    device: str = "cpu",
    precision: str | None = None,
    threads: int | None = None,
) -> RuntimeTranslator:
    """Open a runtime file. Raises UsageError, with all causes, for options that contradict the
    file.
    """
    check_folders(path, device, precision)
    translator = RuntimeTranslator(path, threads)
    causes = list[str]()
    if device not in ("cpu", "auto"):
        causes.append(
            f"`device={device}`: {path} is a runtime file, which runs on the CPU; leave it out"
        )
    file_precision = translator.model.card["precision"]
    if precision not in (None, file_precision):
        causes.append(
            f"`precision={precision}`: {path} is a runtime file, whose precision is "
            f"{file_precision}; leave it out"
        )
    UsageError.raise_all(causes)
    return translator
