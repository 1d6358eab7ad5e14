"""Model folder on disk: config.json, vocabularies, weights as safetensors. Nothing is ever unpickled."""

from __future__ import annotations

import errno
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from regard.atomic import atomic_file, file_sha256, write_text
from regard.attention.alignment import SYMMETRIES
from regard.data.images import ImageSizeSettings
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import ModelFolderError
from regard.models import Model, ModelSettings, build
from regard.search import SearchSettings
from regard.settings import Settings

CONFIG, WEIGHTS, ALIGNMENT = "config.json", "model.safetensors", "alignment.json"
FORMAT: Final = 1
"""The version of the folder's format; a folder of another version is refused."""
_REMEDY = "copy the folder again from where the model was trained, or train the model again"


class FolderSettings(Settings):
    """The content of `config.json`: all that is needed to build the model and to decode with it."""

    format: Literal[1] = FORMAT
    model: ModelSettings
    tokenizer: TokenizerSettings
    search: SearchSettings
    images: ImageSizeSettings | None = Field(None, description="size of a captioner's images; none: it reads text")


@dataclass(frozen=True)
class ModelFolder:
    """A model folder in memory."""

    settings: FolderSettings
    tokenizer: Tokenizer
    model: Model


def named_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters by name; tied ones once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def save_folder(folder: Path, settings: FolderSettings, tokenizer: Tokenizer) -> None:
    """Write what training does not change: settings and vocabularies."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(folder)
    unused = {"images"} if settings.images is None else set[str]()
    write_text(folder / CONFIG, json.dumps(settings.model_dump(exclude=unused), ensure_ascii=False, indent=2) + "\n")


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors and metadata atomically, synced to disk.

    Raises OSError if that fails; the file that was there before is untouched then.
    """
    try:
        with atomic_file(path, durable=True) as temporary:
            temporary.touch()
            mode = temporary.stat().st_mode  # the user's default; safetensors makes files that only the owner can read
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, dict(metadata or {}))
            temporary.chmod(mode)
    except SafetensorError as problem:
        raise OSError(errno.EIO, f"could not be written ({problem})", str(path)) from None


def load_tensors(path: Path, device: str = "cpu") -> dict[str, torch.Tensor]:
    """Read tensors. Raises ModelFolderError if the file is missing or damaged."""
    if not path.is_file():
        raise ModelFolderError(f"{path}: missing; {_REMEDY}")
    try:
        with safe_open(path, "pt", device=device) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as problem:
        raise ModelFolderError(f"{path}: damaged ({problem}); {_REMEDY}") from None


def load_folder(folder: str | Path, device: str = "cpu") -> ModelFolder:
    """Load a model folder (a run folder is one too) in evaluation mode."""
    folder = Path(folder)
    settings = load_settings(folder)
    tokenizer = Tokenizer.load(folder, settings.tokenizer)
    model = build(settings.model, len(tokenizer.source), len(tokenizer.target), settings.tokenizer.joint)
    load_weights(model, load_tensors(folder / WEIGHTS), folder / WEIGHTS)
    return ModelFolder(settings, tokenizer, model.to(device).eval())


def load_weights(model: nn.Module, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Copy weights into a model. Raises ModelFolderError, with all causes, if they do not fit it exactly."""
    check_weights(model, tensors, path)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[name])


def check_weights(model: nn.Module, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Raise ModelFolderError, with all causes, if these weights do not fit the model exactly or are not finite."""
    parameters = dict(model.named_parameters())
    problems = [f"{path}: no weights called {name}" for name in parameters if name not in tensors]
    problems += [
        f"{path}: weights {name} belong to no part of this model" for name in tensors if name not in parameters
    ]
    for name in parameters.keys() & tensors.keys():
        if parameters[name].shape != tensors[name].shape:
            shapes = f"wanted {tuple(parameters[name].shape)}, got {tuple(tensors[name].shape)}"
            problems.append(f"{path}: weights {name} have another shape: {shapes}")
    not_finite = [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]
    if not_finite:
        raise ModelFolderError(f"{path}: damaged: weights {not_finite[0]} are not finite (NaN or infinity); {_REMEDY}")
    if problems:
        raise ModelFolderError(*sorted(problems)[:8], f"the weights are of another model than {CONFIG}; {_REMEDY}")


def load_settings(folder: Path) -> FolderSettings:
    """Read `config.json`. Raises ModelFolderError if it is missing, damaged or of another format version."""
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
    if (version := values.get("format")) != FORMAT:
        version = "unknown" if version is None else version
        raise ModelFolderError(
            f"{path}: written by another version of Regard (format {version}; this one reads {FORMAT}): train or "
            "export it again"
        )
    return FolderSettings.parse(values, str(path))


def fingerprints(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file that affects what a model outputs, by file name."""
    patterns = (CONFIG, ALIGNMENT, "*.model", "*vocab.json", "*.safetensors")
    paths = [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]
    return {path.name: file_sha256(path) for path in paths}


def save_alignment(folder: Path, choice: Mapping[str, Any]) -> None:
    """Write which layer and head show alignments best (the fields of `AlignmentChoice`)."""
    write_text(folder / ALIGNMENT, json.dumps(choice, indent=2) + "\n")


def load_alignment(folder: Path) -> dict[str, Any] | None:
    """Read the folder's `AlignmentChoice` as a dict; None if it has none or, with a warning, if it is damaged."""
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
