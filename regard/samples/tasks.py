"""Copying and reversing: the smallest tasks whose alignment is known, for a first look at any model."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from regard.errors import UsageError
from regard.samples.pairs import AlignedPair, Sample
from regard.samples.sizes import checked_sizes

__all__ = ["TASK_SIZES", "copy_task", "reverse_task"]

TASK_SIZES = {"train": 8000, "valid": 200, "test": 200}
MOST_SYMBOLS = 260


def copy_task(
    seed: int = 1, sizes: Mapping[str, int] | None = None, symbols: int = 20, length: tuple[int, int] = (2, 12)
) -> Sample:
    """Sentences of random words such as "a7" that are to be said again: the links run down the diagonal."""
    return _task(lambda size: range(size), seed, sizes, symbols, length)


def reverse_task(
    seed: int = 1, sizes: Mapping[str, int] | None = None, symbols: int = 20, length: tuple[int, int] = (2, 12)
) -> Sample:
    """Sentences of random words such as "a7" that are to be said backwards: the links run up the other diagonal."""
    return _task(lambda size: range(size - 1, -1, -1), seed, sizes, symbols, length)


def _task(
    order: Callable[[int], range], seed: int, sizes: Mapping[str, int] | None, symbols: int, length: tuple[int, int]
) -> Sample:
    """Distinct random sentences; word j of the target is word order(size)[j] of the source."""
    wanted = checked_sizes(TASK_SIZES, sizes)
    _check(wanted, symbols, length)
    words = [f"{'abcdefghijklmnopqrstuvwxyz'[i // 10]}{i % 10}" for i in range(symbols)]
    rng = random.Random(seed)
    seen: dict[tuple[str, ...], None] = {}
    while len(seen) < sum(wanted.values()):
        seen[tuple(rng.choices(words, k=rng.randint(*length)))] = None
    pairs = iter([_pair(source, order(len(source))) for source in seen])
    # The largest split last: it is the one that can do with what is left of the short sentences.
    drawn = {name: tuple(next(pairs) for _ in range(wanted[name])) for name in sorted(wanted, key=lambda n: wanted[n])}
    return Sample({name: drawn[name] for name in wanted})


def _pair(source: tuple[str, ...], order: range) -> AlignedPair:
    target = " ".join(source[i] for i in order)
    return AlignedPair(" ".join(source), target, tuple(sorted((i, j) for j, i in enumerate(order))))


def _check(wanted: Mapping[str, int], symbols: int, length: tuple[int, int]) -> None:
    if not 1 <= symbols <= MOST_SYMBOLS:
        raise UsageError(f"symbols: wanted 1 to {MOST_SYMBOLS}, got {symbols}")
    if not 1 <= length[0] <= length[1]:
        raise UsageError(f"length: wanted (shortest, longest) with 1 <= shortest <= longest, got {length}")
    # Drawing goes on until all are distinct, and would be slow close to the end of what there is.
    possible = sum(symbols**size for size in range(length[0], length[1] + 1))
    asked = sum(wanted.values())
    if 2 * asked > possible:
        raise UsageError(
            f"sizes: {asked} sentences are too many of the {possible} that {symbols} symbols make at length "
            f"{length[0]} to {length[1]}; ask for at most {possible // 2}, or for more symbols or length"
        )
