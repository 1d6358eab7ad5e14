"""Heatmap geometry from 1 to 80 words: nothing is clipped, no two labels overlap."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest

from regard.visualisation import Alignment
from regard.visualisation.colours import LEVELS, THEMES, colour, contrast, luminance
from regard.visualisation.figure import Box, Figure, Text
from regard.visualisation.fonts import elide, has, load, measure
from regard.visualisation.heatmap import layout_heatmap

SIZES = [
    (1, 1),
    (4, 4),
    (5, 1),
    (1, 5),
    (12, 12),
    (18, 20),
    (30, 30),
    (31, 24),
    (45, 45),
    (3, 60),
    (60, 3),
    (80, 80),
]
LONG = ("Donaudampfschifffahrtselektrizitätenhaup", "가나다라마바사아자차" * 4, "m" * 40)


def texts(figure: Figure, group: str) -> list[Text]:
    return [
        mark
        for drawn_group in figure.groups
        if drawn_group.name == group
        for mark in drawn_group.marks
        if isinstance(mark, Text)
    ]


def corners(mark: Box | Text) -> tuple[tuple[float, float], ...]:
    if isinstance(mark, Text):
        return mark.corners()
    return ((mark.x, mark.y), (mark.x + mark.width, mark.y + mark.height))


def extent(text: Text) -> tuple[float, float, float, float]:
    """Return left, right, top and bottom of a text in the coordinates of the rotated text."""
    cos = math.cos(math.radians(text.turn))
    sin = math.sin(math.radians(text.turn))
    along = [x * cos - y * sin for x, y in text.corners()]
    down = [x * sin + y * cos for x, y in text.corners()]
    return min(along), max(along), min(down), max(down)


def assert_nothing_overlaps(labels: list[Text]) -> None:
    extents = [(extent(label), label.text) for label in labels]
    for number, ((left, right, top, bottom), label) in enumerate(extents):
        for (left_, right_, top_, bottom_), earlier in extents[:number]:
            apart = (
                right <= left_ or right_ <= left or bottom <= top_ + 0.01 or bottom_ <= top + 0.01
            )
            assert apart, f"{label!r} overlaps {earlier!r}"


def assert_well_laid(figure: Figure) -> None:
    for mark in figure.marks():
        for x, y in corners(mark):
            assert 0 <= x <= figure.width, mark
            assert 0 <= y <= figure.height, mark
    assert_nothing_overlaps(texts(figure, "sources") + texts(figure, "end-label"))
    for group in ("targets", "values", "header", "axes", "legend"):
        assert_nothing_overlaps([text for text in texts(figure, group) if text.text])


@pytest.mark.parametrize(("rows", "columns"), SIZES)
@pytest.mark.parametrize("has_end", [True, False])
def test_labels_do_not_overlap_and_are_inside_the_canvas(
    rows: int, columns: int, has_end: bool, random_alignment: Callable[..., Alignment]
) -> None:
    links = frozenset({(0, 0), (columns - 1, rows - 1)})
    assert_well_laid(
        layout_heatmap(
            random_alignment(
                rows, columns, has_end=has_end, title="Title", caption="c" * 300, links=links
            )
        )
    )


def test_words_of_forty_letters_are_shown_in_full_and_longer_ones_elided(
    random_alignment: Callable[..., Alignment],
) -> None:
    weights = random_alignment(3, 4, has_end=False).weights
    figure = layout_heatmap(Alignment((*LONG, "y" * 300), LONG, weights))
    assert_well_laid(figure)
    assert [label.text for label in texts(figure, "targets")] == list(LONG)
    *full, last = texts(figure, "sources")
    assert [label.text for label in full] == list(LONG)
    assert "…" in last.text
    assert last.hint == "y" * 300


@pytest.mark.parametrize(
    "word", ["😀", "👩‍👩‍👧", "שלום", "日本語", "", " ", "\ufffd", "a\u0301\u0302", "ᄒᆞᆫ글"]
)
def test_any_script_is_laid_out(word: str, random_alignment: Callable[..., Alignment]) -> None:
    assert_well_laid(
        layout_heatmap(
            Alignment((word,) * 3, (word,) * 2, random_alignment(2, 3).weights, title=word)
        )
    )


def test_cells_are_square_enough_and_shrink_with_length(
    random_alignment: Callable[..., Alignment],
) -> None:
    sides = []
    for size in (1, 5, 20, 40, 80):
        cell = next(
            g for g in layout_heatmap(random_alignment(size, size)).groups if g.name == "cells"
        ).marks[0]
        assert isinstance(cell, Box)
        assert 0.3 <= cell.height / cell.width <= 1
        sides.append(cell.height)
    assert sides == sorted(sides, reverse=True)
    assert sides[-1] >= 12


def test_every_word_and_weight_has_a_mark(bread: Alignment) -> None:
    figure = layout_heatmap(bread)
    assert [label.text for label in texts(figure, "sources")] == list(bread.source)
    assert [label.text for label in texts(figure, "targets")] == list(bread.target)
    assert [text.text for text in texts(figure, "values")][:4] == ["0.90", "0.05", "0.03", "0.01"]
    cells = next(group for group in figure.groups if group.name == "cells").marks
    assert len(cells) == 16
    assert cells[0].paint == "w90"


def test_the_ceiling_can_be_fixed(bread: Alignment) -> None:
    faint = Alignment(bread.source, bread.target, bread.weights / 10)
    paint = {
        c: next(g for g in layout_heatmap(faint, c).groups if g.name == "cells").marks[0].paint
        for c in (None, 1.0)
    }
    assert paint == {None: "w90", 1.0: "w9"}


@pytest.mark.system
def test_the_font_holds_all_hangul_and_the_accents_of_europe() -> None:
    load.cache_clear()
    syllables = (chr(code) for code in range(0xAC00, 0xAC00 + 11_172))
    assert [s for s in syllables if not has(s)] == []
    assert [
        c
        for c in "äöüÄÖÜßẞéèêëàâçœæîïôùûÿáčďěíňóřšťúůýžÁČĎĚÍŇÓŘŠŤÚŮÝŽąęłńśźżñõå„“”’«»…→↓□"
        if not has(c)
    ] == []
    assert not has("😀")
    assert not has("ש")


def test_elided_text_fits_its_limit() -> None:
    for limit in (40.0, 100.0, 300.0):
        assert measure(elide("Donaudampfschifffahrt" * 4, 12.0, limit), 12.0) <= limit
    assert elide("short", 12.0, 300.0) == "short"


@pytest.mark.parametrize("theme", THEMES)
def test_the_scale_is_ordered_even_and_legible(theme: str) -> None:
    shades = [colour(f"w{level}", theme) for level in range(LEVELS + 1)]  # type: ignore[arg-type]
    assert shades[0] == colour("paper", theme)  # type: ignore[arg-type]
    steps = [after - before for before, after in pairwise(luminance(shade) for shade in shades)]
    assert all(step < 0 for step in steps) if theme == "light" else all(step > 0 for step in steps)
    for level, shade in enumerate(shades):
        assert contrast(colour(f"v{level}", theme), shade) >= 4.5, level  # type: ignore[arg-type]
    for role in ("ink", "muted"):
        assert contrast(colour(role, theme), shades[0]) >= 4.5  # type: ignore[arg-type]
