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

    If there are several alignments, an HTML page lets the reader choose one; SVG and PNG show the
    first. Raises UsageError for any other suffix, and if the file cannot be written.
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
    """Return the content of the file; its suffix chooses the format."""
    suffix = path.suffix.lower()
    is_explanation = isinstance(drawable, ExplanationData)
    suffixes = EXPLANATION_SUFFIXES if is_explanation else SUFFIXES
    if suffix not in suffixes:
        raise UsageError(
            f"a figure is written as {', '.join(suffixes[:-1])} or {suffixes[-1]}; got "
            f"{path.name!r}"
        )

    if isinstance(drawable, ExplanationData):
        if suffix == ".html":
            return render_page(drawable, meta).encode()
        frames = layout_frames(drawable)
        _warn_of_missing_glyphs(frames, path)
        if suffix == ".gif":
            return draw_gif(frames)
        return draw_animated_svg(frames).encode()

    if isinstance(drawable, Alignment):
        drawable = [drawable]
    if isinstance(drawable, Heads | Sequence) and suffix == ".html":
        alignments = drawable.heads if isinstance(drawable, Heads) else drawable
        return render_page(alignments, meta).encode()

    figure = _layout(drawable)
    if suffix == ".html":
        table = drawable.table if isinstance(drawable, Chart) else ""
        return draw_html(figure, table).encode()
    _warn_of_missing_glyphs([figure], path)
    return draw_svg(figure).encode() if suffix == ".svg" else draw_png(figure)


def _warn_of_missing_glyphs(figures: Sequence[Figure], path: Path) -> None:
    """Warn of characters that the font of PNG and GIF lacks; they are drawn as boxes.

    SVG and HTML fall back on the fonts of the reader's machine, so they need no warning.
    """
    if path.suffix.lower() == ".svg":
        return
    texts = "".join(
        mark.text
        for figure in figures
        for mark in figure.marks()
        if isinstance(mark, Text)
    )
    characters = dict.fromkeys(texts)
    missing = [c for c in characters if drawable(c) == MISSING_GLYPH]
    if missing:
        warnings.warn(
            f"{path}: the font of PNG and GIF lacks {' '.join(missing):.60}; write .svg or .html",
            stacklevel=4,
        )


LAYOUTS: Any = {
    Chart: layout_chart,
    HeadArcs: layout_head_arcs,
    Heads: layout_heads,
    Overlay: layout_overlay,
}


def _layout(drawable: Any) -> Figure:
    if isinstance(drawable, Figure):
        return drawable
    if isinstance(drawable, Sequence):
        if not drawable:
            raise UsageError("there is no alignment to save")
        return layout_heatmap(drawable[0])
    figure: Figure = LAYOUTS[type(drawable)](drawable)
    return figure
