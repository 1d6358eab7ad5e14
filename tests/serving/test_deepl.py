"""DeepL's endpoints: what its clients send beyond the plain call, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from fake import Ask, FakeService

HELLO = {"text": ["hello"], "target_lang": "KO"}


def test_texts_come_as_list_or_repeated(ask: Ask) -> None:
    texts = ["hello", "", "안녕"]
    wanted = [("HELLO", "EN"), ("", "KO"), ("안녕", "KO")]
    for request in ({"json": {**HELLO, "text": texts}}, {"data": {**HELLO, "text": texts}}):
        answers = ask("/v2/translate", **request).json()["translations"]
        assert [answer["text"] for answer in answers] == [text for text, _ in wanted]
        assert answers[0] == {"text": "HELLO", "detected_source_language": "EN"}
    assert (
        ask("/v2/translate", json={**HELLO, "text": "one"}).json()["translations"][0]["text"]
        == "ONE"
    )


@pytest.mark.parametrize("target", ["EN-US", "en-gb", "EN", "en_US"])
def test_regions_of_a_target_are_its_language(ask: Ask, target: str) -> None:
    answer = ask(
        "/v2/translate", json={"text": ["안녕 a"], "target_lang": target, "source_lang": "ko"}
    )
    assert answer.json()["translations"] == [{"text": "안녕 A", "detected_source_language": "KO"}]


def test_sentences_are_split_as_asked(ask: Ask, service: FakeService) -> None:
    text = "One. Two\nthree"
    for split, lines in (
        ("1", ["One. Two", "three"]),
        ("0", ["One. Two", "three"]),
        ("nonewlines", ["One. Two three"]),
    ):
        ask(
            "/v2/translate",
            data={**HELLO, "text": text, "source_lang": "EN", "split_sentences": split},
        )
        assert service.calls[-1][1] == lines, "the model divides them into sentences"


@pytest.mark.parametrize(
    "options",
    [
        {"formality": "prefer_more"},
        {"formality": "default", "context": "a shop", "preserve_formatting": True},
        {"model_type": "prefer_quality_optimized", "tag_handling_version": "v2"},
        {
            "tag_handling": "xml",
            "ignore_tags": ["a,b", "c"],
            "splitting_tags": "p",
            "outline_detection": "0",
        },
        {"glossary_id": "", "unheard_of": [1, {}]},
        {"split_sentences": 0},
    ],
)
def test_options_that_are_taken(ask: Ask, options: dict[str, Any]) -> None:
    answer = ask("/v2/translate", json={**HELLO, **options, "show_billed_characters": "1"})
    assert answer.json()["translations"][0] == {
        "text": "HELLO", "detected_source_language": "EN", "billed_characters": 5
    }  # fmt: skip


def test_languages(ask: Ask) -> None:
    sources = ask("/v2/languages", "GET").json()
    assert sources[:2] == [
        {"language": "DE", "name": "German"},
        {"language": "EN", "name": "English"},
    ]
    by_query = ask("/v2/languages?type=target", "GET").json()
    assert {
        "language": "EN-US",
        "name": "English (American)",
        "supports_formality": False,
    } in by_query
    # As the Python client sends it.
    assert ask("/v2/languages", "GET", data={"type": "target"}).json() == by_query


def test_usage_counts_characters(ask: Ask) -> None:
    assert ask("/v2/usage", "GET").json() == {
        "character_count": 0,
        "character_limit": 1_000_000_000_000,
    }
    ask("/v2/translate", json={**HELLO, "text": ["hello", "안녕"]})
    assert ask("/v2/usage", "GET").json()["character_count"] == 7


def test_languages_of_version_3(ask: Ask) -> None:
    languages = {
        item["lang"]: item for item in ask("/v3/languages?resource=translate_text", "GET").json()
    }
    assert languages["KO"] == {
        "lang": "KO", "name": "Korean", "usable_as_source": True, "usable_as_target": True, "features": {}
    }  # fmt: skip
    assert [languages[code]["usable_as_target"] for code in ("EN", "EN-GB", "EN-US", "DE")] == [
        False,
        True,
        True,
        False,
    ]
    assert [languages[code]["usable_as_source"] for code in ("EN", "EN-GB", "FR", "DE")] == [
        True,
        False,
        False,
        True,
    ]
    assert ask("/v3/languages?resource=glossary", "GET").json() == []
    assert ask("/v3/glossaries", "GET").json() == {"glossaries": []}


def test_the_probe_of_weblate_comes_back_unchanged(ask: Ask, service: FakeService) -> None:
    """It asks for "test" from English to German, and accepts no server that refuses, whatever its
    languages are.
    """
    probe = {
        "text": ["test"],
        "source_lang": "EN",
        "target_lang": "DE",
        "tag_handling": "xml",
        "ignore_tags": ["x"],
    }
    answer = ask("/v2/translate", json=probe).json()["translations"]
    assert answer == [{"text": "test", "detected_source_language": "EN"}]
    libre = {"q": ["test"], "source": "en", "target": "de", "api_key": ""}
    assert ask("/translate", json=libre).json() == {"translatedText": ["test"]}
    assert service.calls == []
    served = ask("/translate", json={**libre, "target": "fr"}).json()["translatedText"]
    assert served == ["TEST"], "a pair that is served is translated"
