"""The server on the loopback interface: bodies without end, slow and vanishing clients, many at
once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from fake import FakeService
from helpers.system_marks import posix
from helpers.time_limits import wait_until, wait_until_async
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from regard.serving import connections
from regard.serving import serving_process as server
from regard.serving.server_settings import ServerSettings
from regard.serving.supervisor import listen

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
    serve: Callable[..., str], service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = list[connections.Connection]()
    connection_lost = connections.Connection.connection_lost

    def note(self: connections.Connection, problem: Exception | None) -> None:
        lost.append(self)
        connection_lost(self, problem)

    monkeypatch.setattr(connections.Connection, "connection_lost", note)
    address = serve(write_timeout=0.3)
    values = {"text": "word " * 5000, "source": "en", "target": "ko", "nbest": 100}
    asked = json.dumps(values).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect((urlsplit(address).hostname, urlsplit(address).port))
        connection.sendall(
            head("/v1/translate", f"Content-Length: {len(asked)}") + asked
        )
        wait_until(lambda: lost, "the server ends the connection")
        answer = received(connection)
    wait_until(lambda: not lost[0]._connections._waiting, "nothing is kept of it")
    assert answer.startswith(b"HTTP/1.1 200")
    size = re.search(rb"content-length: (\d+)", answer.lower())
    assert size is not None
    assert len(answer) < int(size[1])


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


def test_slow_answers_are_not_cut_off(
    serve: Callable[..., str], service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an answer is awaited no time limit runs; for the next request on the connection, one
    does again.
    """
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.1)
    with connect(serve()) as connection:
        body = json.dumps({**HELLO, "q": "slow"}).encode()
        connection.sendall(head("/translate", f"Content-Length: {len(body)}") + body)
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        service.released.set()
        connection.settimeout(60)
        assert received(connection).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_gives_up_its_place(
    address: str, service: FakeService, stream: bool
) -> None:
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


def test_whole_requests_that_wait_for_the_server_are_all_answered() -> None:
    begun = list[Scope]()
    released = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(scope)
        await released.wait()
        while (await receive())["more_body"]:
            pass
        await PlainTextResponse("")(scope, receive, send)

    async def run() -> list[bytes]:
        listener = listen("127.0.0.1", 0)
        running = uvicorn.Server(
            server.server_config(app, ServerSettings(waiting_connections=2))
        )
        serving = asyncio.create_task(running.serve([listener]))
        connections = list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]()
        while len(connections) < 12:
            connections.append(await asyncio.open_connection(*listener.getsockname()))
            connections[-1][1].write(head("/", "Content-Length: 2") + b"{}")
            await wait_until_async(
                lambda: len(begun) == len(connections), "the request begins"
            )
        released.set()
        answers = [await reader.read(12) for reader, _ in connections]
        for _, writer in connections:
            writer.close()
        running.should_exit = True
        await serving
        return answers

    assert asyncio.run(run()) == [b"HTTP/1.1 200"] * 12


def test_words_are_sent_as_they_come(address: str, service: FakeService) -> None:
    """The first word arrives while the second waits to be released."""
    asked = {"text": "one slow", "source": "en", "target": "ko", "stream": True}
    with httpx.stream(
        "POST", f"{address}/v1/translate", json=asked, timeout=60
    ) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "event: delta"
        assert not service.released.is_set()
        service.released.set()
        assert "event: result" in list(lines)


def test_requests_that_are_sent_at_once_are_all_answered(address: str) -> None:
    asked = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /languages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connect(address) as connection:
        connection.sendall(30 * asked + last)
        answers = received(connection).split(b"HTTP/1.1 200 OK")[1:]
    assert len(answers) == 31
    assert [answer.endswith(b'{"status":"ok"}') for answer in answers] == [
        True
    ] * 30 + [False]
