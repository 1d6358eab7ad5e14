"""A run's diary: one JSON line for each thing that happened, kept through stops and resumptions."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

__all__ = ["Journal", "read"]


class Journal:
    """Appends to `journal.jsonl`; a line is written whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: str, **values: Any) -> None:
        """Note what happened, with the time of day in seconds since 1970."""
        line = json.dumps({"event": event, **_rounded(values), "time": round(time.time(), 1)}, ensure_ascii=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def cut(self, update: int) -> None:
        """Forget what came after `update`: a resumed run writes it again."""
        kept = [line for line in read(self.path) if line.get("update", 0) <= update]
        beside = self.path.with_name(self.path.name + ".part")
        beside.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept), encoding="utf-8")
        beside.replace(self.path)


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    """With six digits after the point, in tables within too; what is no number is null, which JSON can say."""
    return {key: _rounded(value) if isinstance(value, dict) else _plain(value) for key, value in values.items()}


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return round(value, 6) if math.isfinite(value) else None


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal; a last line cut off by a crash is left out."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8").split("\n"):
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines
