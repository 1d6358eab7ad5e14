"""Picture of a weight matrix: positive and negative numbers in two colours, as strong as they are far from zero."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

from regard.visualisation.colours import colour
from regard.visualisation.figure import MARGIN, Box, Figure, Group, Mark, Raster, Text, header_lines, make_figure
from regard.visualisation.fonts import measure
from regard.visualisation.language import words

SIDE, GAP, SIZE = 430.0, 34.0, 12.0  # pixels: the longest side of one matrix, between two, and of the text
COLUMNS = 2
POSITIVE, NEGATIVE = "s0", "s1"


def layout_weight_matrices(
    matrices: Sequence[np.ndarray], names: Sequence[str], axes: tuple[str, str], title: str
) -> Figure:
    """Draw matrices of one shape, of heads; `axes` name their rows and columns. Zero is the colour of the paper."""
    rows, columns = matrices[0].shape
    side = SIDE if len(matrices) == 1 else SIDE * 0.7
    width, height = side * columns / max(rows, columns), side * rows / max(rows, columns)
    largest = max(float(np.abs(matrix).max()) for matrix in matrices) or 1.0
    caption = f"{rows:,} × {columns:,} {words('weights; full colour, from zero:')} {largest:.3g}"
    left = MARGIN + measure(axes[0], SIZE) + 12
    across = min(COLUMNS, len(matrices))
    right = left + across * (width + GAP) - GAP + MARGIN
    header, header_height = header_lines(title, caption, max(right, 520.0) - 2 * MARGIN)
    top = MARGIN + header_height + 30
    groups = [Group("header", header), Group("scale", tuple(_scale(left, top - 22)))]
    for number, (matrix, name) in enumerate(zip(matrices, names, strict=True)):
        down, along = divmod(number, COLUMNS)
        x, y = left + along * (width + GAP), top + 26 + down * (height + 60)
        marks: list[Mark] = [
            Text(x, y - 8, name or f"{axes[1]} →", SIZE, "muted"),
            Raster(x, y, width, height, _image(matrix / largest), pixelated=True),
            Box(x - 1, y - 1, width + 2, height + 2, "rule", outline=1.0),
        ]
        if along == 0:
            marks.append(Text(x - 10, y + SIZE, axes[0], SIZE, "muted", "end"))
        groups.append(Group(f"matrix-{number + 1}", tuple(marks)))
    bottom = top + 26 + -(-len(matrices) // COLUMNS) * (height + 60) - 60 + MARGIN
    description = f"{title}. {caption}. {axes[0]}, {axes[1]} →"
    return make_figure(max(right, 520.0), bottom, groups, title, description)


def _scale(x: float, y: float) -> Iterator[Mark]:
    for name, paint in (("positive", POSITIVE), ("negative", NEGATIVE)):
        yield Box(x, y, 12.0, 12.0, paint)
        yield Text(x + 17, y + 10, words(name), SIZE, "muted")
        x += 17 + measure(words(name), SIZE) + 18


def _image(matrix: np.ndarray) -> bytes:
    """Return a PNG of one pixel per number: its sign as colour, its size, 0 to 1, as opacity."""
    pixels = np.zeros((*matrix.shape, 4), np.uint8)
    for paint, part in ((POSITIVE, matrix > 0), (NEGATIVE, matrix < 0)):
        code = colour(paint, "light")
        pixels[part, :3] = [int(code[i : i + 2], 16) for i in (1, 3, 5)]
    pixels[..., 3] = np.rint(np.clip(np.abs(matrix), 0, 1) * 255)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()
