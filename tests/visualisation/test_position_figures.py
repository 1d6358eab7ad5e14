"""Figures of positional encodings: shades, cosine similarities, and the canvas."""

from pathlib import Path

import numpy as np

from regard.visualisation import save
from regard.visualisation.figure import Box, Text
from regard.visualisation.positions import layout_learned_positions, layout_sinusoids


def test_sinusoids_are_drawn_from_light_to_dark(tmp_path: Path) -> None:
    encoding = np.array([[-1.0, 0.0, 1.0], [1.0, 1.0, -1.0]])
    figure = layout_sinusoids(encoding)
    groups = {group.name: group.marks for group in figure.groups}
    boxes = [mark for mark in groups["sinusoids"] if isinstance(mark, Box)]
    assert [box.paint for box in boxes[:5]] == ["w0", "w50", "w100", "w100", "w0"]
    assert boxes[3].width == 2 * boxes[0].width, "equal neighbours are one box"
    assert save(figure, tmp_path / "a.png").stat().st_size > 500


def test_learned_positions_are_scaled_by_the_largest_value_beside_their_similarities(tmp_path: Path) -> None:
    vectors = np.array([[2.0, 0.0, 0.0], [0.0, -4.0, 0.0], [-1.0, 0.0, 0.0]])
    figure = layout_learned_positions([("encoder", vectors), ("decoder", vectors[:2])])
    groups = {group.name: group.marks for group in figure.groups}
    boxes = [mark.paint for mark in groups["encoder"] if isinstance(mark, Box)]
    rows = ["w75", "w50", "w50", "w0", "w50", "w38", "w50"]
    assert boxes[: len(rows)] == rows, "−4 is the lightest, 4 would be the darkest"
    frame = boxes.index("rule") + 1
    assert boxes[frame : frame + 7] == ["w100", "w50", "w0", "w50", "w100", "w50", "w0"], "cosines of all pairs"
    texts = [mark.text for mark in figure.marks() if isinstance(mark, Text)]
    assert {"−4", "4", "−1", "1", "encoder: 3 positions in 3 dimensions"} <= set(texts)
    assert all(mark.x < figure.width for mark in figure.marks() if isinstance(mark, Text))
    assert save(figure, tmp_path / "a.png").stat().st_size > 500


def test_zero_vectors_have_no_nan_similarities(tmp_path: Path) -> None:
    figure = layout_learned_positions([("encoder", np.zeros((2, 2)))])
    assert save(figure, tmp_path / "a.svg").read_text(encoding="utf-8").count("NaN") == 0
