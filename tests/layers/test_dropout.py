"""Dropout: share of zeros, scale of the rest, and gradients with the same mask."""

from __future__ import annotations

import pytest
import torch

from regard.layers.dropout import Dropout, random_bytes


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_share_of_zeros_and_scale_follow_the_probability(probability: float) -> None:
    x = torch.rand(400, 1000) + 0.5
    y = Dropout(probability).train()(x)
    share = round(probability * 256) / 256
    zeroed = y == 0
    assert float(zeroed.double().mean()) == pytest.approx(
        share, abs=5 * (share * (1 - share) / x.numel()) ** 0.5
    )
    torch.testing.assert_close(y[~zeroed], x[~zeroed] / (1 - share), rtol=1e-6, atol=0)


def test_zeros_are_uncorrelated() -> None:
    """Rows, columns, neighbours and the eight bytes of a random number are uncorrelated."""
    zeroed = (Dropout(0.5).train()(torch.ones(512, 512)) == 0).double()
    tolerance = 5 / 512
    for shifted in (
        zeroed.roll(1, 0),
        zeroed.roll(1, 1),
        zeroed.roll(4, 1),
        zeroed.roll(8, 1),
        zeroed.T,
    ):
        correlation = float((zeroed - 0.5).mul(shifted - 0.5).mean()) * 4
        assert abs(correlation) < tolerance
    assert float((zeroed.mean(0) - 0.5).abs().max()) < 0.15
    assert float((zeroed.mean(1) - 0.5).abs().max()) < 0.15


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5, 2), (0, 4), (8,), (9,)])
def test_shape_is_preserved(shape: tuple[int, ...]) -> None:
    assert Dropout(0.3).train()(torch.ones(shape)).shape == shape


def test_gradients_have_the_same_mask_and_scale() -> None:
    x = torch.randn(50, 60, requires_grad=True)
    y = Dropout(0.3).train()(x)
    direction = torch.randn(50, 60)
    (gradient,) = torch.autograd.grad((y * direction).sum(), [x])
    scale = 256 / (256 - 77)
    torch.testing.assert_close(
        gradient, torch.where(y == 0, 0.0, direction * scale), rtol=1e-6, atol=0
    )


def test_mask_does_not_depend_on_strides() -> None:
    """The mask follows the indices of a tensor, not its strides."""
    x = torch.randn(6, 10)
    torch.manual_seed(3)
    contiguous = Dropout(0.5).train()(x)
    torch.manual_seed(3)
    transposed = Dropout(0.5).train()(x.T.contiguous().T)
    assert torch.equal(contiguous, transposed)


@pytest.mark.parametrize("probability", [0.0, 0.5])
def test_dropout_is_the_identity_in_eval_mode_and_at_probability_zero(probability: float) -> None:
    x = torch.randn(5, 6)
    dropout = Dropout(probability)
    assert torch.equal(dropout.eval()(x), x)
    assert torch.equal(dropout.train()(x), x) == (probability == 0)


def test_identity_draws_no_random_numbers() -> None:
    before = torch.get_rng_state()
    Dropout(0.5).eval()(torch.ones(5))
    Dropout(0.0).train()(torch.ones(5))
    assert torch.equal(torch.get_rng_state(), before)


def test_equal_seeds_give_equal_masks() -> None:
    dropout = Dropout(0.5).train()
    x = torch.ones(40, 50)
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append([dropout(x), dropout(x)])
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    assert not torch.equal(results[0][0], results[0][1])
    assert not torch.equal(results[0][0], results[2][0])


def test_input_is_not_modified() -> None:
    x = torch.randn(5, 6)
    original = x.clone()
    Dropout(0.5).train()(x)
    assert torch.equal(x, original)


def test_bfloat16_stays_bfloat16() -> None:
    y = Dropout(0.5).train()(torch.ones(100, dtype=torch.bfloat16))
    assert y.dtype == torch.bfloat16
    assert set(y.tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("probability", [1.0, -0.1, 1.5])
def test_invalid_probabilities_are_refused(probability: float) -> None:
    with pytest.raises(AssertionError, match="probability"):
        Dropout(probability)


def test_probability_that_rounds_to_one_gives_finite_values() -> None:
    """0.999 · 256 rounds to 256: all entries would be zeroed, and the scale would be infinite."""
    y = Dropout(0.999).train()(torch.ones(1000))
    assert bool(y.isfinite().all())


def test_random_bytes_are_uniform() -> None:
    counts = torch.bincount(random_bytes(256 * 1000, torch.device("cpu")).long(), minlength=256)
    assert counts.shape == (256,)
    assert float(((counts - 1000) ** 2 / 1000).sum()) < 255 + 5 * (2 * 255) ** 0.5
