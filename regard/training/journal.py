"""The journal of a run, `journal.jsonl`: one JSON line for each event, kept through stops and resumptions."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.atomic import write_text

Report = Callable[[str, dict[str, Any]], None]
"""Called with the name and the values of each event of a run."""


class Journal:
    """Appends events to `journal.jsonl`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: str, **values: Any) -> None:
        """Append an event, with the time of day in seconds since 1970."""
        line = json.dumps({"event": event, **_rounded(values), "time": round(time.time(), 1)}, ensure_ascii=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def truncate(self, update: int) -> None:
        """Remove events after `update`: a resumed run writes them again."""
        events = [event for event in read(self.path) if event.get("update", 0) <= update]
        write_text(self.path, "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events))


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Round floats to six decimals, in nested tables too; infinities and NaN, which JSON lacks, become null."""
    return {key: _rounded(value) if isinstance(value, dict) else _finite(value) for key, value in values.items()}


def _finite(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return round(value, 6) if math.isfinite(value) else None


def read(path: Path) -> list[dict[str, Any]]:
    """The events of a journal; a line cut off by a crash, or damaged, is left out: it is only a record."""
    if not path.exists():
        return []
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and "event" in event and isinstance(event.get("update", 0), int):
            events.append(event)
    return events
