"""What the import hook of the tests checks calls with."""

import sys
from collections.abc import Callable
from typing import Any, runtime_checkable

from beartype import beartype
from beartype.roar import BeartypeDecorHintPep3119Exception

UNCHECKED = {"regard.attention.watch.active_recorders"}  # it returns mappings, and beartype looks into mappings


def checked(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call` with its annotations checked by beartype.

    Protocols are for mypy; only here does anybody ask for an instance of one, so only here are they made ready for it.
    """
    if f"{call.__module__}.{call.__qualname__}" in UNCHECKED:
        return call
    try:
        return beartype(call)
    except BeartypeDecorHintPep3119Exception:
        for value in vars(sys.modules[call.__module__]).values():
            if getattr(value, "_is_protocol", False):
                runtime_checkable(value)
        return beartype(call)
