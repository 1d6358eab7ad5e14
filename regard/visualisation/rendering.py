"""A laid-out picture as SVG, by hand, and as PNG, by Pillow."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable
from hashlib import blake2b
from xml.sax.saxutils import escape, quoteattr

from PIL import Image, ImageDraw

from regard.errors import UsageError
from regard.visualisation.colours import THEMES, Theme, colour
from regard.visualisation.fonts import STACK, drawable, face, load
from regard.visualisation.heatmap import Alignment, layout_heatmap
from regard.visualisation.layout import Box, Figure, Group, Line, Mark, Photo, Text
from regard.visualisation.text import is_korean

__all__ = ["draw_png", "draw_svg", "paint", "png", "style_of", "svg", "svg_group", "svg_photos"]

MOST_PIXELS = 50_000_000  # a PNG past this is drawn at a smaller scale
FINER = 4  # times, where edges are to be smooth
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def svg(alignment: Alignment) -> str:
    """The heatmap as an SVG document: light or dark as the reader's system, weights on hover."""
    return draw_svg(layout_heatmap(alignment))


def png(alignment: Alignment, scale: int | float = 2, theme: Theme = "light") -> bytes:
    """The heatmap as a PNG file of `scale` pixels to the SVG's one; fewer where it would pass 50 million pixels."""
    return draw_png(layout_heatmap(alignment), scale, theme)


# --- SVG


def draw_svg(picture: Figure, inline: bool = False) -> str:
    """A picture as SVG; `inline` leaves style sheet and hints to a page and keeps texts that are empty."""
    size = f'width="{picture.width}" height="{picture.height}" viewBox="0 0 {picture.width} {picture.height}"'
    name = f" aria-label={quoteattr(picture.title)}" if inline else ' xmlns="http://www.w3.org/2000/svg"'
    return "\n".join(
        [
            f'<svg{name} role="img" {size}>',
            *([] if inline else [f"<title>{escape(picture.title)}</title>"]),  # a page has no use for its tooltip
            f"<desc>{escape(picture.description)}</desc>",
            *([] if inline else [f"<style>{style_of(picture)}</style>"]),
            *svg_photos(picture.marks()),
            *(svg_group(group, inline) for group in picture.groups),
            "</svg>\n",
        ]
    )


def svg_group(group: Group, inline: bool) -> str:
    drawn = [_svg_mark(mark, not inline) for mark in group.marks if inline or not _is_blank(mark)]
    crisp = ' shape-rendering="crispEdges"' if any(isinstance(mark, Box) for mark in group.marks) else ""
    return "\n".join([f'<g class="{group.name}"{crisp}>', *drawn, "</g>"])


def svg_photos(marks: Iterable[Mark]) -> list[str]:
    """The pixels of all photos, each once however often it is shown; marks refer to them."""
    photos = {_name(mark): mark for mark in marks if isinstance(mark, Photo)}
    drawn = [_svg_pixels(name, photo) for name, photo in photos.items()]
    return ["<defs>", *drawn, "</defs>"] if drawn else []


def _svg_pixels(name: str, photo: Photo) -> str:
    kind = "png" if photo.content.startswith(b"\x89PNG") else "jpeg"
    data = base64.b64encode(photo.content).decode("ascii")
    size = f'width="{_n(photo.width)}" height="{_n(photo.height)}" preserveAspectRatio="none"'
    sharp = ' style="image-rendering:pixelated"' if photo.cells else ""
    return f'<image id="{name}" {size}{sharp} href="data:image/{kind};base64,{data}"/>'


def _name(photo: Photo) -> str:
    """The same for the same pixels at the same size."""
    size = f"{photo.width} {photo.height} {photo.cells}".encode()
    return "p" + blake2b(photo.content + size, digest_size=8).hexdigest()


def _is_blank(mark: Mark) -> bool:
    return isinstance(mark, Text) and not mark.text


