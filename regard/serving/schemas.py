"""Requests and answers of the endpoints under /v1, as pydantic models: they check, and OpenAPI describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from regard.common.settings import BEAM, FACTOR, LENGTH, TOKENS
from regard.serving import service
from regard.serving.openapi import example
from regard.serving.pairs import AUTO
from regard.serving.requests import Parameters, StrictParameters, Texts
from regard.serving.service import ExplanationRequest, SearchRequest, ServedHypothesis, ServedLine, ServedModel
from regard.serving.texts import TranslatedText
from regard.text.text_format import TextFormat

MOST_NBEST = 100
MOST_CONTINUATIONS = 20
DeadlineMs = Annotated[int | None, Field(ge=1, le=86_400_000)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0, lt=1 << 31)]], Field(max_length=TOKENS)]


def _check_prefix(value: Any) -> Any:
    if isinstance(value, (str, list)) and len(value) > TOKENS:
        raise ValueError(f"wanted at most {TOKENS:,} characters or token ids, got {len(value):,}")
    return value


Prefix = Annotated[str | TokenIds, pydantic.BeforeValidator(_check_prefix)]


class _BeamOptions(Parameters):
    """The width of a search, and how many of its hypotheses are wanted; without `beam` it is as wide as needed."""

    beam: int | None = Field(None, ge=1, le=BEAM)
    nbest: int = Field(1, ge=1, le=MOST_NBEST)

    @pydantic.model_validator(mode="after")
    def _check_nbest(self) -> _BeamOptions:
        """Refuse what no search could answer, also for texts that none is needed for."""
        if self.beam is not None and self.nbest > self.beam:
            raise ValueError(
                f"`nbest`: wanted 1 to the beam ({self.beam}), got {self.nbest}; lower it, or widen the beam"
            )
        return self


class _LineRequest(StrictParameters):
    """A request about one line. Without `model`, the first one that has the languages is taken."""

    text: str
    source: str = AUTO
    target: str = ""
    model: str = ""
    deadline_ms: DeadlineMs = None


class TranslateRequest(_BeamOptions, StrictParameters):
    """A translation that is wanted. Without `model`, the first one that has the languages is taken."""

    model_config = example(text="나는 빵을 먹는다.", source="ko", target="en", nbest=2, alignments=True)
    text: Texts
    source: str = AUTO
    target: str = ""
    model: str = ""
    format: Literal["text", "html", "xml"] = "text"
    length_penalty: float | None = Field(None, ge=0, le=FACTOR)
    max_length: int | None = Field(None, ge=1, le=TOKENS)
    no_repeat_ngram: int | None = Field(None, ge=0, le=LENGTH)
    alignments: bool = False
    scores: bool = False
    attention: Literal["none", "cross", "all"] = "none"
    log_probs: bool = Field(False, description="of each token, with the word that it belongs to")
    split: bool = Field(True, description="false: lines of plain text are not divided into sentences")
    stream: bool = False
    deadline_ms: DeadlineMs = None

    @property
    def search(self) -> SearchRequest:
        """The options of the search."""
        return SearchRequest(**self.model_dump(include={*SearchRequest.__dataclass_fields__}))

    @property
    def form(self) -> TextFormat:
        """The kind of the texts."""
        return TextFormat(self.format, "1" if self.split else "0")

    @property
    def with_lines(self) -> bool:
        """True if the answer is to show each line with its hypotheses."""
        wants = self.alignments or self.scores or self.log_probs
        return wants or self.nbest > 1 or self.attention != "none"


class ExplainImageRequest(Parameters):
    """An image whose caption is to be explained: JSON with the image in Base64, or a form with it as a file."""

    model_config = pydantic.ConfigDict(extra="forbid")
    image: str | bytes = Field(description="PNG, JPEG or WebP: Base64 in JSON, a file in a form")
    model: str = ""
    deadline_ms: DeadlineMs = None


class CaptionRequest(_BeamOptions, ExplainImageRequest):
    """A caption that is wanted: JSON with the image in Base64, or a form with the image as a file."""

    attention: Literal["none", "cross", "all"] = "none"

    @property
    def search(self) -> SearchRequest:
        """The options of the search."""
        return SearchRequest(beam=self.beam, nbest=self.nbest, attention=self.attention)


class ExplainRequest(_LineRequest):
    """A line whose translation is to be explained."""

    model_config = example(text="나는 빵을 먹는다.", source="ko", target="en")
    nbest: int | None = Field(None, ge=1, le=MOST_NBEST, description="null: the beam of the model, at most five")
    prefix: Prefix = Field("", description="text or token ids that the translation begins with")
    trace: bool = Field(False, description="record the search")
    packed: bool = Field(
        False, description="weights as Base64 of 16-bit numbers, little end first, 65,535 being 1; the encoder's once"
    )

    @property
    def options(self) -> ExplanationRequest:
        """The options of the explanation."""
        return ExplanationRequest(self.nbest, prefix_ids(self.prefix), self.trace, self.packed)


class ContinuationsRequest(_LineRequest):
    """A line, and what its translation begins with; wanted are the tokens that may follow."""

    model_config = example(text="나는 빵을 먹는다.", source="ko", target="en", prefix="I")
    prefix: Prefix = Field("", description="text or token ids; empty: the beginning of the translation")
    count: int = Field(7, ge=1, le=MOST_CONTINUATIONS)


def prefix_ids(prefix: str | list[int]) -> str | tuple[int, ...]:
    """Return a prefix as the service takes it."""
    return tuple(prefix) if isinstance(prefix, list) else prefix or ()


class OutputHypothesis(pydantic.BaseModel):
    """A translation of one line. `score`: log-probability over the length penalty; the rest if it was asked for."""

    text: str
    score: float | None
    tokens: list[str]
    alignments: list[tuple[int, int]] | None = Field(None, description="links (source word, target word), from 0")
    attention: dict[str, Any] | None = Field(
        None, description="by layer: heads × target tokens (end of sentence last) × source tokens"
    )
    log_probs: list[float] | None = Field(None, description="of each token, after those before it")
    words: list[int] | None = Field(None, description="the word that each token belongs to, from 0")


class TranslatedLine(pydantic.BaseModel):
    """A line of the text and its hypotheses, best first."""

    source: str
    tokens: list[str]
    hypotheses: list[OutputHypothesis]


class Translation(pydantic.BaseModel):
    """A translated text. `model`: null if source and target are the same language. `confidence`: of a detected source.

    `alternatives`: the whole text of further hypotheses. `doubtful`: true if the model has not learnt such lines.
    """

    text: str
    source: str
    target: str
    model: str | None
    confidence: float | None = None
    alternatives: list[str] | None = None
    lines: list[TranslatedLine] | None = None
    warnings: list[str] | None = None
    doubtful: bool | None = None


class TranslateAnswer(pydantic.BaseModel):
    """The translations, in the order of the texts."""

    translations: list[Translation]


class CaptionAnswer(pydantic.BaseModel):
    """A caption, and the hypotheses it is the best of."""

    caption: str
    model: str
    hypotheses: list[OutputHypothesis]
    warnings: list[str]


class _LineAnswer(pydantic.BaseModel):
    """The languages of a line, and the model that translates it."""

    source: str
    target: str
    model: str


class ExplainAnswer(_LineAnswer):
    """A translation as data for figures."""

    explanation: dict[str, Any] = Field(description="a Translation as js/regard.d.ts describes it")


class Continuation(OutputHypothesis):
    """A translation that begins with the prefix and one more token. `log_prob`: of that token."""

    prefix: list[int]
    log_prob: float


class ContinuationsAnswer(_LineAnswer):
    """Tokens that may follow a prefix, likeliest first."""

    continuations: list[Continuation]


class ExplainImageAnswer(pydantic.BaseModel):
    """A caption as data for figures."""

    model: str
    explanation: dict[str, Any] = Field(description="the keys that docs/visualisation.md lists")


class LanguagePair(pydantic.BaseModel):
    """Languages of source and target; empty: not known."""

    source: str
    target: str


class ModelInfo(pydantic.BaseModel):
    """A model that is served."""

    name: str
    kind: Literal["translation", "captions"]
    pairs: list[LanguagePair]
    has_attention: bool
    alignment: dict[str, Any] | None = Field(description="layer and head of attention that align words best")
    facts: dict[str, str]
    is_ready: bool = Field(
        description="false while the process of the model is started again, or its file was overwritten"
    )
    readme: str | None = Field(None, description="of a single model that is asked for by its name")


class ModelsAnswer(pydantic.BaseModel):
    """The models that are ready."""

    models: list[ModelInfo]


def translation_data(result: TranslatedText, asked: TranslateRequest) -> dict[str, Any]:
    """Return a translated text as `Translation` describes it, without what was not asked for."""
    choice, warnings = result.choice, [warning for line in result.lines for warning in line.warnings]
    data: dict[str, Any] = {
        "text": result.text,
        "source": choice.source,
        "target": choice.target,
        "model": choice.model.name if choice.model else None,
    }
    if choice.confidence is not None:
        data["confidence"] = choice.confidence
    if asked.nbest > 1:
        data["alternatives"] = list(result.alternatives)
    if asked.with_lines:
        data["lines"] = [
            {"source": source, "tokens": line.source_tokens, "hypotheses": hypotheses_data(line, asked.alignments)}
            for source, line in zip(result.sources, result.lines, strict=True)
        ]
    data |= {"doubtful": True} if any(line.doubtful for line in result.lines) else {}
    return data | ({"warnings": warnings} if warnings else {})


def hypotheses_data(line: ServedLine, alignments: bool) -> list[dict[str, Any]]:
    """Return the hypotheses of a line as `OutputHypothesis` describes them."""
    return [_hypothesis_data(hypothesis, alignments) for hypothesis in line.hypotheses]


def _hypothesis_data(hypothesis: ServedHypothesis, alignments: bool) -> dict[str, Any]:
    """Return what there is of a hypothesis; `alignments`: if they were asked for, and not only needed for markup."""
    shown = {name: value for name, value in vars(hypothesis).items() if value is not None}
    if not alignments:
        shown.pop("alignments", None)
    return shown


def continuation_data(continuation: service.Continuation) -> dict[str, Any]:
    """Return what may follow a prefix as `Continuation` describes it."""
    data = _hypothesis_data(continuation.hypothesis, alignments=False)
    return {"prefix": continuation.prefix, "log_prob": continuation.log_prob, **data}


def model_data(model: ServedModel, readme: bool = False) -> dict[str, Any]:
    """Return a model as `ModelInfo` describes it."""
    data = {name: getattr(model, name) for name in ModelInfo.model_fields if name != "readme" or readme}
    return data | {"pairs": [{"source": source, "target": target} for source, target in model.pairs]}
