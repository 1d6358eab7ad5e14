"""Positions that self-attention sees, compared with formulas over complex numbers and loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.attention import Attention, watch
from regard.attention.positions import AlibiPositions, RotaryPositions, alibi_slopes
from regard.common.errors import ConfigurationError


def test_rotary_positions_multiply_complex_numbers() -> None:
    E = 6
    vectors = np.random.default_rng(0).normal(size=(2, 3, 5, E))
    positions = np.array([[0, 1, 2, 3, 4], [7, 8, 9, 9, 20]])
    pairs = vectors[..., : E // 2] + 1j * vectors[..., E // 2 :]
    for i in range(E // 2):
        angle = positions * 10000 ** (-2 * i / E)
        pairs[..., i] *= np.exp(1j * angle)[:, None]
    expected = np.concatenate([pairs.real, pairs.imag], -1)

    rotary = RotaryPositions(3, E)
    turned = rotary.rotate(torch.tensor(vectors), torch.tensor(positions))

    np.testing.assert_allclose(turned, expected, atol=1e-5)


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    torch.manual_seed(0)
    rotary = RotaryPositions(1, 8)
    q, k = torch.randn(2, 1, 1, 1, 8)
    scores = [
        (
            rotary.rotate(q, torch.tensor([[i]]))
            * rotary.rotate(k, torch.tensor([[j]]))
        ).sum()
        for i, j in [(3, 1), (9, 7), (40, 38)]
    ]

    torch.testing.assert_close(scores[0].expand(2), torch.stack(scores[1:]))


def test_rotary_heads_have_even_sizes() -> None:
    with pytest.raises(ConfigurationError, match="a head has 3"):
        Attention("encoder", 6, 6, 6, 2, positions=RotaryPositions)


def test_slopes_are_those_of_the_paper() -> None:
    assert alibi_slopes(8) == [1 / 2**i for i in range(1, 9)]
    assert alibi_slopes(3) == [1 / 16, 1 / 256, 1 / 4]


def test_linear_biases_are_subtracted_from_the_scores() -> None:
    torch.manual_seed(0)
    plain = Attention("decoder", 8, 8, 8, 2)
    biased = Attention("decoder", 8, 8, 8, 2, positions=AlibiPositions)
    biased.load_state_dict(plain.state_dict())
    x = torch.randn(1, 4, 8)
    keep = torch.tensor([[True, False, True, True]])
    scores = []
    for attention in (plain, biased):
        with watch(attention, scores=True) as recorded:
            attention(x, attention.prepare(x, x, keep), causal=True)
        scores.append(recorded[""])

    # The second entry is hidden, and does not count.
    for t, s, distance in [(3, 0, 2), (3, 2, 1), (2, 0, 1), (3, 3, 0)]:
        for head, slope in enumerate([1 / 16, 1 / 256]):
            expected = scores[0][0, head, t, s] - slope * distance
            torch.testing.assert_close(scores[1][0, head, t, s], expected)
