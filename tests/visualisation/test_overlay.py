"""Attention over images: attended cells are bright, in every file format, and sizes hold."""

import base64
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from regard.common.errors import UsageError
from regard.visualisation import ExplanationData, Overlay, SourceImage, save
from regard.visualisation.colours import OPACITY, VEIL
from regard.visualisation.explanation_data import page_data
from regard.visualisation.figure import Box, Raster, Text
from regard.visualisation.overlay import PANEL, layout_overlay, veiled
from regard.visualisation.player import layout_frames
from regard.visualisation.rendering import draw_png, draw_svg

SVG = "{http://www.w3.org/2000/svg}"
GREY = 200


def _overlay(
    words: int = 3, size: tuple[int, int] = (60, 90), grid: tuple[int, int] = (2, 3)
) -> Overlay:
    """Build an overlay in which word t attends mostly to cell t."""
    maps = np.full((words, *grid), 0.05)
    for t in range(words):
        maps.reshape(words, -1)[t, t % (grid[0] * grid[1])] = 0.5
    return Overlay(
        SourceImage(np.full((*size, 3), GREY, np.uint8), grid),
        ("빨간", "네모가", "있다")[:words],
        maps,
    )


@pytest.mark.parametrize("words", [1, 5, 40])
@pytest.mark.parametrize("size", [(60, 90), (90, 60), (300, 20)])
def test_marks_are_inside_the_canvas_and_panels_do_not_overlap(
    words: int, size: tuple[int, int]
) -> None:
    maps = np.full((words, 2, 2), 0.25)
    names = tuple("caption" if n % 2 else "동그라미가" for n in range(words))
    figure = layout_overlay(
        Overlay(SourceImage(np.zeros((*size, 3), np.uint8), (2, 2)), names, maps, caption="layer 1")
    )
    for mark in figure.marks():
        if isinstance(mark, Text):
            assert all(
                0 <= x <= figure.width and 0 <= y <= figure.height for x, y in mark.corners()
            ), mark
        elif isinstance(mark, (Box, Raster)):
            assert 0 <= mark.x <= mark.x + mark.width <= figure.width
            assert 0 <= mark.y <= mark.y + mark.height <= figure.height
    panels = [mark for group in figure.groups if group.name != "legend" for mark in group.marks]
    rectangles = sorted(
        {(mark.x, mark.y, mark.width, mark.height) for mark in panels if isinstance(mark, Raster)}
    )
    assert len(rectangles) == words + 1
    for index, (x, y, width, height) in enumerate(rectangles):
        assert max(width, height) == pytest.approx(PANEL)
        for x2, y2, *_ in rectangles[:index]:
            assert abs(x - x2) >= width or abs(y - y2) >= height


def test_cell_with_the_largest_weight_keeps_its_colour() -> None:
    overlay = _overlay()
    figure = layout_overlay(overlay)
    with Image.open(io.BytesIO(draw_png(figure, 2))) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    for t in range(3):
        (group,) = (group for group in figure.groups if group.name == f"word-{t + 1}")
        raster = next(mark for mark in group.marks if isinstance(mark, Raster))
        wide = raster.width / 3
        high = raster.height / 2
        centres = [
            pixels[int(2 * (raster.y + (r + 0.5) * high)), int(2 * (raster.x + (c + 0.5) * wide))]
            for r in range(2)
            for c in range(3)
        ]
        assert (centres[t] == GREY).all()
        veil = OPACITY * (1 - 0.05 / 0.5)
        dark = GREY * (1 - veil) + np.array(VEIL) * veil
        assert all(
            np.abs(centre - dark).max() <= 2 for cell, centre in enumerate(centres) if cell != t
        )


def test_svg_embeds_the_image_once() -> None:
    overlay = _overlay()
    root = ElementTree.fromstring(draw_svg(layout_overlay(overlay)))
    images = {image.get("id"): image for image in root.iter(f"{SVG}image")}
    used = [use.get("href", "")[1:] for use in root.iter(f"{SVG}use")]
    assert set(used) == set(images)
    # Veils and legend; the image itself.
    assert sorted(used.count(name) for name in images) == [
        1,
        1,
        1,
        1,
        1,
        4,
    ]
    raster = next(image for name, image in images.items() if used.count(name or "") == 4)
    with Image.open(io.BytesIO(base64.b64decode(raster.get("href", "").split(",")[1]))) as image:
        assert image.size == (90, 60)
    assert "네모가 row 1, column 2, 0.50" in (root.findtext(f"{SVG}desc") or "")


def test_a_large_image_is_reduced() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (900, 1200, 3), np.uint8)
    content = SourceImage(noise, (7, 7)).file()
    with Image.open(io.BytesIO(content)) as image:
        assert image.size == (480, 360)
        assert image.format == "JPEG"


