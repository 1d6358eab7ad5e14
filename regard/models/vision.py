"""Image encoders: ResNet and Vision Transformer.

They encode an image as a grid of cells, and decoders attend to cells as they attend to tokens.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import nn

from regard.common.settings import LAYERS, SIDE, SIZE
from regard.common.shapes import Bool, Float, Tensor
from regard.layers.dropout import Dropout
from regard.layers.positional_encoding import GridPositions
from regard.layers.residual import masked_mean
from regard.layers.resnet import (
    STEMS,
    ImageNorm,
    KeepMask,
    ResNetBackbone,
    strided_mask,
)
from regard.models.interface import (
    Batch,
    Encoded,
    Encoder,
    EncoderSizes,
    register_encoder,
)
from regard.models.shared_settings import PartSettings
from regard.models.transformer import EncoderLayer, TransformerEncoderSettings

MEAN = (0.485, 0.456, 0.406)
"""Mean of ImageNet's pixels; pretrained networks expect images normalised by it."""
DEVIATION = (0.229, 0.224, 0.225)
"""Standard deviation of ImageNet's pixels."""


class VisionSettings(PartSettings):
    """Settings common to image encoders."""

    reads: ClassVar[str] = "images"
    size: int = Field(
        256, ge=2, le=SIZE, description="size of the vector of each cell (D)"
    )
    layers: int = Field(
        0,
        ge=0,
        le=LAYERS,
        description="Transformer layers in which the cells attend to each other",
    )
    heads: int = Field(
        4,
        ge=1,
        le=SIZE,
        description="attention heads of these layers; they divide the size",
    )
    feedforward: int = Field(
        512, ge=1, le=SIZE, description="inner size of their feed-forward networks"
    )
    dropout: float = Field(
        0.1, ge=0, lt=1, description="dropout of the cells and in these layers"
    )
    positions: Literal["sinusoidal", "learned", "none"] = Field(
        "sinusoidal",
        description="2-D positional embedding; with none, rows and columns are invisible",
    )
    max_positions: int = Field(
        64,
        ge=1,
        le=SIDE,
        description="learned positions: how many rows and columns there are; later ones share the "
        "last",
    )
    freeze_backbone: bool = Field(
        False, description="keep the backbone fixed; train the layers on top of it"
    )

    @property
    def embedding(self) -> int:
        """Size of the embedding: 0, because pixels have none that could be tied to a decoder's."""
        return 0


class ResNetEncoderSettings(VisionSettings):
    """ResNet; with depths [2, 2, 2, 2], width 64, stem classic and norm batch it is ResNet-18."""

    kind: Literal["resnet"] = "resnet"
    depths: Annotated[
        tuple[Annotated[int, Field(ge=1, le=LAYERS)], ...], Field(strict=False)
    ] = Field(
        (1, 1, 1, 1),
        min_length=1,
        max_length=8,
        description="blocks of each stage; all but the first halve both sides",
    )
    width: int = Field(
        32,
        ge=1,
        le=SIZE,
        description="channels of the first stage; each stage doubles them",
    )
    block: Literal["basic", "bottleneck"] = Field(
        "basic",
        description="two convolutions of 3 × 3, or 1 × 1, 3 × 3, 1 × 1 with four times the "
        "channels",
    )
    stem: Literal["classic", "strided", "small"] = Field(
        "strided",
        description="first layers: 7 × 7 and a max pool (stride 4), 3 × 3 (stride 2), 3 × 3 "
        "(stride 1)",
    )
    norm: ImageNorm = Field(
        "group",
        description="group: group norm, to train from scratch; batch: batch norm with pretrained "
        "statistics",
    )
    group_size: int = Field(
        16,
        ge=1,
        le=SIZE,
        description="group norm: fewest channels in a group; narrow networks learn faster with 4",
    )
    weights: str | None = Field(
        None,
        description="pretrained weights to start from, .safetensors or .pth; read when training "
        "starts",
    )

    @property
    def stride(self) -> int:
        """Pixels per cell side."""
        return STEMS[self.stem] << (len(self.depths) - 1)


class ViTEncoderSettings(VisionSettings):
    """Vision Transformer (Dosovitskiy et al. 2021), whose cells are patches of pixels."""

    kind: Literal["vit"] = "vit"
    patch_size: int = Field(8, ge=1, le=SIDE, description="pixels per patch side")
    layers: int = Field(
        4,
        ge=1,
        le=LAYERS,
        description="Transformer layers in which the patches attend to each other",
    )

    @property
    def stride(self) -> int:
        """Pixels per cell side."""
        return self.patch_size


