"""Networks of pictures from the timm package as encoders: hundreds of them, with the weights that were published."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from regard.errors import ConfigurationError, MissingExtra
from regard.models.interface import Batch, Encoded, EncoderSizes
from regard.models.vision import GridHead, ImageEncoder, VisionSettings, flatten_mask, normalise_pixels
from regard.shapes import Bool, Float, Tensor

__all__ = ["TimmEncoder", "TimmEncoderSettings"]

SQUARES = 8  # a side, of the noise by which it is found out where a cell looks


class TimmEncoderSettings(VisionSettings):
    """A network of the timm package, without what classifies."""

    kind: Literal["timm"] = "timm"
    name: str = Field("resnet18", description="what timm calls the network")
    stride: int = Field(32, ge=1, description="pixels a side of a cell covers: which of the network's maps is read")
    weights: str | None = Field(
        None, description="published weights to begin from, .safetensors or .pth; read when training begins"
    )


class TimmEncoder(ImageEncoder):
    """One map of a timm network. Such networks know no padding, so pictures of one size are seen together.

    Batch statistics stay what they were: what is said of a picture does not depend on its company.
    """

    def __init__(self, settings: TimmEncoderSettings, vocabulary: int) -> None:  # noqa: ARG002
        super().__init__()
        s = settings
        (self.backbone, self.channels), self.stride = _network(s.name, s.stride), s.stride
        self._still = _freeze_batch_norm(self.backbone)
        self.project, self.norm = nn.Linear(self.channels, s.size), nn.LayerNorm(s.size)
        self.cells, self.shape = GridHead(s), EncoderSizes(s.size, 1, s.size)
        if s.learning == "frozen":
            self.backbone.requires_grad_(False)

    def train(self, mode: bool = True) -> TimmEncoder:
        """As of any module; what normalises by batch statistics goes on with those it has."""
        super().train(mode)
        for name in self._still:
            self.backbone.get_submodule(name).eval()
        return self

    @cached_property
    def cell_centre(self) -> float:
        """Half-way, or at the corner: whichever is nearer to the pixels that the network's own cells depend on."""
        corner, found = 0.5 / self.stride, _looks_at(self._map, self.stride, self._device())
        return 0.5 if abs(found - 0.5) < abs(found - corner) else corner

    def _device(self) -> torch.device:
        return self.project.weight.device

    def forward(self, batch: Batch) -> Encoded:
        x, real = normalise_pixels(batch)
        x, real = (self._map(x), None) if real is None else self._by_size(x, real)
        cells = self.norm(self.project(x.flatten(2).transpose(1, 2)))
        return self.cells(cells, tuple(x.shape[2:]), flatten_mask(real))  # type: ignore[no-any-return]

    def _map(self, x: Float[Tensor, "B 3 _ _"]) -> Float[Tensor, "B C _ _"]:
        found: Tensor = self.backbone(x)[0]
        first, last = (found.shape[side] == self.channels for side in (1, 3))
        if first and last:  # so rows or columns are as many as channels: of a taller picture the channels stay as many
            last = self.backbone(F.pad(x[:1], (0, 0, 0, self.stride)))[0].shape[1] != self.channels
        return found.movedim(3, 1) if last else found  # as some networks have them

    def _by_size(self, x: Tensor, real: Tensor) -> tuple[Float[Tensor, "B C Y X"], Bool[Tensor, "B 1 Y X"]]:
        """Each picture as it is alone, those of one size together; then side by side, and which cells are real."""
        sizes: dict[tuple[int, int], list[int]] = {}
        for row, (height, width) in enumerate(zip(real[:, 0].any(2).sum(1), real[:, 0].any(1).sum(1), strict=True)):
            sizes.setdefault((int(height), int(width)), []).append(row)
        maps = {rows[0]: self._map(x[rows, :, :height, :width]) for (height, width), rows in sizes.items()}
        Y, X = (max(found.shape[side] for found in maps.values()) for side in (2, 3))
        cells, kept = x.new_zeros(len(x), self.channels, Y, X), real.new_zeros(len(x), 1, Y, X)
        for rows, found in zip(sizes.values(), maps.values(), strict=True):
            cells[rows, :, : found.shape[2], : found.shape[3]] = found.to(cells.dtype)
            kept[rows, :, : found.shape[2], : found.shape[3]] = True
        return cells, kept


@torch.enable_grad()
def _looks_at(network: Callable[[Tensor], Tensor], stride: int, device: torch.device) -> float:
    """Where in its square the cell in the middle of pictures of noise looks: the mean place of what it depends on."""
    noise = torch.randn(16, 3, *[SQUARES * stride] * 2, generator=torch.Generator().manual_seed(0))
    noise = noise.to(device).requires_grad_()
    cell = network(noise)[:, :, SQUARES // 2, SQUARES // 2]
    (slopes,) = torch.autograd.grad(cell.square().sum(), noise)
    by_row = slopes.square().sum((0, 1, 3))
    places = torch.arange(len(by_row), device=device) + 0.5
    return float((by_row * places).sum() / by_row.sum()) / stride - SQUARES // 2


def _network(name: str, stride: int) -> tuple[nn.Module, int]:
    """The network, down to its map of this stride, and the channels of that. Raises ConfigurationError naming all."""
    try:
        import timm
    except ImportError:
        raise MissingExtra("timm", "vision", "model.encoder.kind = 'timm'") from None
    except RuntimeError as problem:  # PyPI's torchvision, which it imports, wants the CUDA build of torch
        raise ConfigurationError(
            f"model.encoder.kind = 'timm': the package is there but does not start ({problem}); install the "
            "torchvision that was built for this torch"
        ) from None
    try:
        info: Any = timm.create_model(name, pretrained=False, features_only=True).feature_info
    except (RuntimeError, ValueError, AttributeError, NotImplementedError) as problem:
        raise ConfigurationError(
            f"model.encoder.name: timm makes no maps with {name!r} ({problem}); timm.list_models() names its networks"
        ) from None
    strides = list(info.reduction())
    if stride not in strides:
        known = ", ".join(map(str, strides))
        raise ConfigurationError(f"model.encoder.stride: {name} has maps of stride {known}, and none of {stride}")
    place = strides.index(stride)
    network = timm.create_model(name, pretrained=False, features_only=True, out_indices=(place,))
    return network, info.channels()[place]


def _freeze_batch_norm(network: nn.Module) -> list[str]:
    """Make running statistics parameters that do not learn, so that model folders hold them; says whose they are."""
    still = []
    for owner, module in network.named_modules():
        found = {name: module._buffers.get(name) for name in ("running_mean", "running_var")}
        if not all(isinstance(statistics, torch.Tensor) for statistics in found.values()):
            continue
        for name, statistics in found.items():
            assert statistics is not None, "seen above"
            delattr(module, name)
            module.register_parameter(name, nn.Parameter(statistics.clone(), requires_grad=False))
        module._buffers["num_batches_tracked"] = None
        still.append(owner)
    return still
