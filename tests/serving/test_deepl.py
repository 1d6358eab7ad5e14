"""DeepL's endpoints: what its clients send beyond the plain call, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from fake import Ask, FakeService

HELLO = {"text": ["hello"], "target_lang": "KO"}


def test_texts_come_as_list_or_repeated(ask: Ask) -> None:
    texts = ["hello", "", "안녕"]
    for kind in ("json", "data"):
        answer = ask("/v2/translate", **{kind: {**HELLO, "text": texts}}).json()
        answers = answer["translations"]
        assert [answer["text"] for answer in answers] == ["HELLO", "", "안녕"]
        assert answers[0] == {"text": "HELLO", "detected_source_language": "EN"}
    one = ask("/v2/translate", json={**HELLO, "text": "one"}).json()["translations"]
    assert one[0]["text"] == "ONE"


@pytest.mark.parametrize("target", ["EN-US", "en_US"])
def test_regions_of_a_target_are_its_language(ask: Ask, target: str) -> None:
    asked = {"text": ["안녕 a"], "target_lang": target, "source_lang": "ko"}
    answer = ask("/v2/translate", json=asked)
    assert answer.json()["translations"] == [
        {"text": "안녕 A", "detected_source_language": "KO"}
    ]


def test_sentences_are_split_as_asked(ask: Ask, service: FakeService) -> None:
    asked = {**HELLO, "text": "One. Two\nthree", "source_lang": "EN"}
    for split, lines in (
        ("1", ["One. Two", "three"]),
        ("0", ["One. Two", "three"]),
        ("nonewlines", ["One. Two three"]),
    ):
        ask("/v2/translate", data={**asked, "split_sentences": split})
        assert service.calls[-1][1] == lines, "the model divides them into sentences"


def test_options_that_change_nothing_are_taken(ask: Ask) -> None:
    options: dict[str, Any] = {
        "formality": "prefer_more",
        "context": "a shop",
        "preserve_formatting": True,
        "model_type": "prefer_quality_optimized",
        "tag_handling": "xml",
        "ignore_tags": ["a,b", "c"],
        "splitting_tags": "p",
        "outline_detection": "0",
        "glossary_id": "",
        "unheard_of": [1, {}],
        "split_sentences": 0,
        "show_billed_characters": "1",
    }
    (answer,) = ask("/v2/translate", json={**HELLO, **options}).json()["translations"]
    assert answer["text"] == "HELLO"
    assert answer["billed_characters"] == 5


def test_languages(ask: Ask) -> None:
    """The Python client sends parameters of GET in its body."""
    sources = ask("/v2/languages", "GET").json()
    assert sources[0] == {"language": "DE", "name": "German"}
    targets = ask("/v2/languages?type=target", "GET").json()
    american = {
        "language": "EN-US",
        "name": "English (American)",
        "supports_formality": False,
    }
    assert american in targets
    assert ask("/v2/languages", "GET", data={"type": "target"}).json() == targets


def test_languages_of_version_3(ask: Ask) -> None:
    languages = ask("/v3/languages?resource=translate_text", "GET").json()
    sources = {item["lang"] for item in languages if item["usable_as_source"]}
    targets = {item["lang"] for item in languages if item["usable_as_target"]}
    assert {"EN", "DE"} <= sources
    assert not {"EN-GB", "FR"} & sources
    assert {"EN-GB", "EN-US"} <= targets
    assert not {"EN", "DE"} & targets
    assert ask("/v3/languages?resource=glossary", "GET").json() == []
    assert ask("/v3/glossaries", "GET").json() == {"glossaries": []}


def test_the_probe_of_weblate_comes_back_unchanged(
    ask: Ask, service: FakeService
) -> None:
    """It asks for "test" from English to German, and accepts no server that refuses, whatever its
    languages are.
    """
    probe = {
        "text": ["test"],
        "source_lang": "EN",
        "target_lang": "DE",
        "tag_handling": "xml",
    }
    answer = ask("/v2/translate", json=probe).json()["translations"]
    assert answer == [{"text": "test", "detected_source_language": "EN"}]
    libre = {"q": ["test"], "source": "en", "target": "de", "api_key": ""}
    assert ask("/translate", json=libre).json() == {"translatedText": ["test"]}
    assert service.calls == []
    served = ask("/translate", json={**libre, "target": "fr"}).json()["translatedText"]
    assert served == ["TEST"], "a pair that is served is translated"
