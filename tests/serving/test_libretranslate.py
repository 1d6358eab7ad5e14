"""LibreTranslate's endpoints: parameters from query, form and JSON, lists, alternatives, HTML,
detection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fake import Ask, FakeService

from regard.data.copy_tokens import COPY_CHARACTERS

HELLO = {"q": "hello", "source": "en", "target": "ko"}

KINDS: dict[str, Any] = {
    "query": {"params": HELLO},
    "form": {"data": HELLO},
    "multipart": {"files": {name: (None, value) for name, value in HELLO.items()}},
    "json": {"json": HELLO},
    "json of another name": {
        "content": b'{"q":"hello","source":"en","target":"ko"}',
        "headers": {"content-type": "application/vnd.api+json; charset=utf-8"},
    },
    "all three": {
        "params": {"q": "x", "source": "en"},
        "json": {"q": "hello", "target": "ko"},
    },
}


def translated(ask: Ask, q: str | list[str], **options: Any) -> Any:
    return ask("/translate", json={**HELLO, "q": q, **options}).json()["translatedText"]


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_come_from_query_form_or_json(ask: Ask, kind: str) -> None:
    answer = ask("/translate", **KINDS[kind])
    assert (answer.status_code, answer.json()) == (200, {"translatedText": "HELLO"})


def test_a_list_keeps_its_order_and_its_empty_texts(ask: Ask) -> None:
    texts = ["one", "", "  ", "Two. Three\n\n four\r\n", "\n"]
    assert translated(ask, texts) == [text.upper() for text in texts]
    assert translated(ask, []) == []
    assert translated(ask, "") == ""
    form = ask("/translate", data={**HELLO, "q": ["a", "b"]}).json()
    assert form["translatedText"] == ["A", "B"]


def test_every_paragraph_is_translated_and_line_breaks_are_kept(
    ask: Ask, service: FakeService
) -> None:
    text = "First one. Second one.\n\nthird one\n  Fourth one?  \n"
    assert translated(ask, text) == text.upper()
    assert service.calls[0][1] == ["First one. Second one.", "third one", "Fourth one?"]


def test_auto_tells_the_language(ask: Ask) -> None:
    answer = ask("/translate", json={"q": "안녕 하세요", "target": "en"}).json()
    assert answer["translatedText"] == "안녕 하세요"
    assert answer["detectedLanguage"] == {"confidence": 98.0, "language": "ko"}
    asked = {**HELLO, "q": ["hello", "안녕"], "source": "auto"}
    answer = ask("/translate", json=asked).json()
    assert [item["language"] for item in answer["detectedLanguage"]] == ["en", "ko"]
    assert answer["translatedText"] == ["HELLO", "안녕"]


def test_html_keeps_tags_and_asks_for_alignments(
    ask: Ask, service: FakeService
) -> None:
    page = '<p class="a">hello</p>\n<!-- no --><p>fish &amp; chips</p>'
    expected = (
        page.replace("hello", "HELLO").replace("fish", "FISH").replace("chips", "CHIPS")
    )
    assert translated(ask, page, format="html") == expected
    assert service.calls[0][2].alignments


def test_what_the_servers_patterns_match_is_kept(
    make_ask: Callable[..., Ask], service: FakeService
) -> None:
    ask = make_ask(keep=("Foobar( Suite)?", r"[A-Z]-\d+"))
    assert translated(ask, "Open Foobar Suite b-7 B-7") == "OPEN Foobar Suite B-7 B-7"
    assert service.calls[0][1] == ["Open b-7"]


def test_alternatives_are_whole_texts(ask: Ask) -> None:
    def answer(q: Any, **options: Any) -> Any:
        return ask(
            "/translate", json={**HELLO, "q": q, "alternatives": 2, **options}
        ).json()

    several = answer(["One. Two", "three"])
    assert several["translatedText"] == ["ONE. TWO", "THREE"]
    assert several["alternatives"] == [["ONE. TWO1", "ONE. TWO2"], ["THREE1", "THREE2"]]
    assert answer("hello", alternatives=1)["alternatives"] == ["HELLO1"]
    assert answer("<p>hello</p>", format="html")["alternatives"] == []


def test_languages_settings_and_states(ask: Ask, service: FakeService) -> None:
    languages = {item["code"]: item for item in ask("/languages", "GET").json()}
    assert languages["en"] == {
        "code": "en",
        "name": "English",
        "targets": ["en", "fr", "ko", "pt"],
    }
    assert languages["src"]["targets"] == ["src", "tgt"]
    assert ask("/languages", data={"api_key": "x"}).json() == list(languages.values())
    settings = ask("/frontend/settings", "GET").json()
    assert settings["charLimit"] == 100_000
    assert settings["keyRequired"] is False
    assert settings["language"]["source"]["code"] == "auto"
    detected = ask("/detect", data={"q": "hello"}).json()
    assert detected[0] == {"confidence": 98.0, "language": "en"}
    detected = ask("/detect", params={"q": ""}).json()
    assert detected[0]["confidence"] == 0
    assert ask("/health", "GET").json() == {"status": "ok"}
    assert ask("/ready", "GET").status_code == 200
    service.is_ready = False
    assert ask("/ready", "GET").status_code == 503
    assert translated(ask, "hello") == "HELLO", (
        "who is connected already is answered to the end"
    )


def test_lines_whose_copy_tokens_are_left_out_are_translated_around_their_spans(
    ask: Ask, service: FakeService
) -> None:
    service.copies = COPY_CHARACTERS
    answer = translated(ask, ["too late for {a}", "in time for {a}", "none"])
    assert answer == ["TOO LATE FOR {a}", "IN TIME FOR {a}", "NONE"]
    first, second = service.calls
    copy = COPY_CHARACTERS[0]
    assert first[1] == [f"too late for{copy}", f"in time for{copy}", "none"]
    assert (second[1], second[2].alignments) == (["too late for"], True)
