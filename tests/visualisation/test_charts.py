"""Lines over axes and waves of positions: what is given is where it should be."""

from pathlib import Path

import numpy as np
import pytest

from regard.errors import UsageError
from regard.visualisation import Chart, Series, save
from regard.visualisation.charts import layout_chart, layout_places, layout_positions
from regard.visualisation.layout import Box, Line, Text

ACROSS = "updates"


def chart(*traces: Series) -> Chart:
    return Chart("Title", ACROSS, (("loss", traces),))


def test_points_stand_between_their_ticks() -> None:
    trace = Series("training", ((0.0, 8.0), (100.0, 4.0), (200.0, 2.0)), ((7.5, 8.5), (3.5, 4.5), (1.5, 2.5)))
    picture = layout_chart(chart(trace))
    texts = {mark.text: mark for mark in picture.marks() if isinstance(mark, Text)}
    assert {"Title", "loss", ACROSS, "training", "0", "200", "2", "8"} <= set(texts)
    lines = [mark for mark in picture.marks() if isinstance(mark, Line)]
    (way,) = [line for line in lines if len(line.points) == 3]
    assert [x for x, _ in way.points] == pytest.approx([texts["0"].x, texts["100"].x, texts["200"].x])
    heights = [y for _, y in way.points]
    assert (heights[0] - heights[1]) / (heights[1] - heights[2]) == pytest.approx(2), "the axis is even"
    bars = [line for line in lines if len(line.points) == 2 and line.points[0][0] == line.points[1][0]]
    assert len(bars) == 3
    assert abs(bars[0].points[0][1] - bars[0].points[1][1]) == pytest.approx((heights[1] - heights[0]) / 4)
    assert any(line.hint == "training: 8 at 0, 7.5 to 8.5" for line in lines)


@pytest.mark.parametrize("count", [1, 2, 400])
def test_nothing_leaves_the_canvas(count: int, tmp_path: Path) -> None:
    points = tuple((float(n), 1 / (n + 1)) for n in range(count))
    made = chart(Series("a long name of a line", points), Series("another", points))
    for mark in layout_chart(made).marks():
        corners = (
            mark.corners() if isinstance(mark, Text) else mark.points if isinstance(mark, Line) else ((mark.x, mark.y),)
        )
        assert all(
            -1e-6 <= x <= layout_chart(made).width and -1e-6 <= y <= layout_chart(made).height for x, y in corners
        ), mark
    for name in ("a.svg", "a.png", "a.html"):
        assert save(made, tmp_path / name).stat().st_size > 500


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(UsageError, match="nothing to draw yet"):
        chart()
    with pytest.raises(UsageError, match="nothing to draw yet"):
        chart(Series("empty", ()))
    with pytest.raises(UsageError, match="can be told apart"):
        chart(*(Series(str(n), ((0.0, 0.0),)) for n in range(9)))


def test_waves_are_painted_from_light_to_dark(tmp_path: Path) -> None:
    waves = np.array([[-1.0, 0.0, 1.0], [1.0, 1.0, -1.0]])
    picture = layout_positions(waves)
    boxes = [mark for group in picture.groups if group.name == "waves" for mark in group.marks if isinstance(mark, Box)]
    assert [box.paint for box in boxes[:5]] == ["w0", "w50", "w100", "w100", "w0"]
    assert boxes[3].width == 2 * boxes[0].width, "equal neighbours are one box"
    assert save(picture, tmp_path / "a.png").stat().st_size > 500


def test_learnt_positions_are_painted_by_their_largest_number_and_beside_it_their_nearness(tmp_path: Path) -> None:
    vectors = np.array([[2.0, 0.0, 0.0], [0.0, -4.0, 0.0], [-1.0, 0.0, 0.0]])
    picture = layout_places([("encoder", vectors), ("decoder", vectors[:2])])
    boxes = [m.paint for group in picture.groups if group.name == "encoder" for m in group.marks if isinstance(m, Box)]
    rows = ["w75", "w50", "w50", "w0", "w50", "w38", "w50"]
    assert boxes[: len(rows)] == rows, "−4 is the lightest, 4 would be the darkest"
    scale = boxes.index("rule") + 1
    assert boxes[scale : scale + 7] == ["w100", "w50", "w0", "w50", "w100", "w50", "w0"], "cosines of each with each"
    texts = [m.text for group in picture.groups for m in group.marks if isinstance(m, Text)]
    assert {"−4", "4", "−1", "1", "encoder: 3 positions in 3 dimensions"} <= set(texts)
    assert all(mark.x < picture.width for group in picture.groups for mark in group.marks if isinstance(mark, Text))
    assert save(picture, tmp_path / "a.png").stat().st_size > 500


def test_positions_of_nothing_are_as_alike_as_nothing(tmp_path: Path) -> None:
    picture = layout_places([("encoder", np.zeros((2, 2)))])
    assert save(picture, tmp_path / "a.svg").read_text(encoding="utf-8").count("NaN") == 0
