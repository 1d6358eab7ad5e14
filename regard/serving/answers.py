"""Answers in pieces: a client gets the next one when it has read the last, and all clients' answers
have a limit.

Starlette sends a body at once, so that all of it would wait in the buffer of a connection that
nobody reads.
"""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PIECE = 1 << 16
"""Bytes that are written at once."""


class AnswersInPieces:
    """Send bodies in pieces. Of bodies that have more than `most` bytes together, those that were
    begun first end.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app = app
        self.most = most
        self._sizes = dict[asyncio.Task[None], int]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        is_large = False

        async def send_pieces(message: Message) -> None:
            nonlocal is_large
            body = message.get("body", b"")
            if message["type"] == "http.response.start":
                size = int(Headers(raw=message["headers"]).get("content-length", 0))
                if is_large := size > PIECE:
                    self._make_room(task, size)
            sent = 0
            while len(body) - sent > PIECE:
                await send(
                    {**message, "body": body[sent : sent + PIECE], "more_body": True}
                )
                await asyncio.sleep(0)
                sent += PIECE
            await send({**message, "body": body[sent:]} if sent else message)

        try:
            await self.app(scope, receive, send_pieces)
        except asyncio.CancelledError:
            if not is_large or task in self._sizes:  # else it was ended by others
                raise
        finally:
            self._sizes.pop(task, None)

    def _make_room(self, task: asyncio.Task[None], size: int) -> None:
        self._sizes[task] = size
        while (
            sum(self._sizes.values()) > self.most
            and (oldest := next(iter(self._sizes))) is not task
        ):
            del self._sizes[oldest]
            oldest.cancel()  # its connection is closed, as its answer is not whole
