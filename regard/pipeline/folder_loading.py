"""Load a model folder, or several as an ensemble, as a Translator or Captioner."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.attention import Attention
from regard.attention.alignment_choice import AlignmentChoice
from regard.common.errors import UsageError
from regard.model_folder import (
    ALIGNMENT,
    ModelFolder,
    load_alignment,
    load_folder,
)
from regard.models import Ensemble, Model, check_device
from regard.pipeline.arguments import check_folders
from regard.pipeline.captioner import Captioner
from regard.pipeline.folder_translator import FolderTranslator
from regard.runtime.engine import Engine, EngineName, Precision

Folders = str | Path | Sequence[str | Path]
"""A model folder, or several, which become an ensemble."""


def load(
    folder: Folders,
    device: str = "cpu",
    precision: Precision = "float32",
    engine: EngineName = "auto",
) -> Any:
    """Load a Translator or Captioner from a model folder, or from several as an ensemble.

    An ensemble averages probabilities. `precision` is the precision of weights and products; `int8`
    is the fastest on a CPU. `engine` is "library" for the C library, "pytorch", or "auto" for the
    library if it can decode the model. The return type is Any because the folder determines it;
    `load_translator` and `load_captioner` are typed. Raises ModelFolderError if a file is missing
    or damaged, UsageError if this machine or model lacks the device, precision or engine, or if the
    models share no vocabulary.
    """
    check_folders(folder, device, precision, engine)
    device = check_device(device)
    if not isinstance(folder, (str, os.PathLike)):
        folders = [Path(item) for item in folder]
        if not folders:
            raise UsageError("no model to load; give at least one folder")
        if len(folders) > 1:
            return _load_ensemble(folders, device, precision, engine)
        folder = folders[0]
    folder = Path(folder)
    loaded = load_folder(folder, device)
    ablations = loaded.settings.model.ablations()
    if ablations:
        warnings.warn(
            f"{folder}: trained for an experiment, not for use: {'; '.join(ablations)}",
            stacklevel=2,
        )
    choice = alignment_choice(folder, loaded)
    decoder = Engine(loaded.model, precision, loaded, engine, is_private=True)
    return _pipeline(folder, loaded, loaded.model, choice, decoder)


def load_translator(
    folder: Folders,
    device: str = "cpu",
    precision: Precision = "float32",
    engine: EngineName = "auto",
) -> FolderTranslator:
    """Load a model of text as `load` does. Raises UsageError for a captioner."""
    loaded = load(folder, device, precision, engine)
    if not isinstance(loaded, FolderTranslator):
        raise UsageError(
            f"{folder}: this model reads images, not text; caption with it: `regard caption`"
        )
    return loaded


def load_captioner(
    folder: Folders,
    device: str = "cpu",
    precision: Precision = "float32",
    engine: EngineName = "auto",
) -> Captioner:
    """Load a model of images as `load` does. Raises UsageError for a translator."""
    loaded = load(folder, device, precision, engine)
    if not isinstance(loaded, Captioner):
        raise UsageError(
            f"{folder}: this model reads text, not images; translate with it: `regard translate`"
        )
    return loaded


def _pipeline(
    folder: Path,
    loaded: ModelFolder,
    model: Model | Ensemble,
    choice: AlignmentChoice | None,
    decoder: Engine,
) -> FolderTranslator | Captioner:
    """Return what translates or captions with a model, and the tokenizer and settings of a
    folder.
    """
    parts = (model, loaded.tokenizer, loaded.settings, choice, decoder)
    if loaded.settings.model.encoder.reads != "text":
        return Captioner(*parts)
    translator = FolderTranslator(*parts)
    translator.folder = folder
    return translator


def _load_ensemble(
    folders: list[Path], device: str, precision: Precision, engine: EngineName
) -> FolderTranslator | Captioner:
    """Load models as one ensemble, with search settings, tokenizer and alignment choice of the
    first.
    """
    members = [load_folder(folder, device) for folder in folders]
    UsageError.raise_all(_incompatible(folders, members))
    first = members[0]
    model = Ensemble([member.model for member in members])
    choice = alignment_choice(folders[0], first)
    if choice is not None:
        choice = replace(choice, layer=f"models.0.{choice.layer}")
    decoder = Engine(model, precision, choice=engine, is_private=True)
    return _pipeline(folders[0], first, model, choice, decoder)


def _incompatible(folders: list[Path], members: list[ModelFolder]) -> list[str]:
    """Return the reasons why members cannot be averaged with the first one."""
    first = members[0]
    causes = list[str]()
    for folder, member in zip(folders[1:], members[1:], strict=True):
        reads = member.settings.model.encoder.reads
        wanted = first.settings.model.encoder.reads
        if member.tokenizer.fingerprint != first.tokenizer.fingerprint:
            causes.append(
                f"{folder}: its vocabulary differs from that of {folders[0]}; an ensemble shares "
                "one"
            )
        if reads != wanted:
            causes.append(
                f"{folder}: reads {reads}, and {folders[0]} reads {wanted}; an ensemble reads one "
                "of them"
            )
        if member.settings.images != first.settings.images:
            causes.append(
                f"{folder}: resizes images differently from {folders[0]} (data.images: height, "
                "width, fit …); an ensemble shares one image size"
            )
    return causes


def alignment_choice(folder: Path, loaded: ModelFolder) -> AlignmentChoice | None:
    """Return the attention head that the folder names for alignments.

    If the model lacks it, warn and return None.
    """
    choice = load_alignment(folder, loaded.settings.seal)
    if choice is None:
        return None
    module = dict(loaded.model.named_modules()).get(choice.layer)
    head = choice.head
    heads = 0
    if isinstance(module, Attention) and module.role == "cross":
        heads = module.heads
    if heads and (head is None or (type(head) is int and 0 <= head < heads)):
        return choice
    warnings.warn(
        f"{folder / ALIGNMENT}: names a layer or head that this model lacks and is not used; "
        "alignments come from the middle layer",
        stacklevel=3,
    )
    return None