def _svg_mark(mark: Mark, with_hint: bool) -> str:
    hint = f"<title>{escape(mark.hint)}</title>" if with_hint and mark.hint else ""
    if isinstance(mark, Text):
        return _svg_text(mark, hint)
    if isinstance(mark, Photo):
        place = f'href="#{_name(mark)}" x="{_n(mark.x)}" y="{_n(mark.y)}"'
        return f"<use {place}" + (f">{hint}</use>" if hint else "/>")
    return _svg_box(mark, hint) if isinstance(mark, Box) else _svg_line(mark, hint)


def _svg_box(box: Box, hint: str) -> str:
    inset = box.outline / 2
    place = f'x="{_n(box.x + inset)}" y="{_n(box.y + inset)}"'
    size = f'width="{_n(box.width - box.outline)}" height="{_n(box.height - box.outline)}"'
    line = f' stroke-width="{_n(box.outline)}"' if box.outline else ""
    return f'<rect class="{_css_class(box)}" {place} {size}{line}' + (f">{hint}</rect>" if hint else "/>")


def _svg_line(line: Line, hint: str) -> str:
    shape, width = ("polyline", f' stroke-width="{_n(line.width)}"') if line.width else ("polygon", "")
    points = " ".join(f"{_n(x)},{_n(y)}" for x, y in line.points)
    return f'<{shape} class="{_css_class(line)}" points="{points}"{width}' + (f">{hint}</{shape}>" if hint else "/>")


def _svg_text(text: Text, hint: str) -> str:
    x, y = _n(text.x), _n(text.y)
    turn = f' transform="rotate({_n(-text.turn)} {x} {y})"' if text.turn else ""
    anchor = f' text-anchor="{text.anchor}"' if text.anchor != "start" else ""
    lang = ' lang="ko" xml:lang="ko"' if is_korean(text.text) else ""
    look = f'font-size="{_n(text.size)}"{anchor}{turn}{lang}'
    return f'<text class="{text.paint}" x="{x}" y="{y}" {look}>{escape(text.text)}{hint}</text>'


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _css_class(mark: Mark) -> str:
    drawn_round = (isinstance(mark, Box) and mark.outline) or (isinstance(mark, Line) and mark.width)
    return f"{mark.paint}-line" if drawn_round else mark.paint


def style_of(picture: Figure) -> str:
    """Rules for the paints that occur: light, and dark where the reader's system is."""
    classes = {_css_class(mark) for mark in picture.marks() if not isinstance(mark, Photo)}
    light, dark = ("".join(_rule(name, theme) for name in sorted(classes)) for theme in THEMES)
    glyphs = face(
        "".join(sorted({letter for mark in picture.marks() if isinstance(mark, Text) for letter in mark.text}))
    )
    return f"{glyphs}text{{font-family:{STACK}}}{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _rule(name: str, theme: Theme) -> str:
    if name.endswith("-line"):
        return f".{name}{{fill:none;stroke:{colour(name.removesuffix('-line'), theme)}}}"
    return f".{name}{{fill:{colour(name, theme)}}}"


# --- PNG


def draw_png(picture: Figure, scale: int | float = 2, theme: Theme = "light") -> bytes:
    """A picture as a PNG file, drawn with the bundled font."""
    image, scale = paint(picture, scale, theme)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True, dpi=(96 * scale, 96 * scale))
    return file.getvalue()


def paint(picture: Figure, scale: int | float, theme: Theme) -> tuple[Image.Image, float]:
    """A picture in pixels, and the scale that it could be given."""
    if not scale > 0:
        raise UsageError(f"a picture's scale must be above nought; got {scale}")
    scale = min(float(scale), math.sqrt(MOST_PIXELS / (picture.width * picture.height)))
    size = round(picture.width * scale), round(picture.height * scale)
    image = Image.new("RGB", size, colour("paper", theme))
    draw = ImageDraw.Draw(image)
    for mark in picture.marks():
        if isinstance(mark, Box):
            _png_box(draw, mark, scale, theme)
        elif isinstance(mark, Line):
            _png_line(draw, mark, scale, theme)
        elif isinstance(mark, Photo):
            _png_photo(image, mark, scale)
        else:
            _png_text(draw, mark, scale, theme)
    return image, scale


