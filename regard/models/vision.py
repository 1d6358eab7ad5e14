"""Encoders of pictures: a residual network or a Vision Transformer; decoders read their grid of cells like words."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pydantic
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from regard.layers.dropout import Dropout
from regard.layers.positions import GridPositions
from regard.layers.residual import masked_mean
from regard.layers.resnet import STEMS, PictureNorm, ResNetBackbone, strided
from regard.models.interface import Batch, Encoded, Encoder, EncoderSizes
from regard.models.transformer import EncoderLayer, TransformerEncoderSettings
from regard.settings import Settings
from regard.shapes import Bool, Float, Tensor

__all__ = [
    "ResNetEncoder",
    "ResNetEncoderSettings",
    "ViTEncoder",
    "ViTEncoderSettings",
    "VisionSettings",
    "layers_of",
    "normalise_pixels",
]

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the pixels of ImageNet, which published networks expect to be taken off and divided by."""
Real = Bool[Tensor, "B 1 _ _"] | None


class VisionSettings(Settings):
    """What encoders of pictures have in common."""

    reads: ClassVar[str] = "pictures"
    size: int = Field(256, ge=2, description="size of what is said of each cell (D)")
    layers: int = Field(0, ge=0, description="Transformer layers in which the cells read each other")
    heads: int = Field(4, ge=1, description="heads of their attention; they divide the size")
    feedforward: int = Field(512, ge=1, description="inner size of their feed-forward networks")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of numbers zeroed of the cells and in their layers")
    positions: Literal["sinusoidal", "learned", "none"] = Field(
        "sinusoidal", description="what tells rows and columns apart; with none, places are invisible"
    )
    limit: int = Field(
        64, ge=1, description="learned positions: how many rows and columns there are; later ones share the last"
    )
    learning: Literal["all", "frozen"] = Field(
        "all", description="frozen: the network that sees pixels stays as it is, what stands on it learns"
    )

    @property
    def embedding(self) -> int:
        """None: pixels are no pieces, so there is nothing to share with a decoder."""
        return 0


class ResNetEncoderSettings(VisionSettings):
    """A residual network; depths [2, 2, 2, 2], width 64, stem classic and norm batch are ResNet-18."""

    kind: Literal["resnet"] = "resnet"
    depths: tuple[int, ...] = Field(
        (1, 1, 1, 1), min_length=1, description="blocks of each stage; all but the first halve both sides"
    )
    width: int = Field(32, ge=1, description="channels of the first stage; each stage doubles them")
    block: Literal["basic", "bottleneck"] = Field(
        "basic", description="two convolutions of 3 × 3, or 1 × 1, 3 × 3, 1 × 1 with four times the channels"
    )
    stem: Literal["classic", "strided", "small"] = Field(
        "strided",
        description="first layers: 7 × 7 and a pool (a side is a quarter then), 3 × 3 (a half), 3 × 3 (as it was)",
    )
    norm: PictureNorm = Field(
        "group", description="group: of each picture, to train from scratch; batch: statistics of published weights"
    )
    group: int = Field(
        16, ge=1, description="norm group: the fewest channels that make one; narrow networks learn faster with 4"
    )
    weights: str | None = Field(
        None, description="published weights to begin from, .safetensors or .pth; read when training begins"
    )

    @property
    def stride(self) -> int:
        """How many pixels a side of a cell covers."""
        return STEMS[self.stem] << (len(self.depths) - 1)

    @pydantic.field_validator("depths", mode="before")
    @classmethod
    def _list_as_it_is_written(cls, depths: Any) -> Any:
        return tuple(depths) if isinstance(depths, list) else depths

    @pydantic.field_validator("depths")
    @classmethod
    def _some_in_each(cls, depths: tuple[int, ...]) -> tuple[int, ...]:
        if min(depths) < 1:
            raise ValueError(f"a stage has at least one block, got {list(depths)}")
        return depths


class ViTEncoderSettings(VisionSettings):
    """A Vision Transformer (Dosovitskiy et al. 2021): patches of pixels are cells, and read each other."""

    kind: Literal["vit"] = "vit"
    patch: int = Field(8, ge=1, description="pixels a side of a patch")
    layers: int = Field(4, ge=1, description="Transformer layers in which the patches read each other")

    @property
    def stride(self) -> int:
        """How many pixels a side of a cell covers."""
        return self.patch


