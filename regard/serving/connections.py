"""HTTP connections that do not wait for their clients for ever, and of which only so many wait at once.

uvicorn waits without end for heads that come byte by byte and for answers that nobody reads, and offers no limit of the
connections of an address. Bodies have the deadline of their request.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.limits import address_group

HEAD_SECONDS = 10.0
_BODIES = {b"content-length", b"transfer-encoding"}


class _Together:
    """A transport that sends at once what is written in one iteration of the loop: the head of an answer and its body.

    That saves each short answer a call of the system, a tenth of the time that the server needs for it.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._written = list[bytes]()

    def write(self, data: bytes) -> None:
        if not self._written:
            asyncio.get_running_loop().call_soon(self._send)
        self._written.append(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def _send(self) -> None:
        data = b"".join(self._written)
        self._written.clear()
        if data:
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(asyncio.Protocol):
    """A connection that hands everything to uvicorn's protocol, and has a time for heads and one for reading answers.

    Whether it waits for its client (to ask, to send, to read) it is told by the requests that begin and end.
    """

    def __init__(self, protocol: asyncio.Protocol, connections: Connections) -> None:
        self._protocol, self._connections = protocol, connections
        self._timers = dict[str, asyncio.TimerHandle]()
        self._requests = 0
        self._is_sending = self._is_reading = False  # the client, what is left of a body or an answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.client = tuple((transport.get_extra_info("peername") or ("", 0))[:2])
        self.address = address_group(self.client[0])
        transport.set_write_buffer_limits(0)  # whatever is unsent pauses the writer: of an answer, one piece waits here
        self._protocol.connection_made(_Together(transport))  # type: ignore[arg-type]
        self._start("head", HEAD_SECONDS, transport.close)
        self._connections.add(self)
        self._note()

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)
        if not self._requests and not self.transport.is_closing():
            self._start("head", HEAD_SECONDS, self.transport.close)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()
        self._is_reading = True
        self._start("read", self._connections.write_seconds, self.transport.abort)
        self._note()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
        self._is_reading = False
        self._stop("read")
        self._connections.discard(self)  # it has read: if it waits, then from now on
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._timers):
            self._stop(name)
        self._protocol.connection_lost(exc)
        self._connections.remove(self)

    def begin(self, has_body: bool) -> None:
        """Note that a request begins, whose body may have to come yet."""
        self._stop("head")
        self._requests += 1
        self._is_sending = has_body
        self._note()

    def take_body(self) -> None:
        """Note that the body of a request is whole."""
        self._is_sending = False
        self._note()

    def end(self) -> None:
        """Note that a request was answered."""
        self._requests -= 1
        self._note()

    def _note(self) -> None:
        is_asking = not self._requests or self._is_sending
        if self._is_reading or (is_asking and not self.transport.is_closing()):
            self._connections.wait(self)
        else:
            self._connections.discard(self)

    def _start(self, name: str, seconds: float, end: Callable[[], None]) -> None:
        if name not in self._timers:
            self._timers[name] = asyncio.get_running_loop().call_later(seconds, end)

    def _stop(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()


_Order = dict[Connection, None]


class Connections:
    """All connections, and those that wait for their clients, longest first; of too many the first end.

    `most`: of all; `of_address`: of those of an address that wait, unless it is `exempt`, as a proxy is;
    `write_seconds`: in which a client has to read a piece of an answer.
    """

    def __init__(
        self, most: int, of_address: int, exempt: Callable[[str], bool] = lambda _: False, write_seconds: float = 20.0
    ) -> None:
        self.most, self.of_address, self._exempt, self.write_seconds = most, of_address, exempt, write_seconds
        self._open = dict[Any, Connection]()
        self._all, self._of = _Order(), defaultdict[str, _Order](_Order)

    def attach(self, config: uvicorn.Config) -> None:
        """Let a server have these connections, and tell them of its requests."""
        config.app = self.noting(config.app)  # type: ignore[arg-type]
        config.load()
        protocol: Any = config.http_protocol_class
        config.http_protocol_class = lambda **given: Connection(protocol(**given), self)  # type: ignore[assignment]

    def noting(self, app: ASGIApp) -> ASGIApp:
        """Return an application that tells the connection of each request when it begins, is whole, and ends."""

        async def noted(scope: Scope, receive: Receive, send: Send) -> None:
            connection = self._open.get(scope.get("client"))
            if connection is None:
                await app(scope, receive, send)
                return

            async def receive_noted() -> Message:
                message = await receive()
                if not message.get("more_body"):
                    connection.take_body()
                return message

            connection.begin(any(name in _BODIES for name, _ in scope["headers"]))
            try:
                await app(scope, receive_noted, send)
            finally:
                connection.end()

        return noted

    def add(self, connection: Connection) -> None:
        """Note a connection, and end the one that has waited longest if there are too many."""
        self._open[connection.client] = connection
        if len(self._open) > self.most and self._all:
            self._end(next(iter(self._all)))

    def wait(self, connection: Connection) -> None:
        """Note that a connection waits, and end that of its address that has waited longest if there are too many."""
        own = self._of[connection.address]
        self._all.setdefault(connection)
        own.setdefault(connection)
        if len(own) > self.of_address and not self._exempt(connection.client[0]):
            self._end(next(iter(own)))

    def discard(self, connection: Connection) -> None:
        """Note that a connection waits no longer."""
        self._all.pop(connection, None)
        if (own := self._of.get(connection.address)) is not None:
            own.pop(connection, None)
            if not own:
                del self._of[connection.address]

    def remove(self, connection: Connection) -> None:
        """Note that a connection is closed."""
        self.discard(connection)
        if self._open.get(connection.client) is connection:
            del self._open[connection.client]

    def _end(self, connection: Connection) -> None:
        self.remove(connection)
        connection.transport.abort()
