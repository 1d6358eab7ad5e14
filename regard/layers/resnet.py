"""Residual networks over pictures (He et al. 2016), with torchvision's names of their parts.

What stands outside a picture is zero before every convolution, as it would be were the picture alone: pictures of
different sizes do not see their company. `real` says which pixels, later which cells, are of a picture: True.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from regard.shapes import Bool, Float, Tensor

__all__ = [
    "STEMS",
    "BasicBlock",
    "Bottleneck",
    "FrozenBatchNorm",
    "GroupNorm",
    "PictureNorm",
    "ResNetBackbone",
    "strided",
]

PictureNorm = Literal["group", "batch"]
Real = Bool[Tensor, "B 1 _ _"] | None
STEMS = {"classic": 4, "strided": 2, "small": 1}
"""How many pixels a side of what leaves the first layers covers."""
CHANNELS = 16
"""The fewest of a group that is normalised together (Wu and He 2018)."""


class GroupNorm(nn.GroupNorm):
    """Each picture's groups of channels brought to mean 0 and variance 1, over what is real (Wu and He 2018)."""

    def __init__(self, channels: int, fewest: int = CHANNELS) -> None:
        groups = next(g for g in range(max(1, channels // fewest), 0, -1) if channels % g == 0)
        super().__init__(groups, channels)

    def forward(self, x: Float[Tensor, "B C Y X"], real: Real = None) -> Float[Tensor, "B C Y X"]:
        if real is None:
            if x.dtype == torch.bfloat16 and self.num_channels < CHANNELS * self.num_groups:
                # PyTorch takes five times as long over narrow groups in bfloat16.
                return super().forward(x.float()).to(x.dtype)
            return super().forward(x)
        B, C, Y, X = x.shape
        grouped, seen = x.float().reshape(B, self.num_groups, -1, Y * X), real.reshape(B, 1, 1, Y * X)
        count = seen.sum(-1, keepdim=True) * (C // self.num_groups)
        mean = grouped.masked_fill(~seen, 0).sum((2, 3), keepdim=True) / count
        apart = grouped - mean
        variance = apart.masked_fill(~seen, 0).square().sum((2, 3), keepdim=True) / count
        normalised = (apart * (variance + self.eps).rsqrt()).view(B, C, Y, X)
        return torch.addcmul(self.bias[:, None, None], normalised, self.weight[:, None, None]).to(x.dtype)


class FrozenBatchNorm(nn.Module):
    """Batch normalisation by means and variances that were found before, and stay: no batch is ever looked at."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        # Parameters that do not learn, so that model folders hold them.
        self.running_mean = nn.Parameter(torch.zeros(channels), requires_grad=False)
        self.running_var = nn.Parameter(torch.ones(channels), requires_grad=False)

    def forward(self, x: Float[Tensor, "B C Y X"], real: Real = None) -> Float[Tensor, "B C Y X"]:  # noqa: ARG002
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, training=False)


Norm = Callable[[int], GroupNorm | FrozenBatchNorm]  # from how many channels there are


class _Block(nn.Module):
    """What comes out is what came in, made to fit, plus a change."""

    expansion: int
    downsample: nn.ModuleList | None

    def _fit(self, inputs: int, channels: int, stride: int, norm: Norm) -> None:
        outputs, self.stride = channels * self.expansion, stride
        same = stride == 1 and inputs == outputs
        self.downsample = None if same else nn.ModuleList([_conv(inputs, outputs, 1, stride), norm(outputs)])

    def _sum(self, x: Tensor, change: Tensor, real: Real) -> tuple[Tensor, Real]:
        if self.downsample is not None:
            x = self.downsample[1](self.downsample[0](x), real)
        return _activated(x + change, real), real


class BasicBlock(_Block):
    """Two convolutions of 3 × 3."""

    expansion = 1

    def __init__(self, inputs: int, channels: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(inputs, channels, 3, stride), norm(channels)
        self.conv2, self.bn2 = _conv(channels, channels, 3), norm(channels)
        self._fit(inputs, channels, stride, norm)

    def forward(self, x: Float[Tensor, "B C Y X"], real: Real) -> tuple[Tensor, Real]:
        """What comes out, and what of it is real."""
        after = strided(real, self.stride)
        y = _activated(self.bn1(self.conv1(x), after), after)
        return self._sum(x, self.bn2(self.conv2(y), after), after)


class Bottleneck(_Block):
    """Narrow by 1 × 1, convolve by 3 × 3, widen by 1 × 1; the second one strides, as torchvision has it."""

    expansion = 4

    def __init__(self, inputs: int, channels: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(inputs, channels, 1), norm(channels)
        self.conv2, self.bn2 = _conv(channels, channels, 3, stride), norm(channels)
        self.conv3, self.bn3 = _conv(channels, 4 * channels, 1), norm(4 * channels)
        self._fit(inputs, channels, stride, norm)

    def forward(self, x: Float[Tensor, "B C Y X"], real: Real) -> tuple[Tensor, Real]:
        """What comes out, and what of it is real."""
        after = strided(real, self.stride)
        y = _activated(self.bn1(self.conv1(x), real), real)
        y = _activated(self.bn2(self.conv2(y), after), after)
        return self._sum(x, self.bn3(self.conv3(y), after), after)


BLOCKS: dict[str, type[BasicBlock] | type[Bottleneck]] = {"basic": BasicBlock, "bottleneck": Bottleneck}


class ResNetBackbone(nn.Module):
    """The first layers and the stages of a residual network: all but what classifies.

    Stage i has `depths[i]` blocks of `width` · 2ⁱ channels, and begins by halving both sides, but for the first.
    """

    def __init__(
        self, depths: Sequence[int], width: int, block: str, stem: str, norm: PictureNorm, fewest: int = CHANNELS
    ) -> None:
        super().__init__()
        classic = stem == "classic"
        self.conv1 = _conv(3, width, 7 if classic else 3, 1 if stem == "small" else 2)
        made: Norm = FrozenBatchNorm if norm == "batch" else partial(GroupNorm, fewest=fewest)
        self.bn1, self.pooled, self.stages = made(width), classic, len(depths)
        kind, inputs = BLOCKS[block], width
        for i, depth in enumerate(depths):
            channels, blocks = width * 2**i, []
            for j in range(depth):
                blocks.append(kind(inputs, channels, 2 if i and not j else 1, made))
                inputs = channels * kind.expansion
            self.add_module(f"layer{i + 1}", nn.ModuleList(blocks))
        self.channels = inputs

    def forward(self, x: Float[Tensor, "B 3 Y X"], real: Real) -> tuple[Float[Tensor, "B _ _ _"], Real]:
        """Pictures, zero where they are not, into cells; and which of these are real."""
        real = strided(real, self.conv1.stride[0])
        x = x.contiguous(memory_format=torch.channels_last)  # a fifth faster, on a CPU too
        x = _activated(self.bn1(self.conv1(x), real), real)
        if self.pooled:  # what stands outside is zero, and nothing is below it
            x, real = F.max_pool2d(x, 3, 2, 1), strided(real, 2)
            x = _inside(x, real)
        for i in range(self.stages):
            for block in self.get_submodule(f"layer{i + 1}").children():
                x, real = block(x, real)
        return x, real


def strided(real: Real, stride: int) -> Real:
    """Which cells are real where one is made from `stride` × `stride`: those whose first is."""
    return real if real is None or stride == 1 else real[:, :, ::stride, ::stride]


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution after which ⌈n / stride⌉ of n cells are left a side."""
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def _activated(x: Tensor, real: Real) -> Tensor:
    return _inside(F.relu(x), real)


def _inside(x: Tensor, real: Real) -> Tensor:
    """Zero outside the pictures."""
    return x if real is None else x.masked_fill(~real, 0)
