"""Detect monkey patches: attributes of a class that were replaced, added or removed after its
definition.

A class that is decorated with `as_defined` is compared with its state at that time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

C = TypeVar("C", bound=type)

_DEFINITIONS: dict[type, dict[str, object]] = {}


def as_defined(cls: C) -> C:
    """Record the attributes of a class. As a decorator, it runs before anything can be patched."""
    _DEFINITIONS[cls] = dict(vars(cls))
    return cls


def has_definition(cls: type) -> bool:
    """Return whether a class itself, not only a base class, was decorated with `as_defined`."""
    return cls in _DEFINITIONS


def are_as_defined(classes: Iterable[type]) -> bool:
    """Return whether decorated classes have the attributes that they were defined with."""
    # Every call of a translator checks this, so the loops run in C.
    return [*map(vars, classes)] == [*map(_DEFINITIONS.__getitem__, classes)]


def find_patch(classes: Iterable[type]) -> str | None:
    """Return the name of an attribute of decorated classes that was patched, such as
    `Attention.forward`.
    """
    for cls in classes:
        current = vars(cls)
        defined = _DEFINITIONS[cls]
        for name in sorted({*current, *defined}):
            exists = name in current and name in defined
            if not exists or current[name] is not defined[name]:
                return f"{cls.__name__}.{name}"
    return None
