"""Requests made by hand, and answers read strictly, on plain sockets: no client of HTTP sends what
is damaged.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

Address = tuple[str, int]


@dataclass(frozen=True)
class Answer:
    """An answer; the names of its headers have small letters. `is_last`: the server has closed the
    connection.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def values(self) -> Any:
        """The body as JSON, which knows neither NaN nor infinities. Raises ValueError."""
        return json.loads(self.body, parse_constant=_no_number)


class BrokenAnswer(Exception):
    """An answer that is no HTTP, or ends too early."""


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def request(
    path: str,
    content: Any = None,
    headers: Sequence[str] = (),
    method: str = "",
    kind: str = "application/json",
) -> bytes:
    """A request. `content`: bytes as they are, None for none, anything else as JSON."""
    own = {line.partition(":")[0].lower() for line in headers}
    lines = list(headers)
    body = b""
    if content is not None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        if "content-type" not in own:
            lines.append(f"Content-Type: {kind}")
        if not own & {"content-length", "transfer-encoding"}:
            lines.append(f"Content-Length: {len(body)}")
    if "host" not in own:
        lines.insert(0, "Host: localhost")
    verb = method or ("GET" if content is None else "POST")
    head = "\r\n".join([f"{verb} {path} HTTP/1.1", *lines, "", ""])
    return head.encode("utf-8", "surrogatepass") + body


def connect(address: Address, source: str, patience: float) -> socket.socket:
    """Open a connection from an address of this machine."""
    return socket.create_connection(
        address, timeout=patience, source_address=(source, 0)
    )


def send(connection: socket.socket, data: bytes) -> None:
    """Send what the server takes of the data; it may close the connection before it has all."""
    with contextlib.suppress(OSError):
        connection.sendall(data)


def read(stream: IO[bytes]) -> Answer | None:
    """Read an answer; None if the server has closed the connection before. Raises BrokenAnswer,
    TimeoutError.
    """
    try:
        line = stream.readline(70_000)
        if not line:
            return None
        version, status, *_ = line.decode("latin-1").split(" ", 2)
        if not version.startswith("HTTP/1.") or not status.isdigit():
            raise BrokenAnswer(f"an answer that begins with {line[:60]!r}")
        headers = dict[str, str]()
        while line := stream.readline(70_000).strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        if status == "100":
            return read(stream)
        return Answer(int(status), headers, _body(stream, int(status), headers))
    except ConnectionError:  # it had not read all that was sent
        return None


def _body(stream: IO[bytes], status: int, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") == "chunked":
        parts = []
        while True:
            size = int(stream.readline(100) or b"-1", 16)
            if size < 0:
                raise BrokenAnswer("an answer in chunks without an end")
            part = stream.read(size)
            stream.readline(100)
            if not size:
                return b"".join(parts)
            parts.append(part)
    if status in (204, 304):
        return b""
    wanted = int(headers["content-length"]) if "content-length" in headers else -1
    body = stream.read(wanted)
    if len(body) < wanted:
        raise BrokenAnswer(f"an answer of {len(body)} bytes in place of {wanted}")
    return body


def ask(address: Address, data: bytes, source: str, patience: float) -> Answer | None:
    """Send a request on a connection of its own and return the answer. Raises BrokenAnswer,
    TimeoutError.
    """
    try:
        connection = connect(address, source, patience)
    except ConnectionError:
        return None
    with connection, connection.makefile("rb") as stream:
        send(connection, data)
        return read(stream)
