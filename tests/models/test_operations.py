"""Counted multiply-adds: those of formulas, for products, fused attention and recurrent layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from regard.models.operations import count_multiply_adds


def test_a_linear_layer_multiplies_every_weight_once_a_row() -> None:
    assert count_multiply_adds(lambda: nn.Linear(7, 5)(torch.randn(3, 7))) == 3 * 7 * 5


def test_fused_attention_is_two_products() -> None:
    query = torch.randn(2, 4, 6, 8)
    key = torch.randn(2, 4, 9, 8)
    expected = 2 * 4 * 6 * 9 * (8 + 8)
    assert (
        count_multiply_adds(lambda: F.scaled_dot_product_attention(query, key, key))
        == expected
    )


def test_a_gru_multiplies_its_weights_at_every_step() -> None:
    gru = nn.GRU(6, 5, batch_first=True)
    weights = gru.weight_ih_l0.numel() + gru.weight_hh_l0.numel()
    assert count_multiply_adds(lambda: gru(torch.randn(2, 11, 6))) == 2 * 11 * weights


def test_a_convolution_multiplies_its_kernel_at_every_position() -> None:
    convolution = nn.Conv1d(4, 3, 5)
    assert (
        count_multiply_adds(lambda: convolution(torch.randn(2, 4, 20)))
        == 2 * 16 * convolution.weight.numel()
    )
