"""Bar chart of attention weights as SVG for notebooks, with light and dark colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

ROW, HEAD, GAP, FULL_BAR = 22, 26, 14, 200  # pixels: height of a key and of a query, gap, length of a weight of 1
EM = 13 * 0.62  # pixels: about the width of a letter; wide ones such as Hangul take two
BAR = "#4c8fd0"  # blue with contrast to white and to black


@dataclass(frozen=True)
class Bars:
    """One query: its name, its answer, and the weight of each key."""

    query: str
    answer: str
    rows: Sequence[tuple[str, float]]


def draw(panels: Sequence[Bars], inline: bool = False) -> str:
    """Draw the weights as SVG; `inline` inherits the colour of the page, otherwise there is a background."""
    left = 12 + max(_width(name) for panel in panels for name, _ in panel.rows)
    width = max([left + FULL_BAR + 60, *(24 + _width(_heading(panel)) for panel in panels)])
    marks, top = list[str](), 6.0
    for panel in panels:
        marks += _panel(panel, left, top)
        top += HEAD + ROW * len(panel.rows) + GAP
    description = "; ".join(
        f"{_heading(p)}: " + ", ".join(f"{name} {weight:.2f}" for name, weight in p.rows) for p in panels
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" height="{top:.0f}" '
            f'viewBox="0 0 {width:.0f} {top:.0f}" font-family="system-ui, sans-serif" font-size="13">',
            f"<desc>{escape(description)}</desc>",
            *([] if inline else [_BACKGROUND]),
            f'<g fill="{"currentColor" if inline else "var(--ink)"}">',
            *marks,
            "</g>",
            "</svg>",
        ]
    )


_BACKGROUND = (
    "<style>svg{--paper:#fff;--ink:#1a1d21}"
    "@media (prefers-color-scheme:dark){svg{--paper:#14171b;--ink:#eceff3}}</style>"
    '<rect width="100%" height="100%" fill="var(--paper)"/>'
)


def _panel(panel: Bars, left: float, top: float) -> list[str]:
    marks = [f'<text x="12" y="{top + 16:.0f}" font-weight="600">{escape(_heading(panel))}</text>']
    for number, (name, weight) in enumerate(panel.rows):
        y, length = top + HEAD + ROW * number, FULL_BAR * min(1.0, max(0.0, weight))
        marks.append(f'<text x="{left - 6:.0f}" y="{y + 15:.0f}" text-anchor="end">{escape(name)}</text>')
        marks.append(f'<rect x="{left:.0f}" y="{y + 3:.0f}" width="{length:.1f}" height="{ROW - 6}" fill="{BAR}"/>')
        marks.append(f'<text x="{left + length + 6:.0f}" y="{y + 15:.0f}">{weight:.3f}</text>')
    return marks


def _heading(panel: Bars) -> str:
    return f"{panel.query} → {panel.answer}"


def _width(text: str) -> float:
    return EM * sum(1 if ord(letter) < 0x1100 else 1.8 for letter in text) + 6
