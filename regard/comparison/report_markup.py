"""Markup of the report: text in two languages, names and texts from outside, numbers, tables.

All functions return HTML that is safe to insert; whatever comes from data is cleaned and escaped here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape

from regard.visualisation.text import clean, is_korean, isolated

Both = tuple[str, str]
"""A text in English and in Korean."""
NOTHING = "–"


def both(text: Both, tag: str = "span") -> str:
    """Return an element with the English text, which the page's script replaces by the Korean one."""
    english, korean = (escape(re.sub(r"(\d) %", "\\1\u00a0%", part)) for part in text)
    return f'<{tag} data-ko="{korean}">{english}</{tag}>'


def quote(text: str, tag: str = "bdi") -> str:
    """Return an element with a name or text from data, isolated from the direction of the text around it."""
    lang = ' lang="ko"' if is_korean(text) else ""
    direction = "" if tag == "bdi" else ' dir="auto"'
    return f"<{tag}{direction}{lang}>{escape(clean(text))}</{tag}>"


def signature(text: str) -> str:
    """Return the signature of a score, which may be broken between its parts."""
    return f"<code>{escape(clean(text)).replace('|', '|<wbr>')}</code>"


LABELS = {
    "source words": "원문 단어 수",
    "reference words": "참조 단어 수",
    "source sentences": "원문 문장",
    "occurrences in the training data": "학습 데이터에 나온 횟수",
    "every word seen in training": "모든 단어가 학습에 나옴",
    "some word never seen": "학습에 없던 단어가 있음",
    "seen in training": "학습에 나옴",
    "never seen": "학습에 없음",
    "never": "없음",
    "word F1": "단어 F1",
    "word recall": "단어 재현율",
}
"""Korean for the labels of breakdowns."""


def label(text: str) -> str:
    """Return a label of a breakdown, in Korean too if it is a known one."""
    return both((text, LABELS[text])) if text in LABELS else quote(text)


def label_texts(text: str) -> Both:
    """Return a label of a breakdown as text in both languages."""
    return plain(text), LABELS.get(text, plain(text))


def plain(text: str) -> str:
    """Return a name from data to put into a sentence, where `both` escapes it."""
    return isolated(clean(text))


def table(caption: Both, head: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[int] = ()) -> str:
    """Return a table that scrolls in its own box; head and cells are HTML, and the first cell of a row names it.

    `texts`: numbers of the columns that hold text, which are aligned at its beginning.
    """
    words = {0, *texts}
    heads = "".join(f'<th scope="col"{_text(n in words)}>{cell}</th>' for n, cell in enumerate(head))
    lines = "".join(
        f'<tr><th scope="row">{row[0]}</th>'
        + "".join(f"<td{_text(n in words)}>{cell}</td>" for n, cell in enumerate(row[1:], 1))
        + "</tr>\n"
        for row in rows
    )
    label = f'aria-label="{escape(caption[0])}" data-ko-label="{escape(caption[1])}"'
    return (
        f'<div class="scroll" tabindex="0" role="region" {label}><table>{both(caption, "caption")}\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{lines}</tbody></table></div>\n"
    )


def _text(is_text: bool) -> str:
    return ' class="text"' if is_text else ""


def details(summary: Both, content: str, is_printed: bool = True) -> str:
    """Return a part that opens on demand, and for print if it matters there."""
    printed = " data-print" if is_printed else ""
    return f"<details{printed}>{both(summary, 'summary')}\n{content}</details>\n"


def number(value: int | float | None, digits: int = 2) -> str:
    """Return a number with a fixed number of digits and a typographic minus; a dash if it is not known."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:,.{digits}f}".replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    """Return a difference with its sign."""
    return f"{value:+,.{digits}f}".replace("-", "−")


def between(low: float, high: float, digits: int = 2) -> str:
    """Return an interval; nothing if both ends are one number, since then none was computed."""
    return "" if low == high else f"{number(low, digits)}–{number(high, digits)}"


def probability(p: float) -> str:
    """Return a p-value with three digits."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def duration(seconds: float | None) -> str:
    """Return a duration in the two largest units that it needs."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def millions(count: float | None) -> str:
    """Return a large count in millions."""
    return NOTHING if count is None or not math.isfinite(count) else f"{count / 1e6:,.2f} M"
