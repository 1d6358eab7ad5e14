"""The strict, frozen base of every configuration, and the ways to read one: TOML, and `--set key=value`."""

from __future__ import annotations

import difflib
import sys
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import pydantic

from regard.errors import ConfigurationError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

__all__ = ["Settings", "merge", "override", "read_toml"]

S = TypeVar("S", bound="Settings")


class Settings(pydantic.BaseModel):
    """A configuration object: it cannot change, and an unknown key is an error that names the nearest known one."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())

    @classmethod
    def parse(cls: type[S], values: Mapping[str, Any], where: str) -> S:
        """Check `values` read from `where`. Raises ConfigurationError with every cause at once."""
        try:
            return cls.model_validate(dict(values))
        except pydantic.ValidationError as problem:
            raise ConfigurationError(*_causes(cls, problem, where)) from None

    def with_values(self: S, **values: Any) -> S:
        """A copy with some fields replaced, checked like the original."""
        return type(self).parse({**self.model_dump(), **values}, type(self).__name__)


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises ConfigurationError when it is missing or is not TOML."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as problem:
        raise ConfigurationError(f"{path}: cannot be read ({problem.strerror}); give the path of a TOML file") from None
    except UnicodeDecodeError as problem:
        raise ConfigurationError(f"{path}: not UTF-8 at byte {problem.start}; save the file as UTF-8") from None
    except tomllib.TOMLDecodeError as problem:
        raise ConfigurationError(f"{path}: not valid TOML: {problem}") from None


def override(values: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """`values` with each `dotted.key=value` of the command line put in; a value is read as TOML, else as plain text."""
    result = dict(values)
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigurationError(f"--set {assignment}: wanted key=value, such as --set batching.tokens=2048")
        nested: Any = _value(text.strip())
        for part in reversed(key.strip().split(".")):
            nested = {part: nested}
        result = merge(result, nested)
    return result


def merge(base: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables in one: where both name a key, `above` wins. Where both name a `kind`, and not the same, the table
    below says nothing about the other kind, and is replaced whole.
    """
    result = dict(base)
    for key, value in above.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping) and not _other_kind(old, value):
            result[key] = merge(cast(Mapping[str, Any], old), value)
        else:
            result[key] = value
    return result


def _other_kind(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return "kind" in old and "kind" in new and old["kind"] != new["kind"]


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def _causes(cls: type[Settings], problem: pydantic.ValidationError, where: str) -> list[str]:
    known = sorted(set(_keys(cls)))
    parts = {part for key in known for part in key.split(".")}
    causes = []
    for error in problem.errors():
        *above, last = [str(part) for part in error["loc"]] or [""]
        # A table with a `kind` has that kind in its path; nobody wrote it there.
        path = [part for part in above if part in parts]
        path += [last] if last in parts or error["type"] == "extra_forbidden" else []
        key = ".".join(path)
        if error["type"] == "extra_forbidden":
            if key in known:
                table = key.rpartition(".")[0]
                causes.append(
                    f"{where}: {key} is a setting of another kind of {table}; leave it out, or set {table}.kind"
                )
            else:
                causes.append(f"{where}: unknown setting {key!r}{_nearest(key, known)}")
        elif error["type"] == "value_error":
            message = error["msg"].removeprefix("Value error, ")
            causes.append(f"{where}: {key + ': ' if key else ''}{message}")
        else:
            message = error["msg"][0].lower() + error["msg"][1:]
            causes.append(f"{where}: {key}: {message}, got {error.get('input')!r}")
    return causes


def _nearest(key: str, known: list[str]) -> str:
    """The known keys most like this one: the whole path is compared, then the last word alone."""
    last = key.rsplit(".", 1)[-1]
    by_last = {name.rsplit(".", 1)[-1]: name for name in reversed(known)}
    near = difflib.get_close_matches(key, known, 1, 0.75)
    near = near or [by_last[name] for name in difflib.get_close_matches(last, by_last, 1, 0.6)]
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"


def _keys(cls: type[Settings], prefix: str = "") -> Iterable[str]:
    for name, field in cls.model_fields.items():
        yield prefix + name
        for nested in _nested(field.annotation):
            yield from _keys(nested, f"{prefix}{name}.")


def _nested(annotation: Any) -> Iterable[type[Settings]]:
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _nested(part)
