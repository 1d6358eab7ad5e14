"""Work on as many items of a list as a time allows."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

LEAST = 20
"""Items that are worked on whatever time that takes."""


def sample_within(
    seconds: float,
    items: Sequence[Item],
    work: Callable[[list[Item]], list[Result]],
    most: int | None = None,
) -> tuple[list[int], list[Result]]:
    """Return the numbers, in order, of the items that `work` came to in this time, and its results.

    The items, at most so many, are drawn at random. They are given to `work` in portions, of which
    each is as large as all before and as the pace so far allows.
    """
    order = random.Random(0).sample(
        range(len(items)), min(most or len(items), len(items))
    )
    results = list[Result]()
    began = time.monotonic()
    size = LEAST
    while size > 0 and len(results) < len(order):
        numbers = order[len(results) : len(results) + size]
        results += work([items[number] for number in numbers])
        spent = time.monotonic() - began
        size = min(
            len(results), int((seconds - spent) / max(spent, 1e-9) * len(results))
        )
    done = sorted(zip(order, results, strict=False), key=lambda entry: entry[0])
    return [number for number, _ in done], [result for _, result in done]
