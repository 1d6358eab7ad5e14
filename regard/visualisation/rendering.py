"""Render a laid-out figure as SVG (written by hand), PNG (drawn by Pillow) or a static HTML
page.
"""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from xml.sax.saxutils import escape

from markupsafe import Markup
from PIL import Image, ImageDraw

from regard.common.errors import UsageError
from regard.visualisation.colours import THEMES, Theme, colour
from regard.visualisation.figure import Box, Figure, Group, Mark, Polyline, Raster, Text
from regard.visualisation.fonts import drawable, face, load
from regard.visualisation.html import STACK
from regard.visualisation.template import make_page
from regard.visualisation.text import is_korean

MAX_PIXELS = 50_000_000  # a larger PNG is drawn at a smaller scale
SUPERSAMPLING = 4  # factor, for smooth edges of lines
_HINT = re.compile(r"><title>[^<]*</title></rect>")
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def draw_svg(figure: Figure, styled: bool = True) -> str:
    """Render a figure as an SVG document, light or dark like the reader's system, with hints as
    tooltips.

    `styled`: embed colours and glyphs; False for figures in a page with the rules of
    `html.paint_rules`.
    """
    style = svg_style(figure.marks()) if styled else ""
    return svg_document(
        figure, [*figure.marks()], style, [svg_group(group) for group in figure.groups]
    )


def without_hints(svg: str) -> str:
    """Remove the hints of boxes, which a page that shows the SVG as an image never shows."""
    return _HINT.sub("/>", svg)


def draw_panels(figures: Iterable[Figure]) -> Iterator[str]:
    """Render figures for one page as SVG; what several of them show is defined in the first."""
    defined = set[str]()
    for figure in figures:
        rasters = {
            _raster_name(mark): mark
            for mark in figure.marks()
            if isinstance(mark, Raster)
        }
        new = [mark for name, mark in rasters.items() if name not in defined]
        defined |= rasters.keys()
        yield svg_document(figure, new, "", [*map(svg_group, figure.groups)])


def svg_document(
    figure: Figure, marks: Sequence[Mark], style: str, groups: Sequence[str]
) -> str:
    """Return an SVG document with the size, title and description of a figure, and with rendered
    `groups`, which hold these marks.
    """
    size = (
        f'width="{figure.width}" height="{figure.height}" viewBox="0 0 {figure.width} '
        f'{figure.height}"'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
            f"<title>{escape(figure.title)}</title>",
            f"<desc>{escape(figure.description)}</desc>",
            *([f"<style>{style}</style>"] if style else []),
            *_svg_rasters(marks),
            *groups,
            "</svg>\n",
        ]
    )


def svg_group(group: Group) -> str:
    """Render a group as a `g` element; empty texts are left out."""
    marks = [
        _svg_mark(mark)
        for mark in group.marks
        if not (isinstance(mark, Text) and not mark.text)
    ]
    crisp = (
        ' shape-rendering="crispEdges"'
        if any(isinstance(mark, Box) for mark in group.marks)
        else ""
    )
    return "\n".join([f'<g class="{group.name}"{crisp}>', *marks, "</g>"])


def _svg_rasters(marks: Iterable[Mark]) -> list[str]:
    """Return the definitions of all rasters, to which marks refer by name; a raster that occurs
    several times is defined once.
    """
    rasters = {_raster_name(mark): mark for mark in marks if isinstance(mark, Raster)}
    definitions = [_svg_image(name, raster) for name, raster in rasters.items()]
    return ["<defs>", *definitions, "</defs>"] if definitions else []


def _svg_image(name: str, raster: Raster) -> str:
    kind = "png" if raster.content.startswith(b"\x89PNG") else "jpeg"
    data = base64.b64encode(raster.content).decode("ascii")
    size = f'width="{_n(raster.width)}" height="{_n(raster.height)}" preserveAspectRatio="none"'
    sharp = ' image-rendering="pixelated"' if raster.pixelated else ""
    return f'<image id="{name}" {size}{sharp} href="data:image/{kind};base64,{data}"/>'


def _raster_name(raster: Raster) -> str:
    """Return a name that depends only on the pixels and the size of a raster."""
    size = f"{raster.width} {raster.height} {raster.pixelated}".encode()
    return "p" + blake2b(raster.content + size, digest_size=8).hexdigest()


