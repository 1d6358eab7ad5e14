"""Requests that are refused, or taken although they are strange: the status, headers and sentence of each are recorded.

`python tests/serving/test_refusals.py` writes the record, refusals.jsonl, again: what git then shows has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import uvicorn
from fake import FakeService
from systems import posix

from regard.serving.application import create_app
from regard.serving.keys import ApiKey
from regard.serving.server import listen, server_config
from regard.serving.server_settings import ServerSettings

RECORD = Path(__file__).with_name("refusals.jsonl")
SHOWN = ("retry-after", "connection", "allow", "www-authenticate")
JSON, FORM, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"
TEXTS = {"/translate": "q", "/v2/translate": "text", "/v1/translate": "text"}
LINE = {"source": "en", "target": "ko"}
PART = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nhello\r\n'
FILE = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\n%s\r\n--x--\r\n'
BODIES: dict[str, tuple[str, bytes]] = {
    "broken JSON": (JSON, b'{"q": "hello"'),
    "two values": (JSON, b"{} {}"),
    "a list": (JSON, b"[1, 2]"),
    "a text": (JSON, b'"hello"'),
    "null": (JSON, b"null"),
    "a missing comma": (JSON, b'{"q": "a" "source": "en"}'),
    "a trailing comma": (JSON, b'{"q": "a",}'),
    "single quotes": (JSON, b"{'q': 'a'}"),
    "a bare word": (JSON, b'{"q": hello}'),
    "a bad escape": (JSON, rb'{"q": "\x"}'),
    "a byte order mark": (JSON, b'\xef\xbb\xbf{"q": "a", "text": "a", "source": "en", "target": "ko"}'),
    "not UTF-8": (JSON, b'{"q": "\xff\xfe"}'),
    "UTF-16": (JSON, '{"q": "a"}'.encode("utf-16")),
    "half of a character": (JSON, rb'{"q": "\ud800", "text": ["a", "\uDFFFb"]}'),
    "half of a character in a name": (JSON, rb'{"\udc00": 1}'),
    "half of a character in a raw text": (JSON, b'{"q": "\xed\xa0\x80"}'),
    "NaN": (JSON, b'{"q": NaN}'),
    "Infinity": (JSON, b'{"q": -Infinity}'),
    "a number of 5,000 digits": (JSON, b'{"q": ' + b"9" * 5000 + b"}"),
    "a known number of 40 digits": (JSON, b'{"alternatives": ' + b"9" * 40 + b', "nbest": ' + b"9" * 40 + b"}"),
    "a number with an exponent of 400": (JSON, b'{"length_penalty": 1e400}'),
    "1,000 names": (JSON, json.dumps({f"name{i}": i for i in range(1_000)}).encode()),
    "20,000 names": (JSON, json.dumps({f"name{i}": i for i in range(20_000)}).encode()),
    "two names given twice": (JSON, b'{"q": "a", "q": "b", "text": "a", "text": "b"}'),
    "names given twice inside": (JSON, b'{"q": {"a": 1, "a": 2}, "text": {"a": 1, "a": 2}}'),
    "a misspelt name": (JSON, b'{"q": "a", "text": "a", "target": "ko", "soruce": "en"}'),
    "deep lists": (JSON, b'{"q": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
    "deep lists under an unknown name": (JSON, b'{"zz": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
    "deep objects": (JSON, b'{"q": ' + b'{"a":' * 50_000),
    "a list of 30,000 numbers": (JSON, b'{"q": [1' + b",1" * 30_000 + b'], "text": [1' + b",1" * 30_000 + b"]}"),
    "a control character": (JSON, b'{"q": "a\x00b"}'),
    "nothing": (JSON, b""),
    "white space": (JSON, b"  \n"),
    "an empty object": (JSON, b"{}"),
    "a form that is not UTF-8": (FORM, b"q=%ff"),
    "a form of raw bytes": (FORM, b"q=\xff"),
    "a form of 9,999 fields": (FORM, b"a=&" * 9_999),
    "a form of 1,000 names": (FORM, b"&".join(b"name%d=1" % i for i in range(1000))),
    "a form with a name twice": (FORM, b"q=a&text=a&source=en&target=ko&target=fr"),
    "a form of separators": (FORM, b"=&=&="),
    "parts without a boundary": ("multipart/form-data", PART),
    "parts with a long boundary": ("multipart/form-data; boundary=" + "x" * 5000, PART),
    "parts of noise": (PARTS, b"\x00\x01\x02"),
    "parts with a bad head": (PARTS, b"--x\r\n\x00: \r\n\r\nhello\r\n--x--\r\n"),
    "parts without a name": (PARTS, b"--x\r\nContent-Disposition: form-data\r\n\r\nhello\r\n--x--\r\n"),
    "parts that are not UTF-8": (PARTS, PART.replace(b"hello", b"\xff") + b"--x--\r\n"),
    "a part whose name is not UTF-8": (PARTS, PART.replace(b'"q"', b'"\xff"') + b"--x--\r\n"),
    "parts without an end": (PARTS, PART),
    "9,999 parts": (PARTS, PART * 9_999 + b"--x--\r\n"),
    "a file in place of a text": (PARTS, FILE.replace(b'"image"', b'"q"') % b"abc"),
    "no type": ("", b"q=hello"),
    "another type": ("text/plain", b'{"q": "hello"}'),
    "a broken type": (";;;=\xff", b"x"),
    "a type ending in +json": ("application/vnd.api+json", b'{"q": "a", "text": "a", "target": "ko"}'),
}
VALUES: list[Any] = [5, 1.5, True, None, {"a": 1}, [[]], [1], ["a", None], "", "\x00", [], "xx", 10**25]
FURTHER: list[tuple[str, dict[str, Any]]] = [
    *(("/translate", {"alternatives": value}) for value in (-1, 21, "x", "3", 1.5, None, True)),
    *(("/translate", {"format": value}) for value in ("xml", None, 1)),
    *(("/v2/translate", {"tag_handling": value}) for value in ("markdown", 1)),
    *(("/v2/translate", {"formality": value}) for value in ("more", "prefer_more", "x")),
    *(("/v2/translate", {"split_sentences": value}) for value in (2, "x", True, None)),
    ("/v2/translate", {"glossary_id": "abc"}),
    ("/v2/translate", {"style_id": 1, "custom_instructions": []}),
    ("/v2/translate", {"ignore_tags": ["b," * 20_000]}),
    ("/v2/translate", {"ignore_tags": {"b": 1}}),
    *(("/v1/translate", {"nbest": value}) for value in (0, 101, "3", 1.0, True, None)),
    *(("/v1/translate", {"beam": value}) for value in (0, 10_000)),
    ("/v1/translate", {"beam": 2, "nbest": 3}),
    *(("/v1/translate", {"deadline_ms": value}) for value in (0, -5, 10**9)),
    ("/v1/translate", {"model": "none"}),
    ("/v1/translate", {"model": "captions"}),
    ("/v1/translate", {"attention": "some"}),
    ("/v1/translate", {"length_penalty": "1"}),
    ("/v1/translate", {"stream": True, "nbest": 2}),
    ("/v1/translate", {"nbst": 2, "unknown": 1}),
    ("/v1/translate", {"béam😀": 1}),
    *(("/v1/translate", {"text": text}) for text in ("long", ["a", "long"], "overload", "usage", "gone", "bug")),
    *(("/translate", {"q": text}) for text in ("long", "overload", "usage", "gone", "bug", "deadline")),
    *(("/v2/translate", {"text": text}) for text in ("overload", "deadline", "gone", "bug")),
    *(("/v1/explain", {"prefix": value}) for value in ("a" * 10_001, [1] * 10_001, [-1], [1 << 40], {"a": 1})),
    ("/v1/explain", {"text": ["a", "b"]}),
    ("/v1/explain", {"source": "en", "target": "en"}),
    ("/v1/continuations", {"count": 21}),
    ("/v1/caption", {"image": "not base64!"}),
    ("/v1/caption", {"image": "YWJj"}),
    ("/v1/caption", {"text": "a"}),
    ("/v1/explain_image", {"image": None}),
    ("/detect", {"q": ["a"]}),
    ("/detect", {"q": None}),
]
HEADS: list[tuple[str, str, dict[str, str]]] = [
    *(("GET", "/health", {"host": host}) for host in ("localhost", "127.0.0.1:80", "[::1]:5000", "localhost.")),
    *(("GET", "/health", {"host": host}) for host in ("evil.example", "localhost@evil", "", "a b", "127.0.0.1.nip.io")),
    *(("POST", "/translate", {"origin": origin}) for origin in ("http://localhost:1", "null", "http://[", "")),
    ("POST", "/v1/translate", {"origin": "https://evil.example"}),
    ("OPTIONS", "/translate", {"origin": "http://localhost", "access-control-request-method": "POST"}),
    *(("POST", "/v1/translate", {"x-deadline-ms": text}) for text in ("0", "-1", "soon", "9" * 10)),
    *(("POST", path, {"content-encoding": "gzip"}) for path in TEXTS),
    *((method, "/translate", {}) for method in ("GET", "PUT", "HEAD", "OPTIONS", "BREW")),
    *(("POST", path, {}) for path in ("/", "/nowhere", "/translate/", "/v1/", "/v2", "/%00", "/%ff", "//translate")),
    *(("POST", path, {}) for path in ("/translate_file", "/suggest", "/v1/models", "/v2/glossaries")),
    *(("GET", path, {}) for path in ("/v1/models/none", "/metrics", "/docs", "/v2/languages?type=x")),
    *(("POST", f"/translate?{query}", {}) for query in ("q=%ff", "&".join(["a"] * 9999), "%00=%00", "q[]=1", "source=xx")),
]  # fmt: skip
SETTINGS: list[tuple[str, dict[str, Any], int]] = [
    ("/translate", {"requests_per_minute": 2}, 3),
    ("/v2/translate", {"requests_per_minute": 2}, 3),
    ("/v1/translate", {"characters_per_minute": 6}, 2),
    ("/translate", {"character_quota": 7}, 2),
    ("/translate", {"char_limit": 4}, 1),
    ("/v1/translate", {"char_limit": 4}, 1),
    ("/v2/translate", {"body_limit": 1_000}, 1),
    ("/translate", {"require_key": True}, 1),
    ("/v2/translate", {"require_key": True}, 1),
    ("/v1/translate", {"require_key": True, "requests_per_minute": 1}, 2),
]
RAW: dict[str, bytes] = {
    "a host twice": b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: 127.0.0.1\r\n\r\n",
    "no host": b"GET /health HTTP/1.0\r\n\r\n",
    "noise": b"\x16\x03\x01\x02\r\n\r\n",
    "a head of 300 kB": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 300_000 + b"\r\n\r\n",
    "a target of 263 kB": b"GET /health?" + b"a" * 263_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a path with NUL": b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an upgrade": b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close, Upgrade\r\nUpgrade: websocket\r\n\r\n",
    **{
        f"a body with {name}": b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + rest
        for name, rest in {
            "two lengths": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            "a length twice": b"Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}",
            "a negative length": b"Content-Length: -1\r\n\r\n{}",
            "an unknown encoding": b"Transfer-Encoding: gzip\r\n\r\n{}",
            "a gigabyte": b"Content-Length: 1000000000\r\n\r\n",
            "an end that never comes": b"Content-Length: 100\r\n\r\n{",
            "chunks that are none": b"Transfer-Encoding: chunked\r\n\r\n{}",
            "a chunk that is longer than it says": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}{}\r\n",
            "a chunk of no end": b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 21 + b"\r\n",
        }.items()
    },
}  # fmt: skip


class Sent(NamedTuple):
    """A request: its name in the record, what is sent, the settings of the server, and how often it is sent."""

    name: str
    path: str
    method: str = "POST"
    headers: dict[str, str] = {}  # noqa: RUF012
    content: bytes = b""
    settings: dict[str, Any] = {}  # noqa: RUF012
    times: int = 1


def requests() -> Iterator[Sent]:
    """Yield all requests but those that only a connection can send."""
    for path, text in TEXTS.items():
        for name, (media, content) in BODIES.items():
            yield Sent(f"{path}: {name}", path, headers={"content-type": media} if media else {}, content=content)
        for parameter in (text, "source" if path != "/v2/translate" else "source_lang"):
            for value in VALUES:
                yield _json(path, {parameter: value})
    for path, values in FURTHER:
        yield _json(path, values)
    for image in (b"abc", b"\x89PNG"):
        yield Sent(
            f"/v1/caption: the file {image!r}", "/v1/caption", headers={"content-type": PARTS}, content=FILE % image
        )
    for method, path, headers in HEADS:
        asked = _json(path, {})
        yield asked._replace(
            name=f"{method} {_short(path)} {headers}", method=method, headers={**asked.headers, **headers}
        )
    for path, settings, times in SETTINGS:
        content = _json(path, {}).content.ljust(1_500 if "body_limit" in settings else 0)
        yield Sent(f"{path} {settings}", path, "POST", {"content-type": JSON}, content, settings, times)


def _json(path: str, values: dict[str, Any]) -> Sent:
    texts = {TEXTS.get(path, "text" if path.startswith("/v1/") else "q"): "hello"} if "image" not in path else {}
    languages = {"target_lang": "ko"} if path.startswith("/v2/") else LINE
    base = texts if path in ("/v1/caption", "/v1/explain_image") else {**texts, **languages}
    if "image" in values:
        base = {}
    name = f"{path} {_short(json.dumps(values, ensure_ascii=False))}"
    return Sent(name, path, headers={"content-type": JSON}, content=json.dumps({**base, **values}).encode())


def _short(text: str) -> str:
    return text if len(text) < 100 else f"{text[:60]}…"


def _seen(name: str, answer: httpx.Response) -> dict[str, Any]:
    """Return what the record says of an answer; of one that takes the request, the status alone."""
    seen: dict[str, Any] = {"request": name, "status": answer.status_code}
    if answer.status_code < 400:
        return seen
    seen |= {header: answer.headers[header] for header in SHOWN if header in answer.headers}
    if "allow" in seen:
        seen["allow"] = ", ".join(sorted(seen["allow"].split(", ")))
    try:
        content = answer.json()
    except ValueError:
        return seen | {"text": answer.text}
    (shape,) = {"error", "message", "detail"} & set(content)
    return seen | {shape: content[shape]}


async def _answers(folder: Path) -> AsyncIterator[dict[str, Any]]:
    """Send all requests, and yield what was seen of the answers."""
    key = ApiKey(name="a", id="0" * 12, salt="0" * 32, hash="0" * 64, created="2026-01-01")
    (keys := folder / "keys.json").write_text(json.dumps({"version": 1, "keys": [key.model_dump()]}))
    app, service = create_app(FakeService(), ServerSettings()), FakeService()
    for sent in requests():
        settings = sent.settings | ({"key_file": str(keys)} if "require_key" in sent.settings else {})
        transport = httpx.ASGITransport(create_app(service, ServerSettings(**settings)) if settings else app)
        headers = [(name.encode(), value.encode("latin-1")) for name, value in sent.headers.items()]
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for _ in range(sent.times):
                answer = await client.request(sent.method, sent.path, headers=headers, content=sent.content)
        yield _seen(sent.name, answer)
    settings = ServerSettings(deadline=0.5)
    server = uvicorn.Server(server_config(create_app(service, settings), settings))
    listener = listen("127.0.0.1", 0)
    running = asyncio.create_task(server.serve([listener]))
    for name, content in RAW.items():
        yield _seen(name, await _raw(listener.getsockname(), content))
    server.should_exit = True
    await running


async def _raw(address: tuple[str, int], content: bytes) -> httpx.Response:
    """Send bytes, and read the answer up to its end."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(content)
    data = b""
    with contextlib.suppress(ConnectionError):
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:-2]]
        headers = httpx.Headers([(name, value) for name, _, value in lines])
        data = await (
            reader.readexactly(int(headers["content-length"])) if "content-length" in headers else reader.read()
        )
    writer.close()
    return httpx.Response(int(head.split()[1]), headers=headers, content=data)


async def _all(folder: Path) -> list[dict[str, Any]]:
    return [seen async for seen in _answers(folder)]


@posix
def test_refusals_are_those_of_the_record(tmp_path: Path) -> None:
    recorded = [json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines()]
    assert asyncio.run(_all(tmp_path)) == recorded


def test_each_is_a_sentence() -> None:
    """None is an internal error, but where the fake service has one."""
    for line in RECORD.read_text(encoding="utf-8").splitlines():
        seen = json.loads(line)
        sentence = next((seen[shape] for shape in ("error", "message", "detail", "text") if shape in seen), "")
        assert seen["status"] < 400 or 10 < len(sentence) < 1_500 or seen["request"].startswith("HEAD"), seen
        assert seen["status"] != 500 or '"bug"' in seen["request"], seen


if __name__ == "__main__":
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        lines = [json.dumps(seen, ensure_ascii=False) for seen in asyncio.run(_all(Path(temporary)))]
    RECORD.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(lines)} requests\n")
