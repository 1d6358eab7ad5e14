"""Charts on linear and logarithmic axes: positions of points, markers, labels, and refused
input.
"""

import io
import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from drawn import assert_inside, lines_of, texts_of, words_of
from PIL import Image

from regard.common.errors import UsageError
from regard.visualisation import Chart, Figure, Panel, Series, draw_png, draw_svg, save
from regard.visualisation.charts import layout_chart
from regard.visualisation.colours import SERIES, THEMES, colour, contrast
from regard.visualisation.figure import Polyline, Text

SVG = "{http://www.w3.org/2000/svg}"
X_LABEL = "updates"
CATEGORIES = ("never", "1", "10–99", "1,000 and more")


def linear(*series: Series) -> Chart:
    return Chart("Title", (Panel("loss", X_LABEL, series),))


def layout_of(*series: Series) -> Figure:
    """Lay out a chart of one panel without titles of axes."""
    return layout_chart(Chart("t", (Panel("p", "n", series),)))


def logarithmic(lines: int = 3) -> Chart:
    """Build a chart in which line k grows with the k-th power."""
    series = []
    for k in range(lines):
        points = tuple((x, 0.5 * x**k) for x in (8.0, 16.0, 32.0, 64.0))
        series.append(Series(f"line {k}", points, label=f"{k}.00"))

    panels = [Panel(name, "n", tuple(series)) for name in ("time, ms", "memory, MiB")]
    return Chart(
        "Costs", tuple(panels), "of a layer", scale="log", columns=2, table="a <table>"
    )


def drawn_series(figure: Figure) -> list[Polyline]:
    """Return the lines of a figure that are strokes, not markers."""
    return [line for line in lines_of(figure) if line.width]


def test_points_are_aligned_with_their_ticks() -> None:
    points = ((0.0, 8.0), (100.0, 4.0), (200.0, 2.0))
    bands = ((7.5, 8.5), (3.5, 4.5), (1.5, 2.5))
    figure = layout_chart(linear(Series("training", points, bands)))
    texts = {text.text: text for text in texts_of(figure)}

    assert {"Title", "loss", X_LABEL, "training", "0", "200", "2", "8"} <= set(texts)

    lines = lines_of(figure)
    (path,) = [line for line in lines if len(line.points) == 3]
    ticks = [texts[name].x for name in ("0", "100", "200")]

    assert [x for x, _ in path.points] == pytest.approx(ticks)

    first, second, third = (y for _, y in path.points)
    assert (first - second) / (second - third) == pytest.approx(2), "the axis is even"

    bars = [line for line in lines if len(line.points) == 2]
    bars = [bar for bar in bars if bar.points[0][0] == bar.points[1][0]]
    assert len(bars) == 3

    height = abs(bars[0].points[0][1] - bars[0].points[1][1])
    assert height == pytest.approx((second - first) / 4)
    assert any(line.hint == "training: 8 at 0, 7.5 to 8.5" for line in lines)


def test_power_is_a_straight_line_with_its_exponent_as_slope() -> None:
    lines = drawn_series(layout_chart(logarithmic()))
    slopes = []
    for line in [line for line in lines if len(line.points) == 4][:3]:
        xs, ys = np.array(line.points).T
        first, second, third = np.diff(ys) / np.diff(xs)
        assert first == pytest.approx(second)
        assert second == pytest.approx(third)

        slopes.append(-first)

    assert slopes[0] == pytest.approx(0)
    assert slopes[2] == pytest.approx(2 * slopes[1])


def test_panels_in_a_column_share_the_range_and_the_label_of_x() -> None:
    left = Series("a", ((0.0, 1.0), (10.0, 2.0)))
    right = Series("b", ((5.0, 1.0), (20.0, 2.0)))
    panels = (Panel("loss", X_LABEL, (left,)), Panel("score", X_LABEL, (right,)))
    figure = layout_chart(Chart("Title", panels))

    assert words_of(figure).count(X_LABEL) == 1

    lines = [line.points for line in lines_of(figure) if len(line.points) == 2]
    ((x0, _), (x10, _)), ((x5, _), (x20, _)) = lines
    scale = (x20 - x5) / 15

    assert x10 - x0 == pytest.approx(10 * scale)
    assert x5 - x0 == pytest.approx(5 * scale)


@pytest.mark.parametrize("count", [1, 400])
def test_all_marks_are_inside_the_canvas(count: int) -> None:
    points = tuple((float(n), 1 / (n + 1)) for n in range(count))
    named = Series("a long name of a line", points)
    assert_inside(layout_of(named, Series("another", points)))