class GridHead(nn.Module):
    """What a network says of each cell, as decoders read it: with its place, and in the light of the others."""

    def __init__(self, settings: VisionSettings) -> None:
        super().__init__()
        s = settings
        self.places = None if s.positions == "none" else GridPositions(s.size, s.positions == "learned", s.limit)
        self.layers, self.dropout = layers_of(s), Dropout(s.dropout)
        self.norm = nn.LayerNorm(s.size) if s.layers else nn.Identity()

    def forward(self, cells: Float[Tensor, "B S D"], grid: tuple[int, int], keep: Tensor | None) -> Encoded:
        x = cells if self.places is None else cells + self.places(grid, cells.device)
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, keep)
        x = self.norm(x)
        return Encoded(x, cells, masked_mean(x, keep), keep, grid)


class ImageEncoder(Encoder):
    """What encoders of pictures have in common."""

    stride: int  # pixels a side of a cell's square

    @property
    def cell_centre(self) -> float:
        """Where in its square a cell looks, in shares of a side, both down and across: half-way where it is a patch."""
        return 0.5

    def dummy_batch(self, rows: int) -> Batch:
        return Batch(torch.zeros(rows, 3, 64, 64))


class ResNetEncoder(ImageEncoder):
    """A residual network over a picture; its last stage's cells are what decoders read."""

    def __init__(self, settings: ResNetEncoderSettings, vocabulary: int) -> None:  # noqa: ARG002
        super().__init__()
        s = settings
        self.backbone, self.stride = ResNetBackbone(s.depths, s.width, s.block, s.stem, s.norm, s.group), s.stride
        self.project, self.norm = nn.Linear(self.backbone.channels, s.size), nn.LayerNorm(s.size)
        self.cells, self.shape = GridHead(s), EncoderSizes(s.size, 1, s.size)
        if s.learning == "frozen":
            self.backbone.requires_grad_(False)

    @property
    def cell_centre(self) -> float:
        """Nearly the upper left corner: convolutions that take every other pixel begin there, round the first."""
        return 0.5 / self.stride

    def forward(self, batch: Batch) -> Encoded:
        x, real = self.backbone(*normalise_pixels(batch))
        cells = self.norm(self.project(x.flatten(2).transpose(1, 2)))
        return self.cells(cells, tuple(x.shape[2:]), flatten_mask(real))  # type: ignore[no-any-return]


class ViTEncoder(ImageEncoder):
    """Patches of a picture, each a vector; then layers in which they read each other."""

    def __init__(self, settings: ViTEncoderSettings, vocabulary: int) -> None:  # noqa: ARG002
        super().__init__()
        self.stride = settings.patch
        self.patch = nn.Conv2d(3, settings.size, settings.patch, settings.patch)
        self.cells, self.shape = GridHead(settings), EncoderSizes(settings.size, 1, settings.size)
        if settings.learning == "frozen":
            self.patch.requires_grad_(False)
            self.cells.layers.requires_grad_(False)

    def forward(self, batch: Batch) -> Encoded:
        x, real = normalise_pixels(batch)
        side = self.patch.stride[0]
        x = self.patch(F.pad(x, (0, -x.shape[3] % side, 0, -x.shape[2] % side)))  # a patch at the edge is half empty
        return self.cells(x.flatten(2).transpose(1, 2), tuple(x.shape[2:]), flatten_mask(strided(real, side)))  # type: ignore[no-any-return]


def normalise_pixels(batch: Batch) -> tuple[Float[Tensor, "B 3 Y X"], Real]:
    """Pixels as networks like them, zero where there is no picture, and which of them are real."""
    pixels = batch.data
    B, _, Y, X = pixels.shape
    real = None if batch.keep is None else batch.keep.view(B, 1, Y, X)
    x = (pixels - pixels.new_tensor(MEAN).view(3, 1, 1)) / pixels.new_tensor(DEVIATION).view(3, 1, 1)
    return x if real is None else x.masked_fill(~real, 0), real


def flatten_mask(real: Real) -> Bool[Tensor, "B S"] | None:
    """Which cells of a grid may be read, row by row."""
    return None if real is None else real.flatten(1)


def layers_of(settings: VisionSettings) -> nn.ModuleList:
    """The Transformer layers that stand on a grid."""
    s = settings
    shared: dict[str, Any] = {"size": s.size, "heads": s.heads, "feedforward": s.feedforward, "dropout": s.dropout}
    inner = TransformerEncoderSettings(**shared, norm="pre", activation="gelu")
    return nn.ModuleList(EncoderLayer(inner) for _ in range(s.layers))
