"""Pictures one after another: a GIF by Pillow, or one SVG that moves by its own style sheet."""

from __future__ import annotations

import io
from collections.abc import Sequence
from xml.sax.saxutils import escape

from PIL import Image, ImageColor

from regard.visualisation.colours import LEVELS, ROLES, Theme, colour
from regard.visualisation.figures import paint, style_of, svg_group
from regard.visualisation.layout import Picture

__all__ = ["draw_gif", "draw_moving_svg"]

EACH, LAST = 900, 3000  # milliseconds of a frame, and of the last one
BLENDS = 20  # of each colour of text with the paper, for smooth edges


def draw_gif(pictures: Sequence[Picture], scale: float = 1.5, theme: Theme = "light") -> bytes:
    """Pictures of one size as a GIF that begins again when it is through."""
    painted = [paint(picture, scale, theme)[0] for picture in pictures]
    palette = _palette(theme)  # one for all: nothing flickers
    frames = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in painted]
    file = io.BytesIO()
    durations = [EACH] * (len(frames) - 1) + [LAST]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=False)
    return file.getvalue()


def _palette(theme: Theme) -> Image.Image:
    """The colours that occur: every place of the scale, the roles, and text blended with the paper."""
    paper = ImageColor.getrgb(colour("paper", theme))[:3]
    found = [ImageColor.getrgb(colour(f"w{place}", theme))[:3] for place in range(LEVELS + 1)]
    for role in ROLES:
        ink = ImageColor.getrgb(colour(role, theme))[:3]
        steps = range(BLENDS + 1) if role in ("ink", "muted", "link") else [BLENDS]
        found += [tuple(round(p + (i - p) * n / BLENDS) for p, i in zip(paper, ink, strict=True)) for n in steps]
    flat = [channel for each in dict.fromkeys(found) for channel in each][: 3 * 256]
    palette = Image.new("P", (1, 1))
    palette.putpalette(flat + flat[:3] * (256 - len(flat) // 3))
    return palette


def draw_moving_svg(pictures: Sequence[Picture]) -> str:
    """The same as an SVG document without a program: light or dark as the reader's system; still, where motion is not
    wanted, showing the end."""
    first, last = pictures[0], pictures[-1]
    pause = LAST // EACH  # the last frame is shown so many times as long
    slots = len(pictures) - 1 + pause
    moving = (
        f"g.f{{visibility:hidden;animation:on {slots * EACH}ms step-end infinite}}"
        f"g.l{{animation-name:end}}"
        f"@keyframes on{{0%{{visibility:visible}}{100 / slots:.4f}%{{visibility:hidden}}}}"
        f"@keyframes end{{0%{{visibility:visible}}{100 * pause / slots:.4f}%{{visibility:hidden}}}}"
        "@media (prefers-reduced-motion:reduce){g.f{animation:none}g.l{visibility:visible}}"
    )
    everything = Picture(first.width, first.height, tuple(g for each in pictures for g in each.groups), "", "")
    size = f'width="{first.width}" height="{first.height}" viewBox="0 0 {first.width} {first.height}"'
    frames = [
        f'<g class="f{" l" if picture is last else ""}" style="animation-delay:{number * EACH}ms">'
        + "".join(svg_group(group, False) for group in picture.groups)
        + "</g>"
        for number, picture in enumerate(pictures)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
            f"<title>{escape(first.title)}</title>",
            f"<desc>{escape(last.description)}</desc>",
            f"<style>{style_of(everything)}{moving}</style>",
            *frames,
            "</svg>\n",
        ]
    )
