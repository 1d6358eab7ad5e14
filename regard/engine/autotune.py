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

from regard.reading import parse_json
from regard.runtime.native import LEVEL, processor
from regard.runtime.private_cache import private_folders, read_private, write_private

FILE = "tuning.json"
ROUNDS = 5
CLEARLY = 0.93
"""A later choice must take at most this share of the time of an earlier one."""
_MAX_BYTES, _MAX_CHOICE = 1 << 20, 1 << 16


def cached(measurement: str, choices: Sequence[int], measure: Callable[[], int]) -> int:
    """Return the choice that this machine measured before, or measure it now and cache it if possible.

    A cached value that is none of the choices is measured again.
    """
    machine = f"{processor()}\0{os.environ.get(LEVEL, '')}\0{os.cpu_count()}"
    key = hashlib.sha256(f"{measurement}\0{machine}".encode()).hexdigest()[:16]
    paths = [folder / FILE for folder in private_folders()]
    for path in paths:
        known = _read(path).get(key)
        if known is not None and known in choices:
            return known
    result = measure()
    for path in paths:
        with suppress(OSError):
            write_private(path, json.dumps({**_read(path), key: result}).encode())
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


def _read(path: Path) -> dict[str, int]:
    """Read the cached choices; what is no choice of a measurement is left out."""
    content = read_private(path, _MAX_BYTES)
    with suppress(ValueError):  # UTF-8, JSON, digits, nesting
        values = parse_json(content or b"{}")
        if isinstance(values, dict):
            return {key: value for key, value in values.items() if type(value) is int and 0 <= value <= _MAX_CHOICE}
    return {}
