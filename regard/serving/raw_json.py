"""JSON in pieces: parts of it may be text already, so that attention weights are written once and never parsed."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

_TOGETHER, _SCALE = 4096, 10**5
"""Weights that are converted at once, for which other threads wait for Python's lock; and of what they are parts."""


@dataclass(frozen=True)
class RawJson:
    """A value that is JSON text already, in UTF-8. Its pieces may be made while they are read, once."""

    pieces: Iterable[bytes]


def json_pieces(content: Any) -> Iterator[bytes]:
    """Write JSON without escapes for letters; NaN and infinities become null, halves of characters question marks."""
    mark = secrets.token_hex(16)
    try:
        text, raw = split_raw(content, lambda _: mark, allow_nan=False)
    except ValueError:
        text, raw = split_raw(_finite(content), lambda _: mark, allow_nan=False)
    first, *rest = text.split(f'"{mark}"'.encode())
    yield first
    for value, after in zip(raw, rest, strict=True):
        yield from value.pieces
        yield after


def split_raw(content: Any, stands_for: Callable[[int], Any], **options: Any) -> tuple[bytes, list[RawJson]]:
    """Write JSON in UTF-8 with something else for each value that is text already; return these, too."""
    raw = list[RawJson]()

    def note(value: Any) -> Any:
        if not isinstance(value, RawJson):
            raise TypeError(f"no JSON: {type(value).__name__}")
        raw.append(value)
        return stands_for(len(raw) - 1)

    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=note, **options)
    return text.encode("utf-8", "replace"), raw


def array_pieces(items: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """Write a list of items that are JSON text already."""
    before = b"["
    for pieces in items:
        yield before
        yield from pieces
        before = b","
    yield b"]" if before == b"," else b"[]"


def weights_json(weights: Any) -> Iterator[bytes]:
    """Write an array of numbers from 0 to 1, as lists in lists, with five digits after the point."""
    import numpy as np  # late, as in regard.runtime.model

    if weights.ndim > 2:
        yield from array_pieces(weights_json(rows) for rows in weights)
        return
    step = max(1, _TOGETHER // (weights.shape[1] if weights.ndim > 1 else 1))
    yield b"["
    for start in range(0, len(weights), step):
        numbers = np.nan_to_num(weights[start : start + step] * _SCALE).round().clip(0, _SCALE)
        texts = _texts()[numbers.astype(np.int32)].tolist()
        rows = texts if weights.ndim == 1 else [f"[{','.join(row)}]" for row in texts]
        yield (("," if start else "") + ",".join(rows)).encode()
    yield b"]"


@cache
def _texts() -> Any:
    import numpy as np

    return np.array([repr(round(number / _SCALE, 5)) for number in range(_SCALE + 1)], object)


def _finite(content: Any) -> Any:
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    return content
