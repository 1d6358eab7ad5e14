"""Attention visualisation: heatmaps, all heads of a layer, overlays on images, charts, animations
and HTML pages.

Data pass through in this order: plain data (`Alignment`, `Heads`, `Overlay`, `Chart`,
`ExplanationData`) are laid out (`layout_*`) as a `Figure` of boxes, lines and texts, which is
rendered as SVG, PNG, GIF or HTML; `save` does it all. The interactive page (`render_page`) gets its
data as JSON (`page_data`). Nothing here knows a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.common.lazy import lazy_names

if TYPE_CHECKING:
    from regard.visualisation.charts import Chart, Panel, Series
    from regard.visualisation.explanation_data import ExplanationData, page_data
    from regard.visualisation.explanation_page import Meta, render_page
    from regard.visualisation.figure import Figure
    from regard.visualisation.head_grid import Heads
    from regard.visualisation.heatmap import Alignment, layout_heatmap
    from regard.visualisation.overlay import Overlay, SourceImage
    from regard.visualisation.rendering import draw_png, draw_svg
    from regard.visualisation.saving import save

__all__ = [
    "Alignment",
    "Chart",
    "ExplanationData",
    "Figure",
    "Heads",
    "Meta",
    "Overlay",
    "Panel",
    "Series",
    "SourceImage",
    "draw_png",
    "draw_svg",
    "layout_heatmap",
    "page_data",
    "render_page",
    "save",
]

_MODULES = {
    "charts": ("Chart", "Panel", "Series"),
    "explanation_data": ("ExplanationData", "page_data"),
    "figure": ("Figure",),
    "head_grid": ("Heads",),
    "heatmap": ("Alignment", "layout_heatmap"),
    "overlay": ("Overlay", "SourceImage"),
    "explanation_page": ("Meta", "render_page"),
    "rendering": ("draw_png", "draw_svg"),
    "saving": ("save",),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
