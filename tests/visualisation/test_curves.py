"""Lines on logarithmic axes: where points lie, what tells lines apart, and what is refused."""

from __future__ import annotations

import itertools
import re
import xml.dom.minidom
from pathlib import Path

import pytest

from regard.errors import UsageError
from regard.visualisation import Curves, LogSeries, Panel, save
from regard.visualisation.colours import SERIES, THEMES, colour, contrast
from regard.visualisation.curves import curves_page, layout_curves
from regard.visualisation.layout import Line, Text
from regard.visualisation.rendering import draw_png, draw_svg


def curves(lines: int = 3) -> Curves:
    series = tuple(
        LogSeries(f"line {k}", tuple((x, 0.5 * x**k) for x in (8.0, 16.0, 32.0, 64.0)), f"{k}.00") for k in range(lines)
    )
    return Curves((Panel("time, ms", "n", series), Panel("memory, MiB", "n", series)), "Costs", "of a layer", "a table")


def drawn() -> list[Line]:
    return [
        mark
        for mark in layout_curves(curves()).marks()
        if isinstance(mark, Line) and len(mark.points) == 4 and mark.width
    ]


def test_a_power_is_a_straight_line_as_steep_as_its_exponent() -> None:
    slopes = []
    for line in drawn()[:3]:
        (x0, y0), (x1, y1), (x2, y2), (x3, y3) = line.points
        assert (y1 - y0) / (x1 - x0) == pytest.approx((y3 - y2) / (x3 - x2))
        slopes.append(-(y3 - y0) / (x3 - x0))
    assert slopes[0] == pytest.approx(0)
    assert slopes[2] == pytest.approx(2 * slopes[1])


def test_everything_lies_on_the_paper_and_labels_do_not_meet() -> None:
    picture = layout_curves(curves(6))
    for mark in picture.marks():
        corners = mark.corners() if isinstance(mark, Text) else mark.points if isinstance(mark, Line) else ()
        assert all(0 <= x <= picture.width and 0 <= y <= picture.height for x, y in corners), mark
    same = LogSeries("a", ((1.0, 1.0), (2.0, 2.0)), "1.00")
    groups = layout_curves(Curves((Panel("p", "n", (same,) * 5),))).groups
    ends = next(group for group in groups if group.name == "ends-0").marks
    heights = sorted(mark.y for mark in ends if isinstance(mark, Text))
    assert len(heights) == 5
    assert min(below - above for above, below in itertools.pairwise(heights)) > 11


def test_lines_are_told_apart_by_shape_and_colour() -> None:
    picture = layout_curves(curves(6))
    markers = {}
    for mark in picture.marks():
        if isinstance(mark, Line) and not mark.width:
            x, y = mark.points[0]
            shape = tuple((round(px - x, 3), round(py - y, 3)) for px, py in mark.points)
            markers.setdefault(mark.paint, set()).add(shape)
    assert len(markers) == 6
    shapes = [shape for shapes in markers.values() for shape in shapes]
    assert all(len(shapes) == 1 for shapes in markers.values())
    assert len(set(shapes)) == 6


@pytest.mark.parametrize("theme", THEMES)
def test_labels_in_the_colour_of_a_line_are_legible(theme: str) -> None:
    for number in range(SERIES):
        assert contrast(colour(f"s{number}", theme), colour("paper", theme)) >= 4.5  # type: ignore[arg-type]


def test_svg_is_whole_and_knows_the_dark() -> None:
    svg = draw_svg(layout_curves(curves()))
    document = xml.dom.minidom.parseString(svg)
    assert len([e for e in document.getElementsByTagName("polyline") if e.getAttribute("class") == "s0-line"]) == 3
    hints = [title.firstChild.data for title in document.getElementsByTagName("title")[1:]]  # type: ignore[union-attr]
    assert "line 1: 4 at 8" in hints
    assert ".s1-line{fill:none;stroke:#ff9a57}" in svg.split("prefers-color-scheme:dark")[1]
    assert "time, ms by n: line 0 0.5 0.00" in svg


def test_png_has_the_lines_colours() -> None:
    import io

    from PIL import Image

    image = Image.open(io.BytesIO(draw_png(layout_curves(curves()), 1)))
    colours = {f"#{r:02x}{g:02x}{b:02x}" for _, (r, g, b) in image.getcolors(1 << 20)}
    assert {colour(f"s{number}", "light") for number in range(3)} <= colours


def test_files_and_page(tmp_path: Path) -> None:
    for name in ("a.svg", "a.png", "a.html"):
        assert save(curves(), tmp_path / name).stat().st_size > 1000
    page = curves_page(curves())
    assert "<pre>a table</pre>" in page
    assert not re.search(r"(src|href)=", page), "nothing is fetched"
    with pytest.raises(UsageError, match=r"a picture is written as .svg, .png or .html; got 'a.gif'"):
        save(curves(), tmp_path / "a.gif")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.png", "a.svg"]


def test_what_cannot_be_drawn_is_refused_all_at_once() -> None:
    bad = (LogSeries("zero", ((1.0, 0.0),)), LogSeries("none", ()))
    with pytest.raises(UsageError) as told:
        Curves((Panel("p", "n", bad), Panel("q", "n", ())))
    assert len(told.value.causes) == 3
    with pytest.raises(UsageError, match="no panel"):
        Curves(())
