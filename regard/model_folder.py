"""A model folder on disk: settings as JSON, vocabularies, weights as safetensors. Nothing is ever unpickled."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from regard.atomic import write_bytes
from regard.attention.alignment import SYMMETRIES
from regard.data.images import ImageSizeSettings
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import ModelFolderError
from regard.models import Model, ModelSettings, build
from regard.search import SearchSettings
from regard.settings import Settings

__all__ = [
    "ALIGNMENT",
    "CONFIG",
    "WEIGHTS",
    "FolderSettings",
    "ModelFolder",
    "check_weights",
    "fingerprints",
    "load_alignment",
    "load_folder",
    "load_settings",
    "load_tensors",
    "load_weights",
    "named_weights",
    "save_alignment",
    "save_folder",
    "save_tensors",
]

CONFIG, WEIGHTS, ALIGNMENT = "config.json", "model.safetensors", "alignment.json"
_REMEDY = "copy the folder again from where the model was trained, or train the model again"


class FolderSettings(Settings):
    """What `config.json` holds: all that is needed to build the model and to search with it."""

    regard: Literal[1] = 1  # the version of this format
    model: ModelSettings
    tokenizer: TokenizerSettings
    search: SearchSettings
    pictures: ImageSizeSettings | None = Field(None, description="how a captioner sees pictures; none: it reads text")


@dataclass(frozen=True)
class ModelFolder:
    """A model folder in memory."""

    settings: FolderSettings
    tokenizer: Tokenizer
    model: Model


def named_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """The weights by name, shared ones once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def save_folder(folder: Path, settings: FolderSettings, tokenizer: Tokenizer) -> None:
    """Write what stays the same through training: settings and vocabularies."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(folder)
    unused = {"pictures"} if settings.pictures is None else set[str]()
    text = json.dumps(settings.model_dump(exclude=unused), ensure_ascii=False, indent=2)
    write_bytes(folder / CONFIG, (text + "\n").encode())


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor], about: Mapping[str, str] | None = None) -> None:
    """Write tensors and notes about them beside, then rename over: there is never half a file.

    Raises OSError where that cannot be done; what was there before is untouched then.
    """
    beside = path.with_name(path.name + ".part")
    beside.touch()
    mode = beside.stat().st_mode  # as the user's other files; safetensors lets nobody else read its own
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, beside, dict(about or {}))
        beside.chmod(mode)
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
    except SafetensorError as problem:
        beside.unlink(missing_ok=True)
        raise OSError(errno.EIO, f"could not be written ({problem})", str(path)) from None
    beside.replace(path)


def load_tensors(path: Path, device: str = "cpu") -> dict[str, torch.Tensor]:
    """Read tensors. Raises ModelFolderError when the file is missing or damaged."""
    if not path.is_file():
        raise ModelFolderError(f"{path}: missing; {_REMEDY}")
    try:
        with safe_open(path, "pt", device=device) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as problem:
        raise ModelFolderError(f"{path}: damaged ({problem}); {_REMEDY}") from None


def load_folder(folder: str | Path, device: str = "cpu") -> ModelFolder:
    """Read a model folder (or a run folder: it is one too), ready to translate."""
    folder = Path(folder)
    settings = load_settings(folder)
    tokenizer = Tokenizer.load(folder, settings.tokenizer)
    model = build(settings.model, len(tokenizer.source), len(tokenizer.target), settings.tokenizer.joint)
    load_weights(model, load_tensors(folder / WEIGHTS), folder / WEIGHTS)
    return ModelFolder(settings, tokenizer, model.to(device).eval())


def load_weights(model: nn.Module, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Fill a model with weights that fit it exactly, or say everything that does not."""
    check_weights(model, tensors, path)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[name])


def check_weights(model: nn.Module, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Raise ModelFolderError, with everything that is wrong, where these weights do not fit the model exactly."""
    own = dict(model.named_parameters())
    problems = [f"{path}: no weights called {name}" for name in own if name not in tensors]
    problems += [f"{path}: weights {name} belong to no part of this model" for name in tensors if name not in own]
    for name in own.keys() & tensors.keys():
        if own[name].shape != tensors[name].shape:
            shapes = f"wanted {tuple(own[name].shape)}, got {tuple(tensors[name].shape)}"
            problems.append(f"{path}: weights {name} have another shape: {shapes}")
    broken = [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]
    if broken:
        raise ModelFolderError(f"{path}: damaged: weights {broken[0]} hold values that are no numbers; {_REMEDY}")
    if problems:
        raise ModelFolderError(*sorted(problems)[:8], f"the weights are of another model than {CONFIG}; {_REMEDY}")


def load_settings(folder: Path) -> FolderSettings:
    """Read `config.json`. Raises ModelFolderError when there is none or it is damaged."""
    path = folder / CONFIG
    if not folder.is_dir():
        raise ModelFolderError(f"{folder}: no such folder; give the folder that `regard train --out` wrote")
    if not path.is_file():
        raise ModelFolderError(f"{path}: missing, so {folder} is not a model folder; {_REMEDY}")
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise ModelFolderError(f"{path}: damaged, not JSON ({problem}); {_REMEDY}") from None
    if not isinstance(values, dict):
        raise ModelFolderError(f"{path}: damaged, wanted a table, got {type(values).__name__}; {_REMEDY}")
    return FolderSettings.parse(values, str(path))


def fingerprints(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file that decides what a model says."""
    kinds = (CONFIG, ALIGNMENT, "*.model", "*vocab.json", "*.safetensors")
    found = [path for kind in kinds for path in sorted(folder.glob(kind)) if path.is_file()]
    return {path.name: _hashed(path) for path in found}


def _hashed(path: Path) -> str:
    seen = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            seen.update(data)
    return seen.hexdigest()


def save_alignment(folder: Path, choice: Mapping[str, Any]) -> None:
    """Note which layer and head show the alignment best."""
    write_bytes(folder / ALIGNMENT, (json.dumps(choice, indent=2) + "\n").encode())


def load_alignment(folder: Path) -> dict[str, Any] | None:
    """The layer, head, row and symmetry chosen for alignments; None where nothing was chosen or the file is damaged."""
    path = folder / ALIGNMENT
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        symmetry, with_reverse = values.get("symmetry"), values.get("with_reverse", "grow-diag")
        if symmetry not in (None, *SYMMETRIES):
            raise ValueError(f"symmetry: wanted {', '.join(SYMMETRIES)} or null, got {symmetry!r}")
        if with_reverse not in SYMMETRIES:
            raise ValueError(f"with_reverse: wanted {', '.join(SYMMETRIES)}, got {with_reverse!r}")
        choice = {"layer": str(values["layer"]), "head": values["head"], "shifted": bool(values["shifted"])}
        return {**choice, "symmetry": symmetry, "with_reverse": with_reverse}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        warnings.warn(f"{path}: damaged ({problem}) and not used; alignments come from the last layer", stacklevel=2)
        return None
