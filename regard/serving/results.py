"""Translations and captions as they are sent, with attention weights as JSON."""

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
"""Returns the word that each token id of a target belongs to."""
_DIGITS, _TOGETHER = 5, 4096
"""Digits after the point of an attention weight, and weights of a flat array that are written at
once.
"""


def served_text(
    text: TranslatedText, search: SearchRequest, words: WordIndices | None = None
) -> ServedText:
    """Return a translated text with what was asked for; the languages and the name of the model are
    not known here.

    `words`: for the words of tokens and their log-probabilities; None: nobody can tell them.
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
    )


def served_hypotheses(
    line: Translation | Caption, search: SearchRequest, words: WordIndices | None = None
) -> list[ServedHypothesis]:
    """Return the hypotheses of a translation, or a caption, with what was asked for."""
    return [
        _hypothesis(hypothesis, search, words) for hypothesis in line.nbest or (line,)
    ]


def _hypothesis(
    hypothesis: Translation | Caption, search: SearchRequest, words: WordIndices | None
) -> ServedHypothesis:
    rest = dict[str, Any]()
    if hypothesis.readings is not None and hypothesis.readings.weights:
        weights = {
            name: weights_json(weights)
            for name, weights in hypothesis.readings.weights.items()
        }
        rest["attention"] = msgspec.Raw(msgspec.json.encode(weights))
    if search.alignments and isinstance(hypothesis, Translation):
        rest["alignments"] = hypothesis.alignments
    if (
        search.log_probs
        and words is not None
        and isinstance(hypothesis, Translation)
        and hypothesis.log_probs
    ):
        rest |= {"log_probs": hypothesis.log_probs, "words": words(hypothesis.ids)}
    return ServedHypothesis(
        hypothesis.text, hypothesis.score, hypothesis.tokens, **rest
    )


def weights_json(weights: Any) -> msgspec.Raw:
    """Return an array of numbers from 0 to 1 as JSON, lists in lists.

    It is written in parts: other threads wait while one is.
    """
    import numpy as np  # late, as in regard.runtime.model

    rounded = np.nan_to_num(np.asarray(weights, np.float64)).clip(0, 1).round(_DIGITS)
    if rounded.ndim > 1:
        return array_json(part.tolist() for part in rounded)
    parts = (
        rounded[start : start + _TOGETHER].tolist()
        for start in range(0, len(rounded), _TOGETHER)
    )
    return msgspec.Raw(
        b"[" + b",".join(msgspec.json.encode(part)[1:-1] for part in parts) + b"]"
    )


def array_json(items: Iterable[Any]) -> msgspec.Raw:
    """Return a list as JSON whose items are written one by one."""
    return msgspec.Raw(b"[" + b",".join(map(msgspec.json.encode, items)) + b"]")
