"""The choice of a model and its languages."""

from __future__ import annotations

import pytest
from fake import MODELS, FakeService
from limits import time_limit

from regard.serving.http_errors import HttpError
from regard.serving.language_names import NAMES, language_name
from regard.serving.pairs import LanguagePairs, match_language
from regard.serving.service import ServedModel


@pytest.mark.parametrize(
    ("code", "known", "language"),
    [
        ("EN", ["en", "ko"], "en"),
        ("EN-US", ["en"], "en"),
        ("zh-hant", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zh", ["zh-Hans", "zh-Hant"], None),
        ("zh", ["zh-Hans"], "zh-Hans"),
        ("zh-Hant", ["zh-Hans"], None),
        ("e", ["en"], None),
        ("", ["en"], None),
        ("en_gb", ["en-GB", "en"], "en-GB"),
    ],
)
def test_codes(code: str, known: list[str], language: str | None) -> None:
    assert match_language(code, known) == language


def test_detection_keeps_to_what_can_be_translated() -> None:
    service, pairs = FakeService(), LanguagePairs(MODELS)
    service.shares = [("xx", 0.5), ("de", 0.3), ("ko", 0.1), ("fr", 0.05)]
    chosen = pairs.choose(service, "text", "auto", "en")
    assert (chosen.source, chosen.confidence) == ("de", 0.3)
    assert chosen.model is MODELS[2]
    service.shares = [("xx", 0.9)]
    assert pairs.choose(service, "text", "auto", "en").confidence == 0
    service.shares = [("fr", 0.9)]
    assert pairs.choose(service, "text", "auto", "fr").model is None


def test_models_without_languages_have_stand_ins() -> None:
    pairs = LanguagePairs(model for model in MODELS if model.name == "unnamed")
    assert pairs.languages == {"src": ["src", "tgt"], "tgt": ["tgt"]}
    assert pairs.choose(FakeService(), "x", "auto", "").model is MODELS[4]
    with pytest.raises(HttpError, match=r'"en" is not served; there are: tgt'):
        pairs.choose(FakeService(), "x", "auto", "en")


def test_without_models_there_is_no_service() -> None:
    with pytest.raises(HttpError, match="no model") as refused:
        LanguagePairs([]).choose(FakeService(), "x", "a", "b")
    assert refused.value.status == 503


def test_many_languages_take_linear_time() -> None:
    model = ServedModel("many", "translation", tuple(("en", f"x{number}") for number in range(50_000)))
    reverse = ServedModel("reverse", "translation", tuple((f"x{number}", "en") for number in range(50_000)))
    with time_limit():
        assert len(LanguagePairs([model, reverse]).languages["en"]) == 50_001


def test_names() -> None:
    assert (language_name("ko"), language_name("sr-Latn"), language_name("qq")) == ("Korean", "Serbian (Latn)", "qq")
    assert (language_name("hsb"), language_name("pt-BR")) == ("Upper Sorbian", "Portuguese (Brazilian)")
    assert all(code and name.strip() == name for code, name in NAMES.items())
