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
FORM = {"content-type": "application/x-www-form-urlencoded"}
PARTS = {"content-type": "multipart/form-data; boundary=x"}
SHAPES = {"/translate": "error", "/detect": "error", "/v2/translate": "message", "/v1/translate": "detail", "/v1/caption": "detail", "/v1/explain": "detail"}  # fmt: skip
PART = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nhello\r\n'
BODIES: dict[str, tuple[dict[str, str], bytes]] = {
    "broken JSON": (JSON, b'{"q": "hello"'),
    "JSON of two": (JSON, b"{} {}"),
    "a list": (JSON, b"[1, 2]"),
    "a text": (JSON, b'"hello"'),
    "null": (JSON, b"null"),
    "JSON that is not UTF-8": (JSON, b'{"q": "\xff\xfe"}'),
    "UTF-16": (JSON, '{"q": "a"}'.encode("utf-16")),
    "half of a character": (JSON, rb'{"q": "\ud800", "text": ["a", "\uDFFFb"]}'),
    "half of a character in a name": (JSON, rb'{"\udc00": 1}'),
    "half of a character in a raw text": (JSON, b'{"q": "\xed\xa0\x80"}'),
    "NaN": (JSON, b'{"q": NaN}'),
    "Infinity": (JSON, b'{"q": -Infinity}'),
    "a number of 5,000 digits": (JSON, b'{"q": ' + b"9" * 5000 + b"}"),
    "a number of 40 digits": (JSON, b'{"alternatives": ' + b"9" * 40 + b"}"),
    "1,000 names": (JSON, json.dumps({f"name{i}": i for i in range(1_000)}).encode()),
    "20,000 names": (JSON, json.dumps({f"name{i}": i for i in range(20_000)}).encode()),
    "1,000 names in a form": (FORM, b"&".join(b"name%d=1" % i for i in range(1000))),
    "100 unknown names": (JSON, json.dumps({f"name{i}": i for i in range(100)} | {"ignore_tags": "a" * 9**5}).encode()),
    "names given twice": (JSON, b'{"q": "a", "q": "b"}'),
    "names given twice inside": (JSON, b'{"q": {"a": 1, "a": 2}}'),
    "deep lists": (JSON, b'{"q": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
    "deep tables": (JSON, b'{"q": ' + b'{"a":' * 50_000),
    "control characters in JSON": (JSON, b'{"q": "a\x00b"}'),
    "a form that is not UTF-8": (FORM, b"q=%ff"),
    "a form of raw bytes": (FORM, b"q=\xff"),
    "a form of 9,999 fields": (FORM, b"a=&" * 9_999),
    "parts without a boundary": ({"content-type": "multipart/form-data"}, PART),
    "parts with a long boundary": ({"content-type": "multipart/form-data; boundary=" + "x" * 5000}, PART),
    "parts of noise": (PARTS, b"\x00\x01\x02"),
    "parts with a bad head": (PARTS, b"--x\r\n\x00: \r\n\r\nhello\r\n--x--\r\n"),
    "parts without a name": (PARTS, b"--x\r\nContent-Disposition: form-data\r\n\r\nhello\r\n--x--\r\n"),
    "parts that are not UTF-8": (PARTS, PART.replace(b"hello", b"\xff") + b"--x--\r\n"),
    "a name that is not UTF-8": (PARTS, PART.replace(b'"q"', b'"\xff"') + b"--x--\r\n"),
    "9,999 parts": (PARTS, PART * 9_999 + b"--x--\r\n"),
    "a strange encoding of a part": (PARTS, PART.replace(b"\r\n\r\n", b"\r\nContent-Transfer-Encoding: base64\r\n\r\n") + b"--x--\r\n"),
    "no type": ({}, b"q=hello"),
    "another type": ({"content-type": "text/plain"}, b'{"q": "hello"}'),
    "a broken type": ({"content-type": ";;;=\xff"}, b"x"),
    "compressed": ({**JSON, "content-encoding": "gzip"}, b"\x1f\x8b"),
    "nothing": (JSON, b""),
}  # fmt: skip


def check(answer: httpx.Response, path: str, statuses: tuple[int, ...] = (400, 413, 415)) -> str:
    """Check that an answer is an error in the shape of its API; return its sentence."""
    assert answer.status_code in statuses, answer.text
    content = answer.json()
    assert SHAPES[path] in content
    sentence = content[SHAPES[path]]
    assert isinstance(sentence, str)
    assert 10 < len(sentence) < 1500
    return sentence


@pytest.mark.parametrize("kind", BODIES)
def test_bodies(ask: Ask, kind: str) -> None:
    headers, content = BODIES[kind]
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    for path in SHAPES:
        check(ask(path, content=content, headers=raw), path)


@pytest.mark.parametrize("query", ["q=%ff", "q=\xff", "&".join(["a"] * 9999), "%00=%00", "q", "=&=&=", "q[]=1"])
def test_queries(ask: Ask, query: str) -> None:
    for path in SHAPES:
        answer = ask(f"{path}?{query}")
        if answer.status_code != 200 or path != "/detect":  # which takes q from the query
            check(answer, path)


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


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("half of a character", r"half of a character, \ud"),
        ("names given twice", 'it has "q" twice'),
        ("broken JSON", "no valid JSON at line 1, column 14"),
        ("a list", "wanted a JSON object"),
        ("deep lists", "nested too deeply"),
        ("JSON that is not UTF-8", "not UTF-8 at byte 7"),
        ("NaN", "NaN is no number"),
        ("a number of 5,000 digits", "a number has 5,000 digits, more than 30"),
        ("a number of 40 digits", "a number has 40 digits, more than 30"),
        ("20,000 names", "it has more than 11,100 values"),
        ("1,000 names", "the request has 1,000 names, more than 100"),
        ("1,000 names in a form", "the request has 1,000 names, more than 100"),
        ("compressed", "compressed requests are not read"),
        ("another type", "wanted application/json"),
        ("parts that are not UTF-8", "the form is not UTF-8"),
        ("parts without a boundary", "no boundary"),
    ],
)
def test_sentences_say_what_is_wrong(ask: Ask, kind: str, sentence: str) -> None:
    headers, content = BODIES[kind]
    answer = check(ask("/translate", content=content, headers=headers), "/translate")
    assert sentence.encode("utf-8", "replace").decode() in answer


