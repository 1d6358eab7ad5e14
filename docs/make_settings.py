"""Write docs/settings.md: every setting of a recipe, with its default and meaning, from the
settings classes.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from regard.common.plugins import Registry
from regard.common.settings import Settings, nested_settings
from regard.training import Recipe

HEAD = """# Every setting of a recipe

Set one with `--set key=value`, or write it into a TOML file: `regard train recipe.toml --out RUN`. The defaults are
those of the classes; a preset changes some. If a table has a `kind`, its settings are those of that kind, named in
brackets. A list is written as in TOML: `--set 'model.encoder.depths=[2, 2]'`; a switch is `true` or `false`.

```toml
preset = "transformer-small"   # the starting point; everything else overrides it
[data]
source = "train.ko"            # `regard sample .` writes it and its like
target = "train.en"
[[data.mix]]                   # another corpus
pairs = "web.tsv"
weight = 0.3                   # data.source has 1
[training]
minutes = 35
```

This page is written by `python docs/make_settings.py`.

| key | default | meaning |
|---|---|---|
"""


GUIDES = {
    "score": ("formulas", "models.md#attention-and-its-scores"),
    "order": ("formulas", "models.md#recurrent-with-attention"),
    "context": ("formulas", "models.md#recurrent-without-attention"),
}
"""Settings of encoders and decoders, by the last part of their key, and where a guide has their
formulas.
"""


def rows(kind: type[Settings], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield key, default and meaning of every setting, with nested tables; a table of several kinds
    once per kind.
    """
    for name, field in kind.model_fields.items():
        nested = list(nested_settings(field))
        if not nested:
            yield prefix + name, _default(field.default), _meaning(field)
        for inner in nested:
            tag = (
                inner.model_fields["kind"].default
                if "kind" in inner.model_fields and len(nested) > 1
                else None
            )
            for key, default, meaning in rows(inner, f"{prefix}{name}."):
                yield key, default, f"({tag}) {meaning}" if tag else meaning


def text() -> str:
    """Return the whole page."""
    lines = [
        f"| `{key}` | {default} | {meaning.replace('|', chr(92) + '|')}{_guide(key)} |"
        for key, default, meaning in rows(Recipe)
    ]
    return HEAD + "\n".join(lines) + "\n"


def _guide(key: str) -> str:
    """Return a link to the formulas of a setting of the model."""
    name = key.rpartition(".")[2]
    return (
        ": [{}]({})".format(*GUIDES[name])
        if key.startswith("model.") and name in GUIDES
        else ""
    )


def _default(value: Any) -> str:
    if value is PydanticUndefined or value is None:
        return "none"
    if isinstance(value, tuple):
        value = list(value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _meaning(field: FieldInfo) -> str:
    """Return the description of a setting, with its choices if it is a literal."""
    registries = [item for item in field.metadata if isinstance(item, Registry)]
    choices = [f"`{choice}`" for choice in _choices(field.annotation)]
    choices += [f"`{name}`" for registry in registries for name in registry.names]
    allowed = f"one of {', '.join(choices)}"
    if field.description:
        return (
            f"{field.description} ({allowed})"
            if len(choices) > 1
            else field.description
        )
    return allowed


def _choices(annotation: Any) -> Iterator[str]:
    """Yield the strings of the literals in an annotation."""
    if typing.get_origin(annotation) is typing.Literal:
        yield from (
            choice for choice in typing.get_args(annotation) if isinstance(choice, str)
        )
    else:
        for part in typing.get_args(annotation):
            yield from _choices(part)


if __name__ == "__main__":
    Path(__file__).with_name("settings.md").write_text(text(), encoding="utf-8")
