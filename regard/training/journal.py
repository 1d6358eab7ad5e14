"""The journal of a run, `journal.jsonl`: one JSON line for each event.

It is continued if the run is stopped and resumed.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.common.atomic import write_bytes
from regard.common.reading import parse_json

SCORES = ("cross_entropy", "loss", "guided", "chrf", "bleu", "cider")
"""Values that are drawn as curves, so they have to be numbers."""


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
        """Remove the events after `update`, which a resumed run writes again."""
        events = [
            event
            for event in read(self.path, warn=True)
            if event.get("update", 0) <= update
        ]
        text = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)
        # Strings in JSON may contain half a surrogate pair, which UTF-8 cannot encode.
        write_bytes(self.path, text.encode("utf-8", "replace"))


def _rounded(value: Any) -> Any:
    """Round floats to six decimals, also in nested tables.

    Infinities and NaN, which JSON lacks, become None.
    """
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value


def read(path: Path, warn: bool = False) -> list[dict[str, Any]]:
    """Return the events of a journal, without damaged lines; training does not depend on them.

    With `warn` a warning names the damaged lines, except the last line, which any crash can cut
    off. A journal that is missing or cannot be read has no events.
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
    damaged = [number for number, event in enumerate(events[:-1], 1) if event is None]
    if warn and damaged:
        more = f" and {len(damaged) - 1:,} more" if len(damaged) > 1 else ""
        warnings.warn(
            f"{path}: line {damaged[0]:,}{more} damaged and left out; it is only a record",
            stacklevel=3,
        )
    return [event for event in events if event is not None]


def cross_attention_entropy(event: Mapping[str, Any]) -> float | None:
    """Return the entropy of cross-attention at a validation, averaged over its layers, or None."""
    layers = event.get("attention")
    if not isinstance(layers, dict):
        return None
    entropies = [
        value
        for name, value in layers.items()
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
    for key in SCORES:
        if not isinstance(event.get(key), (int, float, type(None))):
            return None
    return event
