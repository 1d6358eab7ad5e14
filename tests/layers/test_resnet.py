"""Residual networks over images of several sizes: normalisation, keep masks, and positions of
cells.
"""

from __future__ import annotations

import pytest
import torch

from regard.data.batch import pad_images
from regard.layers.positional_encoding import GridPositions, sinusoids
from regard.layers.resnet import (
    BLOCKS,
    FrozenBatchNorm,
    GroupNorm,
    ResNetBackbone,
)


def test_batched_images_are_padded_with_zeros() -> None:
    images = [torch.randn(3, 2, 5), torch.randn(3, 4, 3)]
    pixels, keep = pad_images(images)

    assert pixels.shape == (2, 3, 4, 5)
    assert keep is not None

    for image, row, own_keep in zip(images, pixels, keep, strict=True):
        _, Y, X = image.shape
        visible = own_keep.view(4, 5)
        assert torch.equal(row[:, :Y, :X], image)
        assert int(visible.sum()) == Y * X
        assert not row.masked_fill(visible, 0).any()

    same, no_keep = pad_images([torch.rand(3, 4, 5)] * 3)

    assert no_keep is None
    assert same.shape == (3, 3, 4, 5)


def test_groups_have_at_least_sixteen_channels_or_all() -> None:
    groups_of = {8: 1, 32: 2, 24: 1, 40: 2, 256: 16}

    for channels, groups in groups_of.items():
        assert GroupNorm(channels).num_groups == groups

    assert GroupNorm(24, 4).num_groups == 6


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


def test_frozen_batch_norm_trains_its_affine_parameters_alone() -> None:
    """Its values are compared with torchvision's networks in `models/test_pretrained.py`."""
    parameters = FrozenBatchNorm(6).named_parameters()
    learning = [name for name, weight in parameters if weight.requires_grad]

    assert learning == ["weight", "bias"]


def test_grid_positions_are_sinusoids_of_the_row_and_of_the_column() -> None:
    positions = GridPositions(7, False, 64)((6, 2), torch.device("cpu"))
    cell = positions.view(6, 2, 7)[5, 1]
    row = sinusoids(torch.tensor([[5]]), 3)
    column = sinusoids(torch.tensor([[1]]), 4)

    torch.testing.assert_close(cell, torch.cat([row, column], -1)[0, 0])


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
