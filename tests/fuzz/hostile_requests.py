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
from fuzz.http_cases import Exchange, HttpCase, kind
from fuzz.inputs import LARGE_SIZES, NUMBERS, SIZES, any_image, any_text, any_value
from fuzz.served import CAPTIONS, FOLDER, SENTENCES, STEADY, Served
from helpers.office_files import docx, odt
from helpers.text_table import items, lines, rows

from regard.serving import deepl, libretranslate, schemas
from regard.serving.request_bodies import Parameters

Values = dict[str, Any]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+M8AAAMDAQCyNhmZAAAAAElFTkSuQmCC"
PAIR = {"source": "ko", "target": "en"}
POSTED: dict[str, Callable[[str], Values]] = {
    "/translate": lambda text: {"q": text, **PAIR},
    "/detect": lambda text: {"q": text},
    "/v2/translate": lambda text: {
        "text": [text],
        "source_lang": "KO",
        "target_lang": "EN",
    },
    "/v1/translate": lambda text: {"text": text, **PAIR, "model": STEADY},
    "/v1/explain": lambda text: {"text": text, **PAIR, "model": STEADY},
    "/v1/continuations": lambda text: {"text": text, "target": "en", "model": FOLDER},
    "/v1/caption": lambda _: {"image": PIXEL, "model": CAPTIONS},
    "/v1/explain_image": lambda _: {"image": PIXEL},
}
"""Endpoints that take a body, and what each is asked in an ordinary request for a text."""
OPTIONS: dict[str, type[Parameters]] = {
    "/translate": libretranslate.TranslateParameters,
    "/detect": libretranslate.DetectParameters,
    "/v2/translate": deepl.TranslateParameters,
    "/v1/translate": schemas.TranslateRequest,
    "/v1/explain": schemas.ExplainRequest,
    "/v1/continuations": schemas.ContinuationsRequest,
    "/v1/caption": schemas.CaptionRequest,
    "/v1/explain_image": schemas.ExplainImageRequest,
}
"""Parameters of the endpoints that take a body."""
READ = items(f"""
    / /spec /health /ready /metrics /languages /frontend/settings /v2/languages?type=target
    /v2/usage /v1/models /v1/models/{STEADY} /v1/models/{FOLDER} /v1/models/{CAPTIONS}
""")
ANSWERS = {
    "/translate": "translatedText",
    "/v1/translate": "translations",
    "/v2/translate": "translations",
    "/v1/explain": "explanation",
    "/v1/explain_image": "explanation",
    "/v1/continuations": "continuations",
    "/v1/caption": "caption",
}
TRANSLATE = ("/translate", "/v2/translate", "/v1/translate")


