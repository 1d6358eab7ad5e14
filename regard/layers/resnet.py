"""ResNet backbone (He et al. 2016) for batches of images of different sizes.

Parameters have torchvision's names. Padding is zeroed before every convolution, so that the result
for an image does not depend on its batch. The mask `keep` is True for the pixels, and later for the
cells, that belong to an image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from regard.common.shapes import Bool, Float, Tensor

ImageNorm = Literal["group", "batch"]
KeepMask = Bool[Tensor, "B 1 _ _"] | None
STEMS = {"classic": 4, "strided": 2, "small": 1}
"""Stride of each stem: the pixels per cell side after the stem."""
GROUP_SIZE = 16
"""Fewest channels in a group of group normalisation (Wu and He 2018)."""


class GroupNorm(nn.GroupNorm):
    """Group normalisation over the visible pixels of each image (Wu and He 2018)."""

    def __init__(self, channels: int, group_size: int = GROUP_SIZE) -> None:
        groups = max(1, channels // group_size)
        while channels % groups:
            groups -= 1
        super().__init__(groups, channels)

    def forward(
        self, x: Float[Tensor, "B C Y X"], keep: KeepMask = None
    ) -> Float[Tensor, "B C Y X"]:
        if keep is None:
            is_narrow = self.num_channels < GROUP_SIZE * self.num_groups
            if x.dtype == torch.bfloat16 and is_narrow:
                # PyTorch takes five times as long over narrow groups in bfloat16.
                return super().forward(x.float()).to(x.dtype)
            return super().forward(x)

        B, C, Y, X = x.shape
        grouped = x.float().reshape(B, self.num_groups, -1, Y * X)
        hidden = ~keep.reshape(B, 1, 1, Y * X)
        count = (~hidden).sum(-1, keepdim=True) * (C // self.num_groups)
        mean = grouped.masked_fill(hidden, 0).sum((2, 3), keepdim=True) / count
        centred = grouped - mean
        squares = centred.masked_fill(hidden, 0).square()
        variance = squares.sum((2, 3), keepdim=True) / count
        normalised = (centred * (variance + self.eps).rsqrt()).view(B, C, Y, X)

        weight = self.weight[:, None, None]
        bias = self.bias[:, None, None]
        return torch.addcmul(bias, normalised, weight).to(x.dtype)


class FrozenBatchNorm(nn.Module):
    """Batch normalisation with fixed running statistics, those of pretrained weights."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        # Parameters without gradient rather than buffers, so that model folders hold them.
        self.running_mean = nn.Parameter(torch.zeros(channels), requires_grad=False)
        self.running_var = nn.Parameter(torch.ones(channels), requires_grad=False)

    def forward(
        self,
        x: Float[Tensor, "B C Y X"],
        keep: KeepMask = None,  # noqa: ARG002
    ) -> Float[Tensor, "B C Y X"]:
        return F.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            training=False,
        )


Norm = Callable[[int], GroupNorm | FrozenBatchNorm]
"""Constructor of a norm from the number of channels."""


class _Block(nn.Module):
    """Residual block: shortcut (projected if needed) plus branch."""

    expansion: int
    downsample: nn.ModuleList | None

    def _add_downsample(
        self, inputs: int, channels: int, stride: int, norm: Norm
    ) -> None:
        outputs = channels * self.expansion
        self.stride = stride
        if stride == 1 and inputs == outputs:
            self.downsample = None
        else:
            self.downsample = nn.ModuleList([_conv(inputs, outputs, 1), norm(outputs)])

    def _add_shortcut(
        self, x: Tensor, branch: Tensor, keep: KeepMask
    ) -> tuple[Tensor, KeepMask]:
        if self.downsample is not None:
            convolution, norm = self.downsample
            # The input is subsampled before a convolution without stride, because the gradient of
            # a strided one corrupts memory in oneDNN (its issue 6035).
            x = norm(convolution(x[:, :, :: self.stride, :: self.stride]), keep)
        return _masked_relu(x + branch, keep), keep


