"""JSON as text: parts of it may be text already, so that attention weights are written once and never parsed."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True)
class RawJson:
    """A value that is JSON text already."""

    text: str


def to_json(content: Any) -> str:
    """Write JSON without escapes for letters; NaN and infinities become null."""
    mark, raw = secrets.token_hex(16), list[str]()

    def note(value: Any) -> str:
        if not isinstance(value, RawJson):
            raise TypeError(f"no JSON: {type(value).__name__}")
        raw.append(value.text)
        return mark

    options: dict[str, Any] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":"), "default": note}
    try:
        text = json.dumps(content, **options)
    except ValueError:
        raw.clear()
        text = json.dumps(_finite(content), **options)
    first, *rest = text.split(f'"{mark}"') if raw else [text]
    return "".join([first, *(part for pair in zip(raw, rest, strict=True) for part in pair)])


def weights_json(weights: Any, digits: int = 5) -> str:
    """Write an array of numbers from 0 to 1, as lists in lists, with so many digits after the point."""
    import numpy as np  # late, as in regard.runtime.model

    def nested(rows: Any) -> str:
        return f"[{','.join(rows.tolist() if rows.ndim == 1 else map(nested, rows))}]"

    return nested(_texts(digits)[np.nan_to_num(weights * 10**digits).round().clip(0, 10**digits).astype(np.int32)])


@cache
def _texts(digits: int) -> Any:
    import numpy as np

    return np.array([repr(round(number / 10**digits, digits)) for number in range(10**digits + 1)], object)


def _finite(content: Any) -> Any:
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    return content