def test_mismatched_shapes_are_refused(caption_explanation: Callable[..., ExplanationData]) -> None:
    image = SourceImage(np.zeros((6, 6, 3), np.uint8), (2, 3))
    with pytest.raises(UsageError, match=r"of shape \(1, 2, 3\)"):
        Overlay(image, ("a",), np.zeros((1, 3, 2)))
    with pytest.raises(UsageError, match="finite"):
        Overlay(image, ("a",), np.full((1, 2, 3), np.nan))
    with pytest.raises(UsageError, match=r"\(Y, X, 3\) bytes; got float64"):
        SourceImage(np.zeros((6, 6, 3)), (2, 3))
    with pytest.raises(UsageError, match="does not have 11 source words"):
        replace(caption_explanation(), source=caption_explanation().source[:-1])


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html"])
def test_overlays_are_saved_in_every_format(tmp_path: Path, suffix: str) -> None:
    content = save(_overlay(), tmp_path / f"a{suffix}").read_bytes()
    assert content == save(_overlay(), tmp_path / f"b{suffix}").read_bytes()
    if suffix == ".html":
        assert b"img-src data:" in content


def test_an_animated_caption_shows_the_image_in_each_step(
    caption_explanation: Callable[..., ExplanationData], tmp_path: Path
) -> None:
    explained = caption_explanation("ko")
    steps = layout_frames(explained)
    assert len(steps) == 3 + 3, "the stages of the first token, the others and the end"
    assert len({(step.width, step.height) for step in steps}) == 1
    for step in steps:
        groups = {group.name: group.marks for group in step.groups}
        assert "context" not in groups
        raster = next(mark for mark in groups["image"] if isinstance(mark, Raster))
        lowest = raster.y + raster.height
        assert lowest < min(mark.y for mark in groups["mechanism"] if isinstance(mark, Text))
        for mark in step.marks():
            if isinstance(mark, Text):
                assert all(0 <= y <= step.height for _, y in mark.corners())
    with Image.open(save(explained, tmp_path / "a.gif")) as image:
        assert image.n_frames == 3 + 3  # type: ignore[attr-defined]
        colours = np.array(
            [pixel for _, pixel in image.convert("RGB").getcolors(1 << 20) or []]
        ).astype(int)
    red = np.abs(colours - (216, 36, 40)).max(1).min()
    assert red < 24, "the attended square keeps its colour"
    root = ElementTree.fromstring(save(explained, tmp_path / "a.svg").read_text(encoding="utf-8"))
    assert len(list(root.iter(f"{SVG}image"))) == 5  # the image, and a veil for each step


def test_cells_beyond_the_edge_are_drawn_around_their_centres() -> None:
    """Four rows of 32 pixels over 100 have centres at 0, 32, 64 and 96; each pixel belongs to the
    nearest one.
    """
    image = SourceImage(np.full((100, 64, 3), GREY, np.uint8), (4, 2), 0.5 / 32, (1.28, 1.0))
    across, down = image.edges()
    assert (down * 100).tolist() == pytest.approx([0, 16.5, 48.5, 80.5, 100])
    assert (across * 64).tolist() == pytest.approx([0, 16.5, 64])
    with pytest.raises(UsageError, match="the whole image at least"):
        SourceImage(np.full((100, 64, 3), GREY, np.uint8), (4, 2), 0.5, (0.9, 1.0))


@pytest.mark.parametrize(
    ("centre", "across"), [(0.5, [0, 30, 60, 90]), (0.0625, [0, 16.875, 46.875, 90])]
)
def test_cells_are_drawn_around_their_centres(centre: float, across: list[float]) -> None:
    """Cells with their centre near the upper left corner are drawn further up and left; the last
    reaches the edge.
    """
    image = SourceImage(np.full((60, 90, 3), GREY, np.uint8), (2, 3), centre)
    assert (image.edges()[0] * 90).tolist() == pytest.approx(across)
    for s in range(6):
        weights = np.zeros((2, 3))
        weights.flat[s] = 1
        _, veil, outline, *_ = veiled(image, weights, 0.0, 0.0, 90.0)
        assert isinstance(veil, Raster)
        assert isinstance(outline, Box)
        down = (
            [edge * 2 / 3 for edge in (0, across[1] + 15, 90)] if centre == 0.5 else [0, 16.875, 60]
        )
        r, c = divmod(s, 3)
        assert (outline.x, outline.width) == pytest.approx((across[c], across[c + 1] - across[c]))
        assert (outline.y, outline.height) == pytest.approx((down[r], down[r + 1] - down[r]))
        with Image.open(io.BytesIO(veil.content)) as veil_image:
            clear = np.asarray(veil_image)[..., 3] == 0
        rows = clear.any(1)
        columns = clear.any(0)
        assert clear.sum() == rows.sum() * columns.sum(), "one rectangle is not veiled"
        assert rows.mean() * 60 == pytest.approx(outline.height, abs=60 / 2 / 16)
        assert columns.mean() * 90 == pytest.approx(outline.width, abs=90 / 3 / 16)


def test_page_data_hold_the_image(caption_explanation: Callable[..., ExplanationData]) -> None:
    values = page_data(caption_explanation())
    assert values["title"] == "a red square"
    assert values["image"]["grid"] == [3, 4]
    assert values["image"]["size"] == [80, 60]
    assert values["image"]["column_edges"] == [0, 0.25, 0.5, 0.75, 1]
    assert values["image"]["url"].startswith("data:image/png;base64,")
    assert values["source"][4] == "2·1"
