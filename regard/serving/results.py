"""Translations and captions as the service returns them, with attention weights as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from regard.serving.service import ServedHypothesis, ServedLine, ServedText
from regard.text.text_format import TranslatedText
from regard.text.translation import Translation

if TYPE_CHECKING:
    from regard.pipeline import Caption

WordIndices = Callable[[Sequence[int]], list[int]]
"""Returns the word that each token id of a target belongs to."""
_DIGITS, _TOGETHER = 5, 4096
"""Digits after the point of an attention weight, and weights of a flat array that are written at once."""


def served_text(text: TranslatedText, words: WordIndices | None) -> ServedText:
    """Return a translated text; with `words` each token has its log-probability and its word."""
    return ServedText(text.text, text.alternatives, text.sources, [served_line(line, words) for line in text.lines])


def served_line(line: Translation | Caption, words: WordIndices | None = None) -> ServedLine:
    """Return a translation, or a caption, with its hypotheses."""
    hypotheses = [_hypothesis(hypothesis, words) for hypothesis in line.nbest or (line,)]
    if not isinstance(line, Translation):
        return ServedLine(hypotheses)
    return ServedLine(hypotheses, line.source_tokens, line.notes, line.doubtful)


def _hypothesis(hypothesis: Translation | Caption, words: WordIndices | None) -> ServedHypothesis:
    attention = None
    if hypothesis.readings is not None and hypothesis.readings.weights:
        weights = {name: weights_json(weights) for name, weights in hypothesis.readings.weights.items()}
        attention = msgspec.Raw(msgspec.json.encode(weights))
    if not isinstance(hypothesis, Translation):
        return ServedHypothesis(hypothesis.text, hypothesis.score, hypothesis.tokens, attention=attention)
    has_words = words is not None and hypothesis.log_probs
    return ServedHypothesis(
        hypothesis.text,
        hypothesis.score,
        hypothesis.tokens,
        hypothesis.alignments,
        attention,
        hypothesis.log_probs if has_words else None,
        words(hypothesis.ids) if words is not None and has_words else None,
    )


def weights_json(weights: Any) -> msgspec.Raw:
    """Return an array of numbers from 0 to 1 as JSON, lists in lists.

    It is written in parts: other threads wait while one is.
    """
    import numpy as np  # late, as in regard.runtime.model

    rounded = np.nan_to_num(np.asarray(weights, np.float64)).clip(0, 1).round(_DIGITS)
    if rounded.ndim > 1:
        return array_json(part.tolist() for part in rounded)
    parts = (rounded[start : start + _TOGETHER].tolist() for start in range(0, len(rounded), _TOGETHER))
    return msgspec.Raw(b"[" + b",".join(msgspec.json.encode(part)[1:-1] for part in parts) + b"]")


def array_json(items: Iterable[Any]) -> msgspec.Raw:
    """Return a list as JSON whose items are written one by one."""
    return msgspec.Raw(b"[" + b",".join(map(msgspec.json.encode, items)) + b"]")
