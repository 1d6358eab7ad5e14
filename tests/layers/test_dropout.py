"""Dropout: share of zeros, scale of the rest, gradients with the same mask, and the source of its
random numbers.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import torch
from torch import Tensor

from regard.layers.dropout import Dropout, dropout_generator, random_bytes

HALF = Dropout(0.5).train()


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_share_of_zeros_and_scale_follow_the_probability(probability: float) -> None:
    x = torch.rand(400, 1000) + 0.5
    original = x.clone()
    y = Dropout(probability).train()(x)
    share = round(probability * 256) / 256
    zeroed = y == 0
    deviation = (share * (1 - share) / x.numel()) ** 0.5

    assert torch.equal(x, original)
    assert float(zeroed.double().mean()) == pytest.approx(share, abs=5 * deviation)
    torch.testing.assert_close(y[~zeroed], x[~zeroed] / (1 - share), rtol=1e-6, atol=0)


def test_zeros_are_uncorrelated() -> None:
    """Rows, columns, neighbours and the eight bytes of a random number are uncorrelated."""
    zeroed = (HALF(torch.ones(512, 512)) == 0).double()
    others = [zeroed.roll(1, 0), zeroed.roll(1, 1), zeroed.roll(8, 1), zeroed.T]

    for other in others:
        correlation = float((zeroed - 0.5).mul(other - 0.5).mean()) * 4
        assert abs(correlation) < 5 / 512


def test_gradients_have_the_same_mask_and_scale_also_outside_the_block() -> None:
    x = torch.randn(50, 60, requires_grad=True)
    with dropout_generator(seeded(1)):
        y = Dropout(0.3).train()(x)
    direction = torch.randn(50, 60)
    (gradient,) = torch.autograd.grad((y * direction).sum(), [x])
    expected = torch.where(y == 0, 0.0, direction * 256 / (256 - 77))

    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=0)


def test_dropout_is_the_identity_in_eval_mode_and_at_probability_zero() -> None:
    x = torch.randn(5, 6)
    generator = seeded(1)
    state = generator.get_state()

    with dropout_generator(generator):
        assert torch.equal(Dropout(0.5).eval()(x), x)
        assert torch.equal(Dropout(0.0).train()(x), x)

    assert torch.equal(generator.get_state(), state), "nothing is drawn"


def test_bfloat16_stays_bfloat16() -> None:
    y = HALF(torch.ones(100, dtype=torch.bfloat16))

    assert y.dtype == torch.bfloat16
    assert set(y.tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("probability", [1.0, -0.1])
def test_invalid_probabilities_are_refused(probability: float) -> None:
    with pytest.raises(AssertionError, match="probability"):
        Dropout(probability)


def test_probability_that_rounds_to_one_gives_finite_values() -> None:
    """0.999 · 256 rounds to 256: all entries would be zeroed, and the scale would be infinite."""
    y = Dropout(0.999).train()(torch.ones(1000))

    assert bool(y.isfinite().all())


def test_random_bytes_are_uniform() -> None:
    for count in (0, 7):
        assert random_bytes(count, torch.device("cpu")).shape == (count,)

    drawn = random_bytes(256_000, torch.device("cpu"))
    deviations = torch.bincount(drawn.long(), minlength=256) - 1000
    chi_square = float((deviations**2 / 1000).sum())

    assert chi_square < 255 + 5 * (2 * 255) ** 0.5


# --- the source of random numbers


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def mask() -> Tensor:
    """Compute the keep mask of dropout over 4,000 entries."""
    keep: Tensor = HALF(torch.ones(40, 100)) != 0
    return keep


def masks_of(seed: int, count: int = 2) -> list[Tensor]:
    with dropout_generator(seeded(seed)):
        return [mask() for _ in range(count)]


def assert_equal(actual: list[Tensor], expected: list[Tensor]) -> None:
    assert all(torch.equal(*pair) for pair in zip(actual, expected, strict=True))


def test_blocks_draw_from_their_generator_the_innermost_first() -> None:
    first, second = masks_of(1)

    assert not torch.equal(first, second)

    generator = seeded(1)
    torch.manual_seed(3)
    outside = [mask(), mask()]
    torch.manual_seed(3)

    with dropout_generator(generator):
        inside = [mask()]
        inner = masks_of(2)

    actual = [mask()]

    with suppress(KeyError), dropout_generator(generator):
        inside.append(mask())
        raise KeyError

    actual.append(mask())

    assert_equal(actual, outside)
    assert_equal(inside, [first, second])
    assert_equal(inner, masks_of(2))


def test_generators_of_threads_are_independent() -> None:
    """Two threads that draw in turn get the masks that each would get alone; a third, started in a
    block without one of its own, draws from none.
    """
    expected = [masks_of(seed, 5) for seed in (1, 2)]
    barrier = threading.Barrier(2, timeout=60)

    def draw(seed: int) -> list[Tensor]:
        masks = []
        with dropout_generator(seeded(seed)):
            for _ in range(5):
                barrier.wait()
                masks.append(mask())
        return masks

    generator = seeded(3)
    state = generator.get_state()

    with dropout_generator(generator), ThreadPoolExecutor(2) as pool:
        actual = list(pool.map(draw, (1, 2)))
        pool.submit(mask).result()

    assert torch.equal(generator.get_state(), state)

    for masks, others in zip(actual, expected, strict=True):
        assert_equal(masks, others)
