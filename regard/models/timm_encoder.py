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
from regard.models.interface import Batch, Encoded, EncoderSizes, register_encoder
from regard.models.vision import (
    GridHead,
    ImageEncoder,
    VisionSettings,
    flatten_mask,
    normalise_pixels,
)

PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}(\.[A-Za-z0-9_-]{1,80})?")
"""Name of an architecture, and optionally a tag of its weights."""
PROBE_CELLS = 8
"""Cells per side of the noise images with which the receptive field is measured."""


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
        """Refuse names for which timm would download a network (`hf-hub:`) or read a folder."""
        if PLAIN_NAME.fullmatch(name):
            return name
        raise ValueError(
            f"wanted the plain name of a network in timm, such as resnet18, got {name[:100]!r}; "
            "nothing is fetched or read from other folders to build a model, so give such a name, "
            "and weights as a file in model.encoder.weights"
        )


@register_encoder("timm", TimmEncoderSettings)
class TimmEncoder(ImageEncoder):
    """One feature map of a timm network.

    The encoding of an image does not depend on its batch: images of one size are encoded together,
    because these networks take no masks, and batch norm uses its running statistics.
    """

    def __init__(self, settings: TimmEncoderSettings, vocabulary: int) -> None:  # noqa: ARG002
        super().__init__()
        s = settings
        self.backbone, self.channels = _create_network(s.name, s.stride)
        self.stride = s.stride
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
        """Offset of the centre of a cell's receptive field, in cells: the middle of the cell or its
        corner, whichever is nearer to the measured one.
        """
        measured = _receptive_centre(
            self._feature_map, self.stride, self.projection.weight.device
        )
        corner = 0.5 / self.stride
        return 0.5 if abs(measured - 0.5) < abs(measured - corner) else corner

    def forward(self, batch: Batch) -> Encoded:
        x, keep = normalise_pixels(batch)
        if keep is None:
            x = self._feature_map(x)
        else:
            x, keep = self._maps_by_size(x, keep)
        cells = self.norm(self.projection(x.flatten(2).transpose(1, 2)))
        return self.grid_head(cells, tuple(x.shape[2:]), flatten_mask(keep))  # type: ignore[no-any-return]

    def _feature_map(self, x: Float[Tensor, "B 3 _ _"]) -> Float[Tensor, "B C _ _"]:
        features: Tensor = self.backbone(x)[0]
        # Some networks put the channels last.
        may_be_first = features.shape[1] == self.channels
        is_last = features.shape[3] == self.channels
        if may_be_first and is_last:
            # The layout is ambiguous. Pad the image by one row of cells: only a spatial axis grows.
            taller = self.backbone(F.pad(x[:1], (0, 0, 0, self.stride)))[0]
            is_last = taller.shape[1] != self.channels
        return features.movedim(3, 1) if is_last else features

    def _maps_by_size(
        self, x: Tensor, keep: Tensor
    ) -> tuple[Float[Tensor, "B C Y X"], Bool[Tensor, "B 1 Y X"]]:
        """Encode the images of each size together; return padded feature maps and their mask."""
        heights = keep[:, 0].any(2).sum(1).tolist()
        widths = keep[:, 0].any(1).sum(1).tolist()
        rows_by_size: dict[tuple[int, int], list[int]] = {}
        for row, size in enumerate(zip(heights, widths, strict=True)):
            rows_by_size.setdefault(size, []).append(row)
        maps = [
            (rows, self._feature_map(x[rows, :, :height, :width]))
            for (height, width), rows in rows_by_size.items()
        ]

        Y = max(features.shape[2] for _, features in maps)
        X = max(features.shape[3] for _, features in maps)
        cells = x.new_zeros(len(x), self.channels, Y, X)
        cell_keep = keep.new_zeros(len(x), 1, Y, X)
        for rows, features in maps:
            height, width = features.shape[2:]
            cells[rows, :, :height, :width] = features.to(cells.dtype)
            cell_keep[rows, :, :height, :width] = True
        return cells, cell_keep


@torch.enable_grad()
def _receptive_centre(
    network: Callable[[Tensor], Tensor], stride: int, device: torch.device
) -> float:
    """Measure the centre of a cell's receptive field, as a fraction of the cell's side.

    It is the mean pixel row, weighted by squared gradients, of the middle cell of noise images.
    """
    side = PROBE_CELLS * stride
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(16, 3, side, side, generator=generator)
    noise = noise.to(device).requires_grad_()
    cell = network(noise)[:, :, PROBE_CELLS // 2, PROBE_CELLS // 2]
    (gradient,) = torch.autograd.grad(cell.square().sum(), noise)
    by_row = gradient.square().sum((0, 1, 3))
    pixel_rows = torch.arange(len(by_row), device=device) + 0.5
    return float((by_row * pixel_rows).sum() / by_row.sum()) / stride - PROBE_CELLS // 2


def _create_network(name: str, stride: int) -> tuple[nn.Module, int]:
    """Create the network up to its feature map of this stride; return it and its channels.

    Raises ConfigurationError if there is no such map, and MissingExtra without timm.
    """
    try:
        import timm
    except ImportError:
        raise MissingExtra("timm", "vision", "model.encoder.kind = 'timm'") from None
    except RuntimeError as problem:
        # timm imports torchvision, and PyPI's torchvision needs the CUDA build of torch.
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
        listed = ", ".join(map(str, strides))
        raise ConfigurationError(
            f"model.encoder.stride: {name} has feature maps of stride {listed}, not {stride}"
        )
    index = strides.index(stride)
    network = timm.create_model(
        name, pretrained=False, features_only=True, out_indices=(index,)
    )
    return network, info.channels()[index]


def _freeze_batch_norm(network: nn.Module) -> list[str]:
    """Replace the buffers of batch norms by frozen parameters, because model folders hold only
    parameters.

    Returns the names of the modules changed.
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
