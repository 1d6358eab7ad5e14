"""Drawings on screens that are narrower than they are: many have a narrow version, whose text has
the same size; others are at least so wide that their text can be read, and scroll.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

DRAWING = re.compile(r"^!\[(.*)\]\(([\w./-]*images/[\w/-]+)\.svg\)$", re.MULTILINE)
WIDTH = re.compile(r'<svg[^>]* width="([\d.]+)')
EXTENT = re.compile(r'<svg[^>]* width="(\d+)[^"]*" height="(\d+)')
IMAGE = re.compile(r'<img (alt="[^"]*"[^>]* src="([^"]*)")')
TYPE = re.compile(r'font-size[=:]\s*"?([\d.]+)')
PHONE, COLUMN = 368, 736
"""Pixels that a drawing has on a phone of 400, and on a wide screen."""
SCROLLS = re.compile(r'<p>(?=<img [^>]*class="(?:wide-drawing|[^"]*\bwider-drawing))')
"""Begins a paragraph whose drawing is wider than a phone, or than the column."""
SMALLEST = 9.5
"""Pixels of the smallest text, such as that of an index; up to a tenth less where widths are
rounded.
"""
REM, STEP = 16, 4
"""Pixels of a rem, and rems between the classes `least-N` of the style sheet."""


def add(app: Any, docname: str, source: list[str]) -> None:
    """Put the narrow drawing beside each wide one that has one: the style sheet shows one of them;
    and mark those that scroll on a phone, or everywhere.
    """
    folder = Path(app.env.doc2path(docname)).parent

    def marked(image: re.Match[str]) -> str:
        words, path = image.groups()
        wide = marks(folder / f"{path}.svg")
        if not (folder / f"{path}-narrow.svg").is_file():
            return image[0] + _attributes(wide)
        narrow = marks(folder / f"{path}-narrow.svg")
        return (
            f"{image[0]}{_attributes(['wide-graph', *wide])}\n"
            f"![{words}]({path}-narrow.svg){_attributes(['narrow-graph', *narrow])}"
        )

    source[0] = DRAWING.sub(marked, source[0])


def load_late(
    app: Any, _page: str, _template: str, context: dict[str, Any], _tree: Any
) -> None:
    """Leave room for drawings that are not loaded yet; those for narrow screens are loaded only
    where they are shown. All others are loaded at once, for a page may be printed unread. Let those
    that scroll take the focus.
    """
    paths = {name: Path(app.srcdir) / path for path, name in app.builder.images.items()}

    def measured(image: re.Match[str]) -> str:
        path = paths.get(image[2].rpartition("/")[2])
        if path is None:
            return image[0]
        late = 'loading="lazy" ' if "narrow-graph" in image[1] else ""
        return f"<img {late}{extent(path)}{image[1]}"

    body = IMAGE.sub(measured, context.get("body", ""))
    # What scrolls takes the focus, so that arrow keys can scroll it.
    context["body"] = SCROLLS.sub('<p tabindex="0">', body)


def extent(path: Path) -> str:
    """Return width and height of a drawing as attributes."""
    if path.suffix != ".svg" or not path.is_file():
        return ""
    size = EXTENT.search(path.read_text(encoding="utf-8"))
    return f'width="{size[1]}" height="{size[2]}" ' if size else ""


def marks(path: Path) -> list[str]:
    """Return the classes of a drawing whose smallest text could not be read on a phone, or in the
    column of a page.
    """
    drawing = path.read_text(encoding="utf-8")
    width = WIDTH.search(drawing)
    sizes = [float(size) for size in TYPE.findall(drawing)]
    if width is None or not sizes:
        return []
    least = min(float(width[1]), float(width[1]) * SMALLEST / min(sizes))
    if least <= PHONE:
        return []
    if COLUMN < least < 1.1 * COLUMN:
        least = COLUMN  # a little smaller rather than scrolled by a little
    rems = STEP * math.floor(least / (STEP * REM))
    is_wider = rems * REM > COLUMN
    return ["wide-drawing", f"least-{rems}", *["wider-drawing"] * is_wider]


def _attributes(classes: list[str]) -> str:
    return f"{{{' '.join(f'.{name}' for name in classes)}}}" if classes else ""
