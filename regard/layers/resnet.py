"""ResNet backbone for images of different sizes in a batch (He et al. 2016), with torchvision's
parameter names.

Padding is zeroed before every convolution, as if each image were alone: the result does not depend
on the batch. `keep` is the mask of the pixels, later of the cells, that belong to an image (True).
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
"""Stride of each stem: pixels per cell side after the first layers."""
GROUP_SIZE = 16
"""Fewest channels in a group of group normalisation (Wu and He 2018)."""


class GroupNorm(nn.GroupNorm):
    """Group normalisation over the visible pixels of each image (Wu and He 2018)."""

    def __init__(self, channels: int, group_size: int = GROUP_SIZE) -> None:
        groups = next(
            g for g in range(max(1, channels // group_size), 0, -1) if channels % g == 0
        )
        super().__init__(groups, channels)

    def forward(
        self, x: Float[Tensor, "B C Y X"], keep: KeepMask = None
    ) -> Float[Tensor, "B C Y X"]:
        if keep is None:
            if (
                x.dtype == torch.bfloat16
                and self.num_channels < GROUP_SIZE * self.num_groups
            ):
                # PyTorch takes five times as long over narrow groups in bfloat16.
                return super().forward(x.float()).to(x.dtype)
            return super().forward(x)
        B, C, Y, X = x.shape
        grouped = x.float().reshape(B, self.num_groups, -1, Y * X)
        visible = keep.reshape(B, 1, 1, Y * X)
        count = visible.sum(-1, keepdim=True) * (C // self.num_groups)
        mean = grouped.masked_fill(~visible, 0).sum((2, 3), keepdim=True) / count
        centred = grouped - mean
        variance = (
            centred.masked_fill(~visible, 0).square().sum((2, 3), keepdim=True) / count
        )
        normalised = (centred * (variance + self.eps).rsqrt()).view(B, C, Y, X)
        return torch.addcmul(
            self.bias[:, None, None], normalised, self.weight[:, None, None]
        ).to(x.dtype)


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


Norm = Callable[[int], GroupNorm | FrozenBatchNorm]  # from the number of channels


class _Block(nn.Module):
    """Residual block: shortcut (projected if needed) plus branch."""

    expansion: int
    downsample: nn.ModuleList | None

    def _add_downsample(
        self, inputs: int, channels: int, stride: int, norm: Norm
    ) -> None:
        outputs = channels * self.expansion
        self.stride = stride
        same = stride == 1 and inputs == outputs
        self.downsample = (
            None if same else nn.ModuleList([_conv(inputs, outputs, 1), norm(outputs)])
        )

    def _add_shortcut(
        self, x: Tensor, branch: Tensor, keep: KeepMask
    ) -> tuple[Tensor, KeepMask]:
        if self.downsample is not None:
            # Itself without a stride, whose gradient breaks memory in oneDNN (issue 6035)
            x = self.downsample[1](
                self.downsample[0](x[:, :, :: self.stride, :: self.stride]), keep
            )
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
    """1 × 1, 3 × 3 and 1 × 1 convolutions with a shortcut; the second one is strided, as in
    torchvision.
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

    Stage i has `depths[i]` blocks of `width` · 2ⁱ channels; each but the first begins by halving
    both sides.
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
        make_norm: Norm = (
            FrozenBatchNorm
            if norm == "batch"
            else partial(GroupNorm, group_size=group_size)
        )
        self.bn1 = make_norm(width)
        self.pooled = classic
        self.stages = len(depths)
        kind = BLOCKS[block]
        inputs = width
        for i, depth in enumerate(depths):
            channels = width * 2**i
            blocks = []
            for j in range(depth):
                blocks.append(
                    kind(inputs, channels, 2 if i and not j else 1, make_norm)
                )
                inputs = channels * kind.expansion
            self.add_module(f"layer{i + 1}", nn.ModuleList(blocks))
        self.channels = inputs

    def forward(
        self, x: Float[Tensor, "B 3 Y X"], keep: KeepMask
    ) -> tuple[Float[Tensor, "B _ _ _"], KeepMask]:
        """Encode images, zero outside their masks, into cells; return these and their mask."""
        keep = strided_mask(keep, self.conv1.stride[0])
        # A fifth faster, on a CPU too.
        x = x.contiguous(memory_format=torch.channels_last)
        x = _masked_relu(self.bn1(self.conv1(x), keep), keep)
        if self.pooled:  # padding is zero, the minimum after ReLU
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
    """Zero the padding."""
    return x if keep is None else x.masked_fill(~keep, 0)
