"""Requests and answers of the endpoints under /v1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
import pydantic
from msgspec import Meta
from pydantic import Field

from regard.serving.language_pairs import AUTO
from regard.serving.openapi import example
from regard.serving.request_bodies import Parameters, StrictParameters, Texts
from regard.serving.service import (
    Answer,
    CaptionSearch,
    Continuation,
    ExplanationRequest,
    Object,
    Prefix,
    SearchRequest,
    ServedHypothesis,
    ServedModel,
    ServedText,
)
from regard.text.particles import Particles
from regard.text.text_format import TextFormat

MOST_CONTINUATIONS = 20
DeadlineMs = Annotated[int | None, Field(ge=1, le=86_400_000)]


class _TextParameters(StrictParameters):
    """Texts and their languages. Without `model`, the first one that has the languages is taken."""

    text: Texts
    source: str = AUTO
    target: str = ""
    model: str = ""
    deadline_ms: DeadlineMs = None


class _LineRequest(_TextParameters):
    """A request about one line."""

    text: str


class TranslateRequest(SearchRequest, _TextParameters):
    """A translation that is wanted. Without `model`, the first one that has the languages is
    taken.
    """

    model_config = example(
        text="나는 빵을 먹는다.", source="ko", target="en", nbest=2, alignments=True
    )
    format: Literal["text", "html", "xml"] = "text"
    scores: bool = False
    split: bool = Field(
        True, description="false: lines of plain text are not divided into sentences"
    )
    particles: Particles = Field(
        "both",
        description="Korean particles after placeholders: both forms, as in {name}을(를), or as "
        "the model writes them",
    )
    stream: bool = False

    @property
    def form(self) -> TextFormat:
        """The format of the texts."""
        split: Literal["0", "1"] = "1" if self.split else "0"
        return TextFormat(self.format, split, particles=self.particles)

    @property
    def with_lines(self) -> bool:
        """True if the answer has each line with its hypotheses."""
        needs_scores = self.alignments or self.scores or self.log_probs
        return needs_scores or self.nbest > 1 or self.attention != "none"

    def answer(self, texts: Sequence[ServedText]) -> TranslateAnswer:
        """Return the answer, without the fields that were not requested."""
        left_out = dict[str, None]()
        if not self.with_lines:
            left_out["lines"] = None
        if self.nbest == 1:
            left_out["alternatives"] = None
        return TranslateAnswer(
            [msgspec.structs.replace(text, **left_out) for text in texts]
        )


class ExplainImageRequest(Parameters):
    """An image whose caption is to be explained: JSON with the image in Base64, or a form with it
    as a file.
    """

    model_config = pydantic.ConfigDict(extra="forbid")
    image: str | bytes = Field(
        description="PNG, JPEG or WebP: Base64 in JSON, a file in a form"
    )
    model: str = ""
    deadline_ms: DeadlineMs = None


class CaptionRequest(CaptionSearch, ExplainImageRequest):
    """A caption that is wanted: JSON with the image in Base64, or a form with the image as a
    file.
    """


class ExplainRequest(ExplanationRequest, _LineRequest):
    """A line whose translation is to be explained."""

    model_config = example(text="나는 빵을 먹는다.", source="ko", target="en")


class ContinuationsRequest(_LineRequest):
    """A line, and what its translation begins with; wanted are the tokens that may follow."""

    model_config = example(
        text="나는 빵을 먹는다.", source="ko", target="en", prefix="I"
    )
    prefix: Prefix = Field(
        "", description="text or token ids; empty: the beginning of the translation"
    )
    count: int = Field(7, ge=1, le=MOST_CONTINUATIONS)


class TranslateAnswer(Answer, frozen=True):
    """The translations, in the order of the texts."""

    translations: Sequence[ServedText]


class CaptionAnswer(Answer, frozen=True):
    """A caption, and the hypotheses it is the best of."""

    caption: str
    model: str
    hypotheses: Sequence[ServedHypothesis]
    warnings: Sequence[str]


class ExplainAnswer(Answer, frozen=True):
    """A translation as data for figures, with its languages and the model."""

    source: str
    target: str
    model: str
    explanation: Annotated[
        Object, Meta(description="a Translation as js/regard.d.ts describes it")
    ]


class ContinuationsAnswer(Answer, frozen=True):
    """Tokens that may follow a prefix, likeliest first, with the languages and the model."""

    source: str
    target: str
    model: str
    continuations: Sequence[Continuation]


class ExplainImageAnswer(Answer, frozen=True):
    """A caption as data for figures."""

    model: str
    explanation: Annotated[
        Object, Meta(description="the keys that docs/visualisation.md lists")
    ]


class LanguagePair(Answer, frozen=True):
    """Languages of source and target; empty: not known."""

    source: str
    target: str


ChosenHead = Annotated[
    Mapping[str, Any],
    Meta(description="layer and head of attention that align words best"),
]
IsReady = Annotated[
    bool,
    Meta(
        description="false while the process of the model is started again, or its file was "
        "overwritten"
    ),
]
Readme = Annotated[
    str, Meta(description="of a single model that is asked for by its name")
]


class ModelInfo(Answer, frozen=True):
    """A model that is served."""

    name: str
    kind: Literal["translation", "captions"]
    pairs: Sequence[LanguagePair]
    has_attention: bool
    alignment: ChosenHead | None
    facts: Mapping[str, str]
    is_ready: IsReady
    readme: Readme | None = None


class ModelsAnswer(Answer, frozen=True):
    """The models that are ready."""

    models: Sequence[ModelInfo]


def model_info(model: ServedModel, readme: str | None = None) -> ModelInfo:
    """Return the public description of a model; `readme`: its model card, if it is wanted."""
    pairs = [LanguagePair(source, target) for source, target in model.pairs]
    return ModelInfo(
        model.name,
        model.kind,
        pairs,
        model.has_attention,
        model.alignment,
        model.facts,
        model.is_ready,
        readme,
    )
