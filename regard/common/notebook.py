"""Results in a notebook: tables, data frames of pandas, and a bar of progress."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any

from regard.common.arguments import Report
from regard.common.counting import format_duration
from regard.common.errors import UsageError

_CAPTION = "text-align: left; white-space: nowrap"  # a narrow table would wrap it


def html_table(caption: str, rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows as an HTML table, with a column for each name in any of them."""
    names = dict.fromkeys(name for row in rows for name in row)
    lines = ([_shown(row.get(name)) for name in names] for row in rows)
    head = _html_row("th", names)
    body = "".join(_html_row("td", line) for line in lines)
    title = f'<caption style="{_CAPTION}">{escape(caption)}</caption>'
    return f"<table>{title}<thead>{head}</thead><tbody>{body}</tbody></table>"


def _html_row(kind: str, values: Iterable[object]) -> str:
    cells = "".join(f"<{kind}>{escape(str(value))}</{kind}>" for value in values)
    return f"<tr>{cells}</tr>"


def _shown(value: object) -> object:
    if isinstance(value, float):
        # A p-value of 0.001 is not 0.00.
        return f"{value:.1g}" if 0 < abs(value) < 0.01 else f"{value:.2f}"
    return "" if value is None else value


def data_frame(rows: Iterable[Mapping[str, object]]) -> Any:
    """Return rows as a data frame. Raises UsageError without pandas."""
    try:
        pandas = import_module("pandas")
    except ModuleNotFoundError:
        raise UsageError(
            "`to_frame` needs pandas, which is not installed: `pip install pandas`"
        ) from None
    return pandas.DataFrame(list(rows))


def progress_bar(title: str = "") -> Report | None:
    """Return a report that draws training as a bar with a title in the cell of a notebook; None
    elsewhere.
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    display = import_module("IPython.display")
    shown = display.display(display.HTML(""), display_id=True)
    known: dict[str, Any] = {"title": title}

    def report(event: str, values: dict[str, Any]) -> None:
        if event in ("train", "progress", "valid", "end"):
            known.update(values)
            shown.update(display.HTML(_bar(known)))

    return report


def _bar(values: Mapping[str, Any]) -> str:
    """Return a bar, with the last loss and scores under it."""
    total = values.get("updates")
    extent = f'value="{values["update"]}" max="{total}"' if total else ""
    parts = [values["title"]] if values["title"] else []
    parts.append(f"update {values['update']}" + (f" of {total}" if total else ""))
    for name in ("cross_entropy", "chrf", "bleu", "cider"):
        if name in values:
            parts.append(f"{name} {values[name]:.2f}")
    if "reason" in values:
        parts.append(values["reason"])
    elif values.get("seconds_left") is not None:
        parts.append(f"{format_duration(values['seconds_left'])} left")
    return f"<progress {extent}></progress> {escape(' · '.join(parts))}"
