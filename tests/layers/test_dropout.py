"""Dropout: share of zeros, scale of the rest, gradients with the same mask, and the source of its
random numbers.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from regard.layers.dropout import Dropout, dropout_generator, random_bytes

HALF = Dropout(0.5).train()


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_share_of_zeros_and_scale_follow_the_probability(probability: float) -> None:
    x = torch.rand(400, 1000) + 0.5
    y = Dropout(probability).train()(x)
    share = round(probability * 256) / 256
    zeroed = y == 0
    deviation = (share * (1 - share) / x.numel()) ** 0.5
    assert float(zeroed.double().mean()) == pytest.approx(share, abs=5 * deviation)
    torch.testing.assert_close(y[~zeroed], x[~zeroed] / (1 - share), rtol=1e-6, atol=0)


def test_zeros_are_uncorrelated() -> None:
    """Rows, columns, neighbours and the eight bytes of a random number are uncorrelated."""
    zeroed = (HALF(torch.ones(512, 512)) == 0).double()
    others = [zeroed.roll(1, 0), zeroed.roll(1, 1), zeroed.roll(8, 1), zeroed.T]
    for other in others:
        correlation = float((zeroed - 0.5).mul(other - 0.5).mean()) * 4
        assert abs(correlation) < 5 / 512


@pytest.mark.parametrize("shape", [(7,), (3, 5, 2), (0, 4), (8,)])
def test_shape_is_preserved(shape: tuple[int, ...]) -> None:
    assert Dropout(0.3).train()(torch.ones(shape)).shape == shape


def test_gradients_have_the_same_mask_and_scale() -> None:
    x = torch.randn(50, 60, requires_grad=True)
    original = x.detach().clone()
    y = Dropout(0.3).train()(x)
    assert torch.equal(x, original)
    direction = torch.randn(50, 60)
    (gradient,) = torch.autograd.grad((y * direction).sum(), [x])
    expected = torch.where(y == 0, 0.0, direction * 256 / (256 - 77))
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=0)


def test_mask_does_not_depend_on_strides() -> None:
    x = torch.randn(6, 10)
    torch.manual_seed(3)
    contiguous = HALF(x)
    torch.manual_seed(3)
    assert torch.equal(contiguous, HALF(x.T.contiguous().T))


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


@pytest.mark.parametrize("count", [0, 7, 256_000])
def test_random_bytes_are_uniform_and_come_from_the_generator_of_the_block(
    count: int,
) -> None:
    drawn = []
    for _ in range(2):
        with dropout_generator(seeded(5)):
            drawn.append(random_bytes(count, torch.device("cpu")))
    assert drawn[0].shape == (count,)
    assert torch.equal(*drawn)
    if count > 256:
        expected = count / 256
        deviations = (
            torch.bincount(drawn[0].long(), minlength=256) - expected
        ) ** 2 / expected
        assert float(deviations.sum()) < 255 + 5 * (2 * 255) ** 0.5


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


def test_equal_seeds_give_equal_masks() -> None:
    first, second = masks_of(1)
    assert_equal(masks_of(1), [first, second])
    assert not torch.equal(first, second)
    assert not torch.equal(first, masks_of(2)[0])


def test_generator_is_used_only_inside_the_block_and_continues_in_the_next() -> None:
    generator = seeded(1)
    torch.manual_seed(3)
    outside = [mask(), mask()]
    torch.manual_seed(3)
    with dropout_generator(generator):
        inside = [mask()]
    actual = [mask()]
    with dropout_generator(generator):
        inside.append(mask())
    actual.append(mask())
    assert_equal(actual, outside)
    assert_equal(inside, masks_of(1))


def test_innermost_block_has_precedence() -> None:
    with dropout_generator(seeded(1)):
        outer = [mask()]
        inner = masks_of(2)
        outer.append(mask())
    assert_equal(outer, masks_of(1))
    assert_equal(inner, masks_of(2))


def test_error_ends_the_block() -> None:
    generator = seeded(1)
    with pytest.raises(KeyError), dropout_generator(generator):
        raise KeyError
    state = generator.get_state()
    mask()
    assert torch.equal(generator.get_state(), state)


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


def test_gradients_outside_the_block_have_its_mask() -> None:
    x = torch.randn(40, 100, requires_grad=True)
    with dropout_generator(seeded(1)):
        y = HALF(x)
    (gradient,) = torch.autograd.grad(y.sum(), [x])
    assert torch.equal(gradient != 0, y != 0)
