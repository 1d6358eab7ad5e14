"""Positions against the published formula, place by place."""

import math

import pytest
import torch

from regard.layers.positions import sinusoids


@pytest.mark.parametrize("size", [2, 5, 16, 128])
def test_waves_of_the_paper_with_sines_first(size: int) -> None:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) = cos(same); here all sines stand before all cosines."""
    places = [0, 1, 2, 7, 63, 500]
    found = sinusoids(torch.tensor([places, places[::-1]]), size)
    assert found.shape == (2, 6, size)
    half = (size + 1) // 2
    for column, place in enumerate(places):
        for i in range(half):
            angle = place / 10000 ** (2 * i / size)
            assert float(found[0, column, i]) == pytest.approx(math.sin(angle), abs=1e-4)
            if half + i < size:
                assert float(found[0, column, half + i]) == pytest.approx(math.cos(angle), abs=1e-4)
    assert torch.equal(found[1], found[0].flip(0))


def test_some_published_numbers() -> None:
    """By hand for d = 4: at position 1 the paper has sin 1, cos 1, sin 0.01, cos 0.01."""
    assert sinusoids(torch.tensor([[1]]), 4)[0, 0].tolist() == pytest.approx(
        [0.841471, 0.0099998, 0.540302, 0.99995], abs=1e-6
    )


def test_places_far_away_stay_exact_and_differ() -> None:
    waves = sinusoids(torch.arange(5000)[None], 64)[0].double()
    assert torch.cdist(waves[::7], waves[::7]).fill_diagonal_(1).min() > 0.05
    shifts = waves[3:] * 1
    products = (waves[:-3] * shifts).sum(1)
    torch.testing.assert_close(products, products[:1].expand_as(products), rtol=0, atol=0.02)
