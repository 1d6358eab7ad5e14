"""Render a sequence of figures as an animation: a GIF (by Pillow), or an SVG that its style sheet
animates.
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

SCALE = 1.5  # pixels of a GIF for each pixel of a figure
FRAME = 900  # milliseconds of a frame
LAST_FRAME = 3000  # milliseconds of the last frame
COLOURS = 256  # colours of a GIF
EXACT = 160  # most frequent colours, which are kept unchanged
PALETTE_FRAMES = 40  # colours are counted in about so many frames


def draw_gif(frames: Sequence[Figure]) -> bytes:
    """Render frames of one size as a GIF that loops.

    The palette is made of the pixels of evenly spaced frames. The frames themselves are rendered
    one at a time, so that only one of them is in memory in full colour.
    """
    step = -(-len(frames) // PALETTE_FRAMES)
    sample = [np.asarray(image) for image in _rasterised(frames[::step])]
    palette = _palette(np.concatenate(sample))
    indexed = (_indexed(image, palette) for image in _rasterised(frames))
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


def _rasterised(frames: Sequence[Figure]) -> Iterator[Image.Image]:
    for frame in frames:
        yield rasterise(frame, SCALE, "light")[0]


def _codes(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Encode each colour as one number."""
    codes: npt.NDArray[np.int64] = pixels.astype(np.int64) @ np.array(
        [1 << 16, 1 << 8, 1]
    )
    return codes


def _palette(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return one palette for all frames, so that nothing flickers: the most frequent colours, and
    colours that approximate the others.
    """
    codes, counts = np.unique(_codes(pixels), return_counts=True)
    frequent = codes[counts.argsort()[: -EXACT - 1 : -1]]
    approximate = Image.fromarray(pixels).quantize(COLOURS - EXACT).getpalette() or []
    colours = np.array(approximate, np.uint8).reshape(-1, 3)
    return np.concatenate([frequent, _codes(colours)])


def _indexed(image: Image.Image, palette: npt.NDArray[np.int64]) -> Image.Image:
    """Replace each colour by the nearest one of the palette."""
    codes, inverse = np.unique(_codes(np.asarray(image)), return_inverse=True)
    colours = _channels(codes)
    palette_colours = _channels(palette)
    distances = ((colours[:, None] - palette_colours[None]) ** 2).sum(2)
    nearest = distances.argmin(1).astype(np.uint8)
    indexed = Image.fromarray(nearest[inverse].reshape(image.size[::-1]), "L")
    indexed.putpalette(palette_colours.astype(np.uint8).tobytes())
    return indexed


def _channels(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Decode numbers into red, green and blue."""
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], 1)


def draw_animated_svg(frames: Sequence[Figure]) -> str:
    """Render frames as an SVG document animated by CSS alone; it shows the last frame if the reader
    reduces motion.
    """
    first = frames[0]
    last = frames[-1]
    pause = LAST_FRAME // FRAME  # slots for which the last frame is shown
    slots = len(frames) - 1 + pause
    animation = (
        f"g.f{{visibility:hidden;animation:on {slots * FRAME}ms step-end infinite}}"
        f"g.l{{animation-name:end}}"
        f"@keyframes on{{0%{{visibility:visible}}{100 / slots:.4f}%{{visibility:hidden}}}}"
        f"@keyframes end{{0%{{visibility:visible}}{100 * pause / slots:.4f}%{{visibility:hidden}}}}"
        "@media (prefers-reduced-motion:reduce){g.f{animation:none}g.l{visibility:visible}}"
    )
    marks = [mark for frame in frames for mark in frame.marks()]
    groups = []
    for number, frame in enumerate(frames):
        classes = "f l" if frame is last else "f"
        content = "".join(svg_group(group) for group in frame.groups)
        delay = f"animation-delay:{number * FRAME}ms"
        groups.append(f'<g class="{classes}" style="{delay}">{content}</g>')
    style = svg_style(marks) + animation
    return svg_document(replace(last, title=first.title), marks, style, groups)
