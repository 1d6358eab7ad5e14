"""Choose a model for a pair of languages; the source language may be detected (`auto`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from msgspec.structs import replace

from regard.data.language_codes import CodeIndex
from regard.data.spans import KEPT, find_spans
from regard.serving.http_errors import HttpError, bad_request
from regard.serving.models import Models
from regard.serving.request_bodies import excerpt
from regard.serving.service import ServedModel, ServedText
from regard.text.text_format import PLAIN, TextFormat, lay_out

AUTO = "auto"
UNKNOWN_SOURCE = "src"
UNKNOWN_TARGET = "tgt"
PLACEHOLDER_CODES = (UNKNOWN_SOURCE, UNKNOWN_TARGET)
"""Placeholder codes for the languages of a model that does not name them."""
PROBE = "test"
"""The text with which Weblate checks a server, from English to German, whatever its languages."""
_DETECTED = 10_000
"""Maximum number of characters of a text that are used to detect its language."""


@dataclass(frozen=True)
class Choice:
    """The model and languages of one text.

    `model`: None if both languages are the same, so that the text is returned unchanged;
    `confidence`: probability of the source language, if it was detected.
    """

    source: str
    target: str
    model: ServedModel | None
    confidence: float | None = None

    @property
    def prefix(self) -> str:
        """The language token that a line must begin with for this target; most models need none."""
        return self.model.codes.get(self.target, "") if self.model else ""

    def answer(self, text: ServedText) -> ServedText:
        """Return a translated text with its languages and the name of its model."""
        name = self.model.name if self.model else None
        return replace(
            text,
            source=self.source,
            target=self.target,
            model=name,
            confidence=self.confidence,
        )

    def unchanged(self, text: str) -> ServedText:
        """Return a text as its own translation."""
        return self.answer(ServedText(text, "", "", None, alternatives=(), lines=()))


class LanguagePairs:
    """The language pairs of several models; a pair that several models have belongs to the first.

    `answers_probe`: return the text `PROBE` unchanged if its pair is not served.
    """

    def __init__(
        self, models: Iterable[ServedModel], answers_probe: bool = False
    ) -> None:
        self._answers_probe = answers_probe
        self._models: dict[tuple[str, str], ServedModel] = {}
        for model in models:
            if model.kind != "translation":
                continue
            for source, target in model.pairs:
                pair = (source or UNKNOWN_SOURCE, target or UNKNOWN_TARGET)
                self._models.setdefault(pair, model)

        targets: dict[str, set[str]] = {}
        for source, target in self._models:
            targets.setdefault(source, {source}).add(target)
            targets.setdefault(target, {target})
        self.languages = {code: sorted(targets[code]) for code in sorted(targets)}
        """All languages, each with its possible targets, itself included."""
        self.sources = list(dict.fromkeys(source for source, _ in self._models))
        """The source languages of the models."""
        self.targets = list(dict.fromkeys(target for _, target in self._models))
        """The target languages of the models."""

    def choose(
        self,
        service: Models,
        text: str,
        source: str,
        target: str,
        form: TextFormat = PLAIN,
    ) -> Choice:
        """Choose the model for a text.

        `source`: a code or "auto"; `target`: a code, or empty if the models have only one. Raises
        HttpError: 400 for languages that no model has, 503 if there is no model.
        """
        if not self._models:
            raise HttpError(
                503, "there is no model that translates", headers={"Retry-After": "5"}
            )
        try:
            return self._choose(service, text, source, target, form)
        except HttpError:
            if self._answers_probe and text == PROBE and source not in (AUTO, ""):
                return Choice(source.lower(), target.lower(), None)
            raise

    def _choose(
        self, service: Models, text: str, source: str, target: str, form: TextFormat
    ) -> Choice:
        target = self._target(target)
        if source in (AUTO, ""):
            return self._choose_detected(service, _prose_of(text, form), target)

        sources = self._sources_of(target)
        code = _match(source, sources) or _match(source, self.languages)
        if code is None:
            languages = ", ".join(self.languages)
            raise bad_request(
                f"the source language {excerpt(source)} is not served; there are: {languages}"
            )
        if code == target:
            return Choice(code, target, None)
        model = self._models.get((code, target))
        if model is None:
            names = ", ".join(sources) or "none"
            raise bad_request(
                f"no model translates from {code} to {target}; there are models to {target} from: "
                f"{names}"
            )
        return Choice(code, target, model)

    def _target(self, target: str) -> str:
        if not target and len(self.targets) == 1:
            return self.targets[0]
        targets = ", ".join(self.targets)
        if not target:
            raise bad_request(f"the target language is missing; there are: {targets}")
        code = _match(target, self.targets) or _match(target, self.languages)
        if code is None:
            raise bad_request(
                f"the target language {excerpt(target)} is not served; there are: {targets}"
            )
        return code

    def _sources_of(self, target: str) -> list[str]:
        return [
            source for source, model_target in self._models if model_target == target
        ]

    def _choose_detected(self, service: Models, text: str, target: str) -> Choice:
        """Choose the likeliest source language among those with a model to this target, and the
        target itself.
        """
        sources = self._sources_of(target)
        if not sources:
            raise bad_request(
                f"no model translates to {target}; there are models to: {', '.join(self.targets)}"
            )
        candidates = [
            (code, probability)
            for code, probability in service.detect(text)
            if code in sources or code == target
        ]
        code, probability = max(
            candidates, key=lambda candidate: candidate[1], default=("", 0.0)
        )
        if probability <= 0:
            code = sources[0]
        model = self._models.get((code, target)) if code != target else None
        return Choice(code, target, model, probability)


def _prose_of(text: str, form: TextFormat) -> str:
    """Return the beginning of a text without markup, addresses, code and the like."""
    prose = " ".join(lay_out(text, form).lines)[:_DETECTED]
    for span in reversed(find_spans(prose)):
        if span.kind in KEPT:
            prose = prose[: span.start] + prose[span.end :]
    return prose


def _match(wanted: str, codes: Iterable[str]) -> str | None:
    """Return the one of the codes that a client means, or None if there is none."""
    return _code_index(tuple(codes)).match(wanted)


@lru_cache
def _code_index(codes: tuple[str, ...]) -> CodeIndex:
    return CodeIndex(codes, PLACEHOLDER_CODES)


def select_models(
    models: Mapping[str, ServedModel], name: str, kind: str
) -> list[ServedModel]:
    """Return the models of a kind; if `name` is not empty, only the model of this name.

    Raises HttpError (400) for an unknown name.
    """
    of_kind = [model for model in models.values() if model.kind == kind]
    if not name:
        return of_kind
    chosen = [model for model in of_kind if model.name == name]
    if not chosen:
        names = ", ".join(model.name for model in of_kind) or "none"
        raise bad_request(
            f"there is no model of {kind} named {excerpt(name)}; there are: {names}"
        )
    return chosen
