"""Writes docs/settings.md: every setting of a recipe with its default and meaning, from the classes themselves."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from regard.settings import Settings
from regard.training import Recipe

HEAD = """# Every setting of a recipe

Set one with `--set key=value`, or write it into a TOML file: `regard train recipe.toml --out RUN`. The defaults are
those of the classes; a preset changes some. Where a table has a `kind`, its settings are those of that kind.
This page is written by `python docs/make_settings.py`.

| key | default | meaning |
|---|---|---|
"""


def rows(kind: type[Settings], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Key, default and meaning of every setting, tables opened; a table of several kinds once for each."""
    for name, field in kind.model_fields.items():
        nested = list(_nested(field.annotation))
        if not nested:
            yield prefix + name, _default(field.default), field.description or _choices(field.annotation)
        for inner in nested:
            tag = inner.model_fields["kind"].default if "kind" in inner.model_fields and len(nested) > 1 else None
            for key, default, meaning in rows(inner, f"{prefix}{name}."):
                yield key, default, f"({tag}) {meaning}" if tag else meaning


def text() -> str:
    """The whole page."""
    lines = [
        f"| `{key}` | {default} | {meaning.replace('|', chr(92) + '|')} |" for key, default, meaning in rows(Recipe)
    ]
    return HEAD + "\n".join(lines) + "\n"


def _default(value: Any) -> str:
    if value is PydanticUndefined or value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _choices(annotation: Any) -> str:
    return "one of " + ", ".join(f"`{choice}`" for choice in typing.get_args(annotation))


def _nested(annotation: Any) -> Iterator[type[Settings]]:
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _nested(part)


if __name__ == "__main__":
    Path(__file__).with_name("settings.md").write_text(text(), encoding="utf-8")
