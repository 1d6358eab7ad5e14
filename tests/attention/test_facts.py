"""Answers to the questions at the end of docs/attention.md: projections, scaling, positions."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from regard.attention import SCORES, Attention, masked_softmax, watch

D = 8


def test_without_projections_a_unit_vector_attends_most_to_itself() -> None:
    """Among unit vectors the product with itself is the largest; so queries and keys need separate
    projections.
    """
    words = F.normalize(torch.randn(3, 6, D), dim=-1)
    itself = torch.arange(6).expand(3, 6)

    for projected in (False, True):
        attention = Attention(
            "encoder", D, D, D, score_name="dot", project_keys=projected
        )
        with watch(attention) as readings:
            attention(words, attention.prepare(words, words))
        peaks = readings[""][:, 0].argmax(-1)
        assert torch.equal(peaks, itself) != projected


def test_attention_without_positions_is_permutation_equivariant() -> None:
    attention = Attention("encoder", D, D, D, heads=2)
    words = torch.randn(3, 6, D)
    order = torch.randperm(6)
    reordered = words[:, order]
    expected = attention(words, attention.prepare(words, words))[:, order]
    actual = attention(reordered, attention.prepare(reordered, reordered))

    torch.testing.assert_close(actual, expected)


def test_scaling_keeps_the_softmax_of_long_vectors_from_saturating() -> None:
    """The product of two E-dimensional vectors of unit variance has variance E; division by √E
    restores unit variance.
    """
    E = 100
    q = torch.randn(1, 1, 200, E)
    k = torch.randn(1, 1, 200, E)
    largest_weight = {}

    for name, variance in (("dot", float(E)), ("scaled_dot", 1.0)):
        scores = SCORES[name](1, E)(q, k)
        assert abs(float(scores.var()) / variance - 1) < 0.15
        largest_weight[name] = float(masked_softmax(scores, None).amax(-1).mean())

    assert largest_weight["dot"] > 0.6
    assert largest_weight["scaled_dot"] < 0.1
