"""Check the types of arguments of public functions, with an error for each wrong one.

A `Kind` checks one argument; in an annotation of a request (`regard.common.requests`) it is the
validator of the field.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any

MAX_THREADS = 1024
# Largest lengths of a file name and of a path in file systems, in bytes.
_MAX_NAME = 255
_MAX_PATH = 4096


@dataclass(frozen=True)
class Kind:
    """A kind of argument: its name in messages, and the test of a value."""

    words: str
    holds: Callable[[Any], bool]

    def problem(self, value: object) -> str:
        """Return the problem with a value, or an empty string."""
        return (
            "" if self.holds(value) else f"wanted {self.words}, got {describe(value)}"
        )

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> object:
        """Return the schema of a field whose annotation has this kind."""
        # The fast start of `regard translate` needs kinds, but no requests.
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self._validated)

    def _validated(self, value: object) -> object:
        if problem := self.problem(value):
            raise ValueError(problem)
        return value


def _is_path(value: object) -> bool:
    """Return whether a value may be a path: a text or path object, not empty, without NUL, not too
    long.
    """
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else b""
    if not isinstance(path, str) or not path or "\0" in path:
        return False
    encoded = path.encode("utf-8", "replace")
    return len(encoded) <= _MAX_PATH and all(
        len(name) <= _MAX_NAME for name in encoded.split(b"/")
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool) or (
        type(value).__module__ == "numpy" and str(value) in ("True", "False")
    )


PATH = Kind("a path", _is_path)
TEXT = Kind("a text", lambda value: isinstance(value, str))
WHOLE = Kind("a whole number", _is_whole)
NUMBER = Kind(
    "a number", lambda value: isinstance(value, Real) and not isinstance(value, bool)
)
FLAG = Kind("True or False", _is_flag)
TABLE = Kind("a dictionary", lambda value: isinstance(value, Mapping))
FUNCTION = Kind("a function", callable)
THREADS = Kind(
    f"a number of threads, from 1 to {MAX_THREADS:,}",
    lambda value: _is_whole(value) and 1 <= value <= MAX_THREADS,
)

PathField = Annotated[str | Path, PATH]
"""A path in this file system; a data file may also be the address of one."""
TextField = Annotated[str, TEXT]
WholeField = Annotated[int, WHOLE]
NumberField = Annotated[float, NUMBER]
FlagField = Annotated[bool, FLAG]
ThreadsField = Annotated[int, THREADS]
TableField = Annotated[Mapping[str, Any], TABLE]
Report = Annotated[Callable[[str, dict[str, Any]], None], FUNCTION]
"""A function that is called with the name and the values of each event of a run."""


def problems_of_types(
    kind: Kind, arguments: Mapping[str, object], optional: bool = False
) -> list[str]:
    """Return an error for each argument that is not of this kind; `optional` ones may be None."""
    return [
        f"`{name}=`: {kind.problem(value)}"
        for name, value in arguments.items()
        if not (kind.holds(value) or (optional and value is None))
    ]


def describe(value: object) -> str:
    """Describe an object in a few words: its beginning and type, or the size of a collection."""
    name = type(value).__name__
    if value is None:
        return "None"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{name} of shape {tuple(shape)}"
    if isinstance(value, (list, tuple, set, frozenset, Mapping)):
        return f"a {name} of {len(value)}"
    return excerpt(value)


def excerpt(value: object) -> str:
    """Return the representation of an object, shortened, with its type."""
    name = type(value).__name__
    try:
        return f"{value!r:.40} ({name})"
    except Exception:  # a user-defined object may raise any exception
        return f"an object ({name})"
