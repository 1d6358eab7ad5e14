"""Residual networks over images of several sizes: normalisation, keep masks, and positions of
cells.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import pad_images
from regard.layers.positional_encoding import GridPositions
from regard.layers.resnet import (
    BLOCKS,
    STEMS,
    FrozenBatchNorm,
    GroupNorm,
    ResNetBackbone,
    strided_mask,
)


def padded(
    *sizes: tuple[int, int], channels: int = 3
) -> tuple[list[Tensor], Tensor, Tensor]:
    images = [torch.randn(channels, Y, X) for Y, X in sizes]
    pixels, keep = pad_images(images)
    assert keep is not None
    return images, pixels, keep.view(len(sizes), 1, *pixels.shape[2:])


def test_batched_images_are_padded_with_zeros() -> None:
    images, pixels, keep = padded((2, 5), (4, 3))
    assert pixels.shape == (2, 3, 4, 5)
    for image, row, visible in zip(images, pixels, keep, strict=True):
        _, Y, X = image.shape
        assert torch.equal(row[:, :Y, :X], image)
        assert int(visible.sum()) == Y * X
        assert not row.masked_fill(visible, 0).any()
    same, no_keep = pad_images([torch.rand(3, 4, 5)] * 3)
    assert no_keep is None
    assert same.shape == (3, 3, 4, 5)


@pytest.mark.parametrize(
    ("channels", "groups"), [(8, 1), (32, 2), (24, 1), (48, 3), (256, 16), (40, 2)]
)
def test_groups_have_at_least_sixteen_channels_or_all(
    channels: int, groups: int
) -> None:
    assert GroupNorm(channels).num_groups == groups
    assert GroupNorm(24, 4).num_groups == 6


def test_padding_does_not_change_group_norm() -> None:
    layer = GroupNorm(32)
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.normal_(layer.bias)
    images, pixels, keep = padded((2, 5), (4, 3), (4, 5), channels=32)
    filled = torch.where(keep, pixels, 100 * torch.randn_like(pixels))
    actual = layer(filled, keep)
    for row, image in enumerate(images):
        _, Y, X = image.shape
        expected = F.group_norm(image[None], 2, layer.weight, layer.bias)[0]
        torch.testing.assert_close(
            actual[row, :, :Y, :X], expected, rtol=1e-4, atol=1e-4
        )
    everything = layer(pixels, torch.ones_like(keep))
    torch.testing.assert_close(everything, layer(pixels), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("group_size", [4, 16])
def test_group_norm_in_bfloat16_is_rounded_once(group_size: int) -> None:
    """Sums are computed in float32, whichever implementation is faster for a group size."""
    norm = GroupNorm(32, group_size)
    x = (
        (torch.randn(3, 32, 5, 7) * 2 + 1)
        .bfloat16()
        .to(memory_format=torch.channels_last)
    )
    actual = norm(x)
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(
        actual, norm(x.float()).bfloat16(), rtol=2**-7, atol=1e-3
    )


def test_frozen_batch_norm_equals_eval_mode_and_trains_its_affine_parameters() -> None:
    layer = FrozenBatchNorm(6)
    theirs = torch.nn.BatchNorm2d(6)
    names = ("weight", "bias", "running_mean", "running_var")
    with torch.no_grad():
        for name in names:
            getattr(layer, name).copy_(torch.rand(6) + 0.5)
        theirs.load_state_dict(layer.state_dict(), strict=False)
    x = torch.randn(3, 6, 4, 5)
    torch.testing.assert_close(layer.train()(x), theirs.eval()(x))
    learning = [
        name for name, weight in layer.named_parameters() if weight.requires_grad
    ]
    assert learning == ["weight", "bias"]


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("size", [(1, 1), (7, 9), (33, 20)])
def test_grid_has_the_image_size_divided_by_the_stride_rounded_up(
    stem: str, size: tuple[int, int]
) -> None:
    backbone = ResNetBackbone((1, 1), 4, "basic", stem, "group")
    stride = 2 * STEMS[stem]
    keep = torch.zeros(1, 1, *size, dtype=torch.bool)
    keep[..., : size[0] // 2 + 1, : size[1] // 3 + 1] = True
    cells, cell_keep = backbone(torch.randn(1, 3, *size) * keep, keep)
    assert cells.shape == (1, 8, *(-(-n // stride) for n in size))
    assert cell_keep is not None
    first_pixels = keep[:, :, ::stride, ::stride]
    assert torch.equal(cell_keep, first_pixels), "a cell is kept if its first pixel is"
    assert not cells.detach().masked_fill(cell_keep, 0).any()
    assert torch.equal(strided_mask(keep, 1), keep)


@pytest.mark.parametrize(("learned", "different"), [(False, 20), (True, 9)])
def test_grid_positions_encode_row_and_column_in_separate_halves(
    learned: bool, different: int
) -> None:
    """Positions beyond the table of learned ones share a vector."""
    encoding = GridPositions(7, learned, 3)((4, 5), torch.device("cpu")).view(4, 5, 7)
    assert torch.equal(encoding[:, 0, :3], encoding[:, 4, :3])
    assert torch.equal(encoding[0, :, 3:], encoding[3, :, 3:])
    assert len(encoding.flatten(0, 1).unique(dim=0)) == different


def test_grid_positions_are_sinusoids() -> None:
    cell = GridPositions(8, False, 64)((6, 2), torch.device("cpu")).view(6, 2, 8)[5, 1]
    angles = [(5, 0.05), (1, 0.01)]  # of row 5 and column 1
    expected = [
        wave(angle)
        for half in angles
        for wave in (math.sin, math.cos)
        for angle in half
    ]
    torch.testing.assert_close(cell, torch.tensor(expected), rtol=0, atol=1e-5)


def test_no_narrow_convolution_of_single_cells_has_a_stride() -> None:
    """The gradient of one writes past its workspace in oneDNN 3.12, for fewer than 16 channels
    (issue 6035 there).
    """
    for block in BLOCKS:
        layers = ResNetBackbone([1, 1, 1], 4, block, "strided", "group").modules()
        convolutions = [layer for layer in layers if isinstance(layer, torch.nn.Conv2d)]
        narrow = [layer for layer in convolutions if layer.kernel_size == (1, 1)]
        assert len(narrow) >= 2
        assert all(layer.stride == (1, 1) for layer in narrow)


@pytest.mark.parametrize("stride", [1, 2])
def test_a_shortcut_is_projected_as_by_a_strided_convolution(stride: int) -> None:
    block = BLOCKS["basic"](4, 8, stride, GroupNorm)
    x = torch.randn(3, 4, 5, 6)
    weights = block.get_parameter("downsample.0.weight")
    branch = torch.zeros(3, 8, -(-5 // stride), -(-6 // stride))
    projected = block.get_submodule("downsample.1")(F.conv2d(x, weights, stride=stride))
    actual, _ = block._add_shortcut(x, branch, None)
    torch.testing.assert_close(actual, F.relu(projected), rtol=1e-5, atol=1e-5)
