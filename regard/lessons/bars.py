"""A small picture of weights for a notebook: a bar for each key, drawn by hand, light or dark as its surroundings.

`visualisation` stands floors above and draws whole models; this is all that attention needs of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

__all__ = ["Bars", "draw"]

ROW, HEAD, GAP, LONGEST = 22, 26, 14, 200  # pixels: of a key, of a query, between queries, of a weight of one
EM = 13 * 0.62  # pixels: about the width of a letter; Hangul and other wide ones take two
BAR = "#4c8fd0"  # stands out from white and from black alike, and is blue to every eye


@dataclass(frozen=True)
class Bars:
    """One query: what it is called, what it answered, and the weight of each key."""

    query: str
    answer: str
    rows: Sequence[tuple[str, float]]


def draw(panels: Sequence[Bars], inline: bool = False) -> str:
    """The weights as SVG; `inline` takes the colour of the page around it, otherwise it brings a background."""
    left = 12 + max(_width(name) for panel in panels for name, _ in panel.rows)
    width = max([left + LONGEST + 60, *(24 + _width(_heading(panel)) for panel in panels)])
    marks, top = list[str](), 6.0
    for panel in panels:
        marks += _panel(panel, left, top)
        top += HEAD + ROW * len(panel.rows) + GAP
    told = "; ".join(f"{_heading(p)}: " + ", ".join(f"{name} {weight:.2f}" for name, weight in p.rows) for p in panels)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" height="{top:.0f}" '
            f'viewBox="0 0 {width:.0f} {top:.0f}" font-family="system-ui, sans-serif" font-size="13">',
            f"<desc>{escape(told)}</desc>",
            *([] if inline else [_SURROUNDINGS]),
            f'<g fill="{"currentColor" if inline else "var(--ink)"}">',
            *marks,
            "</g>",
            "</svg>",
        ]
    )


_SURROUNDINGS = (
    "<style>svg{--paper:#fff;--ink:#1a1d21}"
    "@media (prefers-color-scheme:dark){svg{--paper:#14171b;--ink:#eceff3}}</style>"
    '<rect width="100%" height="100%" fill="var(--paper)"/>'
)


def _panel(panel: Bars, left: float, top: float) -> list[str]:
    marks = [f'<text x="12" y="{top + 16:.0f}" font-weight="600">{escape(_heading(panel))}</text>']
    for number, (name, weight) in enumerate(panel.rows):
        y, length = top + HEAD + ROW * number, LONGEST * min(1.0, max(0.0, weight))
        marks.append(f'<text x="{left - 6:.0f}" y="{y + 15:.0f}" text-anchor="end">{escape(name)}</text>')
        marks.append(f'<rect x="{left:.0f}" y="{y + 3:.0f}" width="{length:.1f}" height="{ROW - 6}" fill="{BAR}"/>')
        marks.append(f'<text x="{left + length + 6:.0f}" y="{y + 15:.0f}">{weight:.3f}</text>')
    return marks


def _heading(panel: Bars) -> str:
    return f"{panel.query} → {panel.answer}"


def _width(text: str) -> float:
    return EM * sum(1 if ord(letter) < 0x1100 else 1.8 for letter in text) + 6
