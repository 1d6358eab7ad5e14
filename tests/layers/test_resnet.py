"""Residual networks over images of many sizes: what is normalised, what is real, and where cells stand."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import pad_images
from regard.layers.positions import GridPositions
from regard.layers.resnet import STEMS, FrozenBatchNorm, GroupNorm, ResNetBackbone, strided_mask


def padded(*sizes: tuple[int, int], channels: int = 3) -> tuple[list[Tensor], Tensor, Tensor]:
    images = [torch.randn(channels, Y, X) for Y, X in sizes]
    pixels, keep = pad_images(images)
    assert keep is not None
    return images, pixels, keep.view(len(sizes), 1, *pixels.shape[2:])


def test_images_stand_side_by_side_with_zeros_around() -> None:
    images, pixels, real = padded((2, 5), (4, 3))
    assert pixels.shape == (2, 3, 4, 5)
    for image, row, kept in zip(images, pixels, real, strict=True):
        _, Y, X = image.shape
        assert torch.equal(row[:, :Y, :X], image)
        assert int(kept.sum()) == Y * X
        assert float(row.masked_fill(kept, 0).abs().sum()) == 0
    same, keep = pad_images([torch.rand(3, 4, 5)] * 3)
    assert keep is None
    assert same.shape == (3, 3, 4, 5)


@pytest.mark.parametrize(("channels", "groups"), [(8, 1), (16, 1), (32, 2), (24, 1), (48, 3), (256, 16), (40, 2)])
def test_groups_have_sixteen_channels_or_all_there_are(channels: int, groups: int) -> None:
    assert GroupNorm(channels).num_groups == groups
    assert channels % groups == 0
    assert GroupNorm(channels, 8).num_groups >= groups
    assert GroupNorm(24, 4).num_groups == 6


def test_a_image_is_normalised_over_what_is_real() -> None:
    layer = GroupNorm(32)
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.normal_(layer.bias)
    images, pixels, real = padded((2, 5), (4, 3), (4, 5), channels=32)
    strange = torch.where(real, pixels, 100 * torch.randn_like(pixels))
    found = layer(strange, real)
    for row, image in enumerate(images):
        _, Y, X = image.shape
        wanted = F.group_norm(image[None], 2, layer.weight, layer.bias)
        torch.testing.assert_close(found[row : row + 1, :, :Y, :X], wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(layer(pixels, torch.ones_like(real)), layer(pixels), rtol=1e-4, atol=1e-4)


def test_frozen_statistics_do_not_learn_and_are_what_evaluation_would_use() -> None:
    layer, theirs = FrozenBatchNorm(6), torch.nn.BatchNorm2d(6)
    with torch.no_grad():
        for name in ("weight", "bias", "running_mean", "running_var"):
            getattr(layer, name).copy_(torch.rand(6) + 0.5)
        theirs.load_state_dict(layer.state_dict(), strict=False)
    x = torch.randn(3, 6, 4, 5)
    torch.testing.assert_close(layer.train()(x), theirs.eval()(x))
    assert [name for name, parameter in layer.named_parameters() if parameter.requires_grad] == ["weight", "bias"]


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("size", [(1, 1), (7, 9), (16, 8), (33, 20)])
def test_cells_are_as_many_as_strides_with_halves_rounded_up(stem: str, size: tuple[int, int]) -> None:
    trunk, stride = ResNetBackbone((1, 1), 4, "basic", stem, "group"), 2 * STEMS[stem]
    real = torch.zeros(1, 1, *size, dtype=torch.bool)
    real[..., : size[0] // 2 + 1, : size[1] // 3 + 1] = True
    cells, kept = trunk(torch.randn(1, 3, *size) * real, real)
    assert cells.shape == (1, 8, *(-(-n // stride) for n in size))
    assert kept is not None
    assert torch.equal(kept, real[:, :, ::stride, ::stride]), "real is what begins with something real"
    assert float(cells.detach().masked_fill(kept, 0).abs().sum()) == 0
    assert torch.equal(strided_mask(real, 1), real)


def test_a_cell_is_told_its_row_in_one_half_and_its_column_in_the_other() -> None:
    for learned in (False, True):
        places = GridPositions(7, learned, 3)
        found = places((4, 5), torch.device("cpu")).view(4, 5, 7)
        assert torch.equal(found[:, 0, :3], found[:, 4, :3])
        assert torch.equal(found[0, :, 3:], found[3, :, 3:])
        assert len({tuple(cell) for cell in found.flatten(0, 1).tolist()}) == (9 if learned else 20), "later ones share"
    row = GridPositions(8, False, 64)((6, 2), torch.device("cpu")).view(6, 2, 8)[5, 1]
    waves = [(5, 1.0), (5, 0.01)], [(1, 1.0), (1, 0.01)]
    wanted = [bend(place * speed) for half in waves for bend in (math.sin, math.cos) for place, speed in half]
    torch.testing.assert_close(row, torch.tensor(wanted), rtol=0, atol=1e-5)


@pytest.mark.parametrize("fewest", [4, 16])
def test_groups_in_bfloat16_are_rounded_once(fewest: int) -> None:
    """Whatever way is quicker for groups of a size, sums are those of float32."""
    norm = GroupNorm(32, fewest)
    x = (torch.randn(3, 32, 5, 7) * 2 + 1).bfloat16().to(memory_format=torch.channels_last)
    torch.testing.assert_close(norm(x), norm(x.float()).bfloat16(), rtol=2**-7, atol=1e-3)
    assert norm(x).dtype == torch.bfloat16
