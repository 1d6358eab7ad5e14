"""Parse input lines into texts and constraints: plain text, or JSON lines with their own
constraints.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.common.errors import DataError
from regard.common.reading import parse_json
from regard.data.text import too_long
from regard.pipeline.bulk.lines import Chunk
from regard.text.constraints import NO_CONSTRAINTS, Constraints

if TYPE_CHECKING:
    from regard.search import ConstraintEncoder, SearchSettings

_KEYS = {
    "text": "a text",
    "prefix": "a text",
    "terms": "a list of texts",
    "forbid": "a list of texts",
}
_EXCERPT = 80  # characters


@dataclass(frozen=True)
class LineParser:
    """Parser of lines. `constraints` hold for all; a JSON line may add to them: {"text": …,
    "terms": [ … ]}.

    With the `encoder` of a model, constraints that it cannot fulfil or that exceed the `limits` are
    errors, too.
    """

    constraints: Constraints = NO_CONSTRAINTS
    jsonl: bool = False
    name: str = "the input"
    encoder: ConstraintEncoder | None = None
    limits: SearchSettings | None = None  # by default, those of SearchSettings()

    def __call__(
        self, chunk: Chunk
    ) -> tuple[list[str], Constraints | list[Constraints]]:
        """Return the texts to translate and their constraints. Raises DataError with all causes."""
        if not self.jsonl:
            return list(chunk.lines), self.constraints
        causes = list[str]()
        texts = list[str]()
        constraints = list[Constraints]()
        for number, line in enumerate(chunk.lines, chunk.start):
            where = f"{self.name}, line {number}"
            line_causes, text, line_constraints = self._parse(line, where)
            causes += line_causes
            texts.append(text)
            constraints.append(line_constraints)
        DataError.raise_all(causes)
        return texts, constraints

    def _parse(self, line: str, where: str) -> tuple[list[str], str, Constraints]:
        """Return the errors in a line of JSON, its text, and its constraints."""
        if not line.strip():
            return [], "", self.constraints
        try:
            values = parse_json(line)
        except ValueError as problem:
            cause = f'{where}: not JSON ({problem}); wanted {{"text": …}}'
            return [cause], "", self.constraints
        if not isinstance(values, dict) or "text" not in values:
            cause = f'{where}: wanted a JSON object with the key text, such as {{"text": …}}'
            return [cause], "", self.constraints
        causes = [
            f"{where}: unknown key {_shown(key)}; known are {', '.join(_KEYS)}"
            for key in values
            if key not in _KEYS
        ]
        causes += [
            f"{where}: {key}: wanted {_KEYS[key]}, got {_shown(value)}"
            for key, value in values.items()
            if key in _KEYS and not _has_type(key, value)
        ]
        if causes:
            return causes, "", self.constraints
        from regard.search import SearchSettings, contradictions

        limits = self.limits or SearchSettings()
        if len(values["text"]) > limits.max_line:
            return [f"{where}: text {too_long(limits.max_line)}"], "", self.constraints
        constraints = Constraints(
            values.get("prefix", self.constraints.prefix),
            (*self.constraints.terms, *values.get("terms", ())),
            (*self.constraints.forbid, *values.get("forbid", ())),
        )
        if self.encoder is None:
            causes = contradictions(constraints, f"{where}: ")
        else:
            causes = self.encoder.check(constraints, f"{where}: ", limits)
        return causes, values["text"], constraints


PLAIN_TEXT = LineParser()


def _shown(value: Any) -> str:
    """Return the representation of a JSON value, shortened."""
    text = repr(value)
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…"


def _has_type(key: str, value: Any) -> bool:
    if _KEYS[key] == "a text":
        return isinstance(value, str)
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