class BasicBlock(_Block):
    """Two 3 × 3 convolutions with a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, channels: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = _conv(inputs, channels, 3, stride)
        self.bn1 = norm(channels)
        self.conv2 = _conv(channels, channels, 3)
        self.bn2 = norm(channels)
        self._add_downsample(inputs, channels, stride, norm)

    def forward(
        self, x: Float[Tensor, "B C Y X"], keep: KeepMask
    ) -> tuple[Tensor, KeepMask]:
        """Return the features and their mask."""
        keep_after = strided_mask(keep, self.stride)
        y = _masked_relu(self.bn1(self.conv1(x), keep_after), keep_after)
        return self._add_shortcut(x, self.bn2(self.conv2(y), keep_after), keep_after)


class Bottleneck(_Block):
    """1 × 1, 3 × 3 and 1 × 1 convolutions with a shortcut.

    The second convolution is strided, as in torchvision.
    """

    expansion = 4

    def __init__(self, inputs: int, channels: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = _conv(inputs, channels, 1)
        self.bn1 = norm(channels)
        self.conv2 = _conv(channels, channels, 3, stride)
        self.bn2 = norm(channels)
        self.conv3 = _conv(channels, 4 * channels, 1)
        self.bn3 = norm(4 * channels)
        self._add_downsample(inputs, channels, stride, norm)

    def forward(
        self, x: Float[Tensor, "B C Y X"], keep: KeepMask
    ) -> tuple[Tensor, KeepMask]:
        """Return the features and their mask."""
        keep_after = strided_mask(keep, self.stride)
        y = _masked_relu(self.bn1(self.conv1(x), keep), keep)
        y = _masked_relu(self.bn2(self.conv2(y), keep_after), keep_after)
        return self._add_shortcut(x, self.bn3(self.conv3(y), keep_after), keep_after)


BLOCKS: dict[str, type[BasicBlock] | type[Bottleneck]] = {
    "basic": BasicBlock,
    "bottleneck": Bottleneck,
}


class ResNetBackbone(nn.Module):
    """Stem and stages of a ResNet, without its classifier.

    Stage i has `depths[i]` blocks of `width` · 2ⁱ channels. The first block of each stage but the
    first halves both sides of the grid.
    """

    def __init__(
        self,
        depths: Sequence[int],
        width: int,
        block: str,
        stem: str,
        norm: ImageNorm,
        group_size: int = GROUP_SIZE,
    ) -> None:
        super().__init__()
        classic = stem == "classic"
        self.conv1 = _conv(3, width, 7 if classic else 3, 1 if stem == "small" else 2)
        make_norm: Norm = partial(GroupNorm, group_size=group_size)
        if norm == "batch":
            make_norm = FrozenBatchNorm
        self.bn1 = make_norm(width)
        self.pooled = classic
        self.stages = len(depths)
        block_class = BLOCKS[block]
        inputs = width
        for i, depth in enumerate(depths):
            channels = width * 2**i
            blocks = []
            for j in range(depth):
                stride = 2 if i > 0 and j == 0 else 1
                blocks.append(block_class(inputs, channels, stride, make_norm))
                inputs = channels * block_class.expansion
            self.add_module(f"layer{i + 1}", nn.ModuleList(blocks))
        self.channels = inputs

    def forward(
        self, x: Float[Tensor, "B 3 Y X"], keep: KeepMask
    ) -> tuple[Float[Tensor, "B _ _ _"], KeepMask]:
        """Encode images, whose padding must be zero, into cells; return these and their mask."""
        keep = strided_mask(keep, self.conv1.stride[0])
        # Channels last is a fifth faster, also on a CPU.
        x = x.contiguous(memory_format=torch.channels_last)
        x = _masked_relu(self.bn1(self.conv1(x), keep), keep)
        if self.pooled:  # zero padding never wins the maximum after ReLU
            x = F.max_pool2d(x, 3, 2, 1)
            keep = strided_mask(keep, 2)
            x = _zero_padding(x, keep)
        for i in range(self.stages):
            for block in self.get_submodule(f"layer{i + 1}").children():
                x, keep = block(x, keep)
        return x, keep


def strided_mask(keep: KeepMask, stride: int) -> KeepMask:
    """Subsample a mask as a strided layer does: a cell is visible if its first pixel is."""
    return keep if keep is None or stride == 1 else keep[:, :, ::stride, ::stride]


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    """Create a convolution that maps n cells per side to ⌈n / stride⌉."""
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def _masked_relu(x: Tensor, keep: KeepMask) -> Tensor:
    return _zero_padding(F.relu(x), keep)


def _zero_padding(x: Tensor, keep: KeepMask) -> Tensor:
    return x if keep is None else x.masked_fill(~keep, 0)
