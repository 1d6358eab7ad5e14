"""Heatmap geometry from 1 to 80 words: nothing is clipped, no two labels overlap."""

import math
from collections.abc import Callable
from itertools import combinations, pairwise

import numpy as np
import pytest
from drawn import assert_inside, boxes_of, texts_of, words_of

from regard.visualisation import Alignment
from regard.visualisation.colours import LEVELS, THEMES, colour, contrast, luminance
from regard.visualisation.figure import Figure, Text
from regard.visualisation.fonts import has, load
from regard.visualisation.heatmap import layout_heatmap

SIZES = [(1, 1), (1, 5), (18, 20), (31, 24), (3, 60), (60, 3), (80, 80)]
LONG = (
    "Donaudampfschifffahrtselektrizitätenhaup",
    "가나다라마바사아자차" * 4,
    "m" * 40,
)
NASTY = ("😀", "👩‍👩‍👧", "שלום", "日本語", "", " ", "\ufffd", "a\u0301\u0302", "ᄒᆞᆫ글")


def extent(text: Text) -> tuple[float, float, float, float]:
    """Return left, right, top and bottom of a text in the coordinates of the rotated text."""
    cos = math.cos(math.radians(text.turn))
    sin = math.sin(math.radians(text.turn))
    along = [x * cos - y * sin for x, y in text.corners()]
    down = [x * sin + y * cos for x, y in text.corners()]

    return min(along), max(along), min(down), max(down)


def assert_nothing_overlaps(labels: list[Text]) -> None:
    extents = [(*extent(label), label.text) for label in labels if label.text]
    for one, other in combinations(extents, 2):
        is_beside = one[1] <= other[0] or other[1] <= one[0]
        is_below = one[3] <= other[2] + 0.01 or other[3] <= one[2] + 0.01
        assert is_beside or is_below, f"{one} overlaps {other}"


def assert_well_laid(figure: Figure) -> None:
    assert_inside(figure)
    assert_nothing_overlaps(texts_of(figure, "sources") + texts_of(figure, "end-label"))

    for group in ("targets", "values", "header", "axes", "legend"):
        assert_nothing_overlaps(texts_of(figure, group))


@pytest.mark.parametrize(("rows", "columns"), SIZES)
@pytest.mark.parametrize("has_end", [True, False])
def test_labels_do_not_overlap_and_are_inside_the_canvas(
    rows: int, columns: int, has_end: bool, random_alignment: Callable[..., Alignment]
) -> None:
    links = frozenset({(0, 0), (columns - 1, rows - 1)})
    options = {"title": "Title", "caption": "c" * 300, "links": links}
    alignment = random_alignment(rows, columns, has_end=has_end, **options)

    assert_well_laid(layout_heatmap(alignment))


def test_words_of_forty_letters_are_shown_in_full_and_longer_ones_elided() -> None:
    figure = layout_heatmap(Alignment((*LONG, "y" * 300), LONG, np.full((3, 4), 0.25)))
    assert_well_laid(figure)
    assert words_of(figure, "targets") == list(LONG)

    *full, last = texts_of(figure, "sources")
    assert [label.text for label in full] == list(LONG)
    assert "…" in last.text
    assert last.hint == "y" * 300


def test_the_numbers_of_a_row_add_to_one_with_that_on_the_end() -> None:
    weights = np.array([[0.25, 0.5], [0.5, 0.5]])
    end = np.array([0.25, 0.0])
    figure = layout_heatmap(
        Alignment(("a", "b"), ("c", "d"), weights, special_weights=end)
    )
    rows: dict[float, float] = {}
    for text in texts_of(figure, "values"):
        rows[text.y] = rows.get(text.y, 0.0) + float(text.text or 0)
    assert list(rows.values()) == [1.0, 1.0]


def test_any_script_is_laid_out() -> None:
    weights = np.eye(len(NASTY))
    assert_well_laid(
        layout_heatmap(Alignment(NASTY, NASTY, weights, title=" ".join(NASTY)))
    )


def test_cells_are_square_enough_and_shrink_with_length(
    random_alignment: Callable[..., Alignment],
) -> None:
    sides = []
    for size in (1, 5, 20, 40, 80):
        cell = boxes_of(layout_heatmap(random_alignment(size, size)), "cells")[0]
        assert 0.3 <= cell.height / cell.width <= 1

        sides.append(cell.height)

    assert sides == sorted(sides, reverse=True)
    assert sides[-1] >= 12


def test_every_word_and_weight_has_a_mark(bread: Alignment) -> None:
    figure = layout_heatmap(bread)
    assert words_of(figure, "values")[:4] == ["0.90", "0.05", "0.03", "0.01"]

    cells = boxes_of(figure, "cells")
    assert len(cells) == 16
    assert cells[0].paint == "w90"

    faint = Alignment(bread.source, bread.target, bread.weights / 10)
    scaled = boxes_of(layout_heatmap(faint), "cells")
    assert scaled[0].paint == "w90"

    with_ceiling = boxes_of(layout_heatmap(faint, 1.0), "cells")
    assert with_ceiling[0].paint == "w9"


@pytest.mark.system
def test_the_font_holds_hangul_and_the_accents_of_europe() -> None:
    load.cache_clear()
    syllables = "".join(chr(code) for code in range(0xAC00, 0xAC00 + 11_172, 23))
    accents = "äöüÄÖÜßẞéèêëàâçœæîïôùûÿáčďěíňóřšťúůýžÁČĎĚÍŇÓŘŠŤÚŮÝŽąęłńśźżñõå„“”’«»…→↓□"

    assert [letter for letter in syllables + accents if not has(letter)] == []
    assert not has("😀")
    assert not has("ש")


@pytest.mark.parametrize("theme", THEMES)
def test_the_scale_is_ordered_even_and_legible(theme: str) -> None:
    shades = [colour(f"w{level}", theme) for level in range(LEVELS + 1)]  # type: ignore[arg-type]
    assert shades[0] == colour("paper", theme)  # type: ignore[arg-type]

    for before, after in pairwise(luminance(shade) for shade in shades):
        assert after < before if theme == "light" else after > before

    for level, shade in enumerate(shades):
        assert contrast(colour(f"v{level}", theme), shade) >= 4.5, level  # type: ignore[arg-type]

    for role in ("ink", "muted"):
        assert contrast(colour(role, theme), shades[0]) >= 4.5  # type: ignore[arg-type]