def test_labels_at_the_ends_do_not_overlap() -> None:
    assert_inside(layout_chart(logarithmic(6)))

    for end in (1.0, 2.0):  # also at the bottom of the panel
        same = Series("a", ((1.0, 1.0), (2.0, end)), label="1.00")
        figure = layout_chart(Chart("t", (Panel("p", "n", (same,) * 5),), scale="log"))
        heights = sorted(text.y for text in texts_of(figure, "ends-0"))

        assert len(heights) == 5
        assert min(below - above for above, below in itertools.pairwise(heights)) > 11


def test_series_differ_in_shape_and_colour() -> None:
    markers: dict[str, set[object]] = {}
    for line in lines_of(layout_chart(logarithmic(6))):
        if not line.width:
            outline = np.round(np.subtract(line.points, line.points[0]), 3)
            markers.setdefault(line.paint, set()).add(outline.tobytes())

    assert len(markers) == 6
    assert all(len(shapes) == 1 for shapes in markers.values())
    assert len(set.union(*markers.values())) == 6


@pytest.mark.parametrize("theme", THEMES)
def test_labels_in_the_colour_of_a_line_are_legible(theme: str) -> None:
    paper = colour("paper", theme)  # type: ignore[arg-type]
    for number in range(SERIES):
        assert contrast(colour(f"s{number}", theme), paper) >= 4.5  # type: ignore[arg-type]


