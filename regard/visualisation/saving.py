"""Save heatmaps, charts, overlays and explanations as files; the suffix of the name chooses the
format.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from regard.common.atomic import atomic_file
from regard.common.errors import UsageError
from regard.visualisation.animation import draw_animated_svg, draw_gif
from regard.visualisation.charts import Chart, layout_chart
from regard.visualisation.explanation_data import ExplanationData
from regard.visualisation.explanation_page import Meta, render_page
from regard.visualisation.figure import Figure, Text
from regard.visualisation.fonts import MISSING_GLYPH, drawable
from regard.visualisation.head_arcs import HeadArcs, layout_head_arcs
from regard.visualisation.head_grid import Heads, layout_heads
from regard.visualisation.heatmap import Alignment, layout_heatmap
from regard.visualisation.overlay import Overlay, layout_overlay
from regard.visualisation.player import layout_frames
from regard.visualisation.rendering import draw_html, draw_png, draw_svg

SUFFIXES = (".svg", ".png", ".html")
EXPLANATION_SUFFIXES = (".html", ".gif", ".svg")

Drawable: TypeAlias = (
    Alignment
    | ExplanationData
    | Chart
    | HeadArcs
    | Heads
    | Overlay
    | Figure
    | Sequence[Alignment]
)


def save(
    drawable: Drawable, path: str | os.PathLike[str], meta: Meta | None = None
) -> Path:
    """Write a figure atomically as .svg, .png or .html, or an explanation as .html, .gif or
    animated .svg.

    Of several alignments, an HTML page lets the reader choose; SVG and PNG show the first. Raises
    UsageError for any other suffix, and if the file cannot be written.
    """
    path = Path(path)
    content = _render(drawable, path, meta)
    try:
        with atomic_file(path, durable=True) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _render(drawable: Drawable, path: Path, meta: Meta | None) -> bytes:
    suffix = path.suffix.lower()
    suffixes = (
        EXPLANATION_SUFFIXES if isinstance(drawable, ExplanationData) else SUFFIXES
    )
    if suffix not in suffixes:
        raise UsageError(
            f"a figure is written as {', '.join(suffixes[:-1])} or {suffixes[-1]}; got "
            f"{path.name!r}"
        )
    if isinstance(drawable, ExplanationData):
        if suffix == ".html":
            return render_page(drawable, meta).encode()
        frames = layout_frames(drawable)
        _warn_of_boxes(frames, path)
        return (
            draw_gif(frames) if suffix == ".gif" else draw_animated_svg(frames).encode()
        )
    if isinstance(drawable, Alignment):
        drawable = [drawable]
    if isinstance(drawable, Heads | Sequence) and suffix == ".html":
        return render_page(
            drawable.heads if isinstance(drawable, Heads) else drawable, meta
        ).encode()
    figure = _layout(drawable)
    if suffix == ".html":
        return draw_html(
            figure, drawable.table if isinstance(drawable, Chart) else ""
        ).encode()
    _warn_of_boxes([figure], path)
    return draw_svg(figure).encode() if suffix == ".svg" else draw_png(figure)


def _warn_of_boxes(figures: Sequence[Figure], path: Path) -> None:
    """Warn of characters that PNG and GIF show as boxes; others are drawn with the fonts of who
    looks at them.
    """
    texts = "".join(
        mark.text
        for figure in figures
        for mark in figure.marks()
        if isinstance(mark, Text)
    )
    boxed = " ".join(
        character
        for character in dict.fromkeys(texts)
        if drawable(character) == MISSING_GLYPH
    )
    if boxed and path.suffix.lower() != ".svg":
        warnings.warn(
            f"{path}: the font of PNG and GIF lacks {boxed:.60}; write .svg or .html",
            stacklevel=4,
        )


LAYOUTS: Any = {
    Chart: layout_chart,
    HeadArcs: layout_head_arcs,
    Heads: layout_heads,
    Overlay: layout_overlay,
}


def _layout(drawable: Any) -> Figure:
    if not isinstance(drawable, Figure | Sequence):
        figure: Figure = LAYOUTS[type(drawable)](drawable)
        return figure
    if not drawable:
        raise UsageError("there is no alignment to save")
    return drawable if isinstance(drawable, Figure) else layout_heatmap(drawable[0])
