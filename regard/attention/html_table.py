"""Attention weights as a small HTML table for notebooks, without scripts or style sheets."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

MAX_WORDS = 60
"""Maximum number of words shown on each side; more do not fit on a screen."""


def weights_table(
    source: Sequence[str],
    target: Sequence[str],
    weights: npt.ArrayLike,
    caption: str = "",
) -> str:
    """Draw weights (target words, source words) as a table of tinted cells.

    Words are the headers of rows and columns, and numbers are tooltips. If a side has more than
    `MAX_WORDS` words, the table shows the first ones, and its caption says so.
    """
    if max(len(source), len(target)) > MAX_WORDS:
        sides = ((len(target), "rows"), (len(source), "columns"))
        shown = " and ".join(
            f"the first {min(n, MAX_WORDS)} of {n} {side}" for n, side in sides
        )
        caption = f"{caption}; {shown}" if caption else shown

    numbers = np.asarray(weights, dtype=float)
    column_headers = "".join(
        f'<th scope="col" style="{_VERTICAL}">{escape(word)}</th>'
        for word in source[:MAX_WORDS]
    )
    rows = []
    for t, target_word in enumerate(target[:MAX_WORDS]):
        cells = "".join(
            _cell(target_word, source_word, float(numbers[t, s]))
            for s, source_word in enumerate(source[:MAX_WORDS])
        )
        header = f'<th scope="row" style="text-align:right">{escape(target_word)}</th>'
        rows.append(f"<tr>{header}{cells}</tr>")

    caption_element = f"<caption>{escape(caption)}</caption>" if caption else ""
    header_row = f"<tr><td></td>{column_headers}</tr>"
    return f"<table>{caption_element}{header_row}{''.join(rows)}</table>"


_VERTICAL = "writing-mode:vertical-rl;transform:rotate(180deg);text-align:left"


def _cell(target: str, source: str, weight: float) -> str:
    ink = "color:#000;" if weight > 0.4 else ""
    shade = f"background:rgba(86,180,233,{weight:.3f})"
    text = f"{weight:.2f}" if weight >= 0.05 else ""
    return (
        f'<td title="{escape(target)} ← {escape(source)} {weight:.3f}" '
        f'style="{ink}{shade}">{text}</td>'
    )
