"""`dropout_generator` sets the source of random numbers: inside its block and thread only."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from regard.layers.dropout import Dropout, dropout_generator, random_bytes

DROPOUT = Dropout(0.5).train()


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def mask() -> Tensor:
    """Compute the keep mask of dropout over 4,000 entries."""
    keep: Tensor = DROPOUT(torch.ones(40, 100)) != 0
    return keep


def test_equal_seeds_of_the_block_give_equal_masks() -> None:
    masks = []
    for seed in (1, 1, 2):
        with dropout_generator(seeded(seed)):
            masks.append([mask(), mask()])
    assert torch.equal(masks[0][0], masks[1][0])
    assert torch.equal(masks[0][1], masks[1][1])
    assert not torch.equal(masks[0][0], masks[0][1])
    assert not torch.equal(masks[0][0], masks[2][0])


def test_generator_continues_in_a_second_block() -> None:
    generator = seeded(1)
    with dropout_generator(generator):
        actual = [mask()]
    with dropout_generator(generator):
        actual.append(mask())
    with dropout_generator(seeded(1)):
        expected = [mask(), mask()]
    assert all(torch.equal(*pair) for pair in zip(actual, expected, strict=True))


def test_global_generator_is_used_only_outside_the_block() -> None:
    torch.manual_seed(3)
    expected = [mask(), mask()]
    torch.manual_seed(3)
    actual = [mask()]
    before = torch.get_rng_state()
    with dropout_generator(seeded(1)):
        mask()
    assert torch.equal(torch.get_rng_state(), before)
    actual.append(mask())
    assert all(torch.equal(*pair) for pair in zip(actual, expected, strict=True))


def test_generator_is_not_used_outside_the_block() -> None:
    generator = seeded(1)
    with dropout_generator(generator):
        mask()
    state = generator.get_state()
    mask()
    assert torch.equal(generator.get_state(), state)


def test_innermost_block_has_precedence() -> None:
    with dropout_generator(seeded(1)):
        first = mask()
        with dropout_generator(seeded(2)):
            inner = mask()
        second = mask()
    with dropout_generator(seeded(1)):
        assert torch.equal(mask(), first)
        assert torch.equal(mask(), second)
    with dropout_generator(seeded(2)):
        assert torch.equal(mask(), inner)


def test_error_ends_the_block() -> None:
    generator = seeded(1)
    with pytest.raises(KeyError), dropout_generator(generator):
        raise KeyError
    state = generator.get_state()
    mask()
    assert torch.equal(generator.get_state(), state)


def test_generators_of_threads_are_independent() -> None:
    """Two threads that draw in turn get the masks that each would get alone."""
    with dropout_generator(seeded(1)):
        ones = [mask() for _ in range(5)]
    with dropout_generator(seeded(2)):
        twos = [mask() for _ in range(5)]
    barrier = threading.Barrier(2, timeout=60)

    def draw(seed: int) -> list[Tensor]:
        masks = []
        with dropout_generator(seeded(seed)):
            for _ in range(5):
                barrier.wait()
                masks.append(mask())
        return masks

    with ThreadPoolExecutor(2) as pool:
        actual = [future.result() for future in [pool.submit(draw, seed) for seed in (1, 2)]]
    for masks, expected in zip(actual, (ones, twos), strict=True):
        assert all(torch.equal(*pair) for pair in zip(masks, expected, strict=True))


def test_thread_started_inside_the_block_does_not_use_its_generator() -> None:
    generator = seeded(1)
    with dropout_generator(generator):
        state = generator.get_state()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(mask).result()
        assert torch.equal(generator.get_state(), state)


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_share_kept_inside_the_block_follows_the_probability(probability: float) -> None:
    with dropout_generator(seeded(4)):
        keep = Dropout(probability).train()(torch.ones(400, 1000)) != 0
    share = 1 - round(probability * 256) / 256
    assert float(keep.double().mean()) == pytest.approx(
        share, abs=5 * (share * (1 - share) / 400_000) ** 0.5
    )


def test_gradients_outside_the_block_have_its_mask() -> None:
    x = torch.randn(40, 100, requires_grad=True)
    with dropout_generator(seeded(1)):
        keep = DROPOUT(x)
    (gradient,) = torch.autograd.grad(keep.sum(), [x])
    assert torch.equal(gradient != 0, keep != 0)


def test_identity_draws_no_random_numbers() -> None:
    generator = seeded(1)
    state = generator.get_state()
    with dropout_generator(generator):
        Dropout(0.5).eval()(torch.ones(5))
        Dropout(0.0).train()(torch.ones(5))
    assert torch.equal(generator.get_state(), state)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_random_bytes_come_from_the_generator_of_the_block(count: int) -> None:
    drawn = []
    for _ in range(2):
        with dropout_generator(seeded(5)):
            drawn.append(random_bytes(count, torch.device("cpu")))
    assert drawn[0].shape == (count,)
    assert torch.equal(*drawn)
