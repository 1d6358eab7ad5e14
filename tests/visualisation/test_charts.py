"""Charts on linear and logarithmic axes: positions of points, markers, labels, and refused
input.
"""

import io
import itertools
import re
import xml.dom.minidom
from pathlib import Path

import pytest
from PIL import Image

from regard.common.errors import UsageError
from regard.visualisation import Chart, Figure, Panel, Series, draw_png, draw_svg, save
from regard.visualisation.charts import layout_chart
from regard.visualisation.colours import SERIES, THEMES, colour, contrast
from regard.visualisation.figure import Box, Polyline, Text

X_LABEL = "updates"


def linear(*series: Series) -> Chart:
    return Chart("Title", (Panel("loss", X_LABEL, series),))


def logarithmic(lines: int = 3) -> Chart:
    """Build a chart in which line k grows with the k-th power."""
    series = tuple(
        Series(
            f"line {k}", tuple((x, 0.5 * x**k) for x in (8.0, 16.0, 32.0, 64.0)), label=f"{k}.00"
        )
        for k in range(lines)
    )
    panels = Panel("time, ms", "n", series), Panel("memory, MiB", "n", series)
    return Chart("Costs", panels, "of a layer", scale="log", columns=2, table="a <table>")


def test_points_are_aligned_with_their_ticks() -> None:
    series = Series(
        "training", ((0.0, 8.0), (100.0, 4.0), (200.0, 2.0)), ((7.5, 8.5), (3.5, 4.5), (1.5, 2.5))
    )
    figure = layout_chart(linear(series))
    texts = {mark.text: mark for mark in figure.marks() if isinstance(mark, Text)}
    assert {"Title", "loss", X_LABEL, "training", "0", "200", "2", "8"} <= set(texts)
    lines = [mark for mark in figure.marks() if isinstance(mark, Polyline)]
    (path,) = [line for line in lines if len(line.points) == 3]
    assert [x for x, _ in path.points] == pytest.approx(
        [texts["0"].x, texts["100"].x, texts["200"].x]
    )
    heights = [y for _, y in path.points]
    assert (heights[0] - heights[1]) / (heights[1] - heights[2]) == pytest.approx(2), (
        "the axis is even"
    )
    bars = [
        line for line in lines if len(line.points) == 2 and line.points[0][0] == line.points[1][0]
    ]
    assert len(bars) == 3
    assert abs(bars[0].points[0][1] - bars[0].points[1][1]) == pytest.approx(
        (heights[1] - heights[0]) / 4
    )
    assert any(line.hint == "training: 8 at 0, 7.5 to 8.5" for line in lines)


def test_power_is_a_straight_line_with_its_exponent_as_slope() -> None:
    marks = layout_chart(logarithmic()).marks()
    lines = [
        mark
        for mark in marks
        if isinstance(mark, Polyline) and len(mark.points) == 4 and mark.width
    ]
    slopes = []
    for line in lines[:3]:
        (x0, y0), (x1, y1), (x2, y2), (x3, y3) = line.points
        assert (y1 - y0) / (x1 - x0) == pytest.approx((y3 - y2) / (x3 - x2))
        slopes.append(-(y3 - y0) / (x3 - x0))
    assert slopes[0] == pytest.approx(0)
    assert slopes[2] == pytest.approx(2 * slopes[1])


def test_panels_in_a_column_share_the_range_and_the_label_of_x() -> None:
    panels = (
        Panel("loss", X_LABEL, (Series("a", ((0.0, 1.0), (10.0, 2.0))),)),
        Panel("score", X_LABEL, (Series("b", ((5.0, 1.0), (20.0, 2.0))),)),
    )
    figure = layout_chart(Chart("Title", panels))
    assert [mark.text for mark in figure.marks() if isinstance(mark, Text)].count(X_LABEL) == 1
    first, second = (
        mark for mark in figure.marks() if isinstance(mark, Polyline) and len(mark.points) == 2
    )
    scale = (second.points[1][0] - second.points[0][0]) / 15
    assert first.points[1][0] - first.points[0][0] == pytest.approx(10 * scale)
    assert second.points[0][0] - first.points[0][0] == pytest.approx(5 * scale)


