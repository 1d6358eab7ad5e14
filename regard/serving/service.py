"""Requests to served models and their results, independent of HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import msgspec
import pydantic
from msgspec import Meta
from pydantic import Field

from regard.common.errors import RegardError
from regard.common.settings import TOKENS
from regard.requests.shared_fields import Alignments, NBest
from regard.search.settings import (
    Beam,
    LengthPenalty,
    MaxLength,
    NoRepeatNgram,
    SearchSettings,
)
from regard.text.text_format import PLAIN, TextFormat

ServedNBest = Annotated[NBest, Field(le=100)]
Pair = tuple[str, str]
"""Language codes of source and target, such as ("ko", "en"); empty: unknown."""


class Overloaded(RegardError):
    """The backlog is too large for a request; `retry_after`: seconds before the next attempt."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(
            f"the server has more to do than it can finish in time; try again in {retry_after} "
            "seconds"
        )
        self.retry_after = retry_after


class DeadlineExceeded(RegardError):
    """A request was cancelled at its deadline."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"not done within {seconds:g} seconds and given up; send less text, or allow more time"
        )


@dataclass(frozen=True)
class ServedModel:
    """The public description of a model.

    `codes`: for a multilingual model, the token that a line must begin with, by target language;
    empty for other models. `facts`: facts for users, such as engine, precision and number of
    parameters. `readme`: the text of its model card. `alignment`: layer and head of attention that
    align words best, as in the card of the file. `is_ready`: false while no process has opened the
    model.
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


class CaptionSearch(pydantic.BaseModel, frozen=True):
    """Options of the search for a caption; without `beam` it is as wide as the model's own, and
    `nbest` at least.
    """

    beam: Beam | None = None
    nbest: ServedNBest = 1
    attention: Literal["none", "cross", "all"] = "none"

    @pydantic.model_validator(mode="after")
    def _check_nbest(self) -> CaptionSearch:
        """Refuse an `nbest` above the beam, even for texts that need no search."""
        if self.beam is not None and self.nbest > self.beam:
            raise ValueError(
                f"`nbest`: wanted 1 to the beam ({self.beam}), got {self.nbest}; lower it, or "
                "widen the beam"
            )
        return self

    @property
    def search(self) -> SearchRequest:
        """The search options of a request, without its other parameters."""
        values = self.model_dump(include={*SearchRequest.model_fields})
        return SearchRequest.model_construct(**values)


class SearchRequest(CaptionSearch, frozen=True):
    """Options of the search for a translation; null: as the model's own settings say."""

    length_penalty: LengthPenalty | None = None
    max_length: MaxLength = None
    no_repeat_ngram: NoRepeatNgram | None = None
    alignments: Alignments = False
    log_probs: bool = Field(
        False, description="of each token, with the word that it belongs to"
    )

    def given_options(self, beam: int) -> dict[str, Any]:
        """Return the options that the request sets, as keyword arguments of a pipeline.

        `beam`: beam width of the model's own settings.
        """
        options = self.model_dump(include=_SETTINGS, exclude_none=True)
        if self.nbest > beam:
            options.setdefault("beam", self.nbest)
        return options


_SETTINGS = {*SearchRequest.model_fields} & {*SearchSettings.model_fields}
OWN_SEARCH = SearchRequest()
"""The search with a model's own settings."""


@dataclass(frozen=True)
class TextRequest:
    """Options of the translation of whole texts.

    `keep`: further patterns of spans that are copied unchanged. `code`: the language token that
    each line begins with. `sentences`: make each sentence a line, and return the lines.
    """

    search: SearchRequest = OWN_SEARCH
    form: TextFormat = PLAIN
    keep: tuple[str, ...] = ()
    code: str = ""
    sentences: bool = False

    def of_model(self, splits_sentences: bool) -> TextRequest:
        """Adapt the request to a model: if the model does not split sentences, lines stay whole."""
        if splits_sentences:
            return self
        form = self.form if self.form.kind == "text" else replace(self.form, split="0")
        return replace(self, form=form, sentences=False)


def _check_prefix(value: Any) -> Any:
    if isinstance(value, (str, list)) and len(value) > TOKENS:
        raise ValueError(
            f"wanted at most {TOKENS:,} characters or token ids, got {len(value):,}"
        )
    return value


TokenIds = Annotated[
    list[Annotated[int, Field(ge=0, lt=1 << 31)]], Field(max_length=TOKENS)
]
Prefix = Annotated[str | TokenIds, pydantic.BeforeValidator(_check_prefix)]
"""The text or the token ids that a translation begins with."""


class ExplanationRequest(pydantic.BaseModel, frozen=True):
    """Options of an explanation."""

    nbest: ServedNBest | None = Field(
        None, description="null: the beam of the model, at most five"
    )
    prefix: Prefix = Field(
        "", description="text or token ids that the translation begins with"
    )
    trace: bool = Field(False, description="record the search")
    packed: bool = Field(
        False,
        description="weights as pages hold them (zlib, Base64); the encoder's once",
    )


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """JSON that an endpoint answers with; fields that have their default are left out."""


Object = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]
"""An object that is already encoded as JSON, because it may be large."""
Attention = Annotated[
    Object,
    Meta(
        description="by layer: heads × target tokens (end of sentence last) × source tokens"
    ),
]
Links = Annotated[
    Sequence[tuple[int, int]],
    Meta(description="links (source word, target word), from 0"),
]
LogProbs = Annotated[
    Sequence[float], Meta(description="of each token, after those before it")
]
Words = Annotated[
    Sequence[int], Meta(description="the word that each token belongs to, from 0")
]


class ServedHypothesis(Answer, frozen=True):
    """A translation of one line. `score`: log-probability over the length penalty; the rest if it
    was asked for.
    """

    text: str
    score: float | None
    tokens: Sequence[str]
    alignments: Links | None = None
    attention: Attention | None = None
    log_probs: LogProbs | None = None
    words: Words | None = None


class Continuation(ServedHypothesis, frozen=True, kw_only=True):
    """A translation that begins with the prefix and one more token. `log_prob`: of that token."""

    prefix: tuple[int, ...]
    log_prob: float


class ServedLine(Answer, frozen=True):
    """A line of a text with its tokens, and its hypotheses, best first."""

    source: str
    tokens: Sequence[str]
    hypotheses: Sequence[ServedHypothesis]


class ServedText(Answer, frozen=True):
    """A translated text. `model`: null if source and target are the same language. `confidence`: of
    a detected source.

    `alternatives`: the whole text of further hypotheses. `doubtful`: true if a line is probably not
    translated well. `broken`: true if code or numbers of a line are not kept. `quality`: the
    probability that the worst line is a good translation; null if the model is not calibrated.
    """

    text: str
    source: str
    target: str
    model: str | None
    confidence: float | None = None
    alternatives: Sequence[str] | None = None
    lines: Sequence[ServedLine] | None = None
    warnings: Sequence[str] = ()
    doubtful: bool = False
    broken: bool = False
    quality: float | None = None