def _svg_mark(mark: Mark) -> str:
    hint = f"<title>{escape(mark.hint)}</title>" if mark.hint else ""
    if isinstance(mark, Text):
        return _svg_text(mark, hint)
    if isinstance(mark, Raster):
        position = f'href="#{_raster_name(mark)}" x="{_n(mark.x)}" y="{_n(mark.y)}"'
        return _svg_element("use", position, hint)
    return _svg_box(mark, hint) if isinstance(mark, Box) else _svg_line(mark, hint)


def _svg_element(name: str, attributes: str, content: str) -> str:
    if not content:
        return f"<{name} {attributes}/>"
    return f"<{name} {attributes}>{content}</{name}>"


def _svg_box(box: Box, hint: str) -> str:
    inset = box.outline / 2
    position = f'x="{_n(box.x + inset)}" y="{_n(box.y + inset)}"'
    size = (
        f'width="{_n(box.width - box.outline)}" height="{_n(box.height - box.outline)}"'
    )
    stroke = f' stroke-width="{_n(box.outline)}"' if box.outline else ""
    attributes = f'class="{_css_class(box)}" {position} {size}{stroke}'
    return _svg_element("rect", attributes, hint)


def _svg_line(line: Polyline, hint: str) -> str:
    points = " ".join(f"{_n(x)},{_n(y)}" for x, y in line.points)
    attributes = f'class="{_css_class(line)}" points="{points}"'
    if not line.width:
        return _svg_element("polygon", attributes, hint)
    attributes += f' stroke-width="{_n(line.width)}"'
    return _svg_element("polyline", attributes, hint)


def _svg_text(text: Text, hint: str) -> str:
    x = _n(text.x)
    y = _n(text.y)
    turn = f' transform="rotate({_n(-text.turn)} {x} {y})"' if text.turn else ""
    anchor = f' text-anchor="{text.anchor}"' if text.anchor != "start" else ""
    lang = ' lang="ko" xml:lang="ko"' if is_korean(text.text) else ""
    style = f'font-size="{_n(text.size)}"{anchor}{turn}{lang}'
    return f'<text class="{text.paint}" x="{x}" y="{y}" {style}>{escape(text.text)}{hint}</text>'


