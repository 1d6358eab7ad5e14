"""What the lines of a file ask for: as plain text all the same, as JSON lines each what it says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from regard.bulk.chunks import Chunk
from regard.errors import DataError
from regard.search import NO_CONSTRAINTS, ConstraintEncoder, Constraints, contradictions

__all__ = ["PLAINLY", "LineParser"]

_KEYS = {"text": "a text", "prefix": "a text", "terms": "a list of texts", "forbid": "a list of texts"}


@dataclass(frozen=True)
class LineParser:
    """What is asked of every line of a file; lines of JSON may ask for more: {"text": …, "terms": [ … ]}. With the
    `wording` of a model, what it cannot write is told too.
    """

    constraints: Constraints = NO_CONSTRAINTS
    jsonl: bool = False
    name: str = "the input"
    encoder: ConstraintEncoder | None = None

    def __call__(self, chunk: Chunk) -> tuple[list[str], Constraints | list[Constraints]]:
        """The texts to translate, and what is asked of each. Raises DataError with all that cannot be read."""
        if not self.jsonl:
            return list(chunk.lines), self.constraints
        read = [self._read(line, f"{self.name}, line {n}") for n, line in enumerate(chunk.lines, chunk.start)]
        if causes := [cause for found, _, _ in read for cause in found]:
            raise DataError(*causes)
        return [text for _, text, _ in read], [wish for _, _, wish in read]

    def _read(self, line: str, where: str) -> tuple[list[str], str, Constraints]:
        """What is wrong with a line of JSON, its text, and its wish."""
        if not line.strip():
            return [], "", self.constraints
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as problem:
            return [f'{where}: not JSON ({problem}); wanted {{"text": …}}'], "", self.constraints
        if not isinstance(values, dict) or "text" not in values:
            return [f'{where}: wanted a JSON object with the key text, such as {{"text": …}}'], "", self.constraints
        causes = [f"{where}: unknown key {key!r}; known are {', '.join(_KEYS)}" for key in values if key not in _KEYS]
        causes += [
            f"{where}: {key}: wanted {_KEYS[key]}, got {value!r}"
            for key, value in values.items()
            if key in _KEYS and not _fits(key, value)
        ]
        if causes:
            return causes, "", self.constraints
        terms, forbid = ((*getattr(self.constraints, key), *values.get(key, ())) for key in ("terms", "forbid"))
        wish = Constraints(values.get("prefix", self.constraints.prefix), terms, forbid)
        check = contradictions if self.encoder is None else self.encoder.check
        return check(wish, f"{where}: "), values["text"], wish


PLAINLY = LineParser()


def _fits(key: str, value: Any) -> bool:
    if _KEYS[key] == "a text":
        return isinstance(value, str)
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
