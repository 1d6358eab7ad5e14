"""Image encoders from the timm package, with their pretrained weights."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, field_validator
from torch import nn

from regard.common.errors import ConfigurationError, MissingExtra
from regard.common.settings import SIDE
from regard.common.shapes import Bool, Float, Tensor
from regard.models.interface import Batch, Encoded, EncoderSizes
from regard.models.vision import (
    GridHead,
    ImageEncoder,
    VisionSettings,
    flatten_mask,
    normalise_pixels,
)

# Architecture, and a tag of its weights.
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}(\.[A-Za-z0-9_-]{1,80})?")
PROBE_CELLS = 8  # cells per side of the noise images that probe the receptive field


class TimmEncoderSettings(VisionSettings):
    """Network of the timm package, without its classifier."""

    kind: Literal["timm"] = "timm"
    name: str = Field("resnet18", description="name of the network in timm")
    stride: int = Field(
        32,
        ge=1,
        le=SIDE,
        description="pixels per cell side: selects the feature map that is read",
    )
    weights: str | None = Field(
        None,
        description="pretrained weights to start from, .safetensors or .pth; read when training "
        "starts",
    )

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        """Refuse names by which timm would fetch a network (`hf-hub:`) or read one from a folder
        (`local-dir:`).
        """
        if PLAIN_NAME.fullmatch(name):
            return name
        raise ValueError(
            f"wanted the plain name of a network in timm, such as resnet18, got {name[:100]!r}; "
            "nothing is fetched or read from other folders to build a model, so give such a name, "
            "and weights as a file in model.encoder.weights"
        )


class TimmEncoder(ImageEncoder):
    """One feature map of a timm network. These networks ignore masks, so images of one size are
    encoded together.

    Batch norm keeps its running statistics, so the encoding of an image does not depend on its
    batch.
    """

    def __init__(self, settings: TimmEncoderSettings, vocabulary: int) -> None:  # noqa: ARG002
        super().__init__()
        s = settings
        (self.backbone, self.channels), self.stride = (
            _create_network(s.name, s.stride),
            s.stride,
        )
        self._batch_norms = _freeze_batch_norm(self.backbone)
        self.projection = nn.Linear(self.channels, s.size)
        self.norm = nn.LayerNorm(s.size)
        self.grid_head = GridHead(s)
        self.sizes = EncoderSizes(s.size, 1, s.size)
        if s.freeze_backbone:
            self.backbone.requires_grad_(False)

    def train(self, mode: bool = True) -> TimmEncoder:
        """Set training mode like `nn.Module.train`, but keep batch norm in eval mode."""
        super().train(mode)
        for name in self._batch_norms:
            self.backbone.get_submodule(name).eval()
        return self

    @cached_property
    def cell_centre(self) -> float:
        """Middle of the cell, or its corner: whichever is nearer to the measured centre of the
        receptive field.
        """
        measured = _receptive_centre(
            self._feature_map, self.stride, self.projection.weight.device
        )
        corner = 0.5 / self.stride
        return 0.5 if abs(measured - 0.5) < abs(measured - corner) else corner

    def forward(self, batch: Batch) -> Encoded:
        x, keep = normalise_pixels(batch)
        x, keep = (
            (self._feature_map(x), None)
            if keep is None
            else self._maps_by_size(x, keep)
        )
        cells = self.norm(self.projection(x.flatten(2).transpose(1, 2)))
        return self.grid_head(cells, tuple(x.shape[2:]), flatten_mask(keep))  # type: ignore[no-any-return]

    def _feature_map(self, x: Float[Tensor, "B 3 _ _"]) -> Float[Tensor, "B C _ _"]:
        features: Tensor = self.backbone(x)[0]
        first, last = (features.shape[side] == self.channels for side in (1, 3))
        # Ambiguous layout: pad one row of cells and see which axis keeps its size.
        if first and last:
            last = (
                self.backbone(F.pad(x[:1], (0, 0, 0, self.stride)))[0].shape[1]
                != self.channels
            )
        # Some networks put channels last.
        return features.movedim(3, 1) if last else features

    def _maps_by_size(
        self, x: Tensor, keep: Tensor
    ) -> tuple[Float[Tensor, "B C Y X"], Bool[Tensor, "B 1 Y X"]]:
        """Encode images of one size together, as each would be alone; return the padded maps and
        their mask.
        """
        sizes: dict[tuple[int, int], list[int]] = {}
        for row, (height, width) in enumerate(
            zip(keep[:, 0].any(2).sum(1), keep[:, 0].any(1).sum(1), strict=True)
        ):
            sizes.setdefault((int(height), int(width)), []).append(row)
        maps = {
            rows[0]: self._feature_map(x[rows, :, :height, :width])
            for (height, width), rows in sizes.items()
        }
        Y, X = (
            max(features.shape[side] for features in maps.values()) for side in (2, 3)
        )
        cells = x.new_zeros(len(x), self.channels, Y, X)
        cell_keep = keep.new_zeros(len(x), 1, Y, X)
        for rows, features in zip(sizes.values(), maps.values(), strict=True):
            cells[rows, :, : features.shape[2], : features.shape[3]] = features.to(
                cells.dtype
            )
            cell_keep[rows, :, : features.shape[2], : features.shape[3]] = True
        return cells, cell_keep


@torch.enable_grad()
def _receptive_centre(
    network: Callable[[Tensor], Tensor], stride: int, device: torch.device
) -> float:
    """Measure the receptive field of the middle cell of noise images: its gradient-weighted mean
    row, in cell sides.
    """
    noise = torch.randn(
        16, 3, *[PROBE_CELLS * stride] * 2, generator=torch.Generator().manual_seed(0)
    )
    noise = noise.to(device).requires_grad_()
    cell = network(noise)[:, :, PROBE_CELLS // 2, PROBE_CELLS // 2]
    (gradient,) = torch.autograd.grad(cell.square().sum(), noise)
    by_row = gradient.square().sum((0, 1, 3))
    pixel_rows = torch.arange(len(by_row), device=device) + 0.5
    return float((by_row * pixel_rows).sum() / by_row.sum()) / stride - PROBE_CELLS // 2


def _create_network(name: str, stride: int) -> tuple[nn.Module, int]:
    """Create the network up to its map of this stride; return it and its channels.

    Raises ConfigurationError, with the strides there are, and MissingExtra without timm.
    """
    try:
        import timm
    except ImportError:
        raise MissingExtra("timm", "vision", "model.encoder.kind = 'timm'") from None
    except RuntimeError as problem:
        # PyPI's torchvision, which it imports, needs the CUDA build of torch.
        raise ConfigurationError(
            f"model.encoder.kind = 'timm': timm is installed but cannot be imported ({problem}); "
            "install the torchvision that was built for this torch"
        ) from None
    try:
        info: Any = timm.create_model(
            name, pretrained=False, features_only=True
        ).feature_info
    except (
        RuntimeError,
        ValueError,
        AttributeError,
        TypeError,
        LookupError,
        AssertionError,
    ) as problem:
        raise ConfigurationError(
            f"model.encoder.name: timm has no feature maps of {name!r} ({problem}); see "
            "timm.list_models()"
        ) from None
    strides = list(info.reduction())
    if stride not in strides:
        known = ", ".join(map(str, strides))
        raise ConfigurationError(
            f"model.encoder.stride: {name} has feature maps of stride {known}, not {stride}"
        )
    index = strides.index(stride)
    network = timm.create_model(
        name, pretrained=False, features_only=True, out_indices=(index,)
    )
    return network, info.channels()[index]


def _freeze_batch_norm(network: nn.Module) -> list[str]:
    """Turn running statistics into frozen parameters, which model folders hold; return the names of
    their modules.
    """
    frozen = []
    for owner, module in network.named_modules():
        buffers = {
            name: module._buffers.get(name) for name in ("running_mean", "running_var")
        }
        if not all(
            isinstance(statistics, torch.Tensor) for statistics in buffers.values()
        ):
            continue
        for name, statistics in buffers.items():
            assert statistics is not None, "checked above"
            delattr(module, name)
            module.register_parameter(
                name, nn.Parameter(statistics.clone(), requires_grad=False)
            )
        module._buffers["num_batches_tracked"] = None
        frozen.append(owner)
    return frozen
