"""Weights that others have published for a network of pictures, put into an encoder before it is trained."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from regard.errors import TrainingError
from regard.models.build import ModelSettings
from regard.models.interface import Model
from regard.models.timm_encoder import TimmEncoderSettings
from regard.models.vision import ResNetEncoderSettings
from regard.shapes import Tensor

__all__ = ["load_pretrained", "read_tensors"]

LEFT_OUT = ("fc.", "classifier.")
"""What tells the classes of ImageNet apart."""
COUNTS = "num_batches_tracked"
SHOWN = 8


def load_pretrained(model: Model, settings: ModelSettings) -> None:
    """Fill the network that sees pixels with the weights that its settings name, where they name any.

    Raises TrainingError, with everything that is wrong, where they cannot be read or do not fit.
    """
    encoder = settings.encoder
    if not isinstance(encoder, (ResNetEncoderSettings, TimmEncoderSettings)) or encoder.weights is None:
        return
    path, trunk = Path(encoder.weights), model.encoder.backbone
    tensors = {
        name: tensor
        for name, tensor in read_tensors(path).items()
        if not name.startswith(LEFT_OUT) and not name.endswith(COUNTS)
    }
    own, whole = dict(trunk.named_parameters()), isinstance(encoder, ResNetEncoderSettings)
    if not whole:
        tensors = _of_some(own, tensors)
    _check(own, tensors, path, whole)
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(tensors[name])


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Tensors by name, of a safetensors file or of one that `torch.save` wrote; nothing in it is ever carried out."""
    if not path.is_file():
        raise TrainingError(f"{path}: no such file; give model.encoder.weights the path of a .safetensors or .pth file")
    remedy = "fetch the file again"
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, "pt") as file:
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        with warnings.catch_warnings():  # of what it will refuse anyway
            warnings.simplefilter("ignore")
            found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as problem:
        reason = str(problem).splitlines()[0].split(". ")[0]
        remedy = "it is damaged, or holds code beside tensors, which is never carried out; use a file of tensors alone"
        raise TrainingError(f"{path}: not read ({reason}); {remedy}") from None
    except (SafetensorError, OSError, RuntimeError, EOFError, ValueError, KeyError) as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise TrainingError(f"{path}: damaged, or no file of tensors ({reason}); {remedy}") from None
    return _tensors(found, path)


def _tensors(found: Any, path: Path) -> dict[str, Tensor]:
    if isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping):
        found = found["state_dict"]
    if not isinstance(found, Mapping) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise TrainingError(f"{path}: wanted a table of tensors by name (a state_dict), got {type(found).__name__}")
    return {str(name): tensor for name, tensor in found.items()}


def _of_some(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the stages that timm keeps, of a file of all of them; it calls `stages.0` of some `stages_0`."""
    named = {name.replace(".", "_", 1): tensor for name, tensor in tensors.items()} | dict(tensors)
    return {name: named[name] for name in own if name in named}


def _check(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], path: Path, whole: bool) -> None:
    problems = [f"{path}: no weights called {name}" for name in own if name not in tensors]
    strange = [name for name in tensors if name not in own]
    problems += [f"{path}: weights {name} belong to no part of this network" for name in strange]
    for name in own.keys() & tensors.keys():
        wanted, got = tuple(own[name].shape), tuple(tensors[name].shape)
        if wanted != got:
            problems.append(f"{path}: weights {name} have another shape: wanted {wanted}, got {got}")
        elif not bool(torch.isfinite(tensors[name]).all()):
            problems.append(f"{path}: weights {name} hold values that are no numbers")
    if not problems:
        return
    more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
    hint = "make model.encoder's depths, width, block and stem those of the published network"
    if not whole:
        hint = "make model.encoder.name the network that these weights are of, as timm calls it"
    if "bn1.running_mean" in strange:
        hint += ", and set model.encoder.norm = 'batch': these weights come with running statistics"
    raise TrainingError(*sorted(problems)[:SHOWN], *more, hint)
