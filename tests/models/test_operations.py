"""Counted multiply-adds: those of formulas, for products, fused attention and recurrent layers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.models.operations import count_multiply_adds


def linear() -> None:
    nn.Linear(7, 5)(torch.randn(3, 7))


def attention() -> None:
    query = torch.randn(2, 4, 6, 8)
    key = torch.randn(2, 4, 9, 8)
    F.scaled_dot_product_attention(query, key, key)


def gru() -> None:
    nn.GRU(6, 5, batch_first=True)(torch.randn(2, 11, 6))


def convolution() -> None:
    nn.Conv1d(4, 3, 5)(torch.randn(2, 4, 20))


@pytest.mark.parametrize(
    ("compute", "count"),
    [
        (linear, 3 * 7 * 5),
        (attention, 2 * 4 * 6 * 9 * (8 + 8)),
        (gru, 2 * 11 * 3 * 5 * (6 + 5)),
        (convolution, 2 * 16 * 4 * 3 * 5),
    ],
)
def test_each_weight_is_multiplied_once_a_position(
    compute: Callable[[], None], count: int
) -> None:
    assert count_multiply_adds(compute) == count
