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
    """Formats one result: one line of text, or with `nbest` a line for each hypothesis; or one JSON
    object.
    """

    jsonl: bool = False
    nbest: int = 1

    def __call__(self, label: int | str, result: Translation | Caption) -> str:
        """Return the lines of a result, with their line breaks. `label`: a translation's line
        number, or a file.
        """
        if self.jsonl:
            return json.dumps(_json_object(label, result), ensure_ascii=False) + "\n"
        if self.nbest > 1:
            return "".join(
                f"{label}\t{h.score:.4f}\t{_text(h)}\n"
                for h in result.nbest or (result,)
            )
        return (
            f"{_text(result)}\n"
            if isinstance(label, int)
            else f"{label}\t{_text(result)}\n"
        )


def _text(result: Translation | Caption) -> str:
    if isinstance(result, Translation) and result.alignments is not None:
        # Late: it reads training data too.
        from regard.data.word_alignments import format_pharaoh

        return f"{result.text}\t{format_pharaoh(result.alignments)}"
    return result.text


def _json_object(label: int | str, result: Translation | Caption) -> dict[str, Any]:
    # A file name that is not UTF-8 is no JSON text either.
    key = (
        {"line": label}
        if isinstance(label, int)
        else {"file": os.fsencode(label).decode("utf-8", "replace")}
    )
    values = {
        **key,
        **_hypothesis(result),
        "nbest": [_hypothesis(hypothesis) for hypothesis in result.nbest],
    }
    values["repetition"] = result.repetition and dict(
        zip(("text", "times"), result.repetition, strict=True)
    )
    if isinstance(result, Translation):
        values["doubtful"] = result.doubtful
        values["parts"] = [
            {**part._asdict(), "score": round(part.score, 6)} for part in result.parts
        ]
    if not isinstance(result, Translation) and result.readings is not None:
        words = zip(result.readings.target_text, result.regions, strict=False)
        values["regions"] = [
            {"word": word, "box": [round(side, 4) for side in box]}
            for word, box in words
        ]
    return values


def _hypothesis(result: Translation | Caption) -> dict[str, Any]:
    values: dict[str, Any] = {
        "text": result.text,
        "score": round(result.score, 6),
        "tokens": result.tokens,
    }
    return (
        {**values, "alignments": result.alignments}
        if isinstance(result, Translation)
        else values
    )