def _png_box(draw: ImageDraw.ImageDraw, box: Box, scale: float, theme: Theme) -> None:
    left, top = round(box.x * scale), round(box.y * scale)
    right, bottom = round((box.x + box.width) * scale) - 1, round((box.y + box.height) * scale) - 1
    corners = (left, top, max(left, right), max(top, bottom))
    if box.outline:
        draw.rectangle(corners, outline=colour(box.paint, theme), width=max(1, round(box.outline * scale)))
    else:
        draw.rectangle(corners, fill=colour(box.paint, theme))


def _png_line(draw: ImageDraw.ImageDraw, line: Line, scale: float, theme: Theme) -> None:
    """Drawn `FINER` times as large on a mask of its own and reduced, for smooth edges."""
    edge = line.width + 1
    left, top = (math.floor(min(place[axis] for place in line.points) * scale - edge * scale) for axis in (0, 1))
    right, bottom = (math.ceil(max(place[axis] for place in line.points) * scale + edge * scale) for axis in (0, 1))
    mask = Image.new("L", ((right - left) * FINER, (bottom - top) * FINER))
    points = [((x * scale - left) * FINER, (y * scale - top) * FINER) for x, y in line.points]
    if line.width:
        ImageDraw.Draw(mask).line(points, 255, max(1, round(line.width * scale * FINER)), joint="curve")
    else:
        ImageDraw.Draw(mask).polygon(points, 255)
    draw.bitmap((left, top), mask.reduce(FINER), colour(line.paint, theme))


def _png_photo(image: Image.Image, photo: Photo, scale: float) -> None:
    left, top = round(photo.x * scale), round(photo.y * scale)
    right, bottom = round((photo.x + photo.width) * scale), round((photo.y + photo.height) * scale)
    size = max(1, right - left), max(1, bottom - top)
    how = Image.Resampling.NEAREST if photo.cells else Image.Resampling.BICUBIC
    with Image.open(io.BytesIO(photo.content)) as pixels:
        shown = pixels.convert("RGBA").resize(size, how)
    image.paste(shown, (left, top), shown)


def _png_text(draw: ImageDraw.ImageDraw, text: Text, scale: float, theme: Theme) -> None:
    fill, x, y = colour(text.paint, theme), text.x * scale, text.y * scale
    if not text.turn:
        draw.text((x, y), drawable(text.text), fill, load(text.size * scale), _ANCHORS[text.anchor])
        return
    mask, across, down = _turned(text, scale)
    draw.bitmap((round(x - across), round(y - down)), mask, fill)


def _turned(text: Text, scale: float) -> tuple[Image.Image, float, float]:
    """A turned text as a mask, and where its anchor lies in it; drawn twice as large and reduced, for smooth edges."""
    font, shown = load(2 * text.size * scale), drawable(text.text)
    left, top, right, bottom = font.getbbox(shown, anchor=_ANCHORS[text.anchor])
    width, height = math.ceil(right - left) + 4, math.ceil(bottom - top) + 4
    straight = Image.new("L", (width, height))
    anchor = 2 - left, 2 - top
    ImageDraw.Draw(straight).text(anchor, shown, 255, font, _ANCHORS[text.anchor])
    turned = straight.rotate(text.turn, Image.Resampling.BICUBIC, expand=True)
    cos, sin = math.cos(math.radians(text.turn)), math.sin(math.radians(text.turn))
    along, below = anchor[0] - width / 2, anchor[1] - height / 2
    across, down = turned.width / 2 + along * cos + below * sin, turned.height / 2 - along * sin + below * cos
    return turned.reduce(2), across / 2, down / 2
