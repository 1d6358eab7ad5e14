"""HTTP connections that do not wait for their clients for ever, and of which only so many wait at
once.

uvicorn waits without end for heads that come byte by byte and for answers that nobody reads, offers
no limit of the connections of an address, and goes on with the requests of clients that are gone.
Bodies have the deadline of their request.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import uvicorn
from starlette.types import Message, Receive, Scope, Send

from regard.serving.limits import address_group
from regard.serving.server_settings import ServerSettings

HEAD_SECONDS, IDLE_SECONDS = 10.0, 30.0
"""Seconds in which a client sends the head of its first request, and of the next after an
answer.
"""


class _CoalescingTransport:
    """A transport that sends at once what is written in one iteration of the loop: the head of an
    answer and its body.

    That saves each short answer a call of the system, a tenth of the time that the server needs for
    it.
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
    """A connection that hands everything to uvicorn's protocol, and knows what its client has to do
    next.

    The client has to ask while no request is open, to send while the application awaits the rest of
    a body, and to read while a part of an answer is unsent; a time limit ends the connection of one
    that does not. When the connection is lost, its open requests are cancelled.
    """

    def __init__(self, protocol: Any, connections: Connections) -> None:
        self._protocol = protocol
        self._connections = connections
        self._app = protocol.app
        protocol.app = self._serve
        self._requests = set[asyncio.Task[Any]]()
        self._has_asked = self._is_body_awaited = self._is_answer_unread = (
            self._is_lost
        ) = False
        self._awaited = ""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = _CoalescingTransport(transport)
        self.host = str((transport.get_extra_info("peername") or ("",))[0])
        # Whatever is unsent pauses the writer: of an answer, one piece waits here.
        transport.set_write_buffer_limits(0)
        self._protocol.connection_made(self.transport)
        self._connections.add(self)
        self._note()

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()
        self._is_answer_unread = True
        self._note()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
        self._is_answer_unread = False
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._protocol.connection_lost(exc)
        self._connections.remove(self)
        self._note()
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
            self._is_body_awaited = not is_whole
            self._note()
            return message

        task: Any = asyncio.current_task()
        self._requests.add(task)
        self._has_asked = True
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
        awaited = self._what_is_awaited()
        if awaited == self._awaited:
            return
        self._awaited = awaited
        if self._timer is not None:
            self._timer.cancel()
        head_seconds = IDLE_SECONDS if self._has_asked else HEAD_SECONDS
        seconds = {"read": self._connections.write_seconds, "ask": head_seconds}.get(
            awaited
        )
        self._timer = None
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(
                seconds, self.transport.abort
            )
        self._connections.note(self, is_waiting=awaited != "")

    def _what_is_awaited(self) -> str:
        """Return what the client is to do; nothing if it waits for the server. A body has the time
        of its request.
        """
        if self._is_lost:
            return ""
        if self._is_answer_unread:
            return "read"
        if self._is_body_awaited:
            return "send"
        return "" if self._requests else "ask"


_Order = dict[Connection, None]


class Connections:
    """All open connections, and those among them that wait for their clients.

    There may be `most` in all, and `waiting_connections` that wait for clients at one address,
    proxies excepted. If there are more, the one that has waited longest is closed.
    """

    def __init__(self, most: int, settings: ServerSettings) -> None:
        self.most = most
        self._settings = settings
        self.write_seconds = settings.write_timeout
        self._open = set[Connection]()
        self._waiting = _Order()
        self._waiting_of = defaultdict[str, _Order](_Order)

    def attach(self, config: uvicorn.Config) -> None:
        """Let a server have these connections."""
        config.load()
        protocol: Any = config.http_protocol_class
        config.http_protocol_class = lambda **given: Connection(protocol(**given), self)  # type: ignore[assignment]

    def add(self, connection: Connection) -> None:
        """Note a connection. If there are too many, close the one that has waited longest."""
        self._open.add(connection)
        if len(self._open) > self.most and self._waiting:
            self._end(next(iter(self._waiting)))

    def note(self, connection: Connection, is_waiting: bool) -> None:
        """Note whether a connection waits from now on. If too many of its address do, close the
        longest waiting one.
        """
        address = address_group(connection.host)
        of_address = self._waiting_of[address]
        for order in (self._waiting, of_address):
            order.pop(connection, None)
            if is_waiting:
                order[connection] = None
        if not of_address:
            del self._waiting_of[address]
        elif len(
            of_address
        ) > self._settings.waiting_connections and not self._settings.is_proxy(
            connection.host
        ):
            self._end(next(iter(of_address)))

    def remove(self, connection: Connection) -> None:
        """Note that a connection is closed."""
        self.note(connection, is_waiting=False)
        self._open.discard(connection)

    def _end(self, connection: Connection) -> None:
        self.remove(connection)
        connection.transport.abort()
