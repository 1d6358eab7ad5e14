"""Requests and answers of the endpoints under /v1, as pydantic models: they check, and OpenAPI describes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from regard.serving.openapi import example
from regard.serving.pairs import AUTO
from regard.serving.requests import Parameters, StrictParameters, Texts
from regard.serving.service import SearchRequest, ServedHypothesis, ServedLine, ServedModel
from regard.serving.texts import TextFormat, TranslatedText
from regard.settings import BEAM, FACTOR, LENGTH, TOKENS

MOST_NBEST = 100
DeadlineMs = Annotated[int | None, Field(ge=1, le=86_400_000)]


class TranslateRequest(StrictParameters):
    """A translation that is wanted. Without `model`, the first one that has the languages is taken."""

    model_config = example(text="나는 빵을 먹는다.", source="ko", target="en", nbest=2, alignments=True)
    text: Texts
    source: str = AUTO
    target: str = ""
    model: str = ""
    format: Literal["text", "html", "xml"] = "text"
    beam: int | None = Field(None, ge=1, le=BEAM)
    nbest: int = Field(1, ge=1, le=MOST_NBEST)
    length_penalty: float | None = Field(None, ge=0, le=FACTOR)
    max_length: int | None = Field(None, ge=1, le=TOKENS)
    no_repeat_ngram: int | None = Field(None, ge=0, le=LENGTH)
    alignments: bool = False
    scores: bool = False
    attention: Literal["none", "cross", "all"] = "none"
    stream: bool = False
    deadline_ms: DeadlineMs = None

    @property
    def search(self) -> SearchRequest:
        """The options of the search."""
        return SearchRequest(
            beam=self.beam,
            nbest=self.nbest,
            length_penalty=self.length_penalty,
            max_length=self.max_length,
            no_repeat_ngram=self.no_repeat_ngram,
            alignments=self.alignments,
            attention=self.attention,
        )

    @property
    def layout(self) -> TextFormat:
        """The kind of the texts."""
        return TextFormat(self.format)

    @property
    def with_lines(self) -> bool:
        """True if the answer is to show each line with its hypotheses."""
        return self.nbest > 1 or self.alignments or self.scores or self.attention != "none"


class CaptionRequest(Parameters):
    """A caption that is wanted: JSON with the image in Base64, or a form with the image as a file."""

    model_config = pydantic.ConfigDict(extra="forbid")
    image: str | bytes = Field(description="PNG, JPEG or WebP: Base64 in JSON, a file in a form")
    model: str = ""
    beam: int | None = Field(None, ge=1, le=BEAM)
    nbest: int = Field(1, ge=1, le=MOST_NBEST)
    attention: Literal["none", "cross", "all"] = "none"
    deadline_ms: DeadlineMs = None

    @property
    def search(self) -> SearchRequest:
        """The options of the search."""
        return SearchRequest(beam=self.beam, nbest=self.nbest, attention=self.attention)


class ExplainRequest(StrictParameters):
    """A line whose translation is to be explained."""

    model_config = example(text="나는 빵을 먹는다.", source="ko", target="en")
    text: str
    source: str = AUTO
    target: str = ""
    model: str = ""
    deadline_ms: DeadlineMs = None


class Hypothesis(pydantic.BaseModel):
    """A translation of one line. `score`: log-probability over the length penalty; the rest if it was asked for."""

    text: str
    score: float | None
    tokens: list[str]
    alignments: list[tuple[int, int]] | None = Field(None, description="links (source word, target word), from 0")
    attention: dict[str, Any] | None = Field(
        None, description="by layer: heads × target tokens (end of sentence last) × source tokens"
    )


class Line(pydantic.BaseModel):
    """A line of the text and its hypotheses, best first."""

    source: str
    tokens: list[str]
    hypotheses: list[Hypothesis]


class Translation(pydantic.BaseModel):
    """A translated text. `model`: null if source and target are the same language. `confidence`: of a detected source.

    `alternatives`: the whole text of further hypotheses.
    """

    text: str
    source: str
    target: str
    model: str | None
    confidence: float | None = None
    alternatives: list[str] | None = None
    lines: list[Line] | None = None
    warnings: list[str] | None = None


class TranslateAnswer(pydantic.BaseModel):
    """The translations, in the order of the texts."""

    translations: list[Translation]


class CaptionAnswer(pydantic.BaseModel):
    """A caption, and the hypotheses it is the best of."""

    caption: str
    model: str
    hypotheses: list[Hypothesis]
    warnings: list[str]


class ExplainAnswer(pydantic.BaseModel):
    """A translation as data for figures."""

    source: str
    target: str
    model: str
    explanation: dict[str, Any]


class LanguagePair(pydantic.BaseModel):
    """Languages of source and target; empty: not known."""

    source: str
    target: str


class Model(pydantic.BaseModel):
    """A model that is served."""

    name: str
    kind: Literal["translation", "captions"]
    pairs: list[LanguagePair]
    has_attention: bool
    facts: dict[str, str]
    readme: str | None = Field(None, description="of a single model that is asked for by its name")


class ModelsAnswer(pydantic.BaseModel):
    """The models that are ready."""

    models: list[Model]


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
            {
                "source": source,
                "tokens": list(line.source_tokens),
                "hypotheses": hypotheses_data(line, asked.alignments),
            }
            for source, line in zip(result.sources, result.lines, strict=True)
        ]
    return data | ({"warnings": warnings} if warnings else {})


def hypotheses_data(line: ServedLine, alignments: bool) -> list[dict[str, Any]]:
    """Return the hypotheses of a line as `Hypothesis` describes them."""
    return [_hypothesis_data(hypothesis, alignments) for hypothesis in line.hypotheses]


def _hypothesis_data(hypothesis: ServedHypothesis, alignments: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"text": hypothesis.text, "score": hypothesis.score, "tokens": list(hypothesis.tokens)}
    if alignments and hypothesis.alignments is not None:
        data["alignments"] = [list(link) for link in hypothesis.alignments]
    if hypothesis.attention is not None:
        data["attention"] = dict(hypothesis.attention)
    return data


def model_data(model: ServedModel, readme: bool = False) -> dict[str, Any]:
    """Return a model as `Model` describes it."""
    pairs: Sequence[dict[str, str]] = [{"source": source, "target": target} for source, target in model.pairs]
    data = {
        "name": model.name,
        "kind": model.kind,
        "pairs": pairs,
        "has_attention": model.has_attention,
        "facts": dict(model.facts),
    }
    return data | ({"readme": model.readme} if readme else {})