def _is_whole(answer: Answer, _: Served, path: str) -> bool:
    """Whether an answer is what the endpoint answers, in JSON without NaN."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        return b"event: result" in answer.body or b"event: error" in answer.body
    if path == "/detect":
        return isinstance(answer.values, list)
    return ANSWERS[path] in answer.values


def _is_translated(answer: Answer, server: Served, texts: list[str], path: str) -> bool:
    """Whether an answer holds the translations of these texts."""
    content = answer.values[ANSWERS[path]]
    if path != "/translate":
        translated = [item["text"] for item in content]
    else:
        translated = content if isinstance(content, list) else [content]
    return translated == [server.expected[STEADY][text] for text in texts]


def _any_answer(*_: object) -> bool:
    """Judge an answer to what may be another request that is whole."""
    return True


def _case(name: str, data: bytes, path: str, **options: Any) -> HttpCase:
    if path in POSTED:
        options.setdefault("is_right", functools.partial(_is_whole, path=path))
    return HttpCase(f"{path[:40]}: {name}", Exchange(data, path, **options))


def _large(name: str, data: bytes, path: str, **options: Any) -> HttpCase:
    """Return a case that may take longer than its deadline."""
    return _case(name, data, path, is_large=True, **options)


def _any(chance: random.Random) -> tuple[str, str, Values]:
    """Draw an endpoint, a sentence and an ordinary request for it."""
    path = chance.choice(list(POSTED))
    text = chance.choice(SENTENCES)
    return path, text, POSTED[path](text)


def _chunked(body: bytes, chance: random.Random) -> bytes:
    """Write a body in chunks, as Transfer-Encoding has it."""
    data = b""
    while body:
        size = chance.choice((1, 7, 1000))
        part = body[:size]
        body = body[size:]
        data += b"%x\r\n%s\r\n" % (len(part), part)
    return data + b"0\r\n\r\n"


@kind(share=8)
def ordinary_requests(chance: random.Random) -> HttpCase:
    """Ask for translations as clients do: JSON, forms and chunks, one text or several; each has one
    right answer.
    """
    path = chance.choice(TRANSLATE)
    texts = chance.choices(SENTENCES, k=chance.choice((1, 1, 3, 30)))
    values = POSTED[path](texts[0])
    name = next(iter(values))
    if len(texts) > 1:
        values[name] = texts
    way = chance.choice(("json", "json", "form", "chunks", "read"))
    if way == "read":
        path = chance.choice(READ)
        return _case("read", request(path), path)
    data = request(path, values)
    if way == "form" and path != "/v1/translate":
        form = urlencode(values, doseq=True).encode()
        data = request(path, form, kind="application/x-www-form-urlencoded")
    elif way == "chunks":
        chunks = _chunked(json.dumps(values).encode(), chance)
        data = request(path, chunks, ["Transfer-Encoding: chunked"])
    is_right = functools.partial(_is_translated, texts=texts, path=path)
    return _case(f"{len(texts)} texts as {way}", data, path, is_right=is_right)


@kind(share=10)
def odd_values(chance: random.Random) -> HttpCase:
    """Give parameters values that mean nothing, or more than anybody can want."""
    path, _, values = _any(chance)
    known = list(OPTIONS[path].model_fields)
    names = chance.sample(known, min(len(known), chance.randrange(1, 4)))
    others = (0, 1, 5, 20, 100, 1e9, True, "all", "xml", "html")
    for name in names:
        any_ones = (any_value(chance), chance.choice(NUMBERS), chance.choice(others))
        values[name] = chance.choice(any_ones)
    if chance.random() < 0.2:
        values[any_text(chance, chance.choice((1, 10, 5000)))] = any_value(chance)
    text = json.dumps(values, ensure_ascii=chance.random() < 0.5)
    data = request(path, text.encode("utf-8", "surrogatepass"))
    return _large(f"odd {', '.join(names)}: {text[:80]!r}", data, path)


@kind(share=10)
def damaged_json(chance: random.Random) -> HttpCase:
    """Damage the JSON of an ordinary request: types, depth, numbers, characters, names given
    twice.
    """
    path, _, values = _any(chance)
    body = json.dumps(values).encode()
    place = chance.randrange(len(body))
    name = json.dumps(next(iter(values))).encode()
    depth = chance.choice((10, 1_000, 100_000, 1_000_000))
    noise = chance.randbytes(chance.choice((1, 4)))
    codec = chance.choice(("utf-16", "utf-32", "utf-7"))
    other_values = [
        b"[" * depth,
        b'{"a":' * depth,
        b"[" * depth + b"]" * depth + b"}",
        chance.choice(NUMBERS).encode() + b"}",
        chance.choice((b"NaN", b"-Infinity", b"1e999", b"-0")) + b"}",
        b"9" * depth + b"}",
        b"0." + b"3" * depth + b"}",
        chance.choice((rb'"\ud800"}', rb'"\ud800\udc00"}', rb'"\ud800a"}')),
        b'"a", ' + name + b': "b"}',
    ]
    damaged = [
        *[b"{" + name + b": " + value for value in other_values],
        body[:place],
        body[:place] + noise + body[place + 1 :],
        body[:place] + body[place + 1 :],
        chance.choice((b"[]", b"null", b"1", b'"x"', b"{}", b"")),
        b"\xef\xbb\xbf" + body,
        body * 2,
        body.decode().encode(codec),
        b" " * depth + body,
    ]
    number = chance.randrange(len(damaged))
    data = damaged[number]
    label = f"JSON damaged by {number}: {data[:60]!r} of {len(data)}"
    return _large(label, request(path, data), path, is_right=_any_answer)


@kind(share=2)
def many_names(chance: random.Random) -> HttpCase:
    """Send very many names, items or texts; twice as many may not take much longer than twice the
    time.
    """
    path, text, values = _any(chance)
    first = next(iter(values))
    count = chance.choice((10, 1_000, 30_000, 300_000))
    form = chance.choice(("names", "inside", "long", "items", "fields"))

    def data(count: int) -> bytes:
        if form == "fields":
            fields = b"&".join(b"a%d=" % n for n in range(count))
            return request(path, fields, kind="application/x-www-form-urlencoded")
        many = {f"n{n}": n for n in range(count)}
        more: dict[str, Values] = {
            "names": many,
            "inside": {first: many},
            "long": {"x" * count * 4: 1, "y" * count * 4: 1},
            "items": {first: [text] * count},
        }
        return request(path, values | more[form])

    twice = Exchange(data(2 * count), path, is_large=True) if count < 300_000 else None
    name = f"{count} {form}"
    return _large(name, data(count), path, is_right=_any_answer, double=twice)


LINES = {
    name: values.split(" ¦ ")
    for name, values in rows("""
        X-Forwarded-For   | 127.0.0.1 ¦ 1.2.3.4, 5.6.7.8 ¦ ::1 ¦ LONG
        Forwarded         | for=x ¦ for=127.0.0.1
        X-Forwarded-Proto | javascript
        Host              | evil.example ¦ localhost:99999 ¦ localhost@x ¦ [::1 ¦ LONG ¦ a, b
        Origin            | http://evil.example ¦ null ¦ http://localhost ¦ file:// ¦ http://[ ¦ LONG
        Authorization     | Bearer x ¦ DeepL-Auth-Key LONG ¦ Basic eDp5 ¦ Bearer ¦ Ω
        X-Deadline-Ms     | 0 ¦ -1 ¦ 1 ¦ x ¦ LONG ¦ ٣ ¦ 1e3
        X-Request-Id      | SHORT ¦ SHORTa ¦ ../x ¦ <b> ¦ %s
        Content-Type      | text/html ¦ application/json; charset=utf-16 ¦ multipart/form-data ¦ LONG ¦ *
        Content-Encoding  | gzip ¦ br ¦ identity ¦ deflate, gzip ¦ LONG
        Expect            | 100-continue;Connection: close ¦ x;Connection: close
        Range             | bytes=0-,5-,7-
        X-Long            | b ¦ LONG ¦ LONGER
        X                 | MANY
    """)
}
PARTS = {
    "SHORT": "a" * 64,
    "LONGER": "b" * 300_000,
    "LONG": "9" * 5000,
    "MANY": "1\r\nX: 1" * 5_000,
    ";Connection": "\r\nConnection",
}
"""Values of headers that are long, many, contradictory, or claim to come from elsewhere."""


@kind(share=8)
def odd_headers(chance: random.Random) -> HttpCase:
    """Send a header that is odd."""
    path = chance.choice(TRANSLATE)
    text = chance.choice(SENTENCES)
    name = chance.choice(list(LINES))
    value = chance.choice(LINES[name])
    for part, replacement in PARTS.items():
        value = value.replace(part, replacement)
    return _case(
        f"header {name}",
        request(path, POSTED[path](text), [f"{name}: {value}"]),
        path,
        is_right=functools.partial(_is_translated, texts=[text], path=path),
        is_broken=name in ("X-Long", "X", "Authorization", "Content-Type"),
        is_large=name == "X-Deadline-Ms",
    )


LENGTHS = [*items("-1 x 0x10 1e3 1,1 +5"), "9" * 5000, " "]
ENCODINGS = items("gzip xchunked chunked;q=1 identity chunked,chunked")
CHUNKS = (
    b"-1\r\nx\r\n",
    b"zz\r\nx\r\n",
    b"f" * 5000 + b"\r\n",
    b"5;" + b"e" * 70_000 + b"\r\nhello\r\n0\r\n\r\n",
    b"2\r\n{}X\r\n0\r\n\r\n",
)
REPLACED = {
    b"POST": [
        *b"GET post TRACE CONNECT OPTIONS PUT DELETE PO\0ST".split(),
        b"X" * 20_000,
    ],
    b"HTTP/1.1": b"HTTP/1.0 HTTP/2.0 HTTP/0.9 HTTP/9 HTTP/1.1.1".split(),
    b"\r\n": [b"\n", b"\r", b"\n\r", b"\r\r\n"],
    b"Host:": [b" Host:", b"Host :", b"Ho st:", b"\x00:"],
    b"Host: localhost\r\n": [b"", b"Host: a\r\nHost: b\r\n", b"Host: a\r\n  b\r\n"],
}
"""Parts of a request, and what is put in their places."""


@kind(share=8)
def broken_framing(chance: random.Random) -> HttpCase:
    """Break the framing: lengths, chunks, methods, line ends, two requests in one; the second may
    not be smuggled in.
    """
    path = chance.choice(TRANSLATE)
    body = json.dumps(POSTED[path](chance.choice(SENTENCES))).encode()
    whole = request(path, body)
    other = request("/health")
    chunks = _chunked(body, chance)
    length = f"Content-Length: {len(body)}"
    chunked = "Transfer-Encoding: chunked"
    upgrade = [f"Upgrade: {chance.choice(('websocket', 'h2c', 'TLS/1.0'))}"]
    upgrade += ["Connection: Upgrade", "HTTP2-Settings: x"]
    odd_length = f"Content-Length: {chance.choice(LENGTHS)}"
    odd_encoding = f"Transfer-Encoding: {chance.choice(ENCODINGS)}"
    cases = {
        "length": request(path, body, [odd_length]),
        "two lengths": request(path, body, [length, "Content-Length: 3"]) + other,
        "length and chunks": request(path, chunks, [length, chunked]) + other,
        "chunks and length": request(path, chunks, [chunked, length]) + other,
        "encoding": request(path, chunks, [odd_encoding]) + other,
        "sizes of chunks": request(path, chance.choice(CHUNKS), [chunked]),
        "upgrade": request(path, body, upgrade),
        "noise": chance.randbytes(chance.choice((1, 100, 300_000))),
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(500),
        "preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(60),
        "pipelined": whole * 5 + other,
        "half and another": whole[:-3] + other,
    }
    for part, others in REPLACED.items():
        changed = whole.replace(part, chance.choice(others), chance.choice((1, 3)))
        cases[f"in place of {part!r}"] = changed
    name = chance.choice(list(cases))
    most = 6 if name == "pipelined" else 1
    data = cases[name]
    return _large(name, data, path, most=most, is_broken=True, is_right=_any_answer)


@kind(share=8)
def leaving_clients(chance: random.Random) -> HttpCase:
    """Send half a request, or a whole one, and go without reading; in the middle of a stream,
    too.
    """
    path, _, values = _any(chance)
    way = chance.choice(("half", "unread", "large", "stream", "trickle"))
    if way in ("large", "stream"):
        path = "/v1/translate"
        text = ". ".join(chance.choices(SENTENCES, k=chance.choice((3, 100))))
        large = {"attention": "all", "nbest": 10}
        values = POSTED[path](text) | ({"stream": True} if way == "stream" else large)
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
    name = f"image {image[:12]!r} of {len(image)}"
    if chance.random() < 0.5:
        head = b"--x\r\nContent-Disposition: form-data; name=image; filename=/etc/passwd\r\n\r\n"
        form = head + image + b"\r\n--x--\r\n"
        data = request(path, form, kind="multipart/form-data; boundary=x")
    else:
        text = base64.b64encode(image).decode()
        forms = (text, f"data:image/png;base64,{text}", text[:-1], f"{text}=")
        data = request(path, {"image": chance.choice(forms)})
    return _large(name, data, path)


LONG = 5000
MARKUP = [
    *lines("""
        <b>나</b>는
        <p>
        </p>
        </b>
        <
        >
        &
        &amp;
        &#0;
        &#xd800;
        &#1114112;
        &#-1;
        &#٣;
        &#x;
        &lt
        <!--
        -->
        <![CDATA[
        ]]>
        <script>
        </script>
        <style>
        <a:b
        xmlns:a='c'/>
        <br/>
        <\u202e>
        <!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]>&a;
        <!ENTITY a '&a;&a;'>
        <?xml version='9' encoding='x'?>
        <x translate='no'>나</x>
        <p hidden>
        나는 학교에 간다.
        그는 왔다
    """),
    f"&#{'9' * LONG};",
    f"&#x{'f' * LONG};",
    f"&{'a' * LONG};",
    f"<a href='{'x' * LONG}'>",
    f"<a {'b=1 ' * 3000}>",
    f"<{'a' * LONG}>",
    "\x00",
]


@kind(share=8)
def odd_markup(chance: random.Random) -> HttpCase:
    """Translate pages and XML with absurd entities, tags and depths."""
    path = chance.choice(TRANSLATE)
    form = chance.choice(("html", "xml"))
    field = "tag_handling" if path == "/v2/translate" else "format"
    count = chance.choice((1, 3, 10, 200, 2_000, 20_000))
    parts = chance.sample(MARKUP, chance.choice((1, 1, 2, 5)))
    if len(parts) == 5:
        parts = chance.choices(parts, k=min(count, 300))
        count = 1

    def data(text: str) -> bytes:
        return request(path, POSTED[path](text[:90_000]) | {field: form})

    text = "".join(parts) * count
    double = None
    if 1_000 < len(text) < 40_000:
        double = Exchange(data(text + text), path, is_large=True)
    label = f"{form} {text[:50]!r} of {len(text)}"
    return _large(label, data(text), path, double=double)


@kind(share=4)
def large_answers(chance: random.Random) -> HttpCase:
    """Ask for as much as a request can: all attention, a hundred hypotheses, records of the
    search.
    """
    words = chance.choice((1, 5, 30, 100))
    many = chance.choice((5, 100))
    prefix = [5] * chance.choice((0, 10, 1_000))
    all_of_it = {"attention": "all", "log_probs": True, "beam": 100}
    wanted: dict[str, Values] = {
        "/v1/explain": {"nbest": many, "trace": chance.random() < 0.5},
        "/v1/translate": {"nbest": many, **all_of_it},
        "/v1/continuations": {"count": 20, "prefix": prefix},
    }
    path = chance.choice(list(wanted))
    text = " ".join(chance.choices(SENTENCES, k=words))
    data = request(path, POSTED[path](text) | wanted[path])
    return _large(f"{words} sentences, nbest of {many}", data, path)


PATHS = items(r"""
    ../secret ..%2fsecret %2e%2e/secret ....//secret /etc/passwd %00 %zz 나 * %ff \..\secret
    folder/README.md folder/../../secret ;x
