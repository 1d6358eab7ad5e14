"""The algebra of memories: rows are selected and joined, entries appended, and nothing that was there changes."""

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
    keeps = (a.keep is None) == (b.keep is None) and (a.keep is None or b.keep is None or torch.equal(a.keep, b.keep))
    return keeps and torch.equal(a.keys, b.keys) and torch.equal(a.values, b.values)


def readable(one: Memory, row: int) -> list[tuple[list[list[float]], list[list[float]]]]:
    """The entries of a row that may be read, in order: all that a read can tell about it."""
    keep = [True] * one.entries if one.keep is None else one.keep[row].tolist()
    return [(one.keys[row, :, s].tolist(), one.values[row, :, s].tolist()) for s in range(one.entries) if keep[s]]


def test_sizes() -> None:
    assert (memory(4, 7).rows, memory(4, 7).entries) == (4, 7)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 0], [1, 1, 1, 0], []])
def test_selecting_repeats_reorders_and_drops_rows(keep: bool, rows: list[int]) -> None:
    whole = memory(3, 4, keep)
    some = whole.select(torch.tensor(rows, dtype=torch.int64))
    assert some.rows == len(rows)
    assert (some.keep is None) == (not keep)
    assert [readable(some, i) for i in range(len(rows))] == [readable(whole, row) for row in rows]


@pytest.mark.parametrize("keep", [True, False])
def test_selecting_twice_is_selecting_once(keep: bool) -> None:
    whole, first, then = memory(4, 3, keep), torch.tensor([3, 1, 1, 0]), torch.tensor([2, 0, 3])
    assert same(whole.select(first).select(then), whole.select(first[then]))


@pytest.mark.parametrize("keep", [True, False])
def test_appended_entries_stand_at_the_end_and_may_be_read(keep: bool) -> None:
    old, new = memory(3, 4, keep), memory(3, 2, keep=False, seed=1)
    longer = old.append(new.keys, new.values)
    assert longer.entries == 6
    assert [readable(longer, row) for row in range(3)] == [readable(old, row) + readable(new, row) for row in range(3)]


def test_appending_bit_by_bit_is_appending_at_once() -> None:
    old, new = memory(3, 4), memory(3, 5, keep=False, seed=1)
    step_by_step = old
    for s in range(5):
        step_by_step = step_by_step.append(new.keys[:, :, s : s + 1], new.values[:, :, s : s + 1])
    assert same(step_by_step, old.append(new.keys, new.values))


@pytest.mark.parametrize("keep", [True, False])
def test_appending_to_nothing(keep: bool) -> None:
    new = memory(3, 2, keep=False)
    assert same(memory(3, 0, keep).append(new.keys, new.values), new)


@pytest.mark.parametrize("mine", [(2, 4, True), (2, 4, False), (1, 0, False), (3, 1, True)])
@pytest.mark.parametrize("theirs", [(1, 2, False), (1, 7, True), (2, 4, False), (2, 4, True), (1, 0, False)])
def test_joined_rows_can_read_what_each_could_alone(mine: tuple[int, int, bool], theirs: tuple[int, int, bool]) -> None:
    a, b = memory(*mine, seed=1), memory(*theirs, seed=2)
    both = a.join(b)
    assert (both.rows, both.entries) == (a.rows + b.rows, max(a.entries, b.entries))
    alone = [readable(a, row) for row in range(a.rows)] + [readable(b, row) for row in range(b.rows)]
    assert [readable(both, row) for row in range(both.rows)] == alone


def test_joining_what_can_all_be_read_needs_no_mask() -> None:
    assert memory(2, 4, keep=False).join(memory(1, 4, keep=False)).keep is None


def test_joining_is_associative() -> None:
    a, b, c = memory(1, 2, keep=False), memory(2, 5, seed=1), memory(1, 3, keep=False, seed=2)
    assert same(a.join(b).join(c), a.join(b.join(c)))


def test_join_then_select_gives_each_back() -> None:
    a, b = memory(2, 3), memory(2, 3, seed=1)
    both = a.join(b)
    assert same(both.select(torch.tensor([0, 1])), a)
    assert same(both.select(torch.tensor([2, 3])), b)


def test_padding_is_zero_so_that_nothing_strange_can_be_read() -> None:
    both = memory(1, 2, keep=False).join(memory(1, 4, keep=False, seed=1))
    assert both.keys[0, :, 2:].abs().max() == both.values[0, :, 2:].abs().max() == 0


def test_the_memories_that_went_in_are_as_they_were() -> None:
    a, b = memory(2, 3), memory(2, 5, seed=1)
    before = [memory(2, 3), memory(2, 5, seed=1)]
    longer = a.append(torch.ones(2, 2, 1, 3), torch.ones(2, 2, 1, 5))
    joined = a.join(b)
    chosen = a.select(torch.tensor([1, 0]))
    for made in (longer, joined, chosen):
        made.keys.zero_()
        made.values.zero_()
    assert same(a, before[0])
    assert same(b, before[1])
