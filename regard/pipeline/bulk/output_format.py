"""Format translations and captions: text lines for people, JSON lines for programs."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.text.translation import Translation

if TYPE_CHECKING:
    from regard.pipeline import Caption


@dataclass(frozen=True)
class OutputFormat:
    """Format of results: a line of text, with `nbest` a line per hypothesis, or a JSON object."""

    jsonl: bool = False
    nbest: int = 1

    def __call__(self, label: int | str, result: Translation | Caption) -> str:
        """Return the lines of a result with line breaks; `label` is a line number or a file
        name.
        """
        if self.jsonl:
            return json.dumps(_json_object(label, result), ensure_ascii=False) + "\n"
        if self.nbest > 1:
            return "".join(
                f"{label}\t{hypothesis.score:.4f}\t{_text(hypothesis)}\n"
                for hypothesis in result.nbest or (result,)
            )
        if isinstance(label, int):
            return f"{_text(result)}\n"
        return f"{label}\t{_text(result)}\n"


def _text(result: Translation | Caption) -> str:
    if isinstance(result, Translation) and result.alignments is not None:
        # Imported late, since the module also reads training data.
        from regard.data.word_alignments import format_pharaoh

        return f"{result.text}\t{format_pharaoh(result.alignments)}"
    return result.text


def _json_object(label: int | str, result: Translation | Caption) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if isinstance(label, int):
        values["line"] = label
    else:
        # JSON is UTF-8, but a file name may not be.
        values["file"] = os.fsencode(label).decode("utf-8", "replace")
    values.update(_hypothesis(result))
    values["nbest"] = [_hypothesis(hypothesis) for hypothesis in result.nbest]
    values["repetition"] = None
    if result.repetition:
        text, times = result.repetition
        values["repetition"] = {"text": text, "times": times}
    if isinstance(result, Translation):
        values["doubtful"] = result.doubtful
        values["broken"] = result.broken
        values["quality"] = _probability(result.quality)
        values["warnings"] = result.notes
        values["parts"] = [
            {
                **part._asdict(),
                "score": round(part.score, 6),
                "quality": _probability(part.quality),
            }
            for part in result.parts
        ]
    if not isinstance(result, Translation) and result.readings is not None:
        words = zip(result.readings.target_text, result.regions, strict=False)
        values["regions"] = [
            {"word": word, "box": [round(side, 4) for side in box]}
            for word, box in words
        ]
    return values


def _probability(quality: float | None) -> float | None:
    return None if quality is None else round(quality, 4)


def _hypothesis(result: Translation | Caption) -> dict[str, Any]:
    values: dict[str, Any] = {
        "text": result.text,
        "score": round(result.score, 6),
        "tokens": result.tokens,
    }
    if isinstance(result, Translation):
        values["alignments"] = result.alignments
    return values
