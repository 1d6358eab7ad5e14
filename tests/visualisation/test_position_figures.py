"""Figures of positional encodings: shades, cosine similarities, and the canvas."""

from pathlib import Path

import numpy as np
from drawn import boxes_of, lines_of, texts_of, words_of

from regard.cli.plain_views import draw_sinusoids, sinusoid_rows
from regard.layers.positional_encoding import interleaved
from regard.visualisation import save
from regard.visualisation.position_figures import (
    layout_learned_positions,
    layout_sinusoids,
    shown_dimensions,
)


def test_columns_are_in_the_order_of_the_paper() -> None:
    size = 20
    position = np.arange(30)[:, None]
    expected = np.zeros((30, size))
    for d in range(0, size, 2):
        angle = position / 10000 ** (d / size)
        expected[:, d : d + 1] = np.sin(angle)
        expected[:, d + 1 : d + 2] = np.cos(angle)

    np.testing.assert_allclose(sinusoid_rows(size, 30), expected, atol=1e-5)
    assert shown_dimensions(20) == [4, 5, 6, 7]
    assert sorted(interleaved(7)) == list(range(7))

    for size in range(2, 60):
        assert max(shown_dimensions(size)) < size


def test_the_waves_are_those_of_their_dimensions() -> None:
    encoding = sinusoid_rows(20, 50)
    figure = layout_sinusoids(encoding)
    assert {"dimension 4, sine", "dimension 7, cosine"} <= {*words_of(figure)}

    lines = [line for line in lines_of(figure) if len(line.points) == 50]
    for line, d in zip(lines, (4, 5, 6, 7), strict=True):
        heights = [y for _, y in line.points]
        correlation = np.corrcoef(heights, encoding[:, d])[0, 1]
        assert correlation < -0.9999, "up is positive"


def test_short_waves_are_smooth_with_a_dot_at_each_position() -> None:
    """By sine and cosine themselves, ten points from each position to the next."""
    figure = draw_sinusoids(2)
    sine, cosine = (line for line in lines_of(figure) if len(line.points) == 201)
    for line, wave in ((sine, np.sin), (cosine, np.cos)):
        x, y = np.array(line.points).T
        height = wave(20 * (x - x[0]) / (x[-1] - x[0]))
        assert np.corrcoef(y, height)[0, 1] < -0.9999
    dots = [line for line in lines_of(figure) if line.hint.startswith("dimension 0")]
    assert len(dots) == 21


def test_a_marked_position_has_its_values_a_line_and_a_frame() -> None:
    """The values by the paper's formula: sin and cos of 20 / 10000^(2i/20)."""
    figure = layout_sinusoids(sinusoid_rows(20, 50), marked=20)
    values = [("4, sine", "−0.03"), ("5, cosine", "−1.00"), ("6, sine", "0.95")]

    assert {f"dimension {d}; at 20: {value}" for d, value in values} <= {
        *words_of(figure)
    }
    assert [box.paint for box in boxes_of(figure, "sinusoids")].count("link") == 1


def test_sinusoids_are_drawn_in_colours_that_diverge_from_zero(tmp_path: Path) -> None:
    figure = layout_sinusoids(np.array([[-1.0, 0.0, 1.0], [1.0, 1.0, -1.0]]))
    boxes = boxes_of(figure, "sinusoids")
    assert [box.paint for box in boxes[:5]] == ["n100", "p0", "p100", "p100", "n100"]
    assert boxes[3].width == 2 * boxes[0].width, "equal neighbours are one box"
    assert save(figure, tmp_path / "a.png").stat().st_size > 500


def test_learned_positions_are_scaled_by_the_largest_value_beside_their_similarities(
    tmp_path: Path,
) -> None:
    vectors = np.array([[2.0, 0.0, 0.0], [0.0, -4.0, 0.0], [-1.0, 0.0, 0.0]])
    figure = layout_learned_positions([("encoder", vectors), ("decoder", vectors[:2])])
    paints = [box.paint for box in boxes_of(figure, "encoder")]
    values, _, cosines = " ".join(paints).partition(" rule ")

    assert values.startswith("p50 p0 p0 n100 p0 n25 p0"), "−4 is the strongest"
    assert cosines.startswith("p100 p0 n100 p0 p100 p0 n100"), "of all pairs"

    expected = {"−4", "4", "−1", "1", "encoder: 3 positions in 3 dimensions"}
    assert expected <= {*words_of(figure)}
    assert all(text.x < figure.width for text in texts_of(figure))

    zeros = layout_learned_positions([("encoder", np.zeros((2, 2)))])
    assert "NaN" not in save(zeros, tmp_path / "a.svg").read_text(encoding="utf-8")
