"""HTTP connections that do not wait for their clients for ever, and of which only so many wait at once."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serving.limits import address_group

HEAD_SECONDS = 10.0
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]*"
_BEGUN_LINE = re.compile(rb"\r?|[0-9A-Fa-f]{1,20}[ \t]*(;[^\n]*)?\r?|" + _TOKEN + rb"(:.*)?", re.DOTALL)
"""Beginning of the size of a chunk, or of the lines behind the last chunk (RFC 9112, section 7.1)."""
CONNECTIONS = 2048
TURN = 0.005
"""Seconds between requests, of all connections together, that were sent before the answer to the last one was there."""
_Order = dict["TimedProtocol", None]


class WaitingConnections:
    """Connections that wait for their clients (to ask, to send, to read), longest first; of too many the first end.

    `most`: of all connections; `of_address`: of those of an address that wait, unless it is `exempt`, as a proxy is.
    """

    def __init__(self, most: int, of_address: int, exempt: Callable[[str], bool] = lambda _: False) -> None:
        self.most, self.of_address, self._exempt = most, of_address, exempt
        self._all, self._of = _Order(), defaultdict[str, _Order](_Order)
        self.pipelined = 0
        """Connections whose next request has come and waits for its turn."""

    def add(self, connection: TimedProtocol) -> None:
        """Note that a connection waits, and end those that have waited longest if there are too many."""
        own = self._of[connection.address]
        self._all.setdefault(connection)
        own.setdefault(connection)
        if len(own) > self.of_address and not self._exempt(connection.address):
            self._end(next(iter(own)))
        if len(connection.connections) > self.most and self._all:
            self._end(next(iter(self._all)))

    def discard(self, connection: TimedProtocol) -> None:
        """Note that a connection waits no longer."""
        self._all.pop(connection, None)
        if (own := self._of.get(connection.address)) is not None:
            own.pop(connection, None)
            if not own:
                del self._of[connection.address]

    def _end(self, connection: TimedProtocol) -> None:
        self.discard(connection)
        connection.transport.abort()


class TimedProtocol(H11Protocol):
    """uvicorn's protocol, which by itself waits without end for heads that come byte by byte and answers unread.

    Pass it to uvicorn as `http`. Bodies have the deadline of their request; `write_seconds`: for a piece of an answer.
    """

    waiting = WaitingConnections(CONNECTIONS, CONNECTIONS)
    write_seconds = 20.0
    address = ""
    _is_answered = False  # while the end of an answer is handled
    _timer: asyncio.TimerHandle | None = None
    _turn: asyncio.TimerHandle | None = None  # until which the next request waits, unread
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = address_group(self.client[0] if self.client else "")
        transport.set_write_buffer_limits(0)  # whatever is unsent pauses the writer: of an answer, one piece waits here
        self._arm()
        self._note()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_chunk_bad():
            self._refuse()
        if self.cycle is not None and not self.cycle.response_complete:
            self._disarm()
        else:
            self._arm()
        self._note()

    def on_response_complete(self) -> None:
        self._is_answered = True
        super().on_response_complete()
        self._is_answered = False
        self._note()

    def handle_events(self) -> None:
        """Begin the next request; one that came before the last answer was there, in its turn.

        Clients that send hundreds at once, on hundreds of connections, would else leave the others no time.
        """
        if self._turn is not None:
            return
        if self._is_answered and self.conn.trailing_data[0]:
            self.waiting.pipelined += 1
            self._turn = self.loop.call_later(TURN * self.waiting.pipelined, self._take_turn)
            self.flow.pause_reading()  # what is sent meanwhile waits with its sender
        else:
            super().handle_events()

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
            self.waiting.pipelined -= 1

    def _take_turn(self) -> None:
        self._end_turn()
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self.handle_events()
            self._note()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.write_seconds, self.transport.abort)
        self._note()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_write_timer()
        self.waiting.discard(self)  # it has read: if it waits, then from now on
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._end_turn()
        super().connection_lost(exc)
        self._stop_write_timer()
        self.waiting.discard(self)

    def _note(self) -> None:
        """Note whether it is the client's turn."""
        cycle, is_reading = self.cycle, self.flow.write_paused
        is_asking = cycle is None or cycle.response_complete or cycle.more_body
        if is_reading or (is_asking and not self.transport.is_closing()):
            self.waiting.add(self)
        else:
            self.waiting.discard(self)

    def _is_chunk_bad(self) -> bool:
        """Return whether a body in chunks goes on with what is the beginning of no line: its end would not come."""
        is_chunked = self.cycle is not None and (b"transfer-encoding", b"chunked") in self.cycle.scope["headers"]
        if not is_chunked or self.conn.their_state is not h11.SEND_BODY:
            return False
        unread, _ = self.conn.trailing_data
        return not _BEGUN_LINE.fullmatch(unread)

    def _refuse(self) -> None:
        """Answer 400, unless an answer was begun, and close the connection."""
        if self.conn.our_state is h11.SEND_RESPONSE:
            self.send_400_response("Invalid HTTP request received.")
        else:
            self.transport.close()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _arm(self) -> None:
        """Start the time of a head, at its first byte or that of the connection."""
        if self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(HEAD_SECONDS, self._close)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
