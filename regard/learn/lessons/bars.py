"""Bar chart of attention weights as SVG for notebooks, with light and dark colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from regard.visualisation.template import templates

# Sizes in pixels.
ROW = 22  # height of the row of a key
HEAD = 26  # height of the heading of a query
GAP = 14  # between two queries
FULL_BAR = 200  # length of the bar of a weight of 1
# Approximate width of a letter; wide letters such as Hangul take about two.
EM = 13 * 0.62
BAR = "#4c8fd0"  # blue with contrast to white and to black


@dataclass(frozen=True)
class Bars:
    """One query: its name, its answer, and the weight of each key."""

    query: str
    answer: str
    rows: Sequence[tuple[str, float]]

    @property
    def heading(self) -> str:
        """Line above the bars."""
        return f"{self.query} → {self.answer}"


def draw(panels: Sequence[Bars], inline: bool = False) -> str:
    """Draw the weights as SVG.

    An `inline` figure inherits the colours of the page; any other has a background.
    """
    left = 12 + max(_width(name) for panel in panels for name, _ in panel.rows)
    widest_heading = max(24 + _width(panel.heading) for panel in panels)
    width = max(left + FULL_BAR + 60, widest_heading)
    *tops, height = accumulate(
        (HEAD + ROW * len(panel.rows) + GAP for panel in panels), initial=6.0
    )
    environment = templates("regard.learn.lessons")
    environment.filters["pixels"] = "{:.0f}".format
    values = {
        "ROW": ROW,
        "HEAD": HEAD,
        "FULL_BAR": FULL_BAR,
        "BAR": BAR,
        "left": left,
        "width": width,
    }
    return environment.get_template("bars.svg").render(
        values,
        height=height,
        inline=inline,
        panels=list(zip(tops, panels, strict=True)),
    )


def _width(text: str) -> float:
    """Estimate the width of a text in pixels, with a margin."""
    return EM * sum(1 if ord(letter) < 0x1100 else 1.8 for letter in text) + 6
