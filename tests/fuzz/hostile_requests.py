"""Hostile requests: damaged JSON, absurd values, headers, framing, forms, markup, images, and
clients that go.
"""

from __future__ import annotations

import base64
import functools
import json
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from fuzz.exchanges import Answer, request
from fuzz.http_cases import Exchange, HttpCase, Report, kind
from fuzz.inputs import LARGE_SIZES, NUMBERS, SIZES, any_image, any_text, any_value
from fuzz.served import CAPTIONS, FOLDER, SENTENCES, STEADY, Served

Values = dict[str, Any]
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+M8AAAMDAQCyNhmZAAAAAElFTkSuQmCC"
)
POSTED: dict[str, Callable[[str], Values]] = {
    "/translate": lambda text: {"q": text, "source": "ko", "target": "en"},
    "/detect": lambda text: {"q": text},
    "/v2/translate": lambda text: {"text": [text], "source_lang": "KO", "target_lang": "EN"},
    "/v1/translate": lambda text: {"text": text, "source": "ko", "target": "en", "model": STEADY},
    "/v1/explain": lambda text: {"text": text, "source": "ko", "target": "en", "model": STEADY},
    "/v1/continuations": lambda text: {
        "text": text,
        "source": "ko",
        "target": "en",
        "model": FOLDER,
    },
    "/v1/caption": lambda _: {"image": PIXEL, "model": CAPTIONS},
    "/v1/explain_image": lambda _: {"image": PIXEL},
}
"""Endpoints that take a body, and what each is asked in an ordinary request for a text."""
OPTIONS: dict[str, list[str]] = {
    "/translate": ["q", "source", "target", "format", "alternatives", "api_key"],
    "/detect": ["q", "api_key"],
    "/v2/translate": [
        *(
            "text",
            "target_lang",
            "source_lang",
            "split_sentences",
            "tag_handling",
            "ignore_tags",
            "splitting_tags",
        ),
        *(
            "non_splitting_tags",
            "outline_detection",
            "formality",
            "glossary_id",
            "show_billed_characters",
            "context",
        ),
    ],
    "/v1/translate": [
        *(
            "text",
            "source",
            "target",
            "model",
            "format",
            "beam",
            "nbest",
            "length_penalty",
            "max_length",
        ),
        *(
            "no_repeat_ngram",
            "alignments",
            "scores",
            "log_probs",
            "attention",
            "split",
            "deadline_ms",
            "stream",
        ),
    ],
    "/v1/explain": [
        "text",
        "source",
        "target",
        "model",
        "nbest",
        "prefix",
        "trace",
        "packed",
        "deadline_ms",
    ],
    "/v1/continuations": ["text", "source", "target", "model", "prefix", "count", "deadline_ms"],
    "/v1/caption": ["image", "model", "beam", "nbest", "attention", "deadline_ms"],
    "/v1/explain_image": ["image", "model", "deadline_ms"],
}
READ = [
    *(
        "/languages",
        "/frontend/settings",
        "/health",
        "/ready",
        "/metrics",
        "/v2/languages?type=target",
        "/v2/usage",
    ),
    *(
        "/v1/models",
        f"/v1/models/{STEADY}",
        f"/v1/models/{FOLDER}",
        f"/v1/models/{CAPTIONS}",
        "/",
        "/spec",
    ),
]
ANSWERS = {
    "/v1/translate": "translations",
    "/v2/translate": "translations",
    "/translate": "translatedText",
}
ANSWERS |= {
    "/v1/explain": "explanation",
    "/v1/explain_image": "explanation",
    "/v1/continuations": "continuations",
}
ANSWERS |= {"/v1/caption": "caption"}


