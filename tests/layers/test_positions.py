"""Sinusoidal positions against the published formula, position by position."""

import math

import pytest
import torch

from regard.layers.positional_encoding import sinusoids


@pytest.mark.parametrize("size", [2, 5, 16, 128])
def test_sinusoids_equal_the_paper_with_sines_first(size: int) -> None:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) = cos(same); here all sines stand
    before all cosines.
    """
    positions = [0, 1, 2, 7, 63, 500]
    encoding = sinusoids(torch.tensor([positions, positions[::-1]]), size)
    assert encoding.shape == (2, 6, size)
    half = (size + 1) // 2
    for column, position in enumerate(positions):
        for i in range(half):
            angle = position / 10000 ** (2 * i / size)
            assert float(encoding[0, column, i]) == pytest.approx(math.sin(angle), abs=1e-4)
            if half + i < size:
                assert float(encoding[0, column, half + i]) == pytest.approx(
                    math.cos(angle), abs=1e-4
                )
    assert torch.equal(encoding[1], encoding[0].flip(0))


def test_sinusoids_equal_published_numbers() -> None:
    """By hand for d = 4: at position 1 the paper has sin 1, cos 1, sin 0.01, cos 0.01."""
    assert sinusoids(torch.tensor([[1]]), 4)[0, 0].tolist() == pytest.approx(
        [0.841471, 0.0099998, 0.540302, 0.99995], abs=1e-6
    )


def test_distant_positions_stay_exact_and_distinct() -> None:
    waves = sinusoids(torch.arange(5000)[None], 64)[0].double()
    assert torch.cdist(waves[::7], waves[::7]).fill_diagonal_(1).min() > 0.05
    shifts = waves[3:] * 1
    products = (waves[:-3] * shifts).sum(1)
    torch.testing.assert_close(products, products[:1].expand_as(products), rtol=0, atol=0.02)
