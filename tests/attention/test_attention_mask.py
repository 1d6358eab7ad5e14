"""The attention mask equals a loop over queries and entries."""

import itertools

import pytest
import torch

from regard.attention import Memory
from regard.attention.attention import attention_mask


def memory(entries: int, keep: torch.Tensor | None) -> Memory:
    zeros = torch.zeros(2, 1, entries, 1)
    return Memory(zeros, zeros, keep)


def is_visible(
    s: int, position: int, causal: bool, window: int | None, keep: list[bool]
) -> bool:
    """Return whether a query at entry `position` may attend to entry s; masked entries do not count
    as distance.
    """
    if not keep[s] or (causal and s > position):
        return False

    first = min(s, position)
    last = max(s, position)
    distance = sum(keep[first + 1 : last + 1])
    return window is None or distance <= window


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("window", [None, 0, 3])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("T", "S"), [(1, 0), (1, 4), (2, 5), (5, 5), (5, 9)])
def test_mask_equals_a_loop_over_queries_and_entries(
    T: int, S: int, causal: bool, window: int | None, masked: bool
) -> None:
    keep = torch.rand(2, S) < 0.6 if masked else None
    mask = attention_mask(memory(S, keep), T, causal, window)
    visible = torch.ones(2, 1, T, S, dtype=torch.bool)
    if mask is not None:
        visible = mask.expand(2, 1, T, S)

    for r, t, s in itertools.product(range(2), range(T), range(S)):
        row = [True] * S if keep is None else keep[r].tolist()
        # The last query is at the last entry.
        expected = is_visible(s, S - T + t, causal, window, row)
        assert bool(visible[r, 0, t, s]) == expected, (r, t, s)


def test_mask_is_none_if_all_entries_are_visible() -> None:
    assert attention_mask(memory(5, None), 3, causal=False) is None
    assert attention_mask(memory(5, None), 1, causal=True) is None, (
        "one query, the last"
    )
