"""Answers in pieces: a client gets the next one when it has read the last, and all clients' answers have a limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PIECE = 1 << 16
"""Bytes that are written at once."""


async def let_go(pieces: list[bytes]) -> AsyncIterator[bytes]:
    """Yield pieces of an answer, each of which is let go once it was sent."""
    pieces.reverse()
    while pieces:
        yield pieces.pop()
        await asyncio.sleep(0)


class AnswersInPieces:
    """Send bodies in pieces. Of bodies that have more than `most` bytes together, those that were begun first end."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most = app, most
        self._sizes: dict[asyncio.Task[None] | None, int] = {}
        self._ended = set[asyncio.Task[None] | None]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()

        async def send_pieces(message: Message) -> None:
            body = message.get("body", b"")
            size = int(Headers(raw=message.get("headers", [])).get("content-length", 0))
            if size > PIECE:
                self._make_room(task, size)
            if len(body) > PIECE:
                for start in range(0, len(body) - PIECE, PIECE):
                    await send({**message, "body": body[start : start + PIECE], "more_body": True})
                    await asyncio.sleep(0)
                message = {**message, "body": body[-((len(body) - 1) % PIECE + 1) :]}
            await send(message)

        try:
            await self.app(scope, receive, send_pieces)
        except asyncio.CancelledError:
            if task not in self._ended:
                raise
        finally:
            self._sizes.pop(task, None)
            self._ended.discard(task)

    def _make_room(self, task: asyncio.Task[None] | None, size: int) -> None:
        self._sizes[task] = size
        while sum(self._sizes.values()) > self.most and (oldest := next(iter(self._sizes))) is not task:
            del self._sizes[oldest]
            if oldest is not None:
                self._ended.add(oldest)
                oldest.cancel()  # its connection is closed, as its answer is not whole
