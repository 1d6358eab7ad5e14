"""Translations and captions as the content of a reply of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from regard.serving.frames import Message
from regard.serving.raw_json import RawJson, json_pieces, weights_json
from regard.text.text_format import TranslatedText
from regard.text.translation import Translation

if TYPE_CHECKING:
    from regard.pipeline import Caption

WordIndices = Callable[[Sequence[int]], list[int]]
"""Returns the word that each token id of a target belongs to."""


def text_reply(text: TranslatedText, words: WordIndices | None) -> Message:
    """Return a translated text; with `words` each token has its log-probability and its word."""
    return {
        "text": text.text,
        "alternatives": text.alternatives,
        "sources": text.sources,
        "lines": [line_reply(line, words) for line in text.lines],
    }


def line_reply(line: Translation | Caption, words: WordIndices | None = None) -> Message:
    """Return a translation, or a caption, with its hypotheses."""
    source = line.source_tokens if isinstance(line, Translation) else ()
    return {
        "hypotheses": [_hypothesis(hypothesis, words) for hypothesis in line.nbest or (line,)],
        "source_tokens": source,
        "warnings": line.notes if isinstance(line, Translation) else (),
        "doubtful": isinstance(line, Translation) and line.doubtful,  # captions have no threshold
    }


def _hypothesis(hypothesis: Translation | Caption, words: WordIndices | None) -> Message:
    readings = hypothesis.readings
    weights = {} if readings is None else {name: RawJson(weights_json(w)) for name, w in readings.weights.items()}
    content: Message = {
        "text": hypothesis.text,
        "score": hypothesis.score,
        "tokens": hypothesis.tokens,
        "alignments": None,
        "attention": RawJson(json_pieces(weights)) if weights else None,
    }
    if not isinstance(hypothesis, Translation):
        return content
    content["alignments"] = hypothesis.alignments
    if words is not None and hypothesis.log_probs:
        content["log_probs"] = hypothesis.log_probs
        content["words"] = words(hypothesis.ids)
    return content