""")
PREFIXES = items("/ /v1/models/ /v1/ /v2/ /languages/ // http://localhost/ /static/")


@kind(share=3)
def odd_paths(chance: random.Random) -> HttpCase:
    """Ask for paths that lead out of every folder, and for models of such names."""
    name = chance.choice([*PATHS, "a" * 60_000, f"?x={'y' * 5_000}"])
    path = chance.choice(PREFIXES) + name
    raw = path if chance.random() < 0.7 else quote(path, safe="/%?")
    data = request(raw, method=chance.choice(("GET", "GET", "POST", "HEAD")))
    return _case("odd path", data, path, is_broken=True, is_right=_any_answer)


FORMS = [
    *["multipart/form-data; boundary=x"] * 6,
    "multipart/form-data",
    f"multipart/form-data; boundary={'x' * 300}",
    "multipart/form-data; boundary=\u00ff",
    "application/x-www-form-urlencoded",
    "multipart/mixed; boundary=x",
]


@kind(share=4)
def damaged_forms(chance: random.Random) -> HttpCase:
    """Damage forms: boundaries, heads of parts, names, very many fields."""
    path = chance.choice(("/translate", "/v2/translate", "/v1/caption", "/detect"))
    parts = ""
    for name, value in POSTED[path](chance.choice(SENTENCES)).items():
        head = f"--x\r\nContent-Disposition: form-data; name={name}"
        parts += f"{head}\r\n\r\n{value}\r\n"
    body = bytearray(f"{parts}--x--\r\n".encode())
    noise = (b"", b"\r\n", b"--x", b"--", b'"', b"\xff", b"\x00", b"x" * 5000)
    for _ in range(chance.choice((1, 1, 5))):
        start = chance.randrange(len(body))
        end = start + chance.choice((0, 1, 8))
        body[start:end] = chance.choice(noise)
    data = bytes(body) * chance.choice((1, 1, 1, 300))
    name = f"form {data[:20]!r} of {len(data)}"
    form = request(path, data, kind=chance.choice(FORMS))
    return _large(name, form, path, is_right=_any_answer)


TEXT = SENTENCES[0]
DOCUMENTS = {
    "a.txt": TEXT,
    "a.html": f"<p>{TEXT} <a href='/'>{TEXT}</a></p><!-- x -->",
    "a.xml": f"<?xml version='1.0'?><a><b>{TEXT}</b></a>",
    "a.md": f"# {TEXT}\n\n- **{TEXT}** `x`\n",
    "a.po": f'msgid "{TEXT}"\nmsgstr ""\n\n#, c-format\nmsgid "%d {TEXT}"\nmsgstr ""\n',
    "a.xlf": f"<xliff version='1.2'><file><body><trans-unit id='1'><source>{TEXT} <x id='1'/>"
    "</source></trans-unit></body></file></xliff>",
    "a.json": json.dumps({"a": TEXT, "b": [{"c": f"{TEXT} {{{{n}}}}"}]}),
    "a.yaml": f"ko:\n  a: {TEXT}\n  b: |\n    {TEXT}\n",
    "a.properties": f"a={TEXT}\nb={TEXT} {{0}}\n",
    "a.ftl": f"a = {TEXT}\n",
    "a.resx": f"<root><data name='a'><value>{TEXT}</value></data></root>",
    "a.srt": f"1\n00:00:01,000 --> 00:00:02,000\n{TEXT}\n",
    "a.vtt": f"WEBVTT\n\n00:01.000 --> 00:02.000\n{TEXT}\n",
    "a.csv": f"text,b\n{TEXT},x\n",
}
OFFICE = {
    "a.docx": docx(f"<w:p><w:r><w:t>{TEXT}</w:t></w:r></w:p>"),
    "a.odt": odt(f"<text:p>{TEXT}</text:p>"),
}
FILES = {name: text.encode() for name, text in DOCUMENTS.items()} | OFFICE


@kind(share=6)
def odd_documents(chance: random.Random) -> HttpCase:
    """Send documents of all formats, most of them damaged, or under the name of another format."""
    path = chance.choice(("/translate_file", "/v2/document"))
    name, data = chance.choice([*FILES.items()])
    body = bytearray(data)
    noise = (b"", b"\x00", b"\xff\xfe", b"<", b"&#x110000;", b"{" * 3000, b'"', b"\r")
    for _ in range(chance.choice((0, 1, 1, 8))):
        start = chance.randrange(len(body))
        body[start : start + chance.choice((0, 1, 40))] = chance.choice(noise)
        body = body or bytearray(b" ")
    content = bytes(body) * chance.choice((1, 1, 1, 300))
    if chance.random() < 0.2:
        name = chance.choice(
            [*FILES, "a", "../a.html", "a.pdf", "a.html.gz", '"', "x" * 5000]
        )
    fields = {"column": "text", "source": "ko", "target": "en"}
    if path == "/v2/document":
        fields = {"source_lang": "KO", "target_lang": "EN"}
    parts = [
        f"--x\r\nContent-Disposition: form-data; name={field}\r\n\r\n{value}\r\n".encode()
        for field, value in fields.items()
    ]
    head = (
        f'--x\r\nContent-Disposition: form-data; name=file; filename="{name}"\r\n\r\n'
    )
    form = b"".join([*parts, head.encode(), content, b"\r\n--x--\r\n"])
    sent = request(path, form, kind="multipart/form-data; boundary=x")
    return _large(f"{name[:20]} of {len(content)}", sent, path, is_right=_any_answer)
