"""Messages between the server and its engine processes: JSON in frames, a long one in several of bounded length.

A value that is JSON text already has frames of its own before those of its message, and is never parsed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from regard.common.errors import DataError, LineError, RegardError, UsageError
from regard.serving.raw_json import RawJson, split_raw

PIECE = 1 << 16
"""Bytes of a frame, at most."""
Message = dict[str, Any]
_HEAD = struct.Struct("<IQB")  # bytes, number of the call, what follows
_MORE, _LAST, _DROPPED, _RAW, _RAW_LAST = range(5)
_ASIDE = 1 << 18  # bytes from which on a message is parsed in a thread
_KINDS: dict[str, type[RegardError]] = {"usage": UsageError, "data": DataError, "failed": RegardError}


def frames(message: Message) -> Iterator[bytes]:
    """Yield a message as frames. Whoever stops early sends `dropped` of its number.

    What is RawJson in it becomes a number, and is received as that item of the message's "raw".
    """
    number, (content, raw) = message.get("number", 0), split_raw(message, lambda index: index)
    for value in raw:
        yield from _frames(number, value.pieces, _RAW, _RAW_LAST)
    yield from _frames(number, [content], _MORE, _LAST)


def _frames(number: int, pieces: Iterable[bytes], more: int, last: int) -> Iterator[bytes]:
    content = bytearray()
    for piece in pieces:
        content += piece
        while len(content) > PIECE:
            yield _HEAD.pack(PIECE, number, more) + content[:PIECE]
            del content[:PIECE]
    yield _HEAD.pack(len(content), number, last) + content


def dropped(number: int) -> bytes:
    """Return the frame after which nothing more comes of a message that was begun."""
    return _HEAD.pack(0, number, _DROPPED)


def read_frames(file: BinaryIO) -> Iterator[Message]:
    """Yield messages up to the end of a file; its frames are those of one message after the other."""
    content = bytearray()
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        length, _, follows = _HEAD.unpack(head)
        content += file.read(length)
        if follows == _LAST:
            yield json.loads(content)
            content.clear()


def _parse(content: bytearray, raw: list[list[bytes]]) -> Message:
    message: Message = json.loads(content)
    return message | {"raw": [RawJson(pieces) for pieces in raw[:-1]]} if raw[0] else message


class FrameReader:
    """Messages of a process, whose frames may come between each other."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader, self._begun = reader, dict[int, tuple[bytearray, list[list[bytes]]]]()

    async def receive(self) -> Message | None:
        """Read the next message; None at the end of the process."""
        try:
            while True:
                length, number, follows = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
                content, raw = begun = self._begun.setdefault(number, (bytearray(), [[]]))
                piece = await self._reader.readexactly(length)
                if follows in (_RAW, _RAW_LAST):
                    raw[-1].append(piece)
                    raw += [[]] * (follows == _RAW_LAST)
                    continue
                content += piece
                if follows == _MORE:
                    continue
                del self._begun[number]
                if follows == _LAST:
                    return await asyncio.to_thread(_parse, *begun) if len(content) > _ASIDE else _parse(*begun)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


class Replies:
    """Writes replies to the server, from any thread."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._lock = file, threading.Lock()

    def __call__(self, message: Message, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Write a reply, frame by frame as long as it `is_wanted`; one to a server that has gone is dropped."""
        for content in frames(message):
            if not is_wanted():
                self._write(dropped(message["number"]))
                return
            self._write(content)

    def _write(self, content: bytes) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):
            self._file.write(content)
            self._file.flush()

    def fail(self, number: int, problem: Exception) -> None:
        """Reply with an error, also in the middle of another reply."""
        self._write(dropped(number))
        self({"number": number, "error": error_message(problem)})


def error_message(problem: Exception) -> Message:
    """Return an error as the content of a message."""
    if isinstance(problem, LineError):
        return {"kind": "line", "causes": [list(item) for item in problem.problems]}
    for kind, error in _KINDS.items():
        if isinstance(problem, error):
            return {"kind": kind, "causes": list(problem.causes)}
    return {"kind": "failed", "causes": [f"{type(problem).__name__}: {problem}"]}


def error_of(content: Message) -> RegardError:
    """Return the error that `error_message` made a message of."""
    if content["kind"] == "line":
        return LineError(*((index, text) for index, text in content["causes"]))
    return _KINDS[content["kind"]](*content["causes"])
