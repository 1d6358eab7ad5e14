"""Large answers: estimated, refused, written in frames, sent in pieces, and in all no more than a limit."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import numpy as np
import pytest
from starlette.types import Message, Receive, Scope, Send

from regard.common.errors import UsageError
from regard.serving.answer_size import AnswerLimit, Turns
from regard.serving.answers import PIECE, AnswersInPieces
from regard.serving.frames import FrameReader, dropped, frames, read_frames
from regard.serving.raw_json import RawJson, json_pieces, weights_json


def test_a_size_counts_hypotheses_heads_lengths_and_the_search() -> None:
    limit = AnswerLimit(1_000_000, {"encoder": 16, "cross": 16, "decoder": 16})
    roles = ("encoder", "cross", "decoder")
    one = limit.size([(10, 12)], 1, roles)
    assert one == 8 * 16 * (100 + 120 + 144) + 12 * 40
    assert limit.size([(10, 12)] * 3, 5, roles) == 15 * one
    assert limit.size([(10, 12)], 1, ("cross",)) < one < limit.size([(10, 12)], 1, roles, traced=5)
    with pytest.raises(UsageError, match=r"`answer_limit` is 1,000,000; ask for fewer hypotheses"):
        limit.check(limit.size([(10, 12)], 100, roles))


def test_calls_wait_until_there_is_room() -> None:
    begun, failed = list[int](), list[int]()
    turns = Turns(10, 2, lambda number, _: failed.append(number))

    def work(number: int) -> None:
        begun.append(number)
        if number == 4:
            raise UsageError("not this one")

    for number, size in enumerate((30, 4, 5, 6, 7, 1)):
        turns.begin(number, size, lambda number=number: work(number))  # type: ignore[misc]
    assert begun == [0], "one that is too large for all is alone"
    turns.end(0)
    assert begun == [0, 1, 2]
    turns.end(3)  # cancelled before its turn
    turns.end(1)
    turns.end(2)
    assert (begun, failed) == ([0, 1, 2, 4, 5], [4])
    turns.begin(6, 1, lambda: work(6))
    turns.begin(7, 1, lambda: work(7))
    assert begun[-1] == 6, "no more than two at once"


def test_frames_come_between_each_other() -> None:
    long = {"number": 1, "text": "é" * 3 * PIECE}
    raw = {"number": 4, "a": RawJson([b"[0.5", b",0.25]"]), "b": [RawJson([b"1" * PIECE, b"2"])]}
    first, second, *rest = frames(long)
    assert max(map(len, frames(long))) < PIECE + 20
    begun = next(iter(frames({"number": 3, "text": "x" * 2 * PIECE})))
    short = b"".join(frames({"number": 2, "words": "a"}))

    async def received() -> list[Any]:
        stream = asyncio.StreamReader()
        stream.feed_data(b"".join([first, begun, *frames(raw), short, second, dropped(3), *rest]))
        stream.feed_eof()
        reader = FrameReader(stream)
        return [await reader.receive() for _ in range(4)]

    with_raw, *others = asyncio.run(received())
    assert [b"".join(value.pieces) for value in with_raw.pop("raw")] == [b"[0.5,0.25]", b"1" * PIECE + b"2"]
    assert [with_raw, *others] == [{"number": 4, "a": 0, "b": [1]}, {"number": 2, "words": "a"}, long, None]
    assert list(read_frames(io.BytesIO(b"".join(frames(long)) + short + first))) == [long, {"number": 2, "words": "a"}]


def test_what_is_written_once_is_not_parsed() -> None:
    weights = np.array([[[0.123456, 1.0], [float("nan"), 0.0]]], np.float32)
    raw = RawJson(list(weights_json(weights)))
    content = {"a": raw, "score": float("nan"), "b": [raw, {"c": RawJson(['"é"'.encode()])}]}
    rows = [[[0.12346, 1.0], [0.0, 0.0]]]
    assert json.loads(b"".join(json_pieces(content))) == {"a": rows, "score": None, "b": [rows, {"c": "é"}]}
    assert b"".join(raw.pieces) == b"[[[0.12346,1.0],[0.0,0.0]]]"
    long = np.random.default_rng(1).random((2, 70, 90), np.float32)
    for array in (long, long.ravel(), long[:0], long[0, 0, :0]):
        pieces = list(weights_json(array))
        written = np.array(json.loads(b"".join(pieces))).reshape(array.shape)
        assert np.abs(written - array).max(initial=0) <= 6e-6
        assert max(map(len, pieces)) < PIECE


def test_bodies_are_sent_in_pieces_and_the_oldest_ends() -> None:
    sent: dict[str, list[Message]] = {"a": [], "b": []}
    reads = asyncio.Event

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", str(3 * PIECE + 5).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(3 * PIECE + 5)})

    async def nothing() -> Message:
        raise AssertionError

    async def run() -> None:
        bounded, read = AnswersInPieces(app, 4 * PIECE), reads()

        async def never_read(message: Message) -> None:
            sent["a"].append(message)
            if message["type"] == "http.response.body":
                await read.wait()

        async def kept(message: Message) -> None:
            sent["b"].append(message)

        first = asyncio.create_task(bounded({}, nothing, never_read))
        while len(sent["a"]) < 2:
            await asyncio.sleep(0)
        await bounded({}, nothing, kept)
        await first  # given up, without an error

    asyncio.run(run())
    pieces = [message["body"] for message in sent["b"][1:]]
    assert (len(b"".join(pieces)), max(map(len, pieces))) == (3 * PIECE + 5, PIECE)
    assert [message.get("more_body", False) for message in sent["b"][1:]] == [True, True, True, False]
    assert len(sent["a"]) == 2
