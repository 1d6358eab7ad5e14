"""Embeddings, output projection, residual connections and feed-forward networks against PyTorch."""

import math

import pytest
import torch
import torch.nn.functional as F

from regard.layers.embedding import Embedding, OutputProjection
from regard.layers.feedforward import FeedForward
from regard.layers.residual import Residual


@pytest.mark.parametrize("scaled", [False, True])
def test_embedding_is_a_row_of_its_matrix(scaled: bool) -> None:
    embedding = Embedding(11, 9, scaled)
    tokens = torch.tensor([[0, 10, 3], [3, 3, 1]])
    expected = embedding.weight[tokens] * (math.sqrt(9) if scaled else 1)
    torch.testing.assert_close(embedding(tokens), expected, rtol=0, atol=1e-6)


def test_initial_standard_deviation_is_one_over_the_root_of_the_size() -> None:
    for weight in (Embedding(2000, 100, True).weight, OutputProjection(2000, 100).weight):
        assert weight.detach().std().item() == pytest.approx(0.1, rel=0.02)


def test_output_projection_is_linear() -> None:
    output = OutputProjection(11, 9)
    features = torch.randn(2, 3, 9)
    torch.nn.init.normal_(output.bias)
    expected = features @ output.weight.T + output.bias
    torch.testing.assert_close(output(features), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_feed_forward_equals_its_formula_at_every_position(activation: str) -> None:
    network = FeedForward(6, 10, activation)
    x = torch.randn(2, 3, 6)
    hidden = getattr(F, activation)(x @ network.widen.weight.T + network.widen.bias)
    expected = hidden @ network.narrow.weight.T + network.narrow.bias
    torch.testing.assert_close(network(x), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(network(x[:, 1:2]), network(x)[:, 1:2], rtol=0, atol=1e-6)


def test_residual_normalises_before_or_after() -> None:
    x = torch.randn(2, 3, 6) * 3 + 1
    branch = torch.randn(2, 3, 6)
    pre = Residual(6, "pre", 0.0)
    post = Residual(6, "post", 0.0)
    normed = F.layer_norm(x, (6,))
    torch.testing.assert_close(pre.before(x), normed, rtol=0, atol=1e-5)
    torch.testing.assert_close(pre.after(x, branch), x + branch, rtol=0, atol=1e-6)
    assert torch.equal(post.before(x), x)
    torch.testing.assert_close(
        post.after(x, branch), F.layer_norm(x + branch, (6,)), rtol=0, atol=1e-5
    )


def test_residual_drops_out_the_branch_only() -> None:
    x = torch.randn(2, 30, 6)
    residual = Residual(6, "pre", 0.5).train()
    output = residual.after(x, torch.ones(2, 30, 6))
    assert {round(value, 3) for value in (output - x).flatten().tolist()} == {0.0, 2.0}
