"""Basic facts about attention: projections, permutation, masking, scaling."""

from __future__ import annotations

import torch

from regard.attention import SCORES, Attention, Memory, watch
from regard.attention.attention import attention_mask, masked_softmax

D = 8


def test_without_projections_a_unit_vector_attends_most_to_itself() -> None:
    """Among unit vectors the product with itself is the largest; so queries and keys need separate
    projections.
    """
    attention = Attention("encoder", D, D, D, score_name="dot", project_keys=False)
    words = torch.nn.functional.normalize(torch.randn(3, 6, D), dim=-1)
    with watch(attention) as readings:
        attention(words, attention.prepare(words, words))
    assert torch.equal(readings[""][:, 0].argmax(-1), torch.arange(6).expand(3, 6))
    projected = Attention("encoder", D, D, D, score_name="dot")
    with watch(projected) as readings:
        projected(words, projected.prepare(words, words))
    assert not torch.equal(readings[""][:, 0].argmax(-1), torch.arange(6).expand(3, 6))


def test_attention_is_permutation_equivariant() -> None:
    attention = Attention("encoder", D, D, D, heads=2)
    words = torch.randn(3, 6, D)
    order = torch.randperm(6)
    original, reordered = (attention(x, attention.prepare(x, x)) for x in (words, words[:, order]))
    torch.testing.assert_close(reordered, original[:, order], rtol=0, atol=1e-5)
    assert not torch.allclose(reordered, original, rtol=0, atol=1e-2)


def test_masking_by_minus_infinity_equals_zeroing_and_renormalising() -> None:
    scores = torch.randn(2, 3, 4, 5)
    keep = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]], dtype=torch.bool)
    mask = attention_mask(
        Memory(torch.empty(2, 3, 5, 1), torch.empty(2, 3, 5, 1), keep), 4, causal=False
    )
    assert mask is not None
    weights = scores.softmax(-1) * mask
    torch.testing.assert_close(
        masked_softmax(scores, mask), weights / weights.sum(-1, keepdim=True), rtol=0, atol=1e-6
    )
    minus_infinity = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    torch.testing.assert_close(masked_softmax(scores, mask), minus_infinity, rtol=0, atol=1e-6)


def test_scaling_keeps_the_softmax_of_long_vectors_from_saturating() -> None:
    """The product of two E-dimensional vectors of unit variance has variance E; division by √E
    restores unit variance.
    """
    for E in (2, 100):
        q = torch.randn(1, 1, 200, E)
        k = torch.randn(1, 1, 200, E)
        for name, variance in (("dot", float(E)), ("scaled_dot", 1.0)):
            scores = SCORES[name](1, E)(q, k)
            assert abs(float(scores.var()) / variance - 1) < 0.15, (name, E)
    largest_weight = {
        name: float(masked_softmax(SCORES[name](1, 100)(q, k), None).amax(-1).mean())
        for name in ("dot", "scaled_dot")
    }
    assert largest_weight["dot"] > 0.6 > 0.1 > largest_weight["scaled_dot"]
