"""Initial weights, positions, residual connections and the gated feed-forward network against their
formulas.
"""

import math

import pytest
import torch
import torch.nn.functional as F

from regard.layers.embedding import Embedding, OutputProjection
from regard.layers.feedforward import FeedForward
from regard.layers.positional_encoding import LearnedPositions, sinusoids
from regard.layers.residual import Residual


def test_initial_standard_deviation_is_one_over_the_root_of_the_size() -> None:
    for weight in (
        Embedding(2000, 100, True).weight,
        OutputProjection(2000, 100).weight,
    ):
        assert weight.detach().std().item() == pytest.approx(0.1, rel=0.02)


def test_a_gated_feed_forward_network_equals_its_formula() -> None:
    """Those without a gate are part of PyTorch's layers: `laws/test_torch_oracles.py`."""
    network = FeedForward(6, 5, "swiglu")
    x = torch.randn(2, 3, 6)
    gate, value = network.widen(x).chunk(2, -1)
    expected = network.narrow(F.silu(gate) * value)

    torch.testing.assert_close(network(x), expected, rtol=0, atol=1e-5)


def test_a_residual_connection_may_lack_its_norm_or_its_input() -> None:
    """With a norm before or after they are part of PyTorch's layers."""
    x = torch.randn(2, 3, 6)
    branch = torch.randn(2, 3, 6)
    without_norm = Residual(6, "none", 0.0)
    cut = Residual(6, "pre", 0.0, connected=False)

    assert torch.equal(without_norm.before(x), x)
    assert torch.equal(without_norm.after(x, branch), x + branch)
    assert torch.equal(cut.after(x, branch), branch)


def test_residual_drops_out_the_branch_only() -> None:
    x = torch.randn(2, 30, 6)
    residual = Residual(6, "pre", 0.5).train()
    added = residual.after(x, torch.ones(2, 30, 6)) - x

    assert {round(value, 3) for value in added.flatten().tolist()} == {0.0, 2.0}


@pytest.mark.parametrize("size", [2, 5, 16])
def test_sinusoids_equal_the_paper_with_sines_first(size: int) -> None:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) = cos(same); here all sines stand
    before all cosines.
    """
    positions = [0, 1, 2, 63, 500]
    encoding = sinusoids(torch.tensor([positions, positions[::-1]]), size)
    half = (size + 1) // 2

    for row, position in enumerate(positions):
        angles = [position / 10000 ** (2 * i / size) for i in range(half)]
        waves = [*map(math.sin, angles), *map(math.cos, angles)]
        expected = torch.tensor(waves[:size])
        torch.testing.assert_close(encoding[0, row], expected, rtol=0, atol=1e-4)

    assert torch.equal(encoding[1], encoding[0].flip(0))


def test_positions_beyond_the_learned_ones_have_the_last_vector() -> None:
    positions = LearnedPositions(5, 4)
    vectors = positions(torch.tensor([[0, 3, 4, 5, 90]]))[0]

    torch.testing.assert_close(vectors, positions.weight[[0, 3, 4, 4, 4]])