@pytest.mark.parametrize("count", [1, 2, 400])
def test_all_marks_are_inside_the_canvas(count: int, tmp_path: Path) -> None:
    points = tuple((float(n), 1 / (n + 1)) for n in range(count))
    chart = linear(Series("a long name of a line", points), Series("another", points))
    figure = layout_chart(chart)
    for mark in figure.marks():
        assert_inside(mark, figure)
    for name in ("a.svg", "a.png", "a.html"):
        assert save(chart, tmp_path / name).stat().st_size > 500


def assert_inside(mark: object, figure: Figure) -> None:
    assert isinstance(mark, (Text, Polyline, Box))
    corners = (
        mark.corners()
        if isinstance(mark, Text)
        else mark.points
        if isinstance(mark, Polyline)
        else ((mark.x, mark.y),)
    )
    assert all(-1e-6 <= x <= figure.width and -1e-6 <= y <= figure.height for x, y in corners), mark


def test_marks_are_inside_the_canvas_and_labels_do_not_overlap() -> None:
    figure = layout_chart(logarithmic(6))
    for mark in figure.marks():
        assert_inside(mark, figure)
    for end in (1.0, 2.0):  # also at the bottom of the panel
        same = Series("a", ((1.0, 1.0), (2.0, end)), label="1.00")
        groups = layout_chart(Chart("t", (Panel("p", "n", (same,) * 5),), scale="log")).groups
        ends = next(group for group in groups if group.name == "ends-0").marks
        heights = sorted(mark.y for mark in ends if isinstance(mark, Text))
        assert len(heights) == 5
        assert min(below - above for above, below in itertools.pairwise(heights)) > 11


@pytest.mark.parametrize(
    "chart",
    [
        linear(*(Series(str(n), ((0.0, float(n)), (1.0, float(n)))) for n in range(6))),
        logarithmic(6),
    ],
)
def test_series_differ_in_shape_and_colour(chart: Chart) -> None:
    markers: dict[str, set[object]] = {}
    for mark in layout_chart(chart).marks():
        if isinstance(mark, Polyline) and not mark.width:
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


def test_svg_is_complete_and_has_a_dark_theme() -> None:
    svg = draw_svg(layout_chart(logarithmic()))
    document = xml.dom.minidom.parseString(svg)
    assert (
        len(
            [
                e
                for e in document.getElementsByTagName("polyline")
                if e.getAttribute("class") == "s0-line"
            ]
        )
        == 3
    )
    hints = [title.firstChild.data for title in document.getElementsByTagName("title")[1:]]  # type: ignore[union-attr]
    assert "line 1: 4 at 8" in hints
    assert ".s1-line{fill:none;stroke:#ff9a57}" in svg.split("prefers-color-scheme:dark")[1]
    assert "time, ms by n: line 0 from 0.5 to 0.5 0.00" in svg


def test_png_has_the_colours_of_the_lines() -> None:
    image = Image.open(io.BytesIO(draw_png(layout_chart(logarithmic()), 1)))
    colours = {f"#{r:02x}{g:02x}{b:02x}" for _, (r, g, b) in image.getcolors(1 << 20)}
    assert {colour(f"s{number}", "light") for number in range(3)} <= colours


def test_charts_are_saved_in_every_format(tmp_path: Path) -> None:
    for name in ("a.svg", "a.png", "a.html"):
        assert save(logarithmic(), tmp_path / name).stat().st_size > 1000
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<pre>a &lt;table&gt;</pre>" in page
    assert not re.search(r"(src|href)=", page), "nothing is fetched"
    with pytest.raises(
        UsageError, match=r"a figure is written as .svg, .png or .html; got 'a.gif'"
    ):
        save(logarithmic(), tmp_path / "a.gif")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.png", "a.svg"]


