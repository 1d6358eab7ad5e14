"""Pretrained weights of image encoders, from .safetensors or .pth files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from regard.common import reading
from regard.common.errors import TrainingError
from regard.common.shapes import Tensor
from regard.models.interface import Model
from regard.models.registry import ModelSettings
from regard.models.timm_encoder import TimmEncoderSettings
from regard.models.vision import ResNetEncoderSettings

CLASSIFIER = ("fc.", "classifier.")
"""Prefixes of the classifier's parameters, which the encoder does not have."""
COUNTERS = "num_batches_tracked"
"""Suffix of the counters of batch norm, which are unused."""
MAX_PROBLEMS = 8
"""Maximum number of problems listed in one message."""
_REMEDY = (
    "download it again; if it holds code besides tensors, which is never executed, use a file of "
    "tensors alone"
)


def load_pretrained(model: Model, settings: ModelSettings) -> None:
    """Load the pretrained weights that the encoder's settings name, if any, into its backbone.

    Raises TrainingError, with all problems, if the weights cannot be read or do not fit.
    """
    encoder = settings.encoder
    if not isinstance(encoder, (ResNetEncoderSettings, TimmEncoderSettings)):
        return
    if encoder.weights is None:
        return
    path = Path(encoder.weights)
    backbone = model.encoder.backbone
    tensors = {
        name: tensor
        for name, tensor in read_tensors(path).items()
        if not name.startswith(CLASSIFIER) and not name.endswith(COUNTERS)
    }
    parameters = dict(backbone.named_parameters())
    is_complete = isinstance(encoder, ResNetEncoderSettings)
    if not is_complete:
        tensors = _select_stages(parameters, tensors)
    _check(parameters, tensors, path, is_complete)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read named tensors from a file of safetensors or `torch.save`; it never executes code.

    Raises TrainingError if the file is missing or unreadable.
    """
    if not path.is_file():
        raise TrainingError(
            f"{path}: no such file; give model.encoder.weights the path of a .safetensors or .pth "
            "file"
        )
    return reading.read_tensors(path, TrainingError, _REMEDY)


def _select_stages(
    parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Select the weights of the stages that timm created.

    In some networks timm calls `stages.0` `stages_0`.
    """
    by_name = {name.replace(".", "_", 1): tensor for name, tensor in tensors.items()}
    by_name.update(tensors)
    return {name: by_name[name] for name in parameters if name in by_name}


def _check(
    parameters: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    path: Path,
    is_complete: bool,
) -> None:
    problems = [
        f"{path}: no weights called {name}"
        for name in parameters
        if name not in tensors
    ]
    unexpected = [name for name in tensors if name not in parameters]
    problems += [
        f"{path}: weights {name} belong to no part of this network"
        for name in unexpected
    ]
    for name in parameters.keys() & tensors.keys():
        expected = tuple(parameters[name].shape)
        got = tuple(tensors[name].shape)
        if expected != got:
            problems.append(
                f"{path}: weights {name} have another shape: expected {expected}, got {got}"
            )
        elif not bool(torch.isfinite(tensors[name]).all()):
            problems.append(f"{path}: weights {name} hold NaN or infinite values")

    listed = sorted(problems)[:MAX_PROBLEMS]
    if len(problems) > MAX_PROBLEMS:
        listed.append(f"and {len(problems) - MAX_PROBLEMS} more")
    hint = "set model.encoder's depths, width, block and stem to those of the pretrained network"
    if not is_complete:
        hint = (
            "set model.encoder.name to the network that these weights belong to, "
            "as timm names it"
        )
    if "bn1.running_mean" in unexpected:
        hint += ", and set model.encoder.norm = 'batch': these weights come with running statistics"
    TrainingError.raise_all(listed, hint)
