"""Time limits for slow clients, and limits on the number of open connections.

uvicorn has no timeout for a head that arrives byte by byte or for an answer that is not read, no
limit on the connections of an address, and does not cancel the requests of clients that have
disconnected. Bodies have the deadline of their request.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import uvicorn
from starlette.types import Message, Receive, Scope, Send

from regard.requests.server_settings import ServerSettings
from regard.serving.limits import address_group

HEAD_SECONDS = 10.0
"""Time limit for the head of the first request of a connection."""
IDLE_SECONDS = 30.0
"""Time limit for the head of each later request of a connection."""


class _CoalescingTransport:
    """A transport that joins the writes of one iteration of the event loop: the head and the body
    of an answer.

    For a short answer this saves a system call, a tenth of the time that the server needs for it.
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
    """A connection that delegates to uvicorn's protocol, and limits the time that its client takes.

    The client has to send a request while none is open, the rest of a body while the application
    awaits it, and has to read while a part of an answer is unsent. When the connection is lost, its
    open requests are cancelled.
    """

    def __init__(self, protocol: Any, connections: Connections) -> None:
        self._protocol = protocol
        self._connections = connections
        self._app = protocol.app
        protocol.app = self._serve
        self._requests = set[asyncio.Task[Any]]()
        self._has_asked = False
        self._is_body_awaited = False
        self._is_answer_unread = False
        self._is_lost = False
        self._awaited = ""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = _CoalescingTransport(transport)
        self.host = str((transport.get_extra_info("peername") or ("",))[0])
        # Unsent bytes pause the writer, so that no more than one piece of an answer is buffered.
        transport.set_write_buffer_limits(0)
        self._protocol.connection_made(self.transport)
        self._connections.add(self)
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()
        self._is_answer_unread = True
        self._update_timer()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
        self._is_answer_unread = False
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._protocol.connection_lost(exc)
        self._connections.remove(self)
        self._update_timer()
        for request in self._requests:
            request.cancel()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, unless the connection has been lost."""
        is_complete = False

        async def receive_tracked() -> Message:
            nonlocal is_complete
            self._is_body_awaited = not is_complete
            self._update_timer()

            message = await receive()
            is_complete = not message.get("more_body")
            self._is_body_awaited = not is_complete
            self._update_timer()
            return message

        task: Any = asyncio.current_task()
        self._requests.add(task)
        self._has_asked = True
        self._update_timer()
        try:
            if not self._is_lost:
                await self._app(scope, receive_tracked, send)
        except asyncio.CancelledError:
            if not self._is_lost:
                raise
        finally:
            self._requests.discard(task)
            self._is_body_awaited = False
            self._update_timer()

    def _update_timer(self) -> None:
        """Start the timer of the step that the client has to take, if that step has changed."""
        awaited = self._awaited_step()
        if awaited == self._awaited:
            return
        self._awaited = awaited
        if self._timer is not None:
            self._timer.cancel()

        head_seconds = IDLE_SECONDS if self._has_asked else HEAD_SECONDS
        limits = {"read": self._connections.write_seconds, "ask": head_seconds}
        seconds = limits.get(awaited)  # "send" has the deadline of the request
        self._timer = None
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(
                seconds, self.transport.abort
            )
        self._connections.set_waiting(self, is_waiting=awaited != "")

    def _awaited_step(self) -> str:
        """Return the step that the client has to take: "ask", "send" or "read"; empty if it waits
        for the server.
        """
        if self._is_lost:
            return ""
        if self._is_answer_unread:
            return "read"
        if self._is_body_awaited:
            return "send"
        return "" if self._requests else "ask"


_OrderedSet = dict[Connection, None]


class Connections:
    """All open connections, and among them those that wait for their clients.

    At most `max_open` are open, and at most `waiting_connections` (a setting) wait for the clients
    at one address, unless it is that of a proxy. If there are more, the one that has waited longest
    is closed.
    """

    def __init__(self, max_open: int, settings: ServerSettings) -> None:
        self.max_open = max_open
        self._settings = settings
        self.write_seconds = settings.write_timeout
        self._open = set[Connection]()
        self._waiting = _OrderedSet()
        self._waiting_by_address = defaultdict[str, _OrderedSet](_OrderedSet)

    def attach(self, config: uvicorn.Config) -> None:
        """Let the server of `config` create its connections here."""
        config.load()
        protocol: Any = config.http_protocol_class

        def connection(**arguments: Any) -> Connection:
            return Connection(protocol(**arguments), self)

        config.http_protocol_class = connection  # type: ignore[assignment]

    def add(self, connection: Connection) -> None:
        """Add a connection. If there are too many, close the one that has waited longest."""
        self._open.add(connection)
        if len(self._open) > self.max_open and self._waiting:
            self._end(next(iter(self._waiting)))

    def set_waiting(self, connection: Connection, is_waiting: bool) -> None:
        """Set whether a connection waits for its client.

        If too many connections of its address wait, the one that has waited longest is closed.
        """
        address = address_group(connection.host)
        waiting_there = self._waiting_by_address[address]
        for waiting in (self._waiting, waiting_there):
            waiting.pop(connection, None)
            if is_waiting:
                waiting[connection] = None

        if not waiting_there:
            del self._waiting_by_address[address]
            return
        is_excess = len(waiting_there) > self._settings.waiting_connections
        if is_excess and not self._settings.is_proxy(connection.host):
            self._end(next(iter(waiting_there)))

    def remove(self, connection: Connection) -> None:
        """Remove a connection that is closed."""
        self.set_waiting(connection, is_waiting=False)
        self._open.discard(connection)

    def _end(self, connection: Connection) -> None:
        self.remove(connection)
        connection.transport.abort()
