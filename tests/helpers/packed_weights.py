"""Read packed attention, as docs/visualisation.md describes it."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np


def unpacked_weights(layer: dict[str, Any]) -> np.ndarray:
    """Return the weights (heads, rows, columns) of a packed layer."""
    content = zlib.decompress(base64.b64decode(layer["weights"]))
    numbers = np.frombuffer(content, np.uint8).astype(int)
    if layer["steps"] > 255:
        low, high = np.split(numbers, 2)
        numbers = low + 256 * high
    shape = layer["heads"], layer["rows"], layer["columns"]
    return numbers.reshape(shape) / layer["steps"]
