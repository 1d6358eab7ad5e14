"""The attention mask equals a loop over queries and entries."""

import itertools

import pytest
import torch

from regard.attention import Memory
from regard.attention.attention import attention_mask


def memory(entries: int, keep: torch.Tensor | None) -> Memory:
    rows = 2 if keep is None else keep.shape[0]
    return Memory(torch.zeros(rows, 1, entries, 1), torch.zeros(rows, 1, entries, 1), keep)


def may_be_read(s: int, here: int, causal: bool, window: int | None, keep: list[bool]) -> bool:
    """Whether a query that stands at entry `here` may; what is hidden stands between nobody."""
    between = sum(keep[min(s, here) + 1 : max(s, here) + 1])
    return keep[s] and not (causal and s > here) and (window is None or between <= window)


CASES = [(T, S) for T, S in itertools.product((1, 2, 4, 5), (0, 1, 4, 5, 9)) if S >= T or T == 1]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("window", [None, 0, 1, 3])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("T", "S"), CASES)
def test_what_is_visible(T: int, S: int, causal: bool, window: int | None, masked: bool) -> None:
    keep = torch.rand(2, S) < 0.6 if masked else None
    found = attention_mask(memory(S, keep), T, causal, window)
    shown = torch.ones(2, 1, T, S, dtype=torch.bool) if found is None else found.expand(2, 1, T, S)
    for r, t, s in itertools.product(range(2), range(T), range(S)):
        row = [True] * S if keep is None else keep[r].tolist()
        wanted = may_be_read(s, S - T + t, causal, window, row)  # the newest query stands at the newest entry
        assert bool(shown[r, 0, t, s]) == wanted, (r, t, s)


def test_no_mask_where_everything_may_be_read() -> None:
    assert attention_mask(memory(5, None), 3, causal=False) is None
    assert attention_mask(memory(5, None), 1, causal=True) is None, "one query, the newest, sees all"
