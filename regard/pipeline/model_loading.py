"""Open a model: a runtime file, which needs no PyTorch, or model folders, which do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from regard.common.arguments import describe
from regard.common.errors import UsageError
from regard.common.lazy import needs_extra
from regard.pipeline.arguments import check_folders
from regard.pipeline.runtime_translator import RuntimeTranslator
from regard.pipeline.translator import Translator

if TYPE_CHECKING:
    from regard.pipeline.captioner import Captioner
    from regard.pipeline.folder_loading import Folders
    from regard.runtime.engine import EngineName, Precision

Task = Literal["translation", "captions"]
"""Task of a model, which decides the type of what is loaded."""


@overload
def load(
    folder: Folders,
    device: str = ...,
    precision: Precision | None = ...,
    engine: EngineName = ...,
    *,
    task: Literal["translation"],
) -> Translator: ...


@overload
def load(
    folder: Folders,
    device: str = ...,
    precision: Precision | None = ...,
    engine: EngineName = ...,
    *,
    task: Literal["captions"],
) -> Captioner: ...


@overload
def load(
    folder: Folders,
    device: str = ...,
    precision: Precision | None = ...,
    engine: EngineName = ...,
    *,
    task: None = ...,
) -> Any: ...


def load(
    folder: Folders,
    device: str = "cpu",
    precision: Precision | None = None,
    engine: EngineName = "auto",
    *,
    task: Task | None = None,
) -> Any:
    """Load a translator from a runtime file, or a Translator or Captioner from a model folder.

    - `folder`: a folder, or a runtime file. Several folders become an ensemble that averages
      probabilities.
    - `precision`: of weights and products, float32 by default; `int8` is the fastest on a CPU. A
      runtime file has its own.
    - `engine`: "library" for the C library, "pytorch", or "auto" for the library if it can decode
      the model. Both find the same outputs.
    - `task`: "translation" or "captions", so that an editor knows the type, a Translator or a
      Captioner, which the folder or file determines.

    Raises ModelFolderError if a file is missing or damaged, UsageError if this machine or model
    lacks the device, precision or engine, if the models share no vocabulary, or for another task.
    """
    loaded = _load(folder, device, precision, engine)
    reads = "translation" if isinstance(loaded, Translator) else "captions"
    if task not in (None, reads):
        raise UsageError(
            f"`task=`: wanted {describe(task)}, and {folder} is a model for {reads}; take "
            "the other, or another folder"
        )
    return loaded


def _load(
    folder: Folders, device: str, precision: Precision | None, engine: EngineName
) -> Any:
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
