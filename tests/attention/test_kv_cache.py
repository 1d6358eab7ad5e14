"""Memories: rows are selected and joined, entries appended, and the originals stay as they are."""

import pytest
import torch

from regard.attention import Memory

Entry = tuple[list[list[float]], list[list[float]]]


def memory(rows: int, entries: int, keep: bool = True, seed: int = 0) -> Memory:
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(rows, 2, entries, 3, generator=generator)
    values = torch.randn(rows, 2, entries, 5, generator=generator)
    mask = torch.rand(rows, entries, generator=generator) < 0.6 if keep else None
    return Memory(keys, values, mask)


def visible_entries(m: Memory) -> list[list[Entry]]:
    """List the visible entries of each row in order: all that attention depends on."""
    rows = []
    for row in range(m.rows):
        keep = [True] * m.entries if m.keep is None else m.keep[row].tolist()
        rows.append(
            [
                (m.keys[row, :, s].tolist(), m.values[row, :, s].tolist())
                for s in range(m.entries)
                if keep[s]
            ]
        )
    return rows


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("rows", [[2, 0], [1, 1, 1, 0], []])
def test_selecting_repeats_reorders_and_drops_rows(keep: bool, rows: list[int]) -> None:
    full = memory(3, 4, keep)
    selected = full.select(torch.tensor(rows, dtype=torch.int64))
    assert selected.rows == len(rows)
    assert (selected.keep is None) == (not keep)
    everything = visible_entries(full)
    assert visible_entries(selected) == [everything[row] for row in rows]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("entries", [0, 4])
def test_appended_entries_come_last_and_are_visible(keep: bool, entries: int) -> None:
    old = memory(3, entries, keep)
    new = memory(3, 2, keep=False, seed=1)
    longer = old.append(new.keys, new.values)
    assert longer.entries == entries + 2
    pairs = zip(visible_entries(old), visible_entries(new), strict=True)
    assert visible_entries(longer) == [first + second for first, second in pairs]


@pytest.mark.parametrize("first", [(2, 4, True), (2, 4, False), (1, 0, False)])
@pytest.mark.parametrize("second", [(1, 2, False), (1, 7, True), (2, 4, False)])
def test_joined_rows_keep_their_visible_entries(
    first: tuple[int, int, bool], second: tuple[int, int, bool]
) -> None:
    a = memory(*first, seed=1)
    b = memory(*second, seed=2)
    joined = a.join(b)
    assert (joined.rows, joined.entries) == (a.rows + b.rows, max(a.entries, b.entries))
    assert visible_entries(joined) == visible_entries(a) + visible_entries(b)
    needs_no_mask = a.keep is None and b.keep is None and a.entries == b.entries
    assert (joined.keep is None) == needs_no_mask


def test_join_pads_with_zeros() -> None:
    joined = memory(1, 2, keep=False).join(memory(1, 4, keep=False, seed=1))
    assert not joined.keys[0, :, 2:].any()
    assert not joined.values[0, :, 2:].any()


def test_memories_are_not_modified_by_operations() -> None:
    a = memory(2, 3)
    b = memory(2, 5, seed=1)
    longer = a.append(torch.ones(2, 2, 1, 3), torch.ones(2, 2, 1, 5))
    for result in (longer, a.join(b), a.select(torch.tensor([1, 0]))):
        result.keys.zero_()
        result.values.zero_()
    assert visible_entries(a) == visible_entries(memory(2, 3))
    assert visible_entries(b) == visible_entries(memory(2, 5, seed=1))
