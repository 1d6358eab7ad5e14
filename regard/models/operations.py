"""Counting of the multiply-adds of a forward pass, in matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode

FUSED_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
"""The fused attention kernel of the CPU, which PyTorch's counter does not know."""


def count_multiply_adds(run: Callable[[], object]) -> int:
    """Call `run` and return the number of multiply-adds."""
    mapping = {FUSED_ATTENTION: _fused_flops}
    with (
        torch.no_grad(),
        FlopCounterMode(display=False, custom_mapping=mapping) as counter,
    ):
        run()
    return int(counter.get_total_flops()) // 2


def _fused_flops(
    query: Sequence[int],
    keys: Sequence[int],
    values: Sequence[int],
    *_: object,
    **__: object,
) -> int:
    """Count the operations of the two matrix products, from the shapes of the inputs."""
    R, H, T, E = query
    S, Ev = values[-2:]
    assert keys[-2:] == torch.Size((S, E)), (
        "expected one key per value, as large as the query"
    )
    return 2 * R * H * T * S * (E + Ev)
