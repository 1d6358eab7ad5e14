"""Regard in Weblate: drafts from a server of one's own, placeholders kept, each with its quality
(docs/weblate.md).

This file is imported inside Weblate alone, whose licence is the GPL 3: together they are passed on
under it.
"""

from __future__ import annotations

import math
from typing import Any

from weblate.machinery.base import (
    MACHINERY_DEFAULT_THRESHOLD,
    XMLMachineTranslationMixin,
)
from weblate.machinery.forms import LibreTranslateMachineryForm

DOUBTFUL = 30
"""The most that a draft is worth which the server has doubts about, or warns of."""


class RegardTranslation(XMLMachineTranslationMixin):
    """Drafts by `/v1/translate` of a Regard server; the form wants its address, and a key if it has
    keys.
    """

    name = "Regard"
    max_score = 95
    settings_form = LibreTranslateMachineryForm
    request_timeout = 60

    def get_headers(self) -> dict[str, str]:
        """Return the header with the key, if there is one."""
        key = self.settings.get("key")
        return {"Authorization": f"Bearer {key}"} if key else {}

    def map_language_code(self, code: str) -> str:
        """Return Weblate's code of a language as the server writes it."""
        return super().map_language_code(code).replace("_", "-")

    def download_languages(self) -> list[tuple[str, str]]:
        """Return the pairs of languages that the server has models for."""
        models = self.request("get", self.get_api_url("v1", "models")).json()["models"]
        pairs = [
            (pair["source"], pair["target"])
            for model in models
            for pair in model["pairs"]
        ]
        return [pair for pair in pairs if all(pair)]  # a model may name no languages

    def is_supported(self, source_language: str, target_language: str) -> bool:
        """Return whether the server has a model for a pair."""
        return (source_language, target_language) in self.supported_languages

    def validate_settings(self) -> None:
        """Try the server with a pair that it has."""
        if pairs := self.supported_languages:
            self.validate_source_language, self.validate_target_language = min(pairs)
        super().validate_settings()

    def format_replacement(
        self, h_start: int, h_end: int, h_text: str, h_kind: object
    ) -> str:
        """Return the tag that stands for a placeholder while a text is translated."""
        return f'<x id="{h_start}"/>'

    def download_multiple_translations(
        self,
        source_language: str,
        target_language: str,
        sources: list[tuple[str, Any]],
        user: Any = None,
        threshold: int = MACHINERY_DEFAULT_THRESHOLD,
    ) -> dict[str, list[dict[str, Any]]]:
        """Return a draft of each text, with its quality: the probability, in per cent, that its
        worst line is a good translation, or 100 exp(score) of it if the model is not calibrated.
        """
        texts = [text for text, _ in sources]
        asked = {
            "text": texts,
            "source": source_language,
            "target": target_language,
            "format": "xml",
            "scores": True,
        }
        answers = self.request(
            "post", self.get_api_url("v1", "translate"), json=asked
        ).json()["translations"]
        return {
            text: [self._draft(text, answer)]
            for text, answer in zip(texts, answers, strict=True)
        }

    def _draft(self, text: str, answer: dict[str, Any]) -> dict[str, Any]:
        scores = [line["hypotheses"][0]["score"] for line in answer["lines"]]
        most = (
            DOUBTFUL
            if answer.get("doubtful") or answer.get("warnings")
            else self.max_score
        )
        probability = answer.get("quality")
        if probability is None:
            probability = math.exp(min(scores, default=0.0))
        quality = round(min(most, 100 * probability))
        return {
            "text": answer["text"],
            "quality": quality,
            "service": self.name,
            "source": text,
        }
