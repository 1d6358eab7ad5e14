"""Large answers: sent in pieces, and in all no more than a limit."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from fake import Ask
from helpers.time_limits import wait_until_async
from starlette.types import Message, Receive, Scope, Send

from regard.serving.answers import PIECE, AnswersInPieces


def test_bodies_are_sent_in_pieces_and_the_oldest_ends() -> None:
    body = bytes(3 * PIECE + 5)
    unread = list[Message]()
    read = list[Message]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def nothing() -> Message:
        raise AssertionError

    async def never_read(message: Message) -> None:
        unread.append(message)
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def keep(message: Message) -> None:
        read.append(message)

    async def run() -> None:
        bounded = AnswersInPieces(app, 4 * PIECE)
        first = asyncio.create_task(bounded({}, nothing, never_read))
        await wait_until_async(lambda: len(unread) == 2, "a piece is sent")
        await bounded({}, nothing, keep)
        await first  # given up, without an error

    asyncio.run(run())

    assert len(unread) == 2

    pieces = [len(message["body"]) for message in read[1:]]
    assert pieces == [PIECE, PIECE, PIECE, 5]

    has_more = [message.get("more_body", False) for message in read[1:]]
    assert has_more == [True, True, True, False]


def test_large_answers_are_compressed_and_streams_are_not(ask: Ask) -> None:
    def answer(encoding: str, **values: Any) -> httpx.Response:
        asked = {"text": "word " * 10_000, "source": "en", "target": "ko", **values}
        return ask("/v1/translate", json=asked, headers={"Accept-Encoding": encoding})

    plain = answer("identity")
    small = answer("gzip", text="word")

    assert "content-encoding" not in {*plain.headers, *small.headers}

    packed = answer("gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert packed.json() == plain.json()
    assert int(packed.headers["content-length"]) < len(plain.content) / 10
    assert "content-encoding" not in answer("gzip", stream=True).headers
