"""Graphs and drawings on narrow screens: graphs of experiments have a narrow version, whose text
has the same size as on wide ones; drawings of the notes that are too wide are marked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

GRAPH = re.compile(r"^!\[(.*)\]\((.*/lab/[\w-]+)\.svg\)$", re.MULTILINE)
DRAWING = re.compile(r"^!\[.*\]\((.*/notes/[\w-]+\.svg)\)$", re.MULTILINE)
WIDTH = re.compile(r'<svg[^>]* width="(\d+)')
NARROW = 350
"""Pixels that a drawing has on a phone of 400."""


def add(app: Any, docname: str, source: list[str]) -> None:
    """Put the narrow graph beside each wide one, of which the style sheet shows one, and mark wide
    drawings, which scroll on narrow screens.
    """
    folder = Path(app.env.doc2path(docname)).parent

    def marked(image: re.Match[str]) -> str:
        drawing = (folder / image[1]).read_text(encoding="utf-8")
        width = WIDTH.search(drawing)
        is_wide = width is not None and int(width[1]) > NARROW
        return image[0] + "{.wide-drawing}" * is_wide

    text = GRAPH.sub(
        r"![\1](\2.svg){.wide-graph}\n![\1](\2-narrow.svg){.narrow-graph}", source[0]
    )
    source[0] = DRAWING.sub(marked, text)
