"""Embeddings, the output layer, residuals and feed-forward networks against what PyTorch says."""

import math

import pytest
import torch
import torch.nn.functional as F

from regard.layers.embedding import Embedding, OutputProjection
from regard.layers.feedforward import FeedForward
from regard.layers.residual import Residual


@pytest.mark.parametrize("scaled", [False, True])
def test_an_embedding_is_a_row_of_its_matrix(scaled: bool) -> None:
    embedding, pieces = Embedding(11, 9, scaled), torch.tensor([[0, 10, 3], [3, 3, 1]])
    wanted = embedding.weight[pieces] * (math.sqrt(9) if scaled else 1)
    torch.testing.assert_close(embedding(pieces), wanted, rtol=0, atol=1e-6)


def test_embeddings_and_output_start_at_one_over_the_root_of_their_size() -> None:
    for weight in (Embedding(2000, 100, True).weight, OutputProjection(2000, 100).weight):
        assert weight.detach().std().item() == pytest.approx(0.1, rel=0.02)


def test_the_output_layer_is_linear() -> None:
    output, features = OutputProjection(11, 9), torch.randn(2, 3, 9)
    torch.nn.init.normal_(output.bias)
    wanted = features @ output.weight.T + output.bias
    torch.testing.assert_close(output(features), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_a_feed_forward_network(activation: str) -> None:
    network, x = FeedForward(6, 10, activation), torch.randn(2, 3, 6)
    inner = getattr(F, activation)(x @ network.widen.weight.T + network.widen.bias)
    wanted = inner @ network.narrow.weight.T + network.narrow.bias
    torch.testing.assert_close(network(x), wanted, rtol=0, atol=1e-5)
    torch.testing.assert_close(network(x[:, 1:2]), network(x)[:, 1:2], rtol=0, atol=1e-6)


def test_a_residual_normalises_before_or_after() -> None:
    x, change = torch.randn(2, 3, 6) * 3 + 1, torch.randn(2, 3, 6)
    pre, post = Residual(6, "pre", 0.0), Residual(6, "post", 0.0)
    normed = F.layer_norm(x, (6,))
    torch.testing.assert_close(pre.before(x), normed, rtol=0, atol=1e-5)
    torch.testing.assert_close(pre.after(x, change), x + change, rtol=0, atol=1e-6)
    assert torch.equal(post.before(x), x)
    torch.testing.assert_close(post.after(x, change), F.layer_norm(x + change, (6,)), rtol=0, atol=1e-5)


def test_a_residual_drops_of_the_change_alone() -> None:
    x, block = torch.randn(2, 30, 6), Residual(6, "pre", 0.5).train()
    out = block.after(x, torch.ones(2, 30, 6))
    assert {round(value, 3) for value in (out - x).flatten().tolist()} == {0.0, 2.0}
