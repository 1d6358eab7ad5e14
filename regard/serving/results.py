"""Convert translations and captions to the structures that the server sends as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from regard.serving.service import (
    SearchRequest,
    ServedHypothesis,
    ServedLine,
    ServedText,
)
from regard.text.text_format import TranslatedText
from regard.text.translation import Translation

if TYPE_CHECKING:
    from regard.pipeline import Caption

WordIndices = Callable[[Sequence[int]], list[int]]
"""Function that returns the index of the word to which each target token belongs."""
_DIGITS = 5
"""Decimal places of an attention weight."""
_PART = 4096
"""Weights of a flat array that are encoded at once."""


def served_text(
    text: TranslatedText, search: SearchRequest, words: WordIndices | None = None
) -> ServedText:
    """Convert a translated text; the caller fills in the languages and the name of the model.

    `words`: maps tokens to words; if None, words and log-probabilities are left out.
    """
    lines = [
        ServedLine(source, line.source_tokens, served_hypotheses(line, search, words))
        for source, line in zip(text.sources, text.lines, strict=True)
    ]
    return ServedText(
        text.text,
        source="",
        target="",
        model=None,
        alternatives=text.alternatives,
        lines=lines,
        warnings=tuple(note for line in text.lines for note in line.notes),
        doubtful=any(line.doubtful for line in text.lines),
        broken=any(line.broken for line in text.lines),
        quality=worst(line.quality for line in text.lines),
    )


def worst(qualities: Iterable[float | None]) -> float | None:
    """Return the smallest quality, rounded; None if none is known."""
    known = [quality for quality in qualities if quality is not None]
    return round(min(known), 4) if known else None


def served_hypotheses(
    line: Translation | Caption, search: SearchRequest, words: WordIndices | None = None
) -> list[ServedHypothesis]:
    """Convert the hypotheses of a translation or a caption, with the fields that were requested."""
    return [
        _hypothesis(hypothesis, search, words) for hypothesis in line.nbest or (line,)
    ]


def _hypothesis(
    hypothesis: Translation | Caption, search: SearchRequest, words: WordIndices | None
) -> ServedHypothesis:
    optional = dict[str, Any]()
    if hypothesis.readings is not None and hypothesis.readings.weights:
        layers = {
            name: weights_json(weights)
            for name, weights in hypothesis.readings.weights.items()
        }
        optional["attention"] = msgspec.Raw(msgspec.json.encode(layers))
    if isinstance(hypothesis, Translation):
        if search.alignments:
            optional["alignments"] = hypothesis.alignments
        if search.log_probs and words is not None and hypothesis.log_probs:
            optional["log_probs"] = hypothesis.log_probs
            optional["words"] = words(hypothesis.ids)
    return ServedHypothesis(
        hypothesis.text, hypothesis.score, hypothesis.tokens, **optional
    )


def weights_json(weights: Any) -> msgspec.Raw:
    """Encode an array of numbers from 0 to 1 as nested lists in JSON.

    It is encoded in parts, between which other threads can run.
    """
    import numpy as np  # late, as in regard.runtime.model

    rounded = np.nan_to_num(np.asarray(weights, np.float64)).clip(0, 1).round(_DIGITS)
    if rounded.ndim > 1:
        return array_json(part.tolist() for part in rounded)

    parts = (
        rounded[start : start + _PART].tolist()
        for start in range(0, len(rounded), _PART)
    )
    without_brackets = (msgspec.json.encode(part)[1:-1] for part in parts)
    return msgspec.Raw(b"[" + b",".join(without_brackets) + b"]")


def array_json(items: Iterable[Any]) -> msgspec.Raw:
    """Encode a list as JSON, one item at a time."""
    return msgspec.Raw(b"[" + b",".join(map(msgspec.json.encode, items)) + b"]")