class GridHead(nn.Module):
    """Head over the features of a grid: adds 2-D positions and runs the Transformer layers."""

    def __init__(self, settings: VisionSettings) -> None:
        super().__init__()
        s = settings
        self.position_embedding: GridPositions | None = None
        if s.positions != "none":
            is_learned = s.positions == "learned"
            self.position_embedding = GridPositions(s.size, is_learned, s.max_positions)
        self.layers = _transformer_layers(s)
        self.dropout = Dropout(s.dropout)
        self.norm = nn.LayerNorm(s.size) if s.layers else nn.Identity()

    def forward(
        self, cells: Float[Tensor, "B S D"], grid: tuple[int, int], keep: Tensor | None
    ) -> Encoded:
        x = cells
        if self.position_embedding is not None:
            x = x + self.position_embedding(grid, cells.device)
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, keep)
        x = self.norm(x)
        return Encoded(x, cells, masked_mean(x, keep), keep, grid)


class ImageEncoder(Encoder):
    """Base of the image encoders."""

    stride: int  # pixels per cell side

    @property
    def cell_centre(self) -> float:
        """Centre of a cell's receptive field, as a fraction of the cell's side: 0.5 for a patch."""
        return 0.5


@register_encoder("resnet", ResNetEncoderSettings)
class ResNetEncoder(ImageEncoder):
    """ResNet encoder; decoders attend to the cells of its last stage."""

    def __init__(self, settings: ResNetEncoderSettings, vocabulary: int) -> None:  # noqa: ARG002
        super().__init__()
        s = settings
        self.backbone = ResNetBackbone(
            s.depths, s.width, s.block, s.stem, s.norm, s.group_size
        )
        self.stride = s.stride
        self.projection = nn.Linear(self.backbone.channels, s.size)
        self.norm = nn.LayerNorm(s.size)
        self.grid_head = GridHead(s)
        self.sizes = EncoderSizes(size=s.size, summary_rows=1, embedding=s.size)
        if s.freeze_backbone:
            self.backbone.requires_grad_(False)

    @property
    def cell_centre(self) -> float:
        """Centre of a cell's receptive field, which is near the cell's upper left corner.

        Strided convolutions are centred on the first pixel of each cell.
        """
        return 0.5 / self.stride

    def forward(self, batch: Batch) -> Encoded:
        x, keep = self.backbone(*normalise_pixels(batch))
        cells = self.norm(self.projection(x.flatten(2).transpose(1, 2)))
        return self.grid_head(cells, tuple(x.shape[2:]), flatten_mask(keep))  # type: ignore[no-any-return]


@register_encoder("vit", ViTEncoderSettings)
class ViTEncoder(ImageEncoder):
    """Vision Transformer encoder: patch embedding, positions, Transformer layers."""

    def __init__(self, settings: ViTEncoderSettings, vocabulary: int) -> None:  # noqa: ARG002
        super().__init__()
        self.stride = settings.patch_size
        self.patch_embedding = nn.Conv2d(
            3, settings.size, settings.patch_size, settings.patch_size
        )
        self.grid_head = GridHead(settings)
        self.sizes = EncoderSizes(
            size=settings.size, summary_rows=1, embedding=settings.size
        )
        if settings.freeze_backbone:
            # The Transformer layers of a ViT belong to its backbone; positions and last norm are
            # trained.
            self.patch_embedding.requires_grad_(False)
            self.grid_head.layers.requires_grad_(False)

    def forward(self, batch: Batch) -> Encoded:
        x, keep = normalise_pixels(batch)
        side = self.patch_embedding.stride[0]
        # Partial patches at the right and lower edges are padded.
        x = F.pad(x, (0, -x.shape[3] % side, 0, -x.shape[2] % side))
        x = self.patch_embedding(x)
        mask = flatten_mask(strided_mask(keep, side))
        cells = x.flatten(2).transpose(1, 2)
        return self.grid_head(cells, tuple(x.shape[2:]), mask)  # type: ignore[no-any-return]


def normalise_pixels(batch: Batch) -> tuple[Float[Tensor, "B 3 Y X"], KeepMask]:
    """Normalise the pixels of a batch and zero its padding; return them and their mask."""
    pixels = batch.data
    B, _, Y, X = pixels.shape
    mean = pixels.new_tensor(MEAN).view(3, 1, 1)
    deviation = pixels.new_tensor(DEVIATION).view(3, 1, 1)
    x = (pixels - mean) / deviation
    if batch.keep is None:
        return x, None
    keep = batch.keep.view(B, 1, Y, X)
    return x.masked_fill(~keep, 0), keep


def flatten_mask(keep: KeepMask) -> Bool[Tensor, "B S"] | None:
    """Flatten the mask of a grid, row by row."""
    return None if keep is None else keep.flatten(1)


def _transformer_layers(settings: VisionSettings) -> nn.ModuleList:
    """Create the Transformer layers over a grid."""
    s = settings
    layer_settings = TransformerEncoderSettings(
        size=s.size,
        heads=s.heads,
        feedforward=s.feedforward,
        dropout=s.dropout,
        norm="pre",
        activation="gelu",
    )
    return nn.ModuleList(EncoderLayer(layer_settings) for _ in range(s.layers))
