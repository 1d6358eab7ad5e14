"""LibreTranslate's endpoints: parameters from query, form and JSON, lists, alternatives, HTML,
detection.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from fake import Ask, FakeService

from regard.data.copy_tokens import COPY_CHARACTERS
from regard.text.text_path import LONG

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
    "all three": {"params": {"q": "x", "source": "en"}, "json": {"q": "hello", "target": "ko"}},
}


def translated(ask: Ask, q: str | list[str], **options: Any) -> Any:
    return ask("/translate", json={**HELLO, "q": q, **options}).json()["translatedText"]


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_come_from_query_form_or_json(ask: Ask, kind: str) -> None:
    answer = ask("/translate", **KINDS[kind])
    assert (answer.status_code, answer.json()) == (200, {"translatedText": "HELLO"})


def test_a_list_keeps_its_order_and_its_empty_texts(ask: Ask) -> None:
    texts = ["one", "", "  ", "Two. Three\n\n four\r\n", "\n"]
    for given, expected in ((texts, [text.upper() for text in texts]), ([], []), ("", "")):
        assert ask("/translate", json={**HELLO, "q": given}).json() == {"translatedText": expected}
    assert ask("/translate", data={**HELLO, "q": ["a", "b"]}).json()["translatedText"] == ["A", "B"]


def test_every_paragraph_is_translated_and_line_breaks_are_kept(
    ask: Ask, service: FakeService
) -> None:
    text = "First one. Second one.\n\nthird one\n  Fourth one?  \n"
    assert translated(ask, text) == text.upper()
    assert service.calls[0][1] == ["First one. Second one.", "third one", "Fourth one?"]


def test_auto_tells_the_language(ask: Ask) -> None:
    answer = ask("/translate", json={"q": "안녕 하세요", "target": "en"}).json()
    assert answer == {
        "translatedText": "안녕 하세요",
        "detectedLanguage": {"confidence": 98.0, "language": "ko"},
    }
    answer = ask("/translate", json={**HELLO, "q": ["hello", "안녕"], "source": "auto"}).json()
    assert [item["language"] for item in answer["detectedLanguage"]] == ["en", "ko"]
    assert answer["translatedText"] == ["HELLO", "안녕"]


def test_alternatives_are_whole_texts(ask: Ask) -> None:
    answer = ask("/translate", json={**HELLO, "q": ["One. Two", "three"], "alternatives": 2}).json()
    assert answer["translatedText"] == ["ONE. TWO", "THREE"]
    assert answer["alternatives"] == [["ONE. TWO1", "ONE. TWO2"], ["THREE1", "THREE2"]]
    assert ask("/translate", data={**HELLO, "alternatives": "1"}).json()["alternatives"] == [
        "HELLO1"
    ]
    html = ask(
        "/translate", json={**HELLO, "q": "<p>hello</p>", "format": "html", "alternatives": 2}
    ).json()
    assert html == {"translatedText": "<p>HELLO</p>", "alternatives": []}


def test_html_keeps_tags_and_asks_for_alignments(ask: Ask, service: FakeService) -> None:
    page = '<p class="a">hello</p>\n<!-- no --><p>fish &amp; chips</p>'
    expected = page.replace("hello", "HELLO").replace("fish", "FISH").replace("chips", "CHIPS")
    assert translated(ask, page, format="html") == expected
    assert service.calls[0][2].alignments


ESCAPED = "a &lt;b&gt;red&lt;/b&gt; fish &amp;nbsp; &amp;amp; &lt;script&gt;chips"
RED = "A &lt;b&gt;RED&lt;/b&gt; FISH &amp;nbsp; &amp;amp; &lt;script&gt;CHIPS"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/translate", {"q": ESCAPED, "source": "en", "target": "ko", "format": "html"}),
        (
            "/v2/translate",
            {"text": [ESCAPED], "source_lang": "EN", "target_lang": "KO", "tag_handling": "html"},
        ),
        (
            "/v2/translate",
            {"text": [ESCAPED], "source_lang": "EN", "target_lang": "KO", "tag_handling": "xml"},
        ),
        ("/v1/translate", {"text": ESCAPED, "source": "en", "target": "ko", "format": "html"}),
    ],
)
def test_escaped_marks_of_pages_are_kept(
    ask: Ask, service: FakeService, path: str, body: dict[str, Any]
) -> None:
    assert RED in ask(path, json=body).text
    assert service.calls[-1][1] == ["a red fish chips"]


def test_breaks_part_the_lines_of_plain_text(ask: Ask, service: FakeService) -> None:
    answer = translated(ask, "a man runs<br />a dog sits<BR>it barks")
    assert answer == "A MAN RUNS<br />A DOG SITS<BR>IT BARKS"
    assert service.calls[-1][1] == ["a man runs", "a dog sits", "it barks"]


def test_languages_and_settings(ask: Ask) -> None:
    languages = {item["code"]: item for item in ask("/languages", "GET").json()}
    assert languages["en"] == {"code": "en", "name": "English", "targets": ["en", "fr", "ko", "pt"]}
    assert languages["src"]["targets"] == ["src", "tgt"]
    assert ask("/languages", data={"api_key": "x"}).json() == list(languages.values())
    settings = ask("/frontend/settings", "GET").json()
    assert settings["charLimit"] == 100_000
    assert settings["keyRequired"] is False
    assert settings["language"]["source"]["code"] == "auto"


def test_detect(ask: Ask, service: FakeService) -> None:
    assert ask("/detect", data={"q": "hello"}).json()[0] == {"confidence": 98.0, "language": "en"}
    assert ask("/detect", params={"q": ""}).json()[0]["confidence"] == 0


def test_states(ask: Ask, service: FakeService) -> None:
    assert ask("/health", "GET").json() == {"status": "ok"}
    assert ask("/ready", "GET").status_code == 200
    service.is_ready = False
    assert ask("/ready", "GET").status_code == 503
    assert ask("/translate", json=HELLO).status_code == 200, (
        "who is connected already is answered to the end"
    )


def test_placeholders_of_plain_text_are_kept(ask: Ask, service: FakeService) -> None:
    answer = translated(ask, "Open {name} in [X8X] now.\n\nno span here. Go on\n%s")
    assert [call[1] for call in service.calls] == [["no span here. Go on"], ["Open in now."]]
    assert answer == "OPEN {name} IN [X8X] NOW.\n\nNO SPAN HERE. GO ON\n%s"
    whole = ask(
        "/v2/translate",
        json={"text": ["{a} b"], "source_lang": "EN", "target_lang": "KO", "split_sentences": "0"},
    )
    assert whole.json()["translations"][0]["text"] == "{a} B"


def test_what_the_servers_patterns_match_is_kept(
    make_ask: Callable[..., Ask], service: FakeService
) -> None:
    ask = make_ask(keep=("Foobar( Suite)?", r"[A-Z]-\d+"))
    assert translated(ask, "Open Foobar Suite b-7 B-7") == "OPEN Foobar Suite B-7 B-7"
    assert service.calls[0][1] == ["Open b-7"]


def test_patterns_are_compared_in_nfc(make_ask: Callable[..., Ask], service: FakeService) -> None:
    word = "Café Zoë"
    text = "Open Café Zoë now"
    for pattern, line in product(("NFC", "NFD"), repeat=2):
        ask = make_ask(keep=(unicodedata.normalize(pattern, word),))
        expected = f"OPEN {unicodedata.normalize(line, word)} NOW"
        assert translated(ask, unicodedata.normalize(line, text)) == expected


def test_links_count_the_words_of_the_texts_that_are_shown(ask: Ask, service: FakeService) -> None:
    service.copies = COPY_CHARACTERS
    body = {"text": "in time for {a} now", "source": "en", "target": "ko", "alignments": True}
    (line,) = ask("/v1/translate", json=body).json()["translations"][0]["lines"]
    (hypothesis,) = line["hypotheses"]
    sizes = len(line["source"].split()), len(hypothesis["text"].split())
    assert sizes == (5, 5)
    links = {tuple(link) for link in hypothesis["alignments"]}
    assert links == {(0, 0), (1, 1), (2, 2), (2, 3), (3, 2), (3, 3), (4, 4)}, (
        "a span is read with the word before it"
    )


def test_lines_whose_copy_tokens_are_left_out_are_translated_around_their_spans(
    ask: Ask, service: FakeService
) -> None:
    service.copies = COPY_CHARACTERS
    answer = translated(ask, ["too late for {a}", "in time for {a}", "none"])
    assert answer == ["TOO LATE FOR {a}", "IN TIME FOR {a}", "NONE"]
    first = COPY_CHARACTERS[0]
    second = service.calls[-1]
    assert service.calls[-2][1] == [f"too late for{first}", f"in time for{first}", "none"]
    assert (second[1], second[2].alignments) == (["too late for"], True)


def test_lines_whose_numbers_are_lost_are_translated_around_them(
    ask: Ask, service: FakeService
) -> None:
    service.copies = COPY_CHARACTERS
    answer = translated(
        ask, ["since 2026", "till 2027 or 2027", "{a} till 2027, 30 or 40", "<p>till 2027</p>"]
    )
    assert answer == [
        "SINCE 2026",
        "TILL 2027 OR 2027",
        "{a} TILL 2027, 30 OR 40",
        "<p>TILL 2027</p>",
    ]
    first, second = COPY_CHARACTERS[:2]
    assert [call[1] for call in service.calls] == [
        ["since 2026", "till 2027 or 2027", f"{first} till 2027, 30 or 40"],
        ["till 2027"],  # between tags, which word links put back
        [f"till{first} or{second}"],
        ["till, or", "till"],
    ]
    assert translated(ask, "till 2027", format="html") == "TILL 2026", "markup is translated once"
    assert translated(ask, "2027, 2027") == "2027, 2027"
    long = "fine words " * (LONG // 10) + "till 2027"
    calls = len(service.calls)
    assert "TILL 2026" in translated(ask, long)
    assert len(service.calls) == calls + 1, "long lines are translated once"
