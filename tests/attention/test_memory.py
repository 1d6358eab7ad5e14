"""Memories: rows are selected and joined, entries appended, and the originals stay as they are."""

import pytest
import torch

from regard.attention import Memory


def memory(rows: int, entries: int, keep: bool = True, seed: int = 0) -> Memory:
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(rows, 2, entries, 3, generator=generator)
    values = torch.randn(rows, 2, entries, 5, generator=generator)
    mask = torch.rand(rows, entries, generator=generator) < 0.6 if keep else None
    return Memory(keys, values, mask)


def same(a: Memory, b: Memory) -> bool:
    keeps = (a.keep is None) == (b.keep is None) and (
        a.keep is None or b.keep is None or torch.equal(a.keep, b.keep)
    )
    return keeps and torch.equal(a.keys, b.keys) and torch.equal(a.values, b.values)


def visible_entries(m: Memory, row: int) -> list[tuple[list[list[float]], list[list[float]]]]:
    """List the visible entries of a row in order: all that attention depends on."""
    keep = [True] * m.entries if m.keep is None else m.keep[row].tolist()
    return [
        (m.keys[row, :, s].tolist(), m.values[row, :, s].tolist())
        for s in range(m.entries)
        if keep[s]
    ]


def test_memory_has_rows_and_entries() -> None:
    assert (memory(4, 7).rows, memory(4, 7).entries) == (4, 7)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 0], [1, 1, 1, 0], []])
def test_selecting_repeats_reorders_and_drops_rows(keep: bool, rows: list[int]) -> None:
    full = memory(3, 4, keep)
    selected = full.select(torch.tensor(rows, dtype=torch.int64))
    assert selected.rows == len(rows)
    assert (selected.keep is None) == (not keep)
    assert [visible_entries(selected, i) for i in range(len(rows))] == [
        visible_entries(full, row) for row in rows
    ]


@pytest.mark.parametrize("keep", [True, False])
def test_two_selections_equal_their_composition(keep: bool) -> None:
    full = memory(4, 3, keep)
    first = torch.tensor([3, 1, 1, 0])
    second = torch.tensor([2, 0, 3])
    assert same(full.select(first).select(second), full.select(first[second]))


@pytest.mark.parametrize("keep", [True, False])
def test_appended_entries_come_last_and_are_visible(keep: bool) -> None:
    old = memory(3, 4, keep)
    new = memory(3, 2, keep=False, seed=1)
    longer = old.append(new.keys, new.values)
    assert longer.entries == 6
    assert [visible_entries(longer, row) for row in range(3)] == [
        visible_entries(old, row) + visible_entries(new, row) for row in range(3)
    ]


def test_appending_entry_by_entry_equals_appending_at_once() -> None:
    old = memory(3, 4)
    new = memory(3, 5, keep=False, seed=1)
    step_by_step = old
    for s in range(5):
        step_by_step = step_by_step.append(new.keys[:, :, s : s + 1], new.values[:, :, s : s + 1])
    assert same(step_by_step, old.append(new.keys, new.values))


@pytest.mark.parametrize("keep", [True, False])
def test_appending_to_an_empty_memory_gives_the_appended_entries(keep: bool) -> None:
    new = memory(3, 2, keep=False)
    assert same(memory(3, 0, keep).append(new.keys, new.values), new)


@pytest.mark.parametrize("first", [(2, 4, True), (2, 4, False), (1, 0, False), (3, 1, True)])
@pytest.mark.parametrize(
    "second", [(1, 2, False), (1, 7, True), (2, 4, False), (2, 4, True), (1, 0, False)]
)
def test_joined_rows_keep_their_visible_entries(
    first: tuple[int, int, bool], second: tuple[int, int, bool]
) -> None:
    a = memory(*first, seed=1)
    b = memory(*second, seed=2)
    joined = a.join(b)
    assert (joined.rows, joined.entries) == (a.rows + b.rows, max(a.entries, b.entries))
    separate = [visible_entries(a, row) for row in range(a.rows)] + [
        visible_entries(b, row) for row in range(b.rows)
    ]
    assert [visible_entries(joined, row) for row in range(joined.rows)] == separate


def test_joining_unmasked_memories_of_one_length_needs_no_mask() -> None:
    assert memory(2, 4, keep=False).join(memory(1, 4, keep=False)).keep is None


def test_joining_is_associative() -> None:
    a = memory(1, 2, keep=False)
    b = memory(2, 5, seed=1)
    c = memory(1, 3, keep=False, seed=2)
    assert same(a.join(b).join(c), a.join(b.join(c)))


def test_selecting_from_joined_memories_restores_both() -> None:
    a = memory(2, 3)
    b = memory(2, 3, seed=1)
    joined = a.join(b)
    assert same(joined.select(torch.tensor([0, 1])), a)
    assert same(joined.select(torch.tensor([2, 3])), b)


def test_join_pads_with_zeros() -> None:
    joined = memory(1, 2, keep=False).join(memory(1, 4, keep=False, seed=1))
    assert joined.keys[0, :, 2:].abs().max() == joined.values[0, :, 2:].abs().max() == 0


def test_memories_are_not_modified_by_operations() -> None:
    a = memory(2, 3)
    b = memory(2, 5, seed=1)
    before = [memory(2, 3), memory(2, 5, seed=1)]
    longer = a.append(torch.ones(2, 2, 1, 3), torch.ones(2, 2, 1, 5))
    joined = a.join(b)
    selected = a.select(torch.tensor([1, 0]))
    for result in (longer, joined, selected):
        result.keys.zero_()
        result.values.zero_()
    assert same(a, before[0])
    assert same(b, before[1])
