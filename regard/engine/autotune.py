"""What was measured on this machine once, and need not be again: how many threads, how many rows."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.engine.native import folders, processor

__all__ = ["cached", "fastest"]

FILE = "tuning.json"
ROUNDS = 5
CLEARLY = 0.93
"""A later choice must take at most so much of the time of an earlier one."""


def cached(what: str, measure: Callable[[], Any]) -> Any:
    """What `measure` found on this machine before, or finds now. Where nothing can be kept, it is measured anew."""
    key = hashlib.sha256(f"{what}\0{processor()}\0{os.cpu_count()}".encode()).hexdigest()[:16]
    places = [folder / FILE for folder in folders()]
    for path in places:
        known = _read(path)
        if key in known:
            return known[key]
    found = measure()
    for path in places:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f"{FILE}.{os.getpid()}")
            beside.write_text(json.dumps({**_read(path), key: found}), encoding="utf-8")
            beside.replace(path)
            break
    return found


def fastest(choices: Sequence[int], run: Callable[[int], float]) -> int:
    """The choice of least cost, `run(choice)` being its seconds for the same work; the earlier where they are close.

    The choices take turns, and the median of the rounds counts: others may use the machine meanwhile.
    """
    taken: dict[int, list[float]] = {choice: [] for choice in choices}
    for choice in choices:
        run(choice)
    for _ in range(ROUNDS):
        for choice in choices:
            taken[choice].append(run(choice))
    best = choices[0]
    for choice in choices[1:]:
        if statistics.median(taken[choice]) < CLEARLY * statistics.median(taken[best]):
            best = choice
    return best


def seconds(run: Callable[[], object]) -> float:
    """How long it takes."""
    before = time.perf_counter()
    run()
    return time.perf_counter() - before


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        known = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(known, dict):
            return known
    return {}