def test_of_many_wrong_values_few_are_described(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    described = list[Any]()
    monkeypatch.setattr(requests, "excerpt", lambda value: described.append(value) or "nothing")
    for path, name in (("/translate", "q"), ("/v2/translate", "text"), ("/v1/translate", "text")):
        assert "text 2 is nothing" in check(ask(path, json={name: ["a", *[None] * 5000], "target": "ko"}), path)
    assert len(described) < 100


def test_tags_and_prefixes_have_limits_and_prefixes_are_charged(make_ask: Callable[..., Ask]) -> None:
    ask = make_ask(character_quota=30, char_limit=0)
    tags = {"text": "a", "target_lang": "ko", "ignore_tags": ["b," * 20_000]}
    assert "`ignore_tags`: wanted at most 10,000 characters" in check(ask("/v2/translate", json=tags), "/v2/translate")
    line = {"text": "hello", "source": "en", "target": "ko"}
    for path in ("/v1/explain", "/v1/continuations"):
        for prefix in ("a" * 10_001, [1] * 10_001):
            answer = ask(path, json={**line, "prefix": prefix})
            assert (answer.status_code, "at most 10,000" in answer.json()["detail"]) == (400, True)
        for prefix in ("a" * 26, [1] * 26):
            assert ask(path, json={**line, "prefix": prefix}).status_code == 456


def test_data_that_cannot_be_used_are_the_requests() -> None:
    assert http_error(DataError("the image: a damaged PNG image")).status == 400


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW"])
def test_other_methods(ask: Ask, method: str) -> None:
    for path in SHAPES:
        answer = ask(path, method)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/..",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/static/x",
        "//translate",
        "/translate/",
        "/v1/",
        "/v2",
        "/%00",
        "/%ff",
        "/" + "x" * 5000,
    ],
)
def test_other_paths(ask: Ask, path: str) -> None:
    answer = ask(httpx.URL("http://localhost").copy_with(raw_path=path.encode("latin-1")))
    assert answer.status_code == (405 if path in ("/", "/..") else 404), "the page is read, not posted to"
    assert answer.json()


def test_half_of_a_character_never_breaks_an_answer(ask: Ask) -> None:
    """Errors quote what was sent."""
    answer = ask("/v1/translate", content=rb'{"text": "a", "target": "ko", "b\u00e9am\ud83d\ude00": 1}', headers=JSON)
    assert "béam😀" in answer.json()["detail"]
    assert json.loads(answer.content)["status"] == 400
