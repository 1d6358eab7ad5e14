"""A heatmap, or curves, as a file: the name's suffix says which kind, and the file appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from regard.errors import UsageError
from regard.visualisation.curves import Curves, curves_page, layout_curves
from regard.visualisation.figures import draw_png, draw_svg
from regard.visualisation.heatmap import Alignment, layout
from regard.visualisation.layout import Picture
from regard.visualisation.page import Meta, page
from regard.visualisation.story import Story

__all__ = ["SUFFIXES", "save", "write"]

SUFFIXES = (".svg", ".png", ".html")


Drawable: TypeAlias = Alignment | Story | Curves | Sequence[Alignment]


def save(told: Drawable, path: str | os.PathLike[str], meta: Meta | None = None) -> Path:
    """Write a picture as .svg, .png or .html; of several heatmaps, a still shows the first, a page lets one choose.

    A story is written as a page.
    """
    path = Path(path)
    write(path, _drawn(told, path, meta))
    return path


def _drawn(told: Drawable, path: Path, meta: Meta | None) -> bytes:
    suffix = path.suffix.lower()
    kinds = (".html",) if isinstance(told, Story) else SUFFIXES
    if suffix not in kinds:
        wanted = " or ".join(filter(None, [", ".join(kinds[:-1]), kinds[-1]]))
        raise UsageError(f"a picture is written as {wanted}; got {path.name!r}")
    if isinstance(told, Curves):
        return curves_page(told).encode() if suffix == ".html" else _still(layout_curves(told), suffix)
    if isinstance(told, Story) or suffix == ".html":
        return page([told] if isinstance(told, Alignment) else told, meta).encode()
    readings = [told] if isinstance(told, Alignment) else list(told)
    if not readings:
        raise UsageError("there is no alignment to save")
    return _still(layout(readings[0]), suffix)


def _still(picture: Picture, suffix: str) -> bytes:
    return draw_svg(picture).encode() if suffix == ".svg" else draw_png(picture)


def write(path: Path, content: bytes) -> None:
    """Write beside, then rename over."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink()
