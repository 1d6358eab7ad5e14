"""The server on the loopback interface: bodies without end, slow and vanishing clients, many at once."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest
from fake import FakeService
from systems import posix

from regard.serving import protocol

pytestmark = [pytest.mark.system, posix]  # other systems close connections in other ways
HELLO = {"q": "hello", "source": "en", "target": "ko"}


def connect(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=15)  # type: ignore[arg-type]


def head(path: str, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def received(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    data = b""
    try:
        while part := connection.recv(65536):
            data += part
    except ConnectionResetError:  # the server had not read all that was sent
        pass
    return data


def wait_for(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + 5
    while not condition() and time.monotonic() < limit:
        time.sleep(0.005)
    assert condition()


@pytest.mark.parametrize(
    ("path", "name"), [("/translate", "error"), ("/v2/translate", "message"), ("/v1/translate", "detail")]
)
def test_a_gigabyte_is_refused_unread(serve: Callable[..., str], path: str, name: str) -> None:
    with connect(serve(body_limit=100_000)) as connection:
        connection.sendall(head(path, "Content-Length: 1000000000"))
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert name in json.loads(answer.partition(b"\r\n\r\n")[2])


def test_chunks_without_end_are_refused_at_the_limit(serve: Callable[..., str]) -> None:
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    with connect(serve(body_limit=1_000_000)) as connection:
        connection.sendall(head("/translate", "Transfer-Encoding: chunked"))
        sent = 0
        try:
            while sent < 1_000_000_000:
                connection.sendall(chunk)
                sent += len(chunk)
        except OSError:  # closed by the server
            pass
    assert 900_000 < sent < 20_000_000  # the limit, and the buffers of the system


def test_a_body_that_trickles_has_the_deadline(serve: Callable[..., str]) -> None:
    with connect(serve(deadline=0.3)) as connection:
        connection.sendall(head("/translate", "Content-Length: 100") + b"{")
        assert received(connection).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("sent", [b"", b"POST /trans", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /h"])
def test_a_head_that_never_ends_is_cut_off(
    serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    started = time.monotonic()
    with connect(serve()) as connection:
        connection.sendall(sent)
        for _ in range(100):  # a byte now and then does not help
            try:
                connection.sendall(b"x" if sent else b"")
                connection.settimeout(0.05)
                if not connection.recv(65536):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
    assert time.monotonic() - started < 4


def test_slow_answers_are_not_cut_off(serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.1)
    with httpx.Client(base_url=serve(deadline=0.5)) as client:
        assert client.post("/translate", json={**HELLO, "q": "slow"}).status_code == 504
        assert client.post("/translate", json=HELLO).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_gives_up_its_place(address: str, service: FakeService, stream: bool) -> None:
    body = json.dumps(
        {"text": "one slow" if stream else "slow", "source": "en", "target": "ko", "stream": stream}
    ).encode()
    connection = connect(address)
    connection.sendall(head("/v1/translate", f"Content-Length: {len(body)}") + body)
    wait_for(lambda: service.calls)
    if stream:
        data = b""
        while b"delta" not in data:
            data += connection.recv(65536)
    connection.close()
    wait_for(lambda: service.cancelled == ["slow"])
    assert httpx.get(f"{address}/health").status_code == 200


def test_words_are_sent_as_they_come(address: str) -> None:
    asked = {"text": "one slow", "source": "en", "target": "ko", "stream": True, "deadline_ms": 1000}
    started = time.monotonic()
    with httpx.stream("POST", f"{address}/v1/translate", json=asked, timeout=10) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "event: delta"
        assert time.monotonic() - started < 0.9
        assert "event: error" in list(lines)


def test_no_answers_are_mixed_up(address: str) -> None:
    limits = httpx.Limits(max_connections=32)
    with httpx.Client(base_url=address, limits=limits, timeout=30) as client, ThreadPoolExecutor(32) as pool:

        def ask(number: int) -> bool:
            texts = [f"text {number} of {index}. More\n" for index in range(5)]
            answer = client.post("/translate", json={**HELLO, "q": texts})
            return answer.json() == {"translatedText": [text.upper() for text in texts]}

        assert all(pool.map(ask, range(200)))


@pytest.mark.parametrize(
    "path", [b"/\x00", b"/\xff", b"/a b", b"http://localhost/health", b"*", b"/%zz", b"/" + b"x" * 100_000]
)
def test_raw_paths(address: str, path: bytes) -> None:
    with connect(address) as connection:
        connection.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert received(connection)[:10] in (b"HTTP/1.1 4", b"HTTP/1.1 2")


@pytest.mark.parametrize("header", ["Host: evil.example", "Content-Length: 5", "Content-Length: -1", "Transfer-Encoding: gzip", "Upgrade: websocket\r\nConnection: Upgrade"])  # fmt: skip
def test_contradictory_heads(address: str, header: str) -> None:
    with connect(address) as connection:
        connection.sendall(head("/translate", "Content-Length: 2", header) + b"{}")
        assert connection.recv(65536).startswith(b"HTTP/1.1 4")


def test_a_host_is_named_once(address: str) -> None:
    for line in (b"GET /health HTTP/1.0\r\n", b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: 127.0.0.1\r\n"):
        with connect(address) as connection:
            connection.sendall(line + b"\r\n")
            assert received(connection).startswith(b"HTTP/1.1 400")


def test_a_server_that_stops_answers_what_it_took(serve: Callable[..., str], service: FakeService) -> None:
    """uvicorn waits for requests; a client that comes later finds a closed port, not half an answer."""
    address = serve(deadline=1.0)
    results: list[int] = []
    thread = threading.Thread(
        target=lambda: results.append(httpx.post(f"{address}/translate", json={**HELLO, "q": "slow"}).status_code)
    )
    thread.start()
    wait_for(lambda: service.calls)
    service.is_ready = False
    assert httpx.get(f"{address}/ready").status_code == 503
    thread.join(10)
    assert results == [504]
