"""Readings as a small table of HTML, for notebooks: no program, no style sheet, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

__all__ = ["table"]

MOST = 60  # words on a side; more do not fit on a screen


def table(source: Sequence[str], target: Sequence[str], weights: npt.ArrayLike, caption: str = "") -> str:
    """Weights (target words, source words) as tinted cells, words at both sides; the number stands in the hint.

    Of more than sixty words on a side the first are shown, and the caption says so.
    """
    if max(len(source), len(target)) > MOST:
        rows_and_columns = ((len(target), "rows"), (len(source), "columns"))
        kept = " and ".join(f"the first {min(n, MOST)} of {n} {what}" for n, what in rows_and_columns)
        caption = f"{caption}; {kept}" if caption else kept
    numbers = np.asarray(weights, dtype=float)
    head = "".join(f'<th scope="col" style="{_TURNED}">{escape(word)}</th>' for word in source[:MOST])
    rows = []
    for t, word in enumerate(target[:MOST]):
        cells = "".join(_cell(word, source[s], float(numbers[t, s])) for s in range(min(len(source), MOST)))
        rows.append(f'<tr><th scope="row" style="text-align:right">{escape(word)}</th>{cells}</tr>')
    below = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{below}<tr><td></td>{head}</tr>{''.join(rows)}</table>"


_TURNED = "writing-mode:vertical-rl;transform:rotate(180deg);text-align:left"


def _cell(target: str, source: str, weight: float) -> str:
    ink = "color:#000;" if weight > 0.4 else ""
    shade = f"background:rgba(86,180,233,{weight:.3f})"
    text = f"{weight:.2f}" if weight >= 0.05 else ""
    return f'<td title="{escape(target)} ← {escape(source)} {weight:.3f}" style="{ink}{shade}">{text}</td>'
