"""Copy and reverse tasks: the smallest data with a known alignment, to test any model."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from regard.errors import UsageError
from regard.samples.pairs import AlignedPair, Sample, checked_sizes

__all__ = ["TASK_SIZES", "copy_task", "reverse_task"]

TASK_SIZES = {"train": 8000, "valid": 200, "test": 200}
MAX_SYMBOLS = 260


def copy_task(
    seed: int = 1, sizes: Mapping[str, int] | None = None, symbols: int = 20, length: tuple[int, int] = (2, 12)
) -> Sample:
    """Generate sentences of random words such as "a7" to copy: the alignment is the diagonal."""
    return _task(lambda size: range(size), seed, sizes, symbols, length)


def reverse_task(
    seed: int = 1, sizes: Mapping[str, int] | None = None, symbols: int = 20, length: tuple[int, int] = (2, 12)
) -> Sample:
    """Generate sentences of random words such as "a7" to reverse: the alignment is the antidiagonal."""
    return _task(lambda size: range(size - 1, -1, -1), seed, sizes, symbols, length)


def _task(
    order: Callable[[int], range], seed: int, sizes: Mapping[str, int] | None, symbols: int, length: tuple[int, int]
) -> Sample:
    """Generate distinct random sentences; word j of the target is word order(size)[j] of the source."""
    split_sizes = checked_sizes(TASK_SIZES, sizes)
    _check(split_sizes, symbols, length)
    words = [f"{'abcdefghijklmnopqrstuvwxyz'[i // 10]}{i % 10}" for i in range(symbols)]
    rng = random.Random(seed)
    seen: dict[tuple[str, ...], None] = {}
    while len(seen) < sum(split_sizes.values()):
        seen[tuple(rng.choices(words, k=rng.randint(*length)))] = None
    pairs = iter([_pair(source, order(len(source))) for source in seen])
    # The largest split last: it can do with the few short sentences that remain.
    by_size = sorted(split_sizes, key=lambda name: split_sizes[name])
    splits = {name: tuple(next(pairs) for _ in range(split_sizes[name])) for name in by_size}
    return Sample({name: splits[name] for name in split_sizes})


def _pair(source: tuple[str, ...], order: range) -> AlignedPair:
    target = " ".join(source[i] for i in order)
    return AlignedPair(" ".join(source), target, tuple(sorted((i, j) for j, i in enumerate(order))))


def _check(sizes: Mapping[str, int], symbols: int, length: tuple[int, int]) -> None:
    if not 1 <= symbols <= MAX_SYMBOLS:
        raise UsageError(f"symbols: wanted 1 to {MAX_SYMBOLS}, got {symbols}")
    if not 1 <= length[0] <= length[1]:
        raise UsageError(f"length: wanted (shortest, longest) with 1 <= shortest <= longest, got {length}")
    # Sentences are drawn until all are distinct, which would be slow if nearly all possible ones were needed.
    possible = sum(symbols**size for size in range(length[0], length[1] + 1))
    total = sum(sizes.values())
    if 2 * total > possible:
        raise UsageError(
            f"sizes: {total} sentences are too many of the {possible} that {symbols} symbols make at length "
            f"{length[0]} to {length[1]}; ask for at most {possible // 2}, or for more symbols or length"
        )
