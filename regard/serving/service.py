"""Requests to the models that are served, and what comes back: lines in, hypotheses out. Nothing here knows HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from regard.common.errors import RegardError
from regard.text.text_format import PLAIN, TextFormat

Pair = tuple[str, str]
"""Language codes of source and target, such as ("ko", "en"); empty: unknown."""


class Overloaded(RegardError):
    """There is no room for a request now; `retry_after`: seconds after which there may be."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the server has more to do than it can finish in time; try again in {retry_after} seconds")
        self.retry_after = retry_after


class DeadlineExceeded(RegardError):
    """A request was not done before its deadline, and was given up."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"not done within {seconds:g} seconds and given up; send less text, or allow more time")


@dataclass(frozen=True)
class ServedModel:
    """A model as requests see it.

    `name`: of its folder or file. `codes`: what a line has to begin with for each target language, of a model of many
    target languages; empty for others. `facts`: what is to be known of it (parameters, precision, licence, scores).
    `alignment`: layer and head of attention that align words best, as in the card of the file. `is_ready`: false while
    no process has the model.
    """

    name: str
    kind: Literal["translation", "captions"]
    pairs: tuple[Pair, ...]
    has_attention: bool = True
    codes: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    readme: str = ""
    alignment: Mapping[str, Any] | None = None
    is_ready: bool = True


@dataclass(frozen=True)
class SearchRequest:
    """Options of a search; None: as the model's own settings say, but the beam is as wide as `nbest` at least."""

    beam: int | None = None
    nbest: int = 1
    length_penalty: float | None = None
    max_length: int | None = None
    no_repeat_ngram: int | None = None
    alignments: bool = False
    attention: Literal["none", "cross", "all"] = "none"
    log_probs: bool = False

    def given_options(self, beam: int) -> dict[str, Any]:
        """Return the options that are given, as pipelines take them; `beam`: the model's own."""
        names = ("beam", "length_penalty", "max_length", "no_repeat_ngram")
        options = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.nbest > beam:
            options.setdefault("beam", self.nbest)
        return options


@dataclass(frozen=True)
class TextRequest:
    """Options of the translation of whole texts.

    `keep`: patterns of a user's own of what is not language. `code`: what a line has to begin with for its target
    language. `sentences`: each sentence is a line of its own, and the lines are wanted.
    """

    search: SearchRequest = SearchRequest()
    form: TextFormat = PLAIN
    keep: tuple[str, ...] = ()
    code: str = ""
    sentences: bool = False

    def of_model(self, splits_sentences: bool) -> TextRequest:
        """Return it for a model that has learnt to split lines into sentences, or not: then all lines are whole."""
        if splits_sentences:
            return self
        form = self.form if self.form.kind == "text" else replace(self.form, split="0")
        return replace(self, form=form, sentences=False)


@dataclass(frozen=True)
class ExplanationRequest:
    """Options of an explanation. `nbest`: None: as wide as the model's own beam, at most five.

    `prefix`: the text or the token ids that the translation begins with. `trace`: record the search. `packed`: weights
    of attention as Base64 of 16-bit numbers, and those of the encoder with the first hypothesis alone.
    """

    nbest: int | None = None
    prefix: str | tuple[int, ...] = ()
    trace: bool = False
    packed: bool = False


@dataclass(frozen=True)
class ServedHypothesis:
    """One translation of a line. `alignments`: links (source word, target word) from 0, if asked for.

    `attention`: by layer name, heads × target tokens (end of sentence last) × source tokens, as JSON.
    `log_probs`: of each token after those before it, if asked for; `words`: then, the word that each token belongs to.
    """

    text: str
    score: float
    tokens: Sequence[str]
    alignments: tuple[tuple[int, int], ...] | None = None
    attention: msgspec.Raw | None = None
    log_probs: Sequence[float] | None = None
    words: Sequence[int] | None = None


@dataclass(frozen=True)
class Continuation:
    """A token that could come after a prefix, with the translation that begins with both.

    `prefix`: ids of the prefix and the token; `log_prob`: of the token.
    """

    prefix: tuple[int, ...]
    log_prob: float
    hypothesis: ServedHypothesis


@dataclass(frozen=True)
class ServedLine:
    """A line's hypotheses, best first, its own tokens, warnings as sentences, and whether the model has doubts."""

    hypotheses: Sequence[ServedHypothesis]
    source_tokens: Sequence[str] = ()
    warnings: Sequence[str] = ()
    doubtful: bool = False


@dataclass(frozen=True)
class ServedText:
    """A translated text, the texts of further hypotheses, and its lines with their translations."""

    text: str
    alternatives: Sequence[str] = ()
    sources: Sequence[str] = ()
    lines: Sequence[ServedLine] = ()
