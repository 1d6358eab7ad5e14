"""How many pairs each split of a corpus shall have."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from regard.errors import UsageError

__all__ = ["checked_sizes"]


def checked_sizes(defaults: Mapping[str, int], sizes: Mapping[str, int] | None) -> dict[str, int]:
    """The default sizes with `sizes` in place of some. Raises UsageError for unknown splits and negative sizes."""
    causes = []
    for name, size in (sizes or {}).items():
        if name not in defaults:
            near = difflib.get_close_matches(name, defaults, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(defaults)}"
            causes.append(f"sizes: unknown split {name!r}; {hint}")
        elif size < 0:
            causes.append(f"sizes: {name} wanted 0 or more, got {size}")
    if causes:
        raise UsageError(*causes)
    return {**defaults, **(sizes or {})}
