"""`chance` says where random numbers come from: inside the block, in this thread, and nowhere else."""

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
    """What a dropout keeps of 4,000 ones."""
    kept: Tensor = DROPOUT(torch.ones(40, 100)) != 0
    return kept


def test_the_seed_of_the_block_decides_the_masks() -> None:
    masks = []
    for seed in (1, 1, 2):
        with dropout_generator(seeded(seed)):
            masks.append([mask(), mask()])
    assert torch.equal(masks[0][0], masks[1][0])
    assert torch.equal(masks[0][1], masks[1][1])
    assert not torch.equal(masks[0][0], masks[0][1])
    assert not torch.equal(masks[0][0], masks[2][0])


def test_a_generator_goes_on_where_it_stopped() -> None:
    generator = seeded(1)
    with dropout_generator(generator):
        found = [mask()]
    with dropout_generator(generator):
        found.append(mask())
    with dropout_generator(seeded(1)):
        wanted = [mask(), mask()]
    assert all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))


def test_outside_the_block_the_global_generator_is_used_and_inside_it_rests() -> None:
    torch.manual_seed(3)
    wanted = [mask(), mask()]
    torch.manual_seed(3)
    found = [mask()]
    before = torch.get_rng_state()
    with dropout_generator(seeded(1)):
        mask()
    assert torch.equal(torch.get_rng_state(), before)
    found.append(mask())
    assert all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))


def test_outside_the_block_the_generator_rests() -> None:
    generator = seeded(1)
    with dropout_generator(generator):
        mask()
    state = generator.get_state()
    mask()
    assert torch.equal(generator.get_state(), state)


def test_the_innermost_block_decides() -> None:
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


def test_an_error_inside_ends_the_block() -> None:
    generator = seeded(1)
    with pytest.raises(KeyError), dropout_generator(generator):
        raise KeyError
    state = generator.get_state()
    mask()
    assert torch.equal(generator.get_state(), state)


def test_threads_do_not_take_from_one_another() -> None:
    """Two threads that draw in turn draw what each would draw alone."""
    with dropout_generator(seeded(1)):
        ones = [mask() for _ in range(5)]
    with dropout_generator(seeded(2)):
        twos = [mask() for _ in range(5)]
    meet = threading.Barrier(2, timeout=10)

    def draw(seed: int) -> list[Tensor]:
        masks = []
        with dropout_generator(seeded(seed)):
            for _ in range(5):
                meet.wait()
                masks.append(mask())
        return masks

    with ThreadPoolExecutor(2) as pool:
        found = [future.result() for future in [pool.submit(draw, seed) for seed in (1, 2)]]
    for mine, wanted in zip(found, (ones, twos), strict=True):
        assert all(torch.equal(*pair) for pair in zip(mine, wanted, strict=True))


def test_a_thread_that_is_started_inside_the_block_is_outside_of_it() -> None:
    generator = seeded(1)
    with dropout_generator(generator):
        state = generator.get_state()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(mask).result()
        assert torch.equal(generator.get_state(), state)


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_the_share_that_is_kept_is_right_inside_too(probability: float) -> None:
    with dropout_generator(seeded(4)):
        kept = Dropout(probability).train()(torch.ones(400, 1000)) != 0
    share = 1 - round(probability * 256) / 256
    assert float(kept.double().mean()) == pytest.approx(share, abs=5 * (share * (1 - share) / 400_000) ** 0.5)


def test_gradients_meet_the_mask_of_the_block_wherever_they_are_computed() -> None:
    x = torch.randn(40, 100, requires_grad=True)
    with dropout_generator(seeded(1)):
        kept = DROPOUT(x)
    (gradient,) = torch.autograd.grad(kept.sum(), [x])
    assert torch.equal(gradient != 0, kept != 0)


def test_what_is_not_dropped_draws_nothing() -> None:
    generator = seeded(1)
    state = generator.get_state()
    with dropout_generator(generator):
        Dropout(0.5).eval()(torch.ones(5))
        Dropout(0.0).train()(torch.ones(5))
    assert torch.equal(generator.get_state(), state)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_bytes_come_from_the_block(count: int) -> None:
    drawn = []
    for _ in range(2):
        with dropout_generator(seeded(5)):
            drawn.append(random_bytes(count, torch.device("cpu")))
    assert drawn[0].shape == (count,)
    assert torch.equal(*drawn)
