"""Render a sequence of figures as an animation: a GIF (by Pillow), or one SVG animated by its own style sheet."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageColor

from regard.visualisation.colours import LEVELS, ROLES, Theme, colour
from regard.visualisation.figure import Figure, Raster
from regard.visualisation.rendering import rasterise, svg_document, svg_group, svg_style

FRAME, LAST_FRAME = 900, 3000  # milliseconds
IMAGE_COLOURS = 176  # of the 256 colours of a GIF, for images
PALETTE_FRAMES = 40  # frames at most whose colours are counted
BLENDS = 20  # shades between text and paper, for smooth edges


def draw_gif(frames: Sequence[Figure], scale: float = 1.5, theme: Theme = "light") -> bytes:
    """Render frames of one size as a GIF that loops; one frame in colour is in memory at a time."""

    def images(number: int) -> Iterator[Image.Image]:
        return (rasterise(frame, scale, theme)[0] for frame in frames[:: -(-len(frames) // number)])

    has_rasters = any(isinstance(mark, Raster) for frame in frames for mark in frame.marks())
    palette = _palette_with_images(list(images(PALETTE_FRAMES)), theme) if has_rasters else _palette(theme)
    indexed = (_indexed(image, palette) for image in images(len(frames)))
    file = io.BytesIO()
    durations = [FRAME] * (len(frames) - 1) + [LAST_FRAME]
    next(indexed).save(file, "GIF", save_all=True, append_images=indexed, duration=durations, loop=0, optimize=False)
    return file.getvalue()


def _palette(theme: Theme, step: int = 1, blends: int = BLENDS) -> npt.NDArray[np.int64]:
    """Return the colours that occur: every `step`-th shade of the scale, the roles, and text blended with the paper.

    All frames share one palette, so that nothing flickers.
    """

    def rgb(paint: str) -> npt.NDArray[np.int64]:
        return np.array(ImageColor.getrgb(colour(paint, theme))[:3])

    colours = [rgb(f"w{shade}") for shade in range(0, LEVELS + 1, step)]
    for role in (*ROLES, "s2", "s3"):
        steps = range(blends + 1) if role in ("ink", "muted", "link") else [blends]
        colours += [np.rint(rgb("paper") + (rgb(role) - rgb("paper")) * n / blends).astype(np.int64) for n in steps]
    return np.unique(np.stack(colours), axis=0)


def _palette_with_images(images: Sequence[Image.Image], theme: Theme) -> npt.NDArray[np.int64]:
    """Return a coarser palette of the theme and the median-cut colours of these frames."""
    theme_colours = _palette(theme, step=5, blends=BLENDS // 2)
    stacked = Image.fromarray(np.concatenate([np.asarray(image) for image in images]))
    image_colours = stacked.quantize(IMAGE_COLOURS, Image.Quantize.MEDIANCUT).getpalette() or []
    return np.unique(np.concatenate([theme_colours, np.array(image_colours).reshape(-1, 3)])[:256], axis=0)


def _indexed(image: Image.Image, palette: npt.NDArray[np.int64]) -> Image.Image:
    """Replace each colour by the nearest one of the palette."""
    pixels = np.asarray(image, np.int64) @ np.array([1 << 16, 1 << 8, 1])
    colours, inverse = np.unique(pixels, return_inverse=True)
    channels = np.stack([colours >> 16, (colours >> 8) & 255, colours & 255], 1)
    nearest = ((channels[:, None] - palette[None]) ** 2).sum(2).argmin(1).astype(np.uint8)
    indexed = Image.fromarray(nearest[inverse].reshape(pixels.shape), "L")
    indexed.putpalette(palette.reshape(-1).tolist())
    return indexed


def draw_animated_svg(frames: Sequence[Figure]) -> str:
    """Render frames as an SVG document animated by CSS alone; it shows the last frame if the reader reduces motion."""
    first, last = frames[0], frames[-1]  # of one size
    pause = LAST_FRAME // FRAME  # slots that the last frame is shown for
    slots = len(frames) - 1 + pause
    animation = (
        f"g.f{{visibility:hidden;animation:on {slots * FRAME}ms step-end infinite}}"
        f"g.l{{animation-name:end}}"
        f"@keyframes on{{0%{{visibility:visible}}{100 / slots:.4f}%{{visibility:hidden}}}}"
        f"@keyframes end{{0%{{visibility:visible}}{100 * pause / slots:.4f}%{{visibility:hidden}}}}"
        "@media (prefers-reduced-motion:reduce){g.f{animation:none}g.l{visibility:visible}}"
    )
    marks = [mark for frame in frames for mark in frame.marks()]
    groups = [
        f'<g class="f{" l" if frame is last else ""}" style="animation-delay:{number * FRAME}ms">'
        + "".join(svg_group(group) for group in frame.groups)
        + "</g>"
        for number, frame in enumerate(frames)
    ]
    return svg_document(replace(last, title=first.title), marks, svg_style(marks) + animation, groups)
