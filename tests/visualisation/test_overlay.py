"""Attention over images: attended cells are bright, in every file format, and sizes hold."""

import base64
import io
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from drawn import assert_inside, marks_of, texts_of
from PIL import Image

from regard.common.errors import UsageError
from regard.visualisation import ExplanationData, Overlay, SourceImage, save
from regard.visualisation.colours import OPACITY, VEIL
from regard.visualisation.explanation_data import page_data
from regard.visualisation.figure import Box, Figure, Raster
from regard.visualisation.overlay import (
    PANEL,
    layout_legend,
    layout_overlay,
    layout_picture,
    layout_word_panels,
    veiled,
)
from regard.visualisation.player import layout_frames
from regard.visualisation.rendering import draw_panels, draw_png, draw_svg

SVG = "{http://www.w3.org/2000/svg}"
GREY = 200


def grey_image(
    rows: int, columns: int, grid: tuple[int, int], *more: Any
) -> SourceImage:
    pixels = np.full((rows, columns, 3), GREY, np.uint8)
    return SourceImage(pixels, grid, *more)


def make_overlay() -> Overlay:
    """Build an overlay in which word t of three attends mostly to cell t of six."""
    maps = np.full((3, 6), 0.05)
    maps[range(3), range(3)] = 0.5
    image = grey_image(60, 90, (2, 3))
    return Overlay(image, ("빨간", "네모가", "있다"), maps.reshape(3, 2, 3))


def images_of(figure: Figure, group: str) -> list[Raster]:
    return [mark for mark in marks_of(figure, group) if isinstance(mark, Raster)]


@pytest.mark.parametrize("words", [1, 40])
@pytest.mark.parametrize("size", [(60, 90), (300, 20)])
def test_marks_are_inside_the_canvas_and_panels_do_not_overlap(
    words: int, size: tuple[int, int]
) -> None:
    maps = np.full((words, 2, 2), 0.25)
    names = tuple("caption" if n % 2 else "동그라미가" for n in range(words))
    image = grey_image(*size, (2, 2))
    figure = layout_overlay(Overlay(image, names, maps, caption="layer 1"))

    assert_inside(figure)

    rectangles = set()
    for group in figure.groups:
        if group.name != "legend":
            for raster in images_of(figure, group.name):
                rectangles.add((raster.x, raster.y, raster.width, raster.height))

    assert len(rectangles) == words + 1

    for _, _, width, height in rectangles:
        assert max(width, height) == pytest.approx(PANEL)

    for one, other in combinations(rectangles, 2):
        assert abs(one[0] - other[0]) >= one[2] or abs(one[1] - other[1]) >= one[3]


def test_cell_with_the_largest_weight_keeps_its_colour() -> None:
    figure = layout_overlay(make_overlay())
    with Image.open(io.BytesIO(draw_png(figure, 2))) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)

    veil = OPACITY * (1 - 0.05 / 0.5)
    dark = GREY * (1 - veil) + np.array(VEIL) * veil
    for t in range(3):
        panel = images_of(figure, f"word-{t + 1}")[0]
        for cell in range(6):
            row, column = divmod(cell, 3)
            x = panel.x + (column + 0.5) * panel.width / 3
            y = panel.y + (row + 0.5) * panel.height / 2
            centre = pixels[int(2 * y), int(2 * x)]

            assert np.abs(centre - (GREY if cell == t else dark)).max() <= 2


def test_svg_embeds_the_image_once(tmp_path: Path) -> None:
    root = ElementTree.fromstring(draw_svg(layout_overlay(make_overlay())))
    images = {image.get("id"): image for image in root.iter(f"{SVG}image")}
    used = [use.get("href", "")[1:] for use in root.iter(f"{SVG}use")]

    assert set(used) == set(images)

    counts = {used.count(name or ""): image for name, image in images.items()}
    assert set(counts) == {1, 4}, "veils and legend once, the image four times"

    content = counts[4].get("href", "").split(",")[1]
    with Image.open(io.BytesIO(base64.b64decode(content))) as image:
        assert image.size == (90, 60)

    assert "네모가 row 1, column 2, 0.50" in (root.findtext(f"{SVG}desc") or "")

    page = save(make_overlay(), tmp_path / "a.html").read_text("utf-8")
    assert "img-src data:" in page, "its policy allows the image"


def test_a_large_image_is_reduced() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (900, 1200, 3), np.uint8)
    with Image.open(io.BytesIO(SourceImage(noise, (7, 7)).file())) as image:
        assert image.size == (480, 360)
        assert image.format == "JPEG"


def test_mismatched_shapes_are_refused(
    caption_explanation: Callable[..., ExplanationData],
) -> None:
    image = grey_image(6, 6, (2, 3))
    with pytest.raises(UsageError, match=r"of shape \(1, 2, 3\)"):
        Overlay(image, ("a",), np.zeros((1, 3, 2)))

    with pytest.raises(UsageError, match="finite"):
        Overlay(image, ("a",), np.full((1, 2, 3), np.nan))

    with pytest.raises(UsageError, match=r"\(Y, X, 3\) bytes; got float64"):
        SourceImage(np.zeros((6, 6, 3)), (2, 3))

    with pytest.raises(UsageError, match="the whole image at least"):
        grey_image(100, 64, (4, 2), 0.5, (0.9, 1.0))

    explained = caption_explanation()
    with pytest.raises(UsageError, match="does not have 11 source words"):
        replace(explained, source=explained.source[:-1])


