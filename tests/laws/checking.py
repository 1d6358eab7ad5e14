"""Checks of annotations by beartype, for the import hook of the tests."""

import sys
from collections.abc import Callable
from typing import Any, runtime_checkable

from beartype import beartype
from beartype.roar import BeartypeDecorHintPep3119Exception

# Returns mappings, whose contents beartype inspects.
UNCHECKED = {"regard.attention.recorder.active_recorders"}


def checked(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `call` so that beartype checks its annotations.

    Protocols are written for mypy; they are made checkable at run time only here, where beartype
    asks for instances.
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
