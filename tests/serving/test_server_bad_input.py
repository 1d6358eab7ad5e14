"""Bad input of every kind: a status and a sentence in the shape of the API that was called, never a 500."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fake import Ask

from regard.common.errors import DataError
from regard.serving import requests
from regard.serving.http_errors import http_error

JSON = {"content-type": "application/json"}
SHAPES = {"/translate": "error", "/detect": "error", "/v2/translate": "message", "/v1/translate": "detail", "/v1/caption": "detail", "/v1/explain": "detail"}  # fmt: skip


def check(answer: httpx.Response, path: str, statuses: tuple[int, ...] = (400, 413, 415)) -> str:
    """Check that an answer is an error in the shape of its API; return its sentence."""
    assert answer.status_code in statuses, answer.text
    content = answer.json()
    assert SHAPES[path] in content
    sentence = content[SHAPES[path]]
    assert isinstance(sentence, str)
    assert 10 < len(sentence) < 1500
    return sentence


@pytest.mark.parametrize("path", ["/translate", "/v2/translate", "/v1/translate"])
@pytest.mark.parametrize(
    "value",
    [
        5,
        1.5,
        True,
        None,
        {},
        {"a": 1},
        [[]],
        [1],
        ["a", None],
        "",
        "\x00",
        "x" * 300,
        [],
        "xx",
        "../..",
        "1e400",
        10**30,
    ],
)
def test_values_of_wrong_types(ask: Ask, path: str, value: Any) -> None:
    """Every parameter, with every value: taken, or refused in a sentence."""
    names = {"/translate": ("q", "source", "target"), "/v2/translate": ("text", "source_lang", "target_lang")}
    base = dict(zip(names.get(path, ("text", "source", "target")), ("hello", "en", "ko"), strict=True))
    further = ("alternatives", "format", "api_key", "formality", "split_sentences", "ignore_tags", "tag_handling", "beam", "nbest", "deadline_ms", "model", "attention", "alignments", "length_penalty", "glossary_id", "show_billed_characters")  # fmt: skip
    for name in (*base, *further):
        answer = ask(path, json={**base, name: value})
        if answer.status_code != 200:
            allowed = (400, 404, 504) if (name, value) == ("deadline_ms", 5) else (400, 404)
            check(answer, path, allowed)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e30", "123456789012345678901234567890", "-0", "1.0"])
def test_numbers(ask: Ask, number: str) -> None:
    for path, names in (
        ("/translate", ("q", "alternatives")),
        ("/v1/translate", ("text", "length_penalty")),
        ("/v1/translate", ("text", "beam")),
    ):
        body = f'{{"{names[0]}": "hello", "source": "en", "target": "ko", "{names[1]}": {number}}}'
        answer = ask(path, content=body.encode(), headers=JSON)
        if answer.status_code != 200:
            assert names[1] in check(answer, path)


@pytest.mark.parametrize(
    "text",
    ["\x00", "a\x00b", "\x1b[31m\x07", "\u202e\ufeff\u2028", "\U0010ffff", "\x80" * 9, "😀" * 99, "e\u0301" * 50],
)
def test_strange_characters_are_texts(ask: Ask, text: str) -> None:
    for path, name in (("/translate", "q"), ("/v1/translate", "text")):
        answer = ask(path, json={name: text, "source": "en", "target": "ko"})
        assert answer.status_code == 200
    assert ask("/translate", data={"q": text, "source": "en", "target": "ko"}).status_code == 200


def test_of_many_wrong_values_few_are_described(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    described = list[Any]()
    monkeypatch.setattr(requests, "excerpt", lambda value: described.append(value) or "nothing")
    for path, name in (("/translate", "q"), ("/v2/translate", "text"), ("/v1/translate", "text")):
        assert "text 2 is nothing" in check(ask(path, json={name: ["a", *[None] * 5000], "target": "ko"}), path)
    assert len(described) < 100


def test_prefixes_are_charged(make_ask: Callable[..., Ask]) -> None:
    ask = make_ask(character_quota=30, char_limit=0)
    line = {"text": "hello", "source": "en", "target": "ko"}
    for path in ("/v1/explain", "/v1/continuations"):
        for prefix in ("a" * 26, [1] * 26):
            assert ask(path, json={**line, "prefix": prefix}).status_code == 456


def test_data_that_cannot_be_used_are_the_requests() -> None:
    assert http_error(DataError("the image: a damaged PNG image")).status == 400


def test_half_of_a_character_never_breaks_an_answer(ask: Ask) -> None:
    """Errors quote what was sent."""
    answer = ask("/v1/translate", content=rb'{"text": "a", "target": "ko", "b\u00e9am\ud83d\ude00": 1}', headers=JSON)
    assert "béam😀" in answer.json()["detail"]
    assert json.loads(answer.content)["status"] == 400
