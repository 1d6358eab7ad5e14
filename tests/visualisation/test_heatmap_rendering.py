"""Heatmaps as SVG and PNG: every word and weight, escaping, themes and sizes."""

import io
import re
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest
from drawn import boxes_of
from PIL import Image

from regard.common.errors import UsageError
from regard.visualisation import Alignment, draw_png, draw_svg, layout_heatmap
from regard.visualisation.colours import Theme, colour

SVG = "{http://www.w3.org/2000/svg}"
NASTY = ("<b>&amp;\"'", "]]></svg>", "</script><b>", "😀", "שלום", "\x00\x1b", "\ud800")


def svg(alignment: Alignment) -> str:
    return draw_svg(layout_heatmap(alignment))


def png(alignment: Alignment, scale: float = 2, theme: Theme = "light") -> bytes:
    return draw_png(layout_heatmap(alignment), scale, theme)


def open_image(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def test_svg_is_xml_with_every_word_and_every_weight(bread: Alignment) -> None:
    root = ElementTree.fromstring(svg(bread))
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert root[0].tag == f"{SVG}title"
    assert root[0].text == "I was eating bread"
    assert "빵을 ← bread 0.88" in (root[1].text or "")

    words = [text.text for text in root.iter(f"{SVG}text")]
    hints = [title.text for title in root.iter(f"{SVG}title")]
    assert set(bread.source + bread.target) <= set(words)

    for (t, s), weight in np.ndenumerate(bread.weights):
        assert f"{bread.target[t]} ← {bread.source[s]} {weight:.3f}" in hints

    assert "있었다 ← end of sentence 0.200" in hints


def test_svg_names_korean_fonts_and_language_and_has_a_dark_theme(
    bread: Alignment,
) -> None:
    document = svg(bread)
    for name in (
        "Noto Sans KR",
        "Malgun Gothic",
        "sans-serif",
        "prefers-color-scheme:dark",
    ):
        assert name in document

    assert re.search(r'lang="ko"[^>]*>나는<', document)
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", document) == []
    assert svg(bread) == document, "the same bytes each time"


def test_svg_escapes_text_of_users() -> None:
    alignment = Alignment(
        NASTY, NASTY, np.eye(len(NASTY)), title=NASTY[0], caption=NASTY[1]
    )
    root = ElementTree.fromstring(svg(alignment))

    assert {text.text for text in root.iter(f"{SVG}text")} >= set(alignment.source)


def test_png_paints_cells_and_dark_paper(bread: Alignment) -> None:
    figure = layout_heatmap(bread)
    cell = boxes_of(figure, "cells")[0]
    in_cell = (round(2 * cell.x) + 6, round(2 * cell.y) + 8)
    for theme in ("light", "dark"):
        image = open_image(png(bread, theme=theme))  # type: ignore[arg-type]
        assert image.size == (2 * figure.width, 2 * figure.height)

        for paint, place in (("paper", (1, 1)), ("w90", in_cell)):
            pixel = image.getpixel(place)
            written = "#" + "".join(f"{channel:02x}" for channel in pixel)  # type: ignore[union-attr]
            assert written == colour(paint, theme)  # type: ignore[arg-type]


def test_png_draws_hangul_not_boxes() -> None:
    def rendered(word: str) -> bytes:
        return open_image(png(Alignment((word,), ("x",), np.ones((1, 1))))).tobytes()

    assert rendered("한글") != rendered("글한")
    assert rendered("\u1112\u1161\u11ab\u1100\u1173\u11af") == rendered("한글")
    # Boxes, for scripts which the font lacks.
    assert rendered("שלום") == rendered("םולש")


def test_png_never_crashes_on_text_and_never_outgrows_memory(
    random_alignment: Callable[..., Alignment], monkeypatch: pytest.MonkeyPatch
) -> None:
    png(Alignment(NASTY, NASTY, np.eye(len(NASTY)), title="😀" * 200))
    monkeypatch.setattr("regard.visualisation.rendering.MAX_PIXELS", 1_000_000)
    width, height = open_image(png(random_alignment(40, 40), scale=20)).size

    assert 990_000 <= width * height <= 1_010_000

    with pytest.raises(UsageError, match="above zero"):
        png(random_alignment(1, 1), scale=0)
