"""From a folder on the disk to something that answers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.attention import Attention
from regard.engine import Engine, EngineName, Precision
from regard.errors import UsageError
from regard.model_folder import ALIGNMENT, FolderSettings, load_alignment, load_folder
from regard.models import Ensemble, Model
from regard.pipeline.captioner import Captioner
from regard.pipeline.translation import AlignmentChoice
from regard.pipeline.translator import Translator

__all__ = ["load", "load_captioner", "load_translator"]


def load(
    folder: str | Path | Sequence[str | Path],
    device: str = "cpu",
    engine: EngineName = "auto",
    precision: Precision = "float32",
) -> Any:
    """A Translator, or a Captioner, from the folder that training wrote; from several, one that averages the models'
    probabilities.

    `engine` and `precision` say who decodes and how exactly: `int8` is the quickest on a processor. Raises
    ModelFolderError when a part is missing or damaged, UsageError when this machine lacks what is asked for, or when
    models do not share a vocabulary.
    """
    if not isinstance(folder, (str, Path)):
        return _together([Path(each) for each in folder], device, engine, precision)
    folder = Path(folder)
    found = load_folder(folder, device)
    choice, decoder = _choice(folder, found.model), Engine(found.model, engine, precision, folder)
    return _kind(found.settings)(found.model, found.tokenizer, found.settings, choice, decoder)


def load_translator(
    folder: str | Path | Sequence[str | Path],
    device: str = "cpu",
    engine: EngineName = "auto",
    precision: Precision = "float32",
) -> Translator:
    """The same of models that read text. Raises UsageError for those that read pictures."""
    found = load(folder, device, engine, precision)
    if not isinstance(found, Translator):
        raise UsageError(f"{folder}: this model reads pictures, not text; caption with it: `regard caption`")
    return found


def load_captioner(
    folder: str | Path | Sequence[str | Path],
    device: str = "cpu",
    engine: EngineName = "auto",
    precision: Precision = "float32",
) -> Captioner:
    """The same of models that read pictures. Raises UsageError for those that read text."""
    found = load(folder, device, engine, precision)
    if not isinstance(found, Captioner):
        raise UsageError(f"{folder}: this model reads text, not pictures; translate with it: `regard translate`")
    return found


def _kind(settings: FolderSettings) -> type[Translator] | type[Captioner]:
    return Captioner if settings.model.encoder.reads == "pictures" else Translator


def _together(folders: list[Path], device: str, engine: EngineName, precision: Precision) -> Translator | Captioner:
    """Models that write the same pieces, as one; the first says how to search, and which read shows alignments."""
    if not folders:
        raise UsageError("there is no model to load; give at least one folder")
    if len(folders) == 1:
        found_alone: Translator | Captioner = load(folders[0], device, engine, precision)
        return found_alone
    found = [load_folder(folder, device) for folder in folders]
    first = found[0]
    strangers = [
        f"{folder}: has another vocabulary than {folders[0]}; only models that share one can be averaged"
        for folder, each in zip(folders, found, strict=True)
        if each.tokenizer.fingerprint != first.tokenizer.fingerprint
    ]
    strangers += [
        f"{folder}: reads {each.settings.model.encoder.reads}, and {folders[0]} does not; only like goes with like"
        for folder, each in zip(folders, found, strict=True)
        if each.settings.model.encoder.reads != first.settings.model.encoder.reads
    ]
    strangers += [
        f"{folder}: sees pictures otherwise than {folders[0]} does (data.images: height, width, fit …)"
        for folder, each in zip(folders, found, strict=True)
        if each.settings.pictures != first.settings.pictures
    ]
    if strangers:
        raise UsageError(*strangers)
    model, choice = Ensemble([each.model for each in found]), _choice(folders[0], first.model)
    if choice is not None:
        choice = replace(choice, layer=f"models.0.{choice.layer}")
    return _kind(first.settings)(model, first.tokenizer, first.settings, choice, Engine(model, engine, precision))


def _choice(folder: Path, model: Model) -> AlignmentChoice | None:
    """The read that was chosen for alignments, if this model has it."""
    values = load_alignment(folder)
    if values is None:
        return None
    read = dict(model.named_modules()).get(values["layer"])
    head = values["head"]
    there = head is None or (type(head) is int and head in range(read.heads if isinstance(read, Attention) else 0))
    if isinstance(read, Attention) and read.role == "cross" and there:
        return AlignmentChoice(**values)
    warnings.warn(
        f"{folder / ALIGNMENT}: names a layer or head that this model lacks and is not used; alignments come from the "
        "last layer",
        stacklevel=3,
    )
    return None