def _is_whole(answer: Answer, _: Served, path: str) -> bool:
    """Whether an answer is what the endpoint answers, in JSON without NaN."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        return b"event: result" in answer.body or b"event: error" in answer.body
    return isinstance(answer.values, list) if path == "/detect" else ANSWERS[path] in answer.values


def _is_translated(answer: Answer, server: Served, texts: list[str], path: str) -> bool:
    """Whether an answer holds the translations of these texts."""
    expected = server.expected[STEADY]
    values = answer.values
    if path == "/translate":
        got = values["translatedText"]
        return (got if isinstance(got, list) else [got]) == [expected[text] for text in texts]
    return [each["text"] for each in values["translations"]] == [expected[text] for text in texts]


def _case(name: str, data: bytes, path: str, **options: Any) -> HttpCase:
    options.setdefault(
        "is_right", functools.partial(_is_whole, path=path) if path in POSTED else lambda *_: True
    )
    return HttpCase(f"{path[:40]}: {name}", Exchange(data, path, **options))


def _posted(name: str, path: str, content: Any, **options: Any) -> HttpCase:
    return _case(name, request(path, content), path, **options)


def _any(chance: random.Random) -> tuple[str, str, Values]:
    """Draw an endpoint, a sentence and an ordinary request for it."""
    path = chance.choice(list(POSTED))
    text = chance.choice(SENTENCES)
    return path, text, POSTED[path](text)


@kind(share=8)
def ordinary_requests(chance: random.Random) -> HttpCase:
    """Ask for translations as clients do: JSON, forms and chunks, one text or several; each has one
    right answer.
    """
    path = chance.choice(("/translate", "/v2/translate", "/v1/translate"))
    texts = chance.choices(SENTENCES, k=chance.choice((1, 1, 3, 30)))
    values = POSTED[path](texts[0])
    name = next(iter(values))
    is_right = functools.partial(_is_translated, texts=texts, path=path)
    if len(texts) > 1:
        values[name] = texts
    way = chance.choice(("json", "json", "form", "chunks", "head"))
    if way == "form" and path != "/v1/translate":
        data = request(
            path, urlencode(values, doseq=True).encode(), kind="application/x-www-form-urlencoded"
        )
    elif way == "chunks":
        data = request(
            path, _chunked(json.dumps(values).encode(), chance), ["Transfer-Encoding: chunked"]
        )
    elif way == "head":
        return _case("read", request(chance.choice(READ)), chance.choice(READ))
    else:
        data = request(path, values)
    return _case(f"{len(texts)} texts as {way}", data, path, is_right=is_right)


ALIASES = {
    "ko": ("kor", "KO", "ko-KR", "ko_KR", "ko-Kore"),
    "en": ("eng", "EN", "en-US", "en_GB", "en-Latn"),
}
OTHER_LANGUAGES = {
    "ko": ("kr", "zz", "ko-Latn", "ko-Hans"),
    "en": ("zz", "gr", "en-Cyrl", "en-Hang", "e-n"),
}


@kind(share=3)
def codes_of_languages(chance: random.Random) -> HttpCase:
    """Name languages by other codes: an alias is the language, and another script or no language is
    refused.
    """
    path = chance.choice(("/translate", "/v2/translate", "/v1/translate"))
    text = chance.choice(SENTENCES)
    is_known = chance.random() < 0.5
    side, language = chance.choice((("source", "ko"), ("target", "en")))
    code = chance.choice((ALIASES if is_known else OTHER_LANGUAGES)[language])
    values = POSTED[path](text)
    values[f"{side}_lang" if path == "/v2/translate" else side] = code
    is_translated = functools.partial(_is_translated, texts=[text], path=path)
    is_right = is_translated if is_known else lambda *_: False
    return _posted(f"{side} {code}", path, values, is_right=is_right, is_known=is_known)


BESIDE = [
    *SENTENCES,
    *("", "123", "&파일 열기", "OPEN FILE (_F)", "나는 빵을 {0} 먹는다", "나는 <b>빵</b>을 먹는다. 그는 왔다!", "[b]나는[/b] 왔다"),
    *("선생님은 2026-11-28에 사과 37개를 샀다", "HELLO WORLD", "그는 &lt;b&gt; 왔다", "나는 $1 샀다\n그는 왔다"),
]  # fmt: skip


@kind(share=4)
def neighbours(chance: random.Random) -> HttpCase:
    """Ask for texts of all kinds at once, then for each alone: what one is translated to depends on
    none beside it.
    """
    path = chance.choice(("/translate", "/v2/translate", "/v1/translate"))
    form = chance.choice(("text", "html"))
    texts = chance.choices(BESIDE, k=chance.choice((2, 2, 5)))
    field = "tag_handling" if path == "/v2/translate" else "format"
    more: Values = {} if form == "text" else {field: "html"}
    if form == "text" and path == "/translate":
        more = {"alternatives": chance.choice((0, 2))}

    def translated(server: Served, texts: list[str]) -> list[Any]:
        values = POSTED[path]("") | {"q" if path == "/translate" else "text": texts} | more
        answer = server.ask(request(path, values))
        if answer is None or answer.status != 200:
            raise ValueError(f"no answer, or {answer and answer.status}")
        if path != "/translate":
            return [
                [item["text"], item.get("doubtful"), item.get("warnings")]
                for item in answer.values["translations"]
            ]
        return list(
            zip(
                answer.values["translatedText"],
                answer.values.get("alternatives", texts),
                strict=True,
            )
        )

    def attack(server: Served) -> Report:
        together = translated(server, texts)
        for text, result in zip(texts, together, strict=True):
            (alone,) = translated(server, [text])
            if result != alone:
                return Report("wrong", (f"{text!r} alone {alone}, beside others {result}",))
        return Report("done")

    return HttpCase(f"{path}: {form}, {len(texts)} texts beside each other", attack)


def _chunked(body: bytes, chance: random.Random) -> bytes:
    data = bytearray()
    while body:
        part, body = body[: (size := chance.choice((1, 7, 1000)))], body[size:]
        data += f"{len(part):x}\r\n".encode() + part + b"\r\n"
    return bytes(data) + b"0\r\n\r\n"


@kind(share=10)
def odd_values(chance: random.Random) -> HttpCase:
    """Give parameters values that mean nothing, or more than anybody can want."""
    path, _, values = _any(chance)
    names = chance.sample(OPTIONS[path], min(len(OPTIONS[path]), chance.randrange(1, 4)))
    for name in names:
        values[name] = chance.choice((any_value(chance), chance.choice(NUMBERS), chance.choice((0, 1, 5, 20, 100, 1e9, True, "all", "xml", "html"))))  # fmt: skip
    if chance.random() < 0.2:
        values[any_text(chance, chance.choice((1, 10, 5000)))] = any_value(chance)
    data = json.dumps(values, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    return _posted(f"odd {', '.join(names)}: {data[:80]!r}", path, data, is_large=True)


@kind(share=10)
def damaged_json(chance: random.Random) -> HttpCase:
    """Damage the JSON of an ordinary request: types, depth, numbers, characters, names given
    twice.
    """
    path, _, values = _any(chance)
    body = bytearray(json.dumps(values).encode())
    place = chance.randrange(len(body))
    name = json.dumps(next(iter(values))).encode()
    depth = chance.choice((10, 1_000, 100_000, 1_000_000))
    damages: list[Callable[[], bytes]] = [
        lambda: bytes(body[:place]),
        lambda: bytes(body[:place]) + chance.randbytes(chance.choice((1, 4))) + bytes(body[place + 1 :]),
        lambda: bytes(body[:place]) + bytes(body[place + 1 :]),
        lambda: b"{" + name + b": " + chance.choice((b"[", b'{"a":')) * depth,
        lambda: b"{" + name + b": " + b"[" * depth + b"]" * depth + b"}",
        lambda: b"{" + name + b": " + chance.choice(NUMBERS).encode() + b"}",
        lambda: b"{" + name + b": " + chance.choice((b"NaN", b"-Infinity", b"1e999", b"-0", b"9" * depth, b"0." + b"3" * depth)) + b"}",
        lambda: b"{" + name + rb': "\ud800' + chance.choice((b"", rb"\udc00", b"a")) + b'"}',
        lambda: b"{" + name + b': "a", ' + name + b': "b"}',
        lambda: chance.choice((b"[]", b"null", b"1", b'"x"', b"{}", b"", b"\xef\xbb\xbf" + bytes(body), bytes(body) * 2)),
        lambda: bytes(body).decode().encode(chance.choice(("utf-16", "utf-32", "utf-7"))),
        lambda: b" " * depth + bytes(body),
    ]  # fmt: skip
    number = chance.randrange(len(damages))
    data = damages[number]()
    is_right = lambda *_: True  # noqa: E731 - what is left may be another request that is whole
    return _posted(
        f"JSON damaged by {number}: {data[:60]!r} of {len(data)}",
        path,
        data,
        is_right=is_right,
        is_large=True,
    )


@kind(share=2)
def many_names(chance: random.Random) -> HttpCase:
    """Send very many names, items or texts; twice as many may not take much longer than twice the
    time.
    """
    path, text, values = _any(chance)
    count = chance.choice((10, 1_000, 30_000, 300_000))
    form = chance.choice(("names", "inside", "long", "items", "fields"))

    def data(count: int) -> bytes:
        first = next(iter(values))
        if form == "fields":
            return request(
                path,
                b"&".join(b"a%d=" % n for n in range(count)),
                kind="application/x-www-form-urlencoded",
            )
        if form == "items":
            return request(path, {**values, first: [text] * count})
        if form == "long":
            return request(path, {**values, "x" * count * 4: 1, "y" * count * 4: 1})
        many = {f"n{n}": n for n in range(count)}
        return request(path, {**values, **many} if form == "names" else {**values, first: many})

    twice = Exchange(data(2 * count), path, is_large=True) if count < 300_000 else None
    return _case(
        f"{count} {form}", data(count), path, is_right=lambda *_: True, is_large=True, double=twice
    )


@kind(share=8)
def odd_headers(chance: random.Random) -> HttpCase:
    """Send headers that are long, many, contradictory, or claim to come from elsewhere."""
    path, text, _ = _any(chance)
    path = chance.choice(("/translate", "/v2/translate", "/v1/translate"))
    lines = {
        "long": [f"X-{'a' * chance.choice((10, 10_000, 300_000))}: {'b' * chance.choice((10, 60_000))}"],
        "many": [f"X-{n}: {n}" for n in range(chance.choice((100, 5_000)))],
        "forwarded": [f"{chance.choice(('X-Forwarded-For', 'Forwarded', 'X-Real-IP', 'X-Forwarded-Proto'))}: {chance.choice(('127.0.0.1', '1.2.3.4, 5.6.7.8', 'for=x', '::1', '9' * 5000, ',' * 5000, 'javascript'))}"],
        "host": [f"Host: {chance.choice(('evil.example', 'localhost:99999', 'localhost@x', '', '[::1', '127.0.0.1', 'a' * 5000, 'localhost, x'))}"],
        "origin": [f"Origin: {chance.choice(('http://evil.example', 'null', 'http://localhost', 'file://', 'http://[', 'a' * 5000))}"],
        "authorization": [f"Authorization: {chance.choice(('Bearer x', 'DeepL-Auth-Key ' + 'y' * 5000, 'Basic eDp5', 'Bearer', 'Ω'))}"],
        "deadline": [f"X-Deadline-Ms: {chance.choice(('0', '-1', '1', 'x', '9' * 5000, '٣', '1e3'))}"],
        "id": [f"X-Request-Id: {chance.choice(('a' * 64, 'a' * 65, '../x', '<b>', '%s'))}"],
        "type": [f"Content-Type: {chance.choice(('text/html', 'application/json; charset=utf-16', 'multipart/form-data', ';' * 5000, 'application/x+json', '*'))}"],
        "encoding": [f"Content-Encoding: {chance.choice(('gzip', 'br', 'identity', 'deflate, gzip', 'x' * 5000))}"],
        "expect": [f"Expect: {chance.choice(('100-continue', 'x'))}", "Connection: close"],
        "range": ["Range: bytes=0-,5-,7-", "If-None-Match: *"],
    }  # fmt: skip
    name = chance.choice(list(lines))
    data = request(path, POSTED[path](text), lines[name])
    accepted = functools.partial(_is_translated, texts=[text], path=path)
    return _case(f"header {name}", data, path, is_right=accepted, is_broken=name in ("long", "many", "authorization", "type"), is_large=name == "deadline")  # fmt: skip


@kind(share=8)
def broken_framing(chance: random.Random) -> HttpCase:
    """Break the framing: lengths, chunks, methods, line ends, two requests in one; the second may
    not be smuggled in.
    """
    path = chance.choice(("/translate", "/v2/translate", "/v1/translate"))
    text = chance.choice(SENTENCES)
    body = json.dumps(POSTED[path](text)).encode()
    whole = request(path, body)
    other = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    length = f"Content-Length: {len(body)}"
    chunks = _chunked(body, chance)
    cases: dict[str, tuple[bytes, int]] = {
        "negative length": (request(path, body, ["Content-Length: -1"]), 1),
        "length of letters": (request(path, body, [f"Content-Length: {chance.choice(('x', '0x10', '1e3', '1,1', '+5', '9' * 5000, ' '))}"]), 1),
        "two lengths": (request(path, body, [length, "Content-Length: 3"]) + other, 1),
        "length and chunks": (request(path, chunks, [length, "Transfer-Encoding: chunked"]) + other, 1),
        "chunks and length": (request(path, chunks, ["Transfer-Encoding: chunked", length]) + other, 1),
        "chunked twice": (request(path, chunks, ["Transfer-Encoding: chunked, chunked"]) + other, 1),
        "other encoding": (request(path, chunks, [f"Transfer-Encoding: {chance.choice(('gzip', 'xchunked', 'chunked ', 'chunked;q=1', 'identity'))}"]), 1),
        "sizes of chunks": (request(path, chance.choice((b"-1\r\nx\r\n", b"zz\r\nx\r\n", b"f" * 5000 + b"\r\n", b"5;" + b"e" * 70_000 + b"\r\nhello\r\n0\r\n\r\n", b"2\r\n{}X\r\n0\r\n\r\n")), ["Transfer-Encoding: chunked"]), 1),
        "method": (whole.replace(b"POST", chance.choice((b"GET", b"X" * 20_000, b"post", b"PO\x00ST", b"TRACE", b"CONNECT", b"OPTIONS", b"PUT", b"DELETE", b"HEAD ", "ПОСТ".encode()))), 1),
        "version": (whole.replace(b"HTTP/1.1", chance.choice((b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"HTTP/9", b"", b"HTTP/1.1.1"))), 1),
        "line ends": (whole.replace(b"\r\n", chance.choice((b"\n", b"\r", b"\n\r", b"\r\r\n")), chance.choice((1, 3))), 1),
        "spaces": (whole.replace(b"Host:", chance.choice((b" Host:", b"Host :", b"Ho st:", b"\x00:"))), 1),
        "folded": (whole.replace(b"Host: localhost", b"Host: localhost\r\n  evil"), 1),
        "no host": (whole.replace(b"Host: localhost\r\n", b""), 1),
        "two hosts": (whole.replace(b"Host: localhost\r\n", b"Host: localhost\r\nHost: evil\r\n"), 1),
        "upgrade": (request(path, body, [f"Upgrade: {chance.choice(('websocket', 'h2c', 'TLS/1.0'))}", "Connection: Upgrade", "HTTP2-Settings: x"]), 1),
        "noise": (chance.randbytes(chance.choice((1, 100, 300_000))), 1),
        "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(500), 1),
        "preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(60), 1),
        "pipelined": (whole * 5 + other, 6),
        "half and another": (whole[:-3] + other, 1),
    }  # fmt: skip
    name = chance.choice(list(cases))
    data, most = cases[name]
    return _case(
        name, data, path, most=most, is_broken=True, is_right=lambda *_: True, is_large=True
    )


@kind(share=8)
def leaving_clients(chance: random.Random) -> HttpCase:
    """Send half a request, or a whole one, and go without reading; in the middle of a stream,
    too.
    """
    path, text, values = _any(chance)
    way = chance.choice(("half", "unread", "large", "stream", "trickle"))
    if way in ("large", "stream"):
        path = "/v1/translate"
        text = ". ".join(chance.choices(SENTENCES, k=chance.choice((3, 100))))
        values = POSTED[path](text) | (
            {"stream": True} if way == "stream" else {"attention": "all", "nbest": 10}
        )
    data = request(path, values)
    if way == "half":
        data = data[: chance.randrange(1, len(data))]
    leaves = chance.choice((0.0, 0.0, 0.01, 0.1, 0.3))
    return _case(f"{way}, gone after {leaves} s", data, path, leaves=leaves)


@kind(share=5)
def odd_images(chance: random.Random) -> HttpCase:
    """Send images of odd sizes, modes and formats, most of them damaged, as files of a form or in
    Base64.
    """
    path = chance.choice(("/v1/caption", "/v1/explain_image"))
    image = any_image(chance, SIZES * 20 + LARGE_SIZES)
    if chance.random() < 0.2:
        image = chance.choice((b"", b"GIF89a", b"<svg onload='x'/>", b"\x89PNG\r\n\x1a\n" + bytes(50), b"BM" + bytes(60), b"text"))  # fmt: skip
    if chance.random() < 0.5:
        content = (
            b"--x\r\nContent-Disposition: form-data; name=image; filename=/etc/passwd\r\n\r\n"
            + image
            + b"\r\n--x--\r\n"
        )
        data = request(path, content, kind="multipart/form-data; boundary=x")
    else:
        text = base64.b64encode(image).decode()
        data = request(
            path,
            {
                "image": chance.choice(
                    (text, "data:image/png;base64," + text, text[:-1], text + "=")
                )
            },
        )
    return _case(f"image {image[:12]!r} of {len(image)}", data, path, is_large=True)


MARKUP = [
    "<b>나</b>는 ", "<p>", "</p>", "</b>", "<", ">", "&", "&amp;", "&#" + "9" * 5000 + ";", "&#x" + "f" * 5000 + ";", "&#0;", "&#xd800;", "&#1114112;", "&#-1;", "&" + "a" * 5000 + ";",
    "&#٣;", "&#x;", "&lt", "<!--", "-->", "<![CDATA[", "]]>", "<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]>&a;", "<!ENTITY a '&a;&a;'>", "<?xml version='9' encoding='x'?>", "<script>", "</script>",
    "<style>", "<a href='" + "x" * 5000 + "'>", "<a " + "b=1 " * 3000 + ">", "<" + "a" * 5000 + ">", "<a:b xmlns:a='c'/>", "<br/>", "<x translate='no'>나</x>", "<p hidden>", "\x00", "<\u202e>", "나는 학교에 간다. ", "그는 왔다",
]  # fmt: skip


@kind(share=8)
def odd_markup(chance: random.Random) -> HttpCase:
    """Translate pages and XML with absurd entities, tags and depths."""
    path = chance.choice(("/translate", "/v2/translate", "/v1/translate"))
    form = chance.choice(("html", "xml"))
    count = chance.choice((1, 3, 10, 200, 2_000, 20_000))
    parts = chance.sample(MARKUP, chance.choice((1, 1, 2, 5)))

    def data(count: int) -> tuple[str, bytes]:
        text = (
            ("".join(parts) * count)[:90_000]
            if len(parts) < 3
            else "".join(chance.choices(parts, k=min(count, 300)))
        )
        values = POSTED[path](text) | (
            {"tag_handling": form} if path == "/v2/translate" else {"format": form}
        )
        return text, request(path, values)

    text, first = data(count)
    double = None
    if len(parts) < 3 and 1_000 < len(text) < 40_000:
        double = Exchange(data(2 * count)[1], path, is_large=True)
    return _case(f"{form} {text[:50]!r} of {len(text)}", first, path, is_large=True, double=double)


@kind(share=5)
def hostile_texts(chance: random.Random) -> HttpCase:
    """Translate odd texts; where they are long, twice as much of them too."""
    path, _, _ = _any(chance)
    path = path if "text" in POSTED[path]("") or "q" in POSTED[path]("") else "/v1/translate"
    length = chance.choice((1, 3, 30, 300, 3_000, 30_000, 300_000))
    text = any_text(chance, length)
    double = (
        Exchange(_text_request(path, text + text), path, is_large=True)
        if length in (3_000, 30_000)
        else None
    )
    return _case(
        f"{length} of {text[:12]!r}", _text_request(path, text), path, is_large=True, double=double
    )


def _text_request(path: str, text: str) -> bytes:
    data = json.dumps(POSTED[path](text), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return request(path, data)


@kind(share=4)
def large_answers(chance: random.Random) -> HttpCase:
    """Ask for as much as a request can: all attention, a hundred hypotheses, records of the
    search.
    """
    path = chance.choice(("/v1/explain", "/v1/translate", "/v1/continuations"))
    words = chance.choice((1, 5, 30, 100))
    values = POSTED[path](" ".join(chance.choices(SENTENCES, k=words)))
    values |= {
        "/v1/explain": {"nbest": chance.choice((5, 100)), "trace": chance.random() < 0.5},
        "/v1/translate": {"nbest": chance.choice((5, 100)), "attention": "all", "log_probs": True, "beam": chance.choice((5, 100))},
        "/v1/continuations": {"count": 20, "prefix": [5] * chance.choice((0, 10, 1_000))},
    }[path]  # fmt: skip
    return _posted(f"{words} sentences, {values.get('nbest')}", path, values, is_large=True)


@kind(share=3)
def odd_paths(chance: random.Random) -> HttpCase:
    """Ask for paths that lead out of every folder, and for models of such names."""
    names = ["../secret", "..%2fsecret", "%2e%2e/secret", "....//secret", "/etc/passwd", "\x00", "%00", "%zz", "a" * 60_000, "나", "*", "%ff", "\\..\\secret", "folder/README.md", "folder/../../secret", ";x", "?x=" + "y" * 5_000]  # fmt: skip
    prefix = chance.choice(
        ("/", "/v1/models/", "/v1/", "/v2/", "/languages/", "//", "http://localhost/", "/static/")
    )
    path = prefix + chance.choice(names)
    raw = path if chance.random() < 0.7 else quote(path, safe="/%?")
    method = chance.choice(("GET", "GET", "POST", "HEAD"))
    return _case("odd path", request(raw, method=method).replace(b"\x00", b"%00"), path, is_broken=True, is_right=lambda *_: True)  # fmt: skip


@kind(share=4)
def damaged_forms(chance: random.Random) -> HttpCase:
    """Damage forms: boundaries, heads of parts, names, very many fields."""
    path = chance.choice(("/translate", "/v2/translate", "/v1/caption", "/detect"))
    parts = b""
    for name, value in POSTED[path](chance.choice(SENTENCES)).items():
        parts += (
            b"--x\r\nContent-Disposition: form-data; name="
            + name.encode()
            + b"\r\n\r\n"
            + str(value).encode()
            + b"\r\n"
        )
    body = bytearray(parts + b"--x--\r\n")
    for _ in range(chance.choice((1, 1, 5))):
        place = chance.randrange(len(body))
        body[place : place + chance.choice((0, 1, 8))] = chance.choice((b"", b"\r\n", b"--x", b"--", b'"', b"\xff", b"\x00", b"x" * 5000))  # fmt: skip
    kinds = ["multipart/form-data; boundary=x"] * 6 + ["multipart/form-data", "multipart/form-data; boundary=" + "x" * 300, "multipart/form-data; boundary=\r"]  # fmt: skip
    kinds += ["application/x-www-form-urlencoded", "multipart/mixed; boundary=x"]
    data = bytes(body) * chance.choice((1, 1, 1, 300))
    return _case(f"form {data[:20]!r} of {len(data)}", request(path, data, kind=chance.choice(kinds).replace("\r", "\u00ff")), path, is_right=lambda *_: True, is_large=True)  # fmt: skip
