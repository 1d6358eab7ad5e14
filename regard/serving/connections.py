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
from starlette.types import Message, Receive, Scope, Send

from regard.serving.limits import address_group

HEAD_SECONDS = 10.0


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

    def abort(self) -> None:
        self._send()
        self._transport.abort()

    def _send(self) -> None:
        data = b"".join(self._written)
        self._written.clear()
        if data:
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(asyncio.Protocol):
    """A connection that hands everything to uvicorn's protocol, and has a time for heads and one for reading answers.

    It waits for its client while no request is open, while the application awaits the rest of a body, and while a part
    of an answer is unsent. Requests that are open when it is lost are cancelled.
    """

    def __init__(self, protocol: Any, connections: Connections) -> None:
        self._protocol, self._connections = protocol, connections
        self._app, protocol.app = protocol.app, self._serve
        self._timers = dict[str, asyncio.TimerHandle]()
        self._requests = set[asyncio.Task[Any]]()
        self._is_body_awaited = self._is_answer_unread = self._is_lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = _Together(transport)
        self.host = str((transport.get_extra_info("peername") or ("",))[0])
        transport.set_write_buffer_limits(0)  # whatever is unsent pauses the writer: of an answer, one piece waits here
        self._protocol.connection_made(self.transport)
        self._start("head", HEAD_SECONDS, self.transport.close)
        self._connections.add(self)
        self._note()

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)
        if not self._requests:
            self._start("head", HEAD_SECONDS, self.transport.close)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()
        self._is_answer_unread = True
        self._start("read", self._connections.write_seconds, self.transport.abort)
        self._note()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
        self._is_answer_unread = False
        self._stop("read")
        self._connections.note(self, is_waiting=False)  # it has read: if it waits, then from now on
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._stop("head")
        self._stop("read")
        self._protocol.connection_lost(exc)
        self._connections.remove(self)
        for request in self._requests:
            request.cancel()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, unless the connection is lost before."""
        is_whole = False

        async def receive_noted() -> Message:
            nonlocal is_whole
            self._is_body_awaited = not is_whole
            self._note()
            message = await receive()
            is_whole = not message.get("more_body")
            self._is_body_awaited = False
            self._note()
            return message

        task: Any = asyncio.current_task()
        self._stop("head")
        self._requests.add(task)
        self._note()
        try:
            if not self._is_lost:
                await self._app(scope, receive_noted, send)
        except asyncio.CancelledError:
            if not self._is_lost:
                raise
        finally:
            self._requests.discard(task)
            self._is_body_awaited = False
            self._note()

    def _note(self) -> None:
        is_waiting = self._is_answer_unread or self._is_body_awaited or not self._requests
        self._connections.note(self, is_waiting and not self._is_lost)

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
        self._open = set[Connection]()
        self._waiting, self._waiting_of = _Order(), defaultdict[str, _Order](_Order)

    def attach(self, config: uvicorn.Config) -> None:
        """Let a server have these connections."""
        config.load()
        protocol: Any = config.http_protocol_class
        config.http_protocol_class = lambda **given: Connection(protocol(**given), self)  # type: ignore[assignment]

    def add(self, connection: Connection) -> None:
        """Note a connection, and end the one that has waited longest if there are too many."""
        self._open.add(connection)
        if len(self._open) > self.most and self._waiting:
            self._end(next(iter(self._waiting)))

    def note(self, connection: Connection, is_waiting: bool) -> None:
        """Note whether a connection waits; of too many of an address, end the one that has waited longest."""
        address = address_group(connection.host)
        own = self._waiting_of[address]
        if is_waiting:
            self._waiting.setdefault(connection)
            own.setdefault(connection)
        else:
            self._waiting.pop(connection, None)
            own.pop(connection, None)
        if not own:
            del self._waiting_of[address]
        elif len(own) > self.of_address and not self._exempt(connection.host):
            self._end(next(iter(own)))

    def remove(self, connection: Connection) -> None:
        """Note that a connection is closed."""
        self.note(connection, is_waiting=False)
        self._open.discard(connection)

    def _end(self, connection: Connection) -> None:
        self.remove(connection)
        connection.transport.abort()
