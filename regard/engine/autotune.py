"""Autotuning: measure once per machine which number of threads or rows is fastest, and cache the result on disk."""

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

from regard.atomic import atomic_file
from regard.engine.native import cache_folders, processor

FILE = "tuning.json"
ROUNDS = 5
CLEARLY = 0.93
"""A later choice must take at most this share of the time of an earlier one."""


def cached(measurement: str, measure: Callable[[], Any]) -> Any:
    """Return the result of a measurement that this machine made before, or make it now and cache it if possible."""
    key = hashlib.sha256(f"{measurement}\0{processor()}\0{os.cpu_count()}".encode()).hexdigest()[:16]
    paths = [folder / FILE for folder in cache_folders()]
    for path in paths:
        known = _read(path)
        if key in known:
            return known[key]
    result = measure()
    for path in paths:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path, shared=True) as temporary:
                temporary.write_text(json.dumps({**_read(path), key: result}), encoding="utf-8")
            break
    return result


def fastest(choices: Sequence[int], run: Callable[[int], float]) -> int:
    """Return the choice of least `run(choice)`, its seconds for the same work; the earlier one if they are close.

    The choices take turns, and the median of the rounds counts: other programs may use the machine meanwhile.
    """
    times: dict[int, list[float]] = {choice: [] for choice in choices}
    for choice in choices:
        run(choice)
    for _ in range(ROUNDS):
        for choice in choices:
            times[choice].append(run(choice))
    best = choices[0]
    for choice in choices[1:]:
        if statistics.median(times[choice]) < CLEARLY * statistics.median(times[best]):
            best = choice
    return best


def seconds(run: Callable[[], object]) -> float:
    """Measure the wall-clock seconds of a call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        known = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(known, dict):
            return known
    return {}
