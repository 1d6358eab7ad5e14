"""The choice of a model and its languages."""

from __future__ import annotations

import pytest
from fake import MODELS, FakeService

from regard.common.errors import UsageError
from regard.serving.description import check_languages
from regard.serving.http_errors import HttpError
from regard.serving.language_names import language_name
from regard.serving.language_pairs import LanguagePairs
from regard.serving.service import ServedModel


def test_codes_of_clients_choose_the_model() -> None:
    """A script that is no model's is refused, with what there is; a region is left out."""
    pairs = LanguagePairs(
        [
            ServedModel("chinese", "translation", (("en", "zh-Hans"),)),
            ServedModel("serbian", "translation", (("en-GB", "sr"), ("sr", "en"))),
            ServedModel(
                "filipino", "translation", (("en", "tl"), ("iw", "en"), ("nb", "en"))
            ),
        ]
    )
    service = FakeService()
    for source, target, model in (
        ("EN-US", "zh-CN", "chinese"),
        ("eng_Latn", "cmn", "chinese"),
        ("en", "fil", "filipino"),
        ("he", "EN-GB", "filipino"),
        ("en", "sr_RS", "serbian"),
        ("EN", "sr-Cyrl", "serbian"),
    ):
        chosen = pairs.choose(service, "text", source, target).model
        assert chosen is not None
        assert chosen.name == model
    sentence = "is not served; there are: zh-Hans, sr, en, tl"
    for target in ("zh-TW", "zt", "sr-Latn", "sr@latin", "sh", "pb"):
        with pytest.raises(HttpError, match=sentence) as refused:
            pairs.choose(service, "text", "en", target)
        assert refused.value.status == 400

    with pytest.raises(HttpError, match=r'the source language "sr-Latn" is not served'):
        pairs.choose(service, "text", "sr-Latn", "en")
    assert pairs.choose(service, "text", "zh", "zh-CN").model is None, (
        "its languages are the same"
    )


def test_detection_keeps_to_what_can_be_translated() -> None:
    service = FakeService()
    pairs = LanguagePairs(MODELS)
    service.shares = [("xx", 0.5), ("de", 0.3), ("ko", 0.1), ("fr", 0.05)]
    chosen = pairs.choose(service, "text", "auto", "en")

    assert (chosen.source, chosen.confidence) == ("de", 0.3)
    assert chosen.model is MODELS[2]

    service.shares = [("xx", 0.9)]
    assert pairs.choose(service, "text", "auto", "en").confidence == 0

    service.shares = [("fr", 0.9)]
    assert pairs.choose(service, "text", "auto", "fr").model is None


def test_models_without_languages_have_stand_ins() -> None:
    service = FakeService()
    pairs = LanguagePairs(model for model in MODELS if model.name == "unnamed")
    assert pairs.languages == {"src": ["src", "tgt"], "tgt": ["tgt"]}
    assert pairs.choose(service, "x", "auto", "").model is MODELS[4]
    with pytest.raises(HttpError, match=r'"en" is not served; there are: tgt'):
        pairs.choose(service, "x", "auto", "en")
    with pytest.raises(HttpError, match="no model") as refused:
        LanguagePairs([]).choose(service, "x", "a", "b")
    assert refused.value.status == 503


def test_names() -> None:
    names = {
        "ko": "Korean",
        "uz-Latn": "Uzbek (Latn)",
        "qq": "qq",
        "src": "Source language",
        "pt-BR": "Portuguese (Brazilian)",
    }
    assert {code: language_name(code) for code in names} == names


def test_a_model_has_as_many_languages_as_it_reads_and_writes() -> None:
    check_languages({"kind": "translation"}, None)
    check_languages({"kind": "translation"}, ("ko", "en"))
    check_languages({"kind": "captions"}, ("", "en"))
    with pytest.raises(UsageError, match=r"--languages en: this model .*, such as"):
        check_languages({"kind": "translation"}, ("", "en"))
    with pytest.raises(UsageError, match=r"--languages ko,en: this model .*, such as"):
        check_languages({"kind": "captions"}, ("ko", "en"))
