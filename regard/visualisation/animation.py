"""Pictures one after another: a GIF by Pillow, or one SVG that moves by its own style sheet."""

from __future__ import annotations

import io
from collections.abc import Sequence
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageColor

from regard.visualisation.colours import LEVELS, ROLES, Theme, colour
from regard.visualisation.layout import Figure, Photo
from regard.visualisation.rendering import paint, style_of, svg_group, svg_photos

__all__ = ["draw_gif", "draw_moving_svg"]

EACH, LAST = 900, 3000  # milliseconds of a frame, and of the last one
PHOTO_COLOURS = 176  # of the 256 that a GIF may have
BLENDS = 20  # of each colour of text with the paper, for smooth edges


def draw_gif(pictures: Sequence[Figure], scale: float = 1.5, theme: Theme = "light") -> bytes:
    """Pictures of one size as a GIF that begins again when it is through."""
    painted = [paint(picture, scale, theme)[0] for picture in pictures]
    has_photos = any(isinstance(mark, Photo) for picture in pictures for mark in picture.marks())
    palette = _palette_of(painted, theme) if has_photos else _palette(theme)
    frames = [_indexed(image, palette) for image in painted]
    file = io.BytesIO()
    durations = [EACH] * (len(frames) - 1) + [LAST]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=False)
    return file.getvalue()


def _palette(theme: Theme, every: int = 1, blends: int = BLENDS) -> npt.NDArray[np.int64]:
    """The colours that occur: `every` place of the scale, the roles, and text blended with the paper. One palette for
    all frames, so that nothing flickers."""

    def rgb(paint: str) -> npt.NDArray[np.int64]:
        return np.array(ImageColor.getrgb(colour(paint, theme))[:3])

    found = [rgb(f"w{place}") for place in range(0, LEVELS + 1, every)]
    for role in ROLES:
        steps = range(blends + 1) if role in ("ink", "muted", "link") else [blends]
        found += [np.rint(rgb("paper") + (rgb(role) - rgb("paper")) * n / blends).astype(np.int64) for n in steps]
    return np.unique(np.stack(found), axis=0)


def _palette_of(painted: Sequence[Image.Image], theme: Theme) -> npt.NDArray[np.int64]:
    """The same with the colours of photos: those that stand for most pixels of all frames."""
    own = _palette(theme, every=5, blends=BLENDS // 2)
    everything = Image.fromarray(np.concatenate([np.asarray(image) for image in painted]))
    found = everything.quantize(PHOTO_COLOURS, Image.Quantize.MEDIANCUT).getpalette() or []
    return np.unique(np.concatenate([own, np.array(found).reshape(-1, 3)])[:256], axis=0)


def _indexed(image: Image.Image, palette: npt.NDArray[np.int64]) -> Image.Image:
    """The same with each colour replaced by the nearest of the palette."""
    pixels = np.asarray(image, np.int64) @ np.array([1 << 16, 1 << 8, 1])
    colours, places = np.unique(pixels, return_inverse=True)
    channels = np.stack([colours >> 16, (colours >> 8) & 255, colours & 255], 1)
    nearest = ((channels[:, None] - palette[None]) ** 2).sum(2).argmin(1).astype(np.uint8)
    indexed = Image.fromarray(nearest[places].reshape(pixels.shape), "L")
    indexed.putpalette(palette.reshape(-1).tolist())
    return indexed


def draw_moving_svg(pictures: Sequence[Figure]) -> str:
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
    everything = Figure(first.width, first.height, tuple(g for each in pictures for g in each.groups), "", "")
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
            *svg_photos(everything.marks()),
            *frames,
            "</svg>\n",
        ]
    )
