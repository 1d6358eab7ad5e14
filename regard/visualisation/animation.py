"""Render a sequence of figures as an animation: a GIF (by Pillow), or one SVG animated by its own
style sheet.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from PIL import Image

from regard.visualisation.figure import Figure
from regard.visualisation.rendering import rasterise, svg_document, svg_group, svg_style

SCALE = 1.5  # pixels of a GIF for each of a figure
FRAME, LAST_FRAME = 900, 3000  # milliseconds
# Of a GIF; kept as they are; frames at most whose colours are counted.
COLOURS, EXACT, PALETTE_FRAMES = (
    256,
    160,
    40,
)


def draw_gif(frames: Sequence[Figure]) -> bytes:
    """Render frames of one size as a GIF that loops; one frame in colour is in memory at a time."""

    def images(number: int) -> Iterator[Image.Image]:
        return (
            rasterise(frame, SCALE, "light")[0]
            for frame in frames[:: -(-len(frames) // number)]
        )

    palette = _palette(
        np.concatenate([np.asarray(image) for image in images(PALETTE_FRAMES)])
    )
    indexed = (_indexed(image, palette) for image in images(len(frames)))
    file = io.BytesIO()
    durations = [FRAME] * (len(frames) - 1) + [LAST_FRAME]
    next(indexed).save(
        file,
        "GIF",
        save_all=True,
        append_images=indexed,
        duration=durations,
        loop=0,
        optimize=False,
    )
    return file.getvalue()


def _codes(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return each colour as one number."""
    codes: npt.NDArray[np.int64] = pixels.astype(np.int64) @ np.array(
        [1 << 16, 1 << 8, 1]
    )
    return codes


def _palette(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return one palette for all frames, so that nothing flickers: the most frequent colours, and
    some of the rest.
    """
    codes, counts = np.unique(_codes(pixels), return_counts=True)
    frequent = codes[counts.argsort()[: -EXACT - 1 : -1]]
    rest = Image.fromarray(pixels).quantize(COLOURS - EXACT).getpalette() or []
    return np.concatenate([frequent, _codes(np.array(rest, np.uint8).reshape(-1, 3))])


def _indexed(image: Image.Image, palette: npt.NDArray[np.int64]) -> Image.Image:
    """Replace each colour by the nearest one of the palette."""
    codes, inverse = np.unique(_codes(np.asarray(image)), return_inverse=True)
    channels, shades = (
        np.stack([code >> 16, code >> 8 & 255, code & 255], 1)
        for code in (codes, palette)
    )
    nearest = (
        ((channels[:, None] - shades[None]) ** 2).sum(2).argmin(1).astype(np.uint8)
    )
    indexed = Image.fromarray(nearest[inverse].reshape(image.size[::-1]), "L")
    indexed.putpalette(shades.astype(np.uint8).tobytes())
    return indexed


def draw_animated_svg(frames: Sequence[Figure]) -> str:
    """Render frames as an SVG document animated by CSS alone; it shows the last frame if the reader
    reduces motion.
    """
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
    return svg_document(
        replace(last, title=first.title), marks, svg_style(marks) + animation, groups
    )
