"""The journal of a run, `journal.jsonl`: one JSON line for each event, kept through stops and
resumptions.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from regard.common.atomic import write_bytes
from regard.common.reading import parse_json

SCORES = ("cross_entropy", "loss", "guided", "chrf", "bleu", "cider")
"""Values that are drawn as curves, so they have to be numbers."""

Report = Callable[[str, dict[str, Any]], None]
"""Called with the name and the values of each event of a run."""


class Journal:
    """Appends events to `journal.jsonl`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: str, **values: Any) -> None:
        """Append an event, with the time of day in seconds since 1970."""
        line = json.dumps(
            {"event": event, **_rounded(values), "time": round(time.time(), 1)},
            ensure_ascii=False,
        )
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def truncate(self, update: int) -> None:
        """Remove events after `update`: a resumed run writes them again."""
        events = [
            event
            for event in read(self.path, warn=True)
            if event.get("update", 0) <= update
        ]
        text = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)
        # JSON may hold half a surrogate pair.
        write_bytes(self.path, text.encode("utf-8", "replace"))


def _rounded(value: Any) -> Any:
    """Round floats to six decimals, in nested tables too; infinities and NaN, which JSON lacks,
    become null.
    """
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value


def read(path: Path, warn: bool = False) -> list[dict[str, Any]]:
    """The events of a journal; a line cut off by a crash, or damaged, is left out: it is only a
    record.

    `warn` says so, but for the last line, which every crash may cut off. A journal that cannot be
    read has no events.
    """
    if not path.is_file():
        return []
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as problem:
        warnings.warn(
            f"{path}: cannot be read ({problem.strerror}); a new journal is begun",
            stacklevel=3,
        )
        return []
    events = [_parse(line) for line in lines]
    if warn and (
        damaged := [
            number for number, event in enumerate(events[:-1], 1) if event is None
        ]
    ):
        more = f" and {len(damaged) - 1:,} more" if len(damaged) > 1 else ""
        warnings.warn(
            f"{path}: line {damaged[0]:,}{more} damaged and left out; it is only a record",
            stacklevel=3,
        )
    return [event for event in events if event is not None]


def cross_attention_entropy(event: Mapping[str, Any]) -> float | None:
    """The mean entropy of the attention to the source at a validation, over its layers; None
    without attention.
    """
    layers = event.get("attention")
    values = layers.items() if isinstance(layers, dict) else ()
    entropies = [
        value
        for name, value in values
        if "cross_attention" in name and isinstance(value, (int, float))
    ]
    return sum(entropies) / len(entropies) if entropies else None


def _parse(line: str) -> dict[str, Any] | None:
    """Parse a line; None if it is no event with an update and scores that are numbers."""
    try:
        event = parse_json(line)
    except ValueError:
        return None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return None
    update = event.get("update", -1 if event["event"] in ("train", "valid") else 0)
    if type(update) is not int or not 0 <= update < 2**63:
        return None
    return (
        event
        if all(
            isinstance(event.get(key, 0.0), (int, float, type(None))) for key in SCORES
        )
        else None
    )
