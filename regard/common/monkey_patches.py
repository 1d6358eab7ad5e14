"""Monkey patches: attributes of a class that were replaced, added or removed after its definition.

A class that is decorated with `as_defined` is compared with itself as it was then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

C = TypeVar("C", bound=type)

_DEFINITIONS: dict[type, dict[str, object]] = {}


def as_defined(cls: C) -> C:
    """Keep the attributes of a class as they are now: a decorator, so that no patch can come before
    it.
    """
    _DEFINITIONS[cls] = dict(vars(cls))
    return cls


def has_definition(cls: type) -> bool:
    """Return whether a class, and not only one of its bases, was decorated with `as_defined`."""
    return cls in _DEFINITIONS


def are_as_defined(classes: Iterable[type]) -> bool:
    """Return whether decorated classes have the attributes that they were defined with."""
    # In one expression without a call of Python's for each: this is asked for each call of a
    # translator.
    return [*map(vars, classes)] == [*map(_DEFINITIONS.__getitem__, classes)]


def find_patch(classes: Iterable[type]) -> str | None:
    """Return the name of an attribute of decorated classes that was patched, such as
    `Attention.forward`.
    """
    for cls in classes:
        now = vars(cls)
        defined = _DEFINITIONS[cls]
        for name in sorted({*now, *defined}):
            if name not in now or name not in defined or now[name] is not defined[name]:
                return f"{cls.__name__}.{name}"
    return None
