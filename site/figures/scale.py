"""Data and still of the figure `scale`: scores of random queries and keys, and their softmax."""

from __future__ import annotations

from typing import Any

import torch

from regard.attention.scores import build_score
from regard.common.bilingual import Language, Text
from regard.visualisation.figure import Box, Figure, Group, Mark, make_figure
from regard.visualisation.figure import Text as Label
from regard.visualisation.screen import screen_width

LARGEST = 512
KEYS = 6
DRAWS = 3
SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512)
MANY = 4000
"""Draws of which the mean is taken."""
POWERS = {"nothing": 0.0, "root": 0.5, "d": 1.0}
"""The power of d by which scores are divided."""
TITLES = {
    "nothing": Text("q·k", "q·k"),
    "root": Text("q·k / √d", "q·k / √d"),
    "d": Text("q·k / d", "q·k / d"),
}
WIDE = 70.0, 180.0, 110.0, 12.0
"""Left edge and step of columns, width of a bar, size of texts."""
NARROW = 52.0, 108.0, 48.0, 11.0
"""The same on a phone."""
TITLE = Text(
    "Softmax of the scores of random vectors, by their dimension d",
    "무작위 벡터의 점수와 softmax, 차원 d에 따라",
)
SUMMARY = Text(
    "Not divided, one key takes nearly all weight at d = 512; divided by √d the weights stay as "
    "they are at d = 2; divided by d they become equal.",
    "나누지 않으면 d = 512에서 키 하나가 가중치를 거의 다 가져갑니다. "
    "√d로 나누면 d = 2일 때와 비슷하고, d로 나누면 모두 같아집니다.",
)


def scores_of(query: torch.Tensor, keys: torch.Tensor, power: float) -> torch.Tensor:
    """Return the scores of queries (N, d) and keys (N, S, d), divided by a power of d."""
    size = query.shape[-1]
    score = build_score("dot", 1, size)
    products = score(query[:, None, None], score.prepare(keys[:, None]))
    return products.flatten(1) / size**power


def make() -> dict[str, Any]:
    """Return queries and keys, and the mean of the largest weight for each dimension."""
    generator = torch.Generator().manual_seed(0)
    shape = DRAWS, 1 + KEYS, LARGEST
    vectors = torch.randn(shape, generator=generator, dtype=torch.float64)
    largest = {
        name: [_mean_largest(size, power) for size in SIZES]
        for name, power in POWERS.items()
    }
    rows = [[[round(x, 3) for x in row] for row in draw] for draw in vectors.tolist()]
    return {"vectors": rows, "sizes": list(SIZES), "largest": largest}


def _mean_largest(size: int, power: float) -> float:
    generator = torch.Generator().manual_seed(size)
    query = torch.randn(MANY, size, generator=generator)
    keys = torch.randn(MANY, KEYS, size, generator=generator)
    weights = scores_of(query, keys, power).softmax(-1)
    return round(float(weights.amax(-1).mean()), 5)


def still(data: dict[str, Any], language: Language, state: dict[str, str]) -> Figure:
    """Draw the weights of the first draw, for the smallest and the largest dimension; a state marks
    its divisor.
    """
    vectors = torch.tensor(data["vectors"][0], dtype=torch.float64)
    marks: list[Mark] = []
    first, step, bar, size = NARROW if screen_width() else WIDE
    for column, (name, power) in enumerate(POWERS.items()):
        left = first + step * column
        marks.append(Label(left, 26, TITLES[name].by(language), size + 2))
        if name == state.get("divisor"):
            marks.append(Box(left - 8, 6, step - 8, 298, "link", outline=2.0))
        for row, dimension in enumerate((SIZES[0], SIZES[-1])):
            top = 44.0 + 140 * row
            query = vectors[:1, :dimension]
            keys = vectors[None, 1:, :dimension]
            weights = scores_of(query, keys, power).softmax(-1)[0].tolist()
            if not column:
                marks.append(Label(4, top + 60, f"d = {dimension}", size))
            for key, weight in enumerate(weights):
                y = top + 19.0 * key
                marks += [
                    Box(left, y, bar, 13, "grid"),
                    Box(left, y, bar * weight, 13, "s0"),
                    Label(left + bar + 5, y + 11, f"{weight:.3f}", size),
                ]
    title, summary = TITLE.by(language), SUMMARY.by(language)
    width = screen_width() or 600.0
    return make_figure(width, 310, (Group("weights", tuple(marks)),), title, summary)
