"""The server on the loopback interface: bodies without end, slow and vanishing clients, many at
once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import pytest
from fake import FakeService
from helpers.system_marks import posix
from helpers.time_limits import wait_until

from regard.serving import connections
from regard.serving import serving_process as server

# Other systems close connections in other ways.
pytestmark = [pytest.mark.system, posix]
HELLO = {"q": "hello", "source": "en", "target": "ko"}


def connect(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)  # type: ignore[arg-type]


def head(path: str, *headers: str) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        *headers,
    ]
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


@pytest.mark.parametrize(
    "sent", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /h"]
)
def test_a_head_that_never_ends_is_cut_off(
    serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.3)
    with connect(serve()) as connection:
        connection.sendall(sent)
        connection.settimeout(0.05)

        def is_closed() -> bool:
            try:
                connection.sendall(b"x" if sent else b"")
                return not connection.recv(65536)
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_until(
            is_closed, "the connection is closed, although a byte comes now and then"
        )


def test_an_answer_that_nobody_reads_ends(
    serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_lost = threading.Event()

    class Noted(connections.Connection):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            is_lost.set()

    monkeypatch.setattr(connections, "Connection", Noted)
    address = urlsplit(serve(write_timeout=0.3))
    values = {"text": "word " * 5000, "source": "en", "target": "ko", "nbest": 100}
    asked = json.dumps(values).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect((address.hostname, address.port))
        request = head("/v1/translate", f"Content-Length: {len(asked)}") + asked
        connection.sendall(request)

        assert is_lost.wait(60)

        answer = received(connection)

    assert answer.startswith(b"HTTP/1.1 200")
    assert not answer.endswith(b"}"), "it breaks off"


@pytest.mark.parametrize(
    ("begun", "of_address"),
    [(b"", False), (head("/translate", "Content-Length: 9") + b"{", True)],
)
def test_of_too_many_connections_that_wait_the_oldest_end(
    serve: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    begun: bytes,
    of_address: bool,
) -> None:
    """Too many of an address, or of all."""
    if not of_address:
        monkeypatch.setattr(server, "_most_connections", lambda: 4)
    address = serve(waiting_connections=4 if of_address else 1000)
    idle = [connect(address) for _ in range(12)]
    for connection in idle:
        connection.sendall(begun)

    assert httpx.get(f"{address}/health").status_code == 200

    for connection in idle[:8]:
        assert received(connection) == b""
    idle[-1].settimeout(0.05)
    with pytest.raises(TimeoutError):
        idle[-1].recv(1)

    for connection in idle:
        connection.close()


def test_errors_of_the_system_are_logged_rarely(log: list[str]) -> None:
    problem = {
        "message": "no descriptors",
        "exception": OSError(24, "Too many open files"),
    }
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        loop.set_exception_handler(server._LoopErrorHandler())
        for _ in range(1000):
            loop.call_exception_handler(problem)

    assert 1 <= len(log) < 100
    assert "no descriptors" in log[0]


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_gives_up_its_place(
    address: str, service: FakeService, stream: bool
) -> None:
    """It may have the first word of a stream, which is sent while the second is awaited."""
    text = "one slow" if stream else "slow"
    values = {"text": text, "source": "en", "target": "ko", "stream": stream}
    body = json.dumps(values).encode()
    with connect(address) as connection:
        connection.sendall(head("/v1/translate", f"Content-Length: {len(body)}") + body)
        wait_until(lambda: service.calls, "the request arrives")
        data = b""
        while stream and b"delta" not in data:
            data += connection.recv(65536)
    wait_until(lambda: service.cancelled == ["slow"], "the work is given up")

    assert httpx.get(f"{address}/health").status_code == 200


def test_whole_requests_that_wait_for_the_server_are_all_answered(
    serve: Callable[..., str], service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an answer is awaited no limit of time and connections holds; for the next request on
    the connection, one does again.
    """
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.1)
    address = serve(waiting_connections=2)
    body = json.dumps({**HELLO, "q": "slow"}).encode()
    request = head("/translate", f"Content-Length: {len(body)}") + body
    with contextlib.ExitStack() as open_:
        clients = list[socket.socket]()
        while len(clients) < 12:
            clients.append(open_.enter_context(connect(address)))
            clients[-1].sendall(request)
            wait_until(lambda: len(service.calls) == len(clients), "the request begins")
        clients[0].settimeout(0.5)
        with pytest.raises(TimeoutError):
            clients[0].recv(1)

        clients[0].settimeout(60)
        service.released.set()
        for client in clients:
            assert received(client).startswith(b"HTTP/1.1 200")


def test_requests_that_are_sent_at_once_are_all_answered(address: str) -> None:
    """In their order."""
    asked = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /languages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connect(address) as connection:
        connection.sendall(30 * asked + last)
        *answers, languages = received(connection).split(b"HTTP/1.1 200 OK")[1:]

    assert len(answers) == 30
    assert all(answer.endswith(b'{"status":"ok"}') for answer in answers)
    assert b"Korean" in languages
