"""Attention weights as a small HTML table for notebooks, without scripts, style sheets or
downloads.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

MAX_WORDS = 60  # per side; more do not fit on a screen


def weights_table(
    source: Sequence[str],
    target: Sequence[str],
    weights: npt.ArrayLike,
    caption: str = "",
) -> str:
    """Draw weights (target words, source words) as tinted cells with the words as headers and the
    numbers as tooltips.

    If a side has more than sixty words, the table shows the first sixty, and its caption says so.
    """
    if max(len(source), len(target)) > MAX_WORDS:
        sides = ((len(target), "rows"), (len(source), "columns"))
        shown = " and ".join(
            f"the first {min(n, MAX_WORDS)} of {n} {side}" for n, side in sides
        )
        caption = f"{caption}; {shown}" if caption else shown
    numbers = np.asarray(weights, dtype=float)
    head = "".join(
        f'<th scope="col" style="{_TURNED}">{escape(word)}</th>'
        for word in source[:MAX_WORDS]
    )
    rows = []
    for t, word in enumerate(target[:MAX_WORDS]):
        cells = "".join(
            _cell(word, source[s], float(numbers[t, s]))
            for s in range(min(len(source), MAX_WORDS))
        )
        rows.append(
            f'<tr><th scope="row" style="text-align:right">{escape(word)}</th>{cells}</tr>'
        )
    below = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{below}<tr><td></td>{head}</tr>{''.join(rows)}</table>"


_TURNED = "writing-mode:vertical-rl;transform:rotate(180deg);text-align:left"


def _cell(target: str, source: str, weight: float) -> str:
    ink = "color:#000;" if weight > 0.4 else ""
    shade = f"background:rgba(86,180,233,{weight:.3f})"
    text = f"{weight:.2f}" if weight >= 0.05 else ""
    return (
        f'<td title="{escape(target)} ← {escape(source)} {weight:.3f}" '
        f'style="{ink}{shade}">{text}</td>'
    )
