"""The choice of a model for a pair of languages, with `auto` for an unknown source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from msgspec.structs import replace

from regard.data.language_codes import CodeIndex
from regard.data.spans import KEPT, find_spans
from regard.serving.http_errors import HttpError, bad_request
from regard.serving.models import Models
from regard.serving.requests import excerpt
from regard.serving.service import ServedModel, ServedText
from regard.text.text_format import PLAIN, TextFormat, lay_out

AUTO = "auto"
STAND_INS = UNKNOWN_SOURCE, UNKNOWN_TARGET = "src", "tgt"
"""Codes for the languages of a model that does not name them."""
PROBE = "test"
"""The word by which Weblate tries a server, from English to German, whichever languages the server
has.
"""
_DETECTED = 10_000
"""Characters of a text by which its language is detected, at most."""


@dataclass(frozen=True)
class Choice:
    """The model and languages of one text; without a model it comes back unchanged: its languages
    are the same.

    `confidence`: the probability that the text is of this source, if it was not given.
    """

    source: str
    target: str
    model: ServedModel | None
    confidence: float | None = None

    @property
    def prefix(self) -> str:
        """The words that a line has to begin with for this target; most models need none."""
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
        """Return a text as it is, as its own translation."""
        return self.answer(ServedText(text, "", "", None, alternatives=(), lines=()))


class LanguagePairs:
    """The pairs of languages of some models; if several models have a pair, it is the first one's.

    `answers_probe`: the text `PROBE` comes back unchanged if its pair is not served.
    """

    def __init__(
        self, models: Iterable[ServedModel], answers_probe: bool = False
    ) -> None:
        self._answers_probe = answers_probe
        self._models: dict[tuple[str, str], ServedModel] = {}
        for model in models:
            for source, target in model.pairs if model.kind == "translation" else ():
                self._models.setdefault(
                    (source or UNKNOWN_SOURCE, target or UNKNOWN_TARGET), model
                )
        targets: dict[str, set[str]] = {
            code: {code} for pair in self._models for code in pair
        }
        for source, target in self._models:
            targets[source].add(target)
        self.languages = {code: sorted(targets[code]) for code in sorted(targets)}
        """All languages, each with those that it can be translated to, itself included."""
        self.sources = list(dict.fromkeys(source for source, _ in self._models))
        """The languages that can be translated from."""
        self.targets = list(dict.fromkeys(target for _, target in self._models))
        """The languages that can be translated to."""

    def choose(
        self,
        service: Models,
        text: str,
        source: str,
        target: str,
        form: TextFormat = PLAIN,
    ) -> Choice:
        """Choose the model for a text. `source`: a code or "auto"; `target`: a code, or empty if
        there is but one.

        Raises HttpError: 400 for languages that no model has, 503 if there is no model.
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
            return self._detected(service, _language_of(text, form), target)
        code = _match(source, self._sources_of(target)) or _match(
            source, self.languages
        )
        if code is None:
            known = ", ".join(self.languages)
            raise bad_request(
                f"the source language {excerpt(source)} is not served; there are: {known}"
            )
        if code == target:
            return Choice(code, target, None)
        model = self._models.get((code, target))
        if model is None:
            sources = ", ".join(self._sources_of(target)) or "none"
            raise bad_request(
                f"no model translates from {code} to {target}; there are models to {target} from: "
                f"{sources}"
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
        return [source for source, other in self._models if other == target]

    def _detected(self, service: Models, text: str, target: str) -> Choice:
        """Choose the likeliest of the languages that this target has models from; or the target
        itself.
        """
        sources = self._sources_of(target)
        if not sources:
            raise bad_request(
                f"no model translates to {target}; there are models to: {', '.join(self.targets)}"
            )
        likely = [
            (code, share)
            for code, share in service.detect(text)
            if code in sources or code == target
        ]
        code, share = max(likely, key=lambda item: item[1], default=("", 0.0))
        if share <= 0:
            code = sources[0]
        return Choice(
            code,
            target,
            self._models.get((code, target)) if code != target else None,
            share,
        )


def _language_of(text: str, form: TextFormat) -> str:
    """Return what is language in a text, up to a length."""
    shown = " ".join(lay_out(text, form).lines)[:_DETECTED]
    for span in reversed(find_spans(shown)):
        if span.kind in KEPT:
            shown = shown[: span.start] + shown[span.end :]
    return shown


def _match(wanted: str, codes: Iterable[str]) -> str | None:
    """Return the one of some codes that a client means; None: there is none."""
    return _code_index(tuple(codes)).match(wanted)


@lru_cache
def _code_index(codes: tuple[str, ...]) -> CodeIndex:
    return CodeIndex(codes, STAND_INS)


def select_models(
    models: Mapping[str, ServedModel], name: str, kind: str
) -> list[ServedModel]:
    """Return the models of a kind, or the one that is named. Raises HttpError (400) for an unknown
    name.
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
