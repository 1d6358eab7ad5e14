"""Middleware that sends bodies in pieces and limits the memory of unread answers.

Starlette writes a body at once, so all of it would wait in the buffer of a connection that its
client does not read. Pieces give backpressure: each is written when the client has read the one
before.
"""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PIECE = 1 << 16
"""Bytes of a piece."""


class AnswersInPieces:
    """Send bodies in pieces, and cancel the oldest large answers if all together exceed
    `max_bytes`.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes
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
                is_large = size > PIECE
                if is_large:
                    self._register(task, size)

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
            # `_register` removes a task from the table before it cancels it.
            if not is_large or task in self._sizes:
                raise
        finally:
            self._sizes.pop(task, None)

    def _register(self, task: asyncio.Task[None], size: int) -> None:
        """Register the size of a large answer, and cancel the oldest ones until all fit."""
        self._sizes[task] = size
        while sum(self._sizes.values()) > self.max_bytes:
            oldest = next(iter(self._sizes))
            if oldest is task:
                break
            del self._sizes[oldest]
            # uvicorn closes the connection, because the answer is incomplete.
            oldest.cancel()
