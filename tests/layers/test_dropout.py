"""Dropout: how much is zeroed, what the rest becomes, and that gradients meet the same mask."""

from __future__ import annotations

import pytest
import torch

from regard.layers.dropout import Dropout, random_bytes


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_the_share_that_is_zeroed_and_the_scale_of_the_rest(probability: float) -> None:
    x = torch.rand(400, 1000) + 0.5
    y = Dropout(probability).train()(x)
    share = round(probability * 256) / 256
    zeroed = y == 0
    assert float(zeroed.double().mean()) == pytest.approx(share, abs=5 * (share * (1 - share) / x.numel()) ** 0.5)
    torch.testing.assert_close(y[~zeroed], x[~zeroed] / (1 - share), rtol=1e-6, atol=0)


def test_what_is_zeroed_in_one_place_says_nothing_about_another() -> None:
    """Rows, columns, neighbours and the eight bytes of a draw are all uncorrelated."""
    zeroed = (Dropout(0.5).train()(torch.ones(512, 512)) == 0).double()
    tolerance = 5 / 512
    for shifted in (zeroed.roll(1, 0), zeroed.roll(1, 1), zeroed.roll(4, 1), zeroed.roll(8, 1), zeroed.T):
        together = float((zeroed - 0.5).mul(shifted - 0.5).mean()) * 4
        assert abs(together) < tolerance
    assert float((zeroed.mean(0) - 0.5).abs().max()) < 0.15
    assert float((zeroed.mean(1) - 0.5).abs().max()) < 0.15


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5, 2), (0, 4), (8,), (9,)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    assert Dropout(0.3).train()(torch.ones(shape)).shape == shape


def test_gradients_meet_the_same_mask_and_scale() -> None:
    x = torch.randn(50, 60, requires_grad=True)
    y = Dropout(0.3).train()(x)
    direction = torch.randn(50, 60)
    (gradient,) = torch.autograd.grad((y * direction).sum(), [x])
    scale = 256 / (256 - 77)
    torch.testing.assert_close(gradient, torch.where(y == 0, 0.0, direction * scale), rtol=1e-6, atol=0)


def test_the_same_mask_in_a_tensor_of_any_layout() -> None:
    """The mask follows the places of a tensor, not its strides."""
    x = torch.randn(6, 10)
    torch.manual_seed(3)
    one = Dropout(0.5).train()(x)
    torch.manual_seed(3)
    other = Dropout(0.5).train()(x.T.contiguous().T)
    assert torch.equal(one, other)


@pytest.mark.parametrize("probability", [0.0, 0.5])
def test_nothing_happens_outside_training_or_without_a_probability(probability: float) -> None:
    x, dropout = torch.randn(5, 6), Dropout(probability)
    assert torch.equal(dropout.eval()(x), x)
    assert torch.equal(dropout.train()(x), x) == (probability == 0)


def test_what_is_not_dropped_draws_nothing_from_the_generator() -> None:
    before = torch.get_rng_state()
    Dropout(0.5).eval()(torch.ones(5))
    Dropout(0.0).train()(torch.ones(5))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_seed_decides() -> None:
    dropout, x, results = Dropout(0.5).train(), torch.ones(40, 50), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append([dropout(x), dropout(x)])
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    assert not torch.equal(results[0][0], results[0][1])
    assert not torch.equal(results[0][0], results[2][0])


def test_the_input_stays_as_it_was() -> None:
    x = torch.randn(5, 6)
    kept = x.clone()
    Dropout(0.5).train()(x)
    assert torch.equal(x, kept)


def test_lower_precision_stays_lower() -> None:
    y = Dropout(0.5).train()(torch.ones(100, dtype=torch.bfloat16))
    assert y.dtype == torch.bfloat16
    assert set(y.tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("probability", [1.0, -0.1, 1.5])
def test_probabilities_that_are_none_are_refused(probability: float) -> None:
    with pytest.raises(AssertionError, match="probability"):
        Dropout(probability)


def test_a_probability_that_rounds_to_everything_is_refused_or_survives() -> None:
    """0.999 · 256 rounds to 256: nothing would be left, and the scale would be infinite."""
    y = Dropout(0.999).train()(torch.ones(1000))
    assert bool(y.isfinite().all())


def test_bytes_are_uniform() -> None:
    counts = torch.bincount(random_bytes(256 * 1000, torch.device("cpu")).long(), minlength=256)
    assert counts.shape == (256,)
    assert float(((counts - 1000) ** 2 / 1000).sum()) < 255 + 5 * (2 * 255) ** 0.5