def _n(number: float) -> str:
    """Format a coordinate with at most two decimal places."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _css_class(mark: Box | Polyline | Text) -> str:
    is_stroke = (isinstance(mark, Box) and mark.outline) or (
        isinstance(mark, Polyline) and mark.width
    )
    return f"{mark.paint}-line" if is_stroke else mark.paint


def svg_style(marks: Iterable[Mark]) -> str:
    """Return the CSS for the paints and glyphs of these marks, in a light and a dark theme
    (`prefers-color-scheme`).
    """
    drawn = [mark for mark in marks if not isinstance(mark, Raster)]
    classes = sorted({_css_class(mark) for mark in drawn})
    light, dark = (
        "".join(_css_rule(name, theme) for name in classes) for theme in THEMES
    )
    letters = {
        letter for mark in drawn if isinstance(mark, Text) for letter in mark.text
    }
    glyphs = face("".join(sorted(letters)))
    return (
        f"{glyphs}text{{font-family:{STACK}}}{light}@media screen and "
        f"(prefers-color-scheme:dark){{{dark}}}"
    )


def _css_rule(name: str, theme: Theme) -> str:
    if name.endswith("-line"):
        return (
            f".{name}{{fill:none;stroke:{colour(name.removesuffix('-line'), theme)}}}"
        )
    return f".{name}{{fill:{colour(name, theme)}}}"


def draw_html(figure: Figure, text: str = "") -> str:
    """Render a figure as a page that needs no network, with preformatted text below it."""
    return make_page(
        "regard.visualisation",
        "figure.html",
        title=figure.title,
        svg=Markup(draw_svg(figure)),
        text=text,
    )


def draw_png(figure: Figure, scale: int | float = 2, theme: Theme = "light") -> bytes:
    """Render a figure as a PNG file with the bundled font, at `scale` pixels per unit and at most
    MAX_PIXELS in all.
    """
    image, scale = rasterise(figure, scale, theme)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True, dpi=(96 * scale, 96 * scale))
    return file.getvalue()


def rasterise(
    figure: Figure, scale: int | float, theme: Theme
) -> tuple[Image.Image, float]:
    """Draw a figure in pixels; return the image and its scale, which is reduced if the image would
    have more than MAX_PIXELS.
    """
    if not scale > 0:
        raise UsageError(f"the scale of a figure must be above zero; got {scale}")
    scale = min(float(scale), math.sqrt(MAX_PIXELS / (figure.width * figure.height)))
    size = round(figure.width * scale), round(figure.height * scale)
    image = Image.new("RGB", size, colour("paper", theme))
    draw = ImageDraw.Draw(image)
    for mark in figure.marks():
        if isinstance(mark, Box):
            _png_box(draw, mark, scale, theme)
        elif isinstance(mark, Polyline):
            _png_line(draw, mark, scale, theme)
        elif isinstance(mark, Raster):
            _png_raster(image, mark, scale)
        else:
            _png_text(draw, mark, scale, theme)
    return image, scale


def _png_box(draw: ImageDraw.ImageDraw, box: Box, scale: float, theme: Theme) -> None:
    left = round(box.x * scale)
    top = round(box.y * scale)
    right = round((box.x + box.width) * scale) - 1
    bottom = round((box.y + box.height) * scale) - 1
    corners = (left, top, max(left, right), max(top, bottom))
    paint = colour(box.paint, theme)
    if box.outline:
        width = max(1, round(box.outline * scale))
        draw.rectangle(corners, outline=paint, width=width)
    else:
        draw.rectangle(corners, fill=paint)


def _png_line(
    draw: ImageDraw.ImageDraw, line: Polyline, scale: float, theme: Theme
) -> None:
    """Draw a line on a supersampled mask, which is then reduced, so that its edges are smooth."""
    edge = (line.width + 1) * scale
    xs = [x * scale for x, _ in line.points]
    ys = [y * scale for _, y in line.points]
    left = math.floor(min(xs) - edge)
    top = math.floor(min(ys) - edge)
    right = math.ceil(max(xs) + edge)
    bottom = math.ceil(max(ys) + edge)
    size = ((right - left) * SUPERSAMPLING, (bottom - top) * SUPERSAMPLING)
    mask = Image.new("L", size)
    points = [
        ((x - left) * SUPERSAMPLING, (y - top) * SUPERSAMPLING)
        for x, y in zip(xs, ys, strict=True)
    ]
    if line.width:
        width = max(1, round(line.width * scale * SUPERSAMPLING))
        ImageDraw.Draw(mask).line(points, 255, width, joint="curve")
    else:
        ImageDraw.Draw(mask).polygon(points, 255)
    draw.bitmap((left, top), mask.reduce(SUPERSAMPLING), colour(line.paint, theme))


def _png_raster(image: Image.Image, raster: Raster, scale: float) -> None:
    left = round(raster.x * scale)
    top = round(raster.y * scale)
    right = round((raster.x + raster.width) * scale)
    bottom = round((raster.y + raster.height) * scale)
    size = max(1, right - left), max(1, bottom - top)
    resampling = (
        Image.Resampling.NEAREST if raster.pixelated else Image.Resampling.BICUBIC
    )
    with Image.open(io.BytesIO(raster.content)) as content:
        resized = content.convert("RGBA").resize(size, resampling)
    image.paste(resized, (left, top), resized)


def _png_text(
    draw: ImageDraw.ImageDraw, text: Text, scale: float, theme: Theme
) -> None:
    fill = colour(text.paint, theme)
    x = text.x * scale
    y = text.y * scale
    if not text.turn:
        draw.text(
            (x, y),
            drawable(text.text),
            fill,
            load(text.size * scale),
            _ANCHORS[text.anchor],
        )
        return
    mask, across, down = _rotated(text, scale)
    draw.bitmap((round(x - across), round(y - down)), mask, fill)


def _rotated(text: Text, scale: float) -> tuple[Image.Image, float, float]:
    """Return a rotated text as a mask, and the position of its anchor in the mask.

    The text is drawn at twice its size and reduced, so that its edges are smooth.
    """
    font = load(2 * text.size * scale)
    letters = drawable(text.text)
    left, top, right, bottom = font.getbbox(letters, anchor=_ANCHORS[text.anchor])
    width = math.ceil(right - left) + 4
    height = math.ceil(bottom - top) + 4
    straight = Image.new("L", (width, height))
    anchor = 2 - left, 2 - top
    ImageDraw.Draw(straight).text(anchor, letters, 255, font, _ANCHORS[text.anchor])
    rotated = straight.rotate(text.turn, Image.Resampling.BICUBIC, expand=True)
    cos = math.cos(math.radians(text.turn))
    sin = math.sin(math.radians(text.turn))
    along = anchor[0] - width / 2
    below = anchor[1] - height / 2
    across = rotated.width / 2 + along * cos + below * sin
    down = rotated.height / 2 - along * sin + below * cos
    return rotated.reduce(2), across / 2, down / 2
