"""A heatmap, or curves, as a file: the name's suffix says which kind, and the file appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from regard.errors import UsageError
from regard.visualisation.animation import draw_gif, draw_moving_svg
from regard.visualisation.charts import Chart, layout_chart
from regard.visualisation.curves import Curves, curves_page, layout_curves, picture_page
from regard.visualisation.explanation_data import ExplanationData
from regard.visualisation.heads import Heads, layout_heads
from regard.visualisation.heatmap import Alignment, layout_heatmap
from regard.visualisation.layout import Figure
from regard.visualisation.overlay import Overlay, layout_overlay
from regard.visualisation.page import Meta, render_page
from regard.visualisation.player import layout_frames
from regard.visualisation.rendering import draw_png, draw_svg

__all__ = ["MOVING", "SUFFIXES", "save", "write"]

SUFFIXES = (".svg", ".png", ".html")
MOVING = (".html", ".gif", ".svg")  # what a story is written as


Drawable: TypeAlias = Alignment | ExplanationData | Curves | Chart | Heads | Overlay | Figure | Sequence[Alignment]


def save(told: Drawable, path: str | os.PathLike[str], meta: Meta | None = None) -> Path:
    """Write a picture as .svg, .png or .html; of several heatmaps, a still shows the first, a page lets one choose.

    A story is written as a page, or as its player: .gif, or .svg that moves.
    """
    path = Path(path)
    write(path, _drawn(told, path, meta))
    return path


def _drawn(told: Drawable, path: Path, meta: Meta | None) -> bytes:
    suffix = path.suffix.lower()
    kinds = MOVING if isinstance(told, ExplanationData) else SUFFIXES
    if suffix not in kinds:
        wanted = " or ".join(filter(None, [", ".join(kinds[:-1]), kinds[-1]]))
        raise UsageError(f"a picture is written as {wanted}; got {path.name!r}")
    if isinstance(told, Curves):
        return curves_page(told).encode() if suffix == ".html" else _still(layout_curves(told), suffix)
    if isinstance(told, (Chart, Overlay, Figure)):
        picture = _laid_out(told)
        return picture_page(picture).encode() if suffix == ".html" else _still(picture, suffix)
    if isinstance(told, Heads):
        return render_page(told.heads, meta).encode() if suffix == ".html" else _still(layout_heads(told), suffix)
    if isinstance(told, ExplanationData) and suffix == ".gif":
        return draw_gif(layout_frames(told))
    if isinstance(told, ExplanationData) and suffix == ".svg":
        return draw_moving_svg(layout_frames(told)).encode()
    if isinstance(told, ExplanationData) or suffix == ".html":
        return render_page([told] if isinstance(told, Alignment) else told, meta).encode()
    readings = [told] if isinstance(told, Alignment) else list(told)
    if not readings:
        raise UsageError("there is no alignment to save")
    return _still(layout_heatmap(readings[0]), suffix)


def _laid_out(told: Chart | Overlay | Figure) -> Figure:
    if isinstance(told, Figure):
        return told
    return layout_chart(told) if isinstance(told, Chart) else layout_overlay(told)


def _still(picture: Figure, suffix: str) -> bytes:
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