def test_invalid_charts_are_refused() -> None:
    with pytest.raises(UsageError, match="nothing to draw yet"):
        Chart("Title", ())
    with pytest.raises(UsageError, match="1 to 8 series, got 0"):
        linear()
    with pytest.raises(UsageError, match="nothing to draw yet"):
        linear(Series("empty", ()))
    with pytest.raises(UsageError, match="1 to 8 series, got 9"):
        linear(*(Series(str(n), ((0.0, 0.0),)) for n in range(9)))


def test_all_problems_are_reported_at_once() -> None:
    bad = (Series("zero", ((1.0, 0.0),)), Series("none", ()))
    with pytest.raises(UsageError) as refused:
        Chart("Title", (Panel("p", "n", bad), Panel("q", "n", ())), scale="log")
    assert len(refused.value.causes) == 3


CATEGORIES = ("never", "1", "10–99", "1,000 and more")


def by_category(lines: int = 3) -> Chart:
    points = tuple((float(n), 10.0 + n) for n in range(4))
    bands = tuple((9.0 + n, 12.0 + n) for n in range(4))
    series = tuple(Series(f"line {k}", points, bands) for k in range(lines))
    return Chart("Frequency", (Panel("word F1", "occurrences", series, CATEGORIES),))


def test_categories_are_ticks_and_their_error_bars_stand_side_by_side() -> None:
    figure = layout_chart(by_category())
    for mark in figure.marks():
        assert_inside(mark, figure)
    texts = {mark.text: mark for mark in figure.marks() if isinstance(mark, Text)}
    assert {"never", "1", "10–99"} <= set(texts)
    assert (
        " ".join(text for text in texts if text in ("1,000 and more", "1,000", "and", "more"))
        == "1,000 and more"
    )
    lines = [
        mark
        for mark in figure.marks()
        if isinstance(mark, Polyline) and len(mark.points) == 4 and mark.width
    ]
    assert [line.points[1][0] - texts["1"].x for line in lines] == pytest.approx([-10, 0, 10])
    assert any(
        mark.hint == "line 1: 11 at 1, 10 to 13"
        for mark in figure.marks()
        if isinstance(mark, Polyline)
    )


def test_long_categories_are_broken_into_lines_above_the_label_of_the_axis() -> None:
    panel = Panel(
        "p",
        "axis",
        (Series("a", tuple((float(n), 1.0) for n in range(12))),),
        ("one two three",) * 12,
    )
    figure = layout_chart(Chart("t", (panel,)))
    texts = [mark for mark in figure.marks() if isinstance(mark, Text)]
    assert sum(text.text == "three" for text in texts) == 12
    label = next(text for text in texts if text.text == "axis")
    assert label.y - max(text.y for text in texts if text.text == "three") > 12
    assert label.y < figure.height


def test_series_that_share_a_paint_share_colour_marker_and_label() -> None:
    seeds = tuple(Series("rnn", ((0.0, 1.0), (1.0, 2.0 + seed)), paint=3) for seed in range(8))
    figure = layout_chart(Chart("t", (Panel("p", "n", seeds),)))
    assert {mark.paint for mark in figure.marks() if isinstance(mark, Polyline)} == {"s3", "t3"}, (
        "and a tint of it"
    )
    assert [mark.text for mark in figure.marks() if isinstance(mark, Text)].count("rnn") == 1


