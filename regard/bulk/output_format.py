"""How translations are written down: plain lines for people, JSON lines for programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from regard.data.word_alignments import format_pharaoh
from regard.pipeline import Translation

__all__ = ["OutputFormat"]


@dataclass(frozen=True)
class OutputFormat:
    """One line a translation, or one a hypothesis where plain lines hold several."""

    jsonl: bool = False
    nbest: int = 1

    def __call__(self, number: int, translation: Translation) -> str:
        """What is written for line `number`, with the line break."""
        return _jsonl(number, translation) if self.jsonl else _text(number, translation, self.nbest)


def _text(number: int, translation: Translation, nbest: int) -> str:
    lines = []
    for each in (translation.nbest or (translation,)) if nbest > 1 else (translation,):
        place = f"{number}\t{each.score:.4f}\t" if nbest > 1 else ""
        links = f"\t{format_pharaoh(each.alignments)}" if each.alignments is not None else ""
        lines.append(f"{place}{each.text}{links}\n")
    return "".join(lines)


def _jsonl(number: int, translation: Translation) -> str:
    nbest = [_values(each) for each in translation.nbest]
    values = {"line": number, **_values(translation), "nbest": nbest, "repeats": _repeats(translation)}
    return json.dumps(values, ensure_ascii=False) + "\n"


def _values(translation: Translation) -> dict[str, Any]:
    return {
        "text": translation.text,
        "score": round(translation.score, 6),
        "tokens": translation.tokens,
        "alignments": translation.alignments,
    }


def _repeats(translation: Translation) -> dict[str, Any] | None:
    if translation.repetition is None:
        return None
    text, times = translation.repetition
    return {"text": text, "times": times}
