"""Bad input that no table can list (test_refusals.py has those that it can): a status and a
sentence, never a 500.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fake import Ask

from regard.common.errors import DataError
from regard.serving import requests
from regard.serving.http_errors import http_error

NAMES = {"/translate": ("q", "source", "target"), "/v2/translate": ("text", "source_lang", "target_lang"), "/v1/translate": ("text", "source", "target")}  # fmt: skip
FURTHER = ("alternatives", "format", "api_key", "formality", "split_sentences", "ignore_tags", "tag_handling", "beam", "nbest", "deadline_ms", "model", "attention", "alignments", "length_penalty", "glossary_id", "show_billed_characters")  # fmt: skip


def sentence(answer: httpx.Response) -> str:
    """Return the sentence of an error, in the shape of its API."""
    content = answer.json()
    return str(next(content[shape] for shape in ("error", "message", "detail") if shape in content))


@pytest.mark.parametrize("path", NAMES)
@pytest.mark.parametrize(
    "value", [5, 1.5, True, None, [], [1], ["a", None], "", "\x00", "x" * 300, "../..", 10**30]
)
def test_values_of_wrong_types(ask: Ask, path: str, value: Any) -> None:
    """Every parameter, with every value: taken, or refused in a sentence."""
    base = dict(zip(NAMES[path], ("hello", "en", "ko"), strict=True))
    for name in (*base, *FURTHER):
        answer = ask(path, json={**base, name: value})
        if answer.status_code != 200:
            assert answer.status_code in (400, 404) or (name, value, answer.status_code) == (
                "deadline_ms",
                5,
                504,
            )
            assert 10 < len(sentence(answer)) < 1500


@pytest.mark.parametrize(
    "text",
    ["a\x00b", "\x1b[31m\x07", "\u202e\ufeff\u2028", "\U0010ffff", "😀" * 99, "e\u0301" * 50],
)
def test_strange_characters_are_texts(ask: Ask, text: str) -> None:
    for request in ({"json": {"q": text, "target": "ko"}}, {"data": {"q": text, "target": "ko"}}):
        assert ask("/translate", **request).status_code == 200


def test_of_many_wrong_values_few_are_described(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    described = list[Any]()
    monkeypatch.setattr(requests, "excerpt", lambda value: described.append(value) or "nothing")
    for path, (name, *_) in NAMES.items():
        assert "text 2 is nothing" in sentence(
            ask(path, json={name: ["a", *[None] * 5000], "target": "ko"})
        )
    assert len(described) < 100


def test_prefixes_are_charged(make_ask: Callable[..., Ask]) -> None:
    ask = make_ask(character_quota=30, char_limit=0)
    for path in ("/v1/explain", "/v1/continuations"):
        for prefix in ("a" * 26, [1] * 26):
            line = {"text": "hello", "source": "en", "target": "ko", "prefix": prefix}
            assert ask(path, json=line).status_code == 456


def test_data_that_cannot_be_used_are_the_requests() -> None:
    assert http_error(DataError("the image: a damaged PNG image")).status == 400