def test_the_mean_of_seeds_is_thick_and_labelled_at_its_end_and_seeds_are_thin_without_markers() -> (
    None
):
    ends = {"rnn": (0.0, 1.0, 5.0), "lstm": (0.5, 1.5, 5.2)}
    curves = [
        (name, tuple((float(x), y * x) for x in range(20))) for name, ys in ends.items() for y in ys
    ]
    series = tuple(Series(name, points, paint=[*ends].index(name)) for name, points in curves)
    figure = layout_chart(Chart("t", (Panel("p", "n", series),)))
    marks = [mark for mark in figure.marks() if isinstance(mark, Polyline)]
    lines = [mark for mark in marks if mark.width]
    assert [mark.paint for mark in lines] == ["t0"] * 3 + ["t1"] * 3 + ["s0", "s1"], (
        "means lie on top"
    )
    assert max(line.width for line in lines[:6]) < min(line.width for line in lines[6:])
    for n, seeds in enumerate((lines[:3], lines[3:6])):
        heights = zip(*([y for _, y in seed.points] for seed in seeds), strict=True)
        assert [y for _, y in lines[6 + n].points] == pytest.approx([sum(ys) / 3 for ys in heights])
    assert not any(mark.paint[0] == "t" for mark in marks if not mark.width), (
        "only means have markers"
    )
    assert sum(mark.paint == "s0" for mark in marks if not mark.width) == 10 + 1, (
        "and one beside the label"
    )
    labels = [mark for mark in figure.marks() if isinstance(mark, Text) and mark.text in ends]
    assert abs(labels[0].y - labels[1].y) >= labels[0].size, "labels stand apart"
    for label, mean in zip(
        sorted(labels, key=lambda text: text.text == "lstm"), lines[6:], strict=True
    ):
        assert abs(label.y - mean.points[-1][1]) < 1.5 * label.size


def test_series_of_one_name_without_common_points_have_no_mean() -> None:
    apart = tuple(Series("rnn", ((n, 1.0), (n + 0.5, 2.0)), paint=3) for n in (0.0, 1.0))
    lines = [
        mark
        for mark in layout_chart(Chart("t", (Panel("p", "n", apart),))).marks()
        if isinstance(mark, Polyline)
    ]
    assert {(mark.paint, mark.width) for mark in lines if mark.width} == {("s3", 2.0)}


def test_a_guide_is_drawn_behind_the_series_and_lies_inside_the_axes() -> None:
    panel = Panel(
        "p", "n", (Series("a", ((0.5, 0.4), (0.6, 0.5))),), guide=((0.0, 0.0), (1.0, 1.0))
    )
    figure = layout_chart(Chart("t", (panel,)))
    lines = [mark for mark in figure.marks() if isinstance(mark, Polyline) and mark.width]
    assert [line.paint for line in lines] == ["rule", "s0"]
    assert (
        lines[0].points[0][0]
        < lines[1].points[0][0]
        < lines[1].points[1][0]
        < lines[0].points[1][0]
    )


def test_a_figure_of_a_page_has_no_style_of_its_own() -> None:
    assert "<style>" not in draw_svg(layout_chart(by_category()), styled=False)


def test_the_end_of_a_line_does_not_repeat_the_title_of_its_panel() -> None:
    figure = layout_chart(
        Chart("", (Panel("chrF", "", (Series("chrF", ((1.0, 2.0), (2.0, 3.0))),)),))
    )
    texts = [mark.text for group in figure.groups for mark in group.marks if isinstance(mark, Text)]
    assert texts.count("chrF") == 1
    named = layout_chart(
        Chart("", (Panel("chrF", "", (Series("first", ((1.0, 2.0), (2.0, 3.0))),)),))
    )
    assert figure.width < named.width


def test_a_short_logarithmic_axis_has_few_ticks() -> None:
    series = Series("a", ((2.0, 0.06), (512.0, 0.35), (8.0, 0.1)))
    figure = layout_chart(Chart("", (Panel("y", "x", (series,)),), scale="log"))
    ticks = [mark.text for group in figure.groups for mark in group.marks if isinstance(mark, Text)]
    assert [tick for tick in ticks if tick.startswith("0.")] == ["0.07", "0.1", "0.2", "0.3"]