@pytest.mark.system
def test_an_animated_caption_shows_the_image_in_each_step(
    caption_explanation: Callable[..., ExplanationData], tmp_path: Path
) -> None:
    explained = caption_explanation("ko")
    steps = layout_frames(explained)
    assert len(steps) == 3 + 3, "the stages of the first token, the others and the end"

    for step in steps:
        assert_inside(step)

        (raster, *_) = images_of(step, "image")
        below = min(text.y for text in texts_of(step, "mechanism"))
        assert raster.y + raster.height < below

    unknown = replace(explained, tokens=("▁🙂", *explained.tokens[1:]))
    with pytest.warns(UserWarning, match="a.gif: the font of PNG and GIF lacks 🙂"):
        path = save(unknown, tmp_path / "a.gif")

    with Image.open(path) as image:
        assert image.n_frames == 3 + 3  # type: ignore[attr-defined]
        assert image.info["loop"] == 0

        pixels = np.asarray(image.convert("RGB")).astype(int)

    assert pixels[2, 2].tolist() == [255, 255, 255]

    distances = np.abs(pixels - (216, 36, 40)).max(-1)
    assert distances.min() < 24, "the attended square keeps its colour"

    svg = save(explained, tmp_path / "a.svg").read_text(encoding="utf-8")
    images = ElementTree.fromstring(svg).iter(f"{SVG}image")
    assert len([*images]) == 5, "the image, and a veil for each step"


@pytest.mark.parametrize(
    ("centre", "extent", "across", "down"),
    [
        (0.5, (1.0, 1.0), [0, 30, 60, 90], [0, 30, 60]),
        (0.0625, (1.0, 1.0), [0, 16.875, 46.875, 90], [0, 16.875, 60]),
        # Three columns of 32 pixels over 90 have centres at 0, 32 and 64.
        (0.5 / 32, (64 / 60, 96 / 90), [0, 16.5, 48.5, 90], [0, 16.5, 60]),
    ],
)
def test_cells_are_drawn_around_their_centres(
    centre: float, extent: tuple[float, float], across: list[float], down: list[float]
) -> None:
    """Cells with their centre near the upper left corner are drawn further up and left; each pixel
    belongs to the nearest centre.
    """
    image = grey_image(60, 90, (2, 3), centre, extent)
    widths = np.diff(across)
    heights = np.diff(down)
    for cell in range(6):
        row, column = divmod(cell, 3)
        weights = np.zeros((2, 3))
        weights[row, column] = 1
        _, veil, outline, *_ = veiled(image, weights, 0.0, 0.0, 90.0)

        assert isinstance(outline, Box)
        assert (outline.x, outline.width) == pytest.approx(
            (across[column], widths[column])
        )
        assert (outline.y, outline.height) == pytest.approx((down[row], heights[row]))

        assert isinstance(veil, Raster)

        with Image.open(io.BytesIO(veil.content)) as veil_image:
            clear = np.asarray(veil_image)[..., 3] == 0

        rows = clear.any(1)
        columns = clear.any(0)
        assert clear.sum() == rows.sum() * columns.sum(), "one rectangle is not veiled"
        assert rows.mean() * 60 == pytest.approx(heights[row], abs=60 / 2 / 16)
        assert columns.mean() * 90 == pytest.approx(widths[column], abs=90 / 3 / 16)


def test_page_data_hold_the_image(
    caption_explanation: Callable[..., ExplanationData],
) -> None:
    image = page_data(caption_explanation())["image"]
    assert image["grid"] == [3, 4]
    assert image["size"] == [80, 60]
    assert image["column_edges"] == [0, 0.25, 0.5, 0.75, 1]
    assert image["url"].startswith("data:image/png;base64,")


@pytest.mark.parametrize("size", [(60, 90), (300, 20)])
def test_panels_of_a_page_have_a_word_each_and_its_picture(
    size: tuple[int, int],
) -> None:
    overlay = replace(make_overlay(), image=grey_image(*size, (2, 3)))
    panels = list(layout_word_panels(overlay))
    assert [panel.title for panel in panels] == ["빨간", "네모가", "있다"]
    for number, panel in enumerate(panels, 1):
        assert_inside(panel)
        assert f"row 1, column {number}, 0.50" in panel.description
        assert len(images_of(panel, "word")) == 2, "the image and its veil"
    assert_inside(layout_legend())
    assert_inside(layout_picture(overlay.image))


def test_panels_of_a_page_define_what_they_share_once() -> None:
    """The image is one for all words, and each word has a veil of its own."""
    trees = [
        ElementTree.fromstring(svg)
        for svg in draw_panels(layout_word_panels(make_overlay()))
    ]
    names = [image.get("id") for tree in trees for image in tree.iter(f"{SVG}image")]
    used = {use.get("href") for tree in trees for use in tree.iter(f"{SVG}use")}
    assert len(names) == len({*names}) == 4
    assert used == {f"#{name}" for name in names}