def test_charts_are_saved_in_every_format(tmp_path: Path) -> None:
    figure = layout_chart(logarithmic())
    svg = draw_svg(figure)
    root = ElementTree.fromstring(svg)
    classes = [line.get("class") for line in root.iter(f"{SVG}polyline")]
    hints = {title.text for title in root.iter(f"{SVG}title")}

    assert classes.count("s0-line") == 3
    assert "line 1: 4 at 8" in hints
    assert "time, ms by n: line 0 from 0.5 to 0.5 0.00" in svg

    dark = svg.split("prefers-color-scheme:dark")[1]
    assert ".s1-line{fill:none;stroke:#ff9a57}" in dark

    plain = draw_svg(figure, styled=False)
    assert "<style>" not in plain, "a page has a style of its own"

    image = Image.open(io.BytesIO(draw_png(figure, 1)))
    colours = {f"#{r:02x}{g:02x}{b:02x}" for _, (r, g, b) in image.getcolors(1 << 20)}
    assert {colour(f"s{number}", "light") for number in range(3)} <= colours

    page = save(logarithmic(), tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<pre>a &lt;table&gt;</pre>" in page
    assert not re.search(r"(src|href)=", page), "nothing is fetched"


def test_invalid_charts_are_refused() -> None:
    with pytest.raises(UsageError, match="nothing to draw yet"):
        Chart("Title", ())

    point = Series("a", ((0.0, 0.0),))
    with pytest.raises(UsageError, match="1 to 8 series, got 9"):
        linear(*[point] * 9)

    bad = (Series("zero", ((1.0, 0.0),)), Series("none", ()))
    panels = (Panel("p", "n", bad), Panel("q", "n", ()))
    with pytest.raises(UsageError) as refused:
        Chart("Title", panels, scale="log")

    _, none, no_series = refused.value.causes
    assert "nothing to draw yet" in none
    assert "1 to 8 series, got 0" in no_series


def test_categories_are_ticks_and_their_error_bars_stand_side_by_side() -> None:
    points = tuple((float(n), 10.0 + n) for n in range(4))
    bands = tuple((9.0 + n, 12.0 + n) for n in range(4))
    series = tuple(Series(f"line {k}", points, bands) for k in range(3))
    panel = Panel("word F1", "occurrences", series, CATEGORIES)
    figure = layout_chart(Chart("Frequency", (panel,)))

    assert_inside(figure)

    texts = {text.text: text for text in texts_of(figure)}
    assert {"never", "1", "10–99"} <= set(texts)

    lines = [line for line in drawn_series(figure) if len(line.points) == 4]
    offsets = [line.points[1][0] - texts["1"].x for line in lines]
    assert offsets == pytest.approx([-10, 0, 10])
    assert any(line.hint == "line 1: 11 at 1, 10 to 13" for line in lines_of(figure))


def test_categories_that_are_too_wide_stand_on_levels_and_are_not_cut() -> None:
    names = tuple(f"{n} feed-forward" for n in range(6))
    points = tuple((float(n), 1.0) for n in range(6))
    panel = Panel("p", "layer", (Series("a", points),), names)
    figure = layout_chart(Chart("t", (panel,)), 366.0)
    assert {*names} <= {*words_of(figure)}
    labels = [text for text in texts_of(figure) if text.text in names]
    for one, other in itertools.combinations(labels, 2):
        (left, *_, right), (start, *_, end) = (
            sorted(x for x, _ in label.corners()) for label in (one, other)
        )
        assert one.y != other.y or right <= start or end <= left


def test_long_categories_are_broken_into_lines_above_the_label_of_the_axis() -> None:
    series = Series("a", tuple((float(n), 1.0) for n in range(12)))
    panel = Panel("p", "axis", (series,), ("one two three",) * 12)
    figure = layout_chart(Chart("t", (panel,)))
    lowest = [text.y for text in texts_of(figure) if text.text == "three"]

    assert len(lowest) == 12

    (label,) = (text for text in texts_of(figure) if text.text == "axis")
    assert max(lowest) + 12 < label.y < figure.height


def test_the_mean_of_seeds_is_thick_and_labelled_and_seeds_are_thin_without_markers() -> (
    None
):
    slopes = {"rnn": (0.0, 1.0, 5.0), "lstm": (0.5, 1.5, 5.2)}
    series = []
    for paint, (name, values) in enumerate(slopes.items()):
        for slope in values:
            points = tuple((float(x), slope * x) for x in range(20))
            series.append(Series(name, points, paint=paint))

    figure = layout_of(*series)
    *seeds, rnn_mean, lstm_mean = drawn_series(figure)

    assert [line.paint for line in seeds] == ["t0"] * 3 + ["t1"] * 3
    assert [rnn_mean.paint, lstm_mean.paint] == ["s0", "s1"], "means lie on top"

    assert words_of(figure).count("rnn") == 1

    labels = {text.text: text for text in texts_of(figure) if text.text in slopes}
    rnn, lstm = labels["rnn"], labels["lstm"]
    assert abs(rnn.y - lstm.y) >= rnn.size, "labels stand apart"

    for label, mean, own in ((rnn, rnn_mean, seeds[:3]), (lstm, lstm_mean, seeds[3:])):
        heights = [y for _, y in mean.points]
        of_seeds = [[y for _, y in seed.points] for seed in own]
        assert heights == pytest.approx(np.mean(of_seeds, axis=0))
        assert mean.width > max(seed.width for seed in own)
        assert abs(label.y - heights[-1]) < 1.5 * label.size

    markers = [line.paint for line in lines_of(figure) if not line.width]
    assert {*markers} == {"s0", "s1"}, "only means have markers"
    assert markers.count("s0") == 10 + 1, "and one beside the label"

    apart = [Series("rnn", ((n, 1.0), (n + 0.5, 2.0)), paint=3) for n in (0.0, 1.0)]
    lines = drawn_series(layout_of(*apart))
    assert {line.paint for line in lines} == {"s3"}, "without common points no mean"


def test_a_guide_is_drawn_behind_the_series_and_lies_inside_the_axes() -> None:
    series = Series("a", ((0.5, 0.4), (0.6, 0.5)))
    panel = Panel("p", "n", (series,), guide=((0.0, 0.0), (1.0, 1.0)))
    guide, line = drawn_series(layout_chart(Chart("t", (panel,))))

    assert (guide.paint, line.paint) == ("rule", "s0")

    places = [x for x, _ in (guide.points[0], *line.points, guide.points[1])]
    assert places == sorted(places)


def test_the_end_of_a_line_does_not_repeat_the_title_of_its_panel() -> None:
    points = ((1.0, 2.0), (2.0, 3.0))
    figure, named = (
        layout_chart(Chart("", (Panel("chrF", "", (Series(name, points),)),)))
        for name in ("chrF", "first")
    )

    assert words_of(figure).count("chrF") == 1
    assert figure.width < named.width


def test_the_legend_does_not_repeat_the_title_of_a_panel() -> None:
    """On a narrow screen, where panels below one another share the legend."""
    points = ((1.0, 2.0), (2.0, 3.0))
    panels = tuple(
        Panel("chrF", "", (Series(name, points),)) for name in ("chrF", "first")
    )
    legend = layout_chart(Chart("", panels), 350.0).groups[-1]
    names = [mark.text for mark in legend.marks if isinstance(mark, Text)]
    assert (legend.name, names) == ("legend", ["first"])


def test_a_short_logarithmic_axis_has_few_ticks() -> None:
    series = Series("a", ((2.0, 0.06), (512.0, 0.35), (8.0, 0.1)))
    figure = layout_chart(Chart("", (Panel("y", "x", (series,)),), scale="log"))
    ticks = [word for word in words_of(figure) if word.startswith("0.")]

    assert ticks == ["0.07", "0.1", "0.2", "0.3"]
