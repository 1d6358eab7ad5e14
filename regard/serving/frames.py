"""Messages between the server and its engine processes: JSON in frames, a long one in several of bounded length."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

from regard.errors import DataError, LineError, RegardError, UsageError

PIECE = 1 << 16
"""Bytes of a frame, at most."""
Message = dict[str, Any]
_HEAD = struct.Struct("<IQB")  # bytes, number of the call, what follows
_MORE, _LAST, _DROPPED = range(3)
_ASIDE = 1 << 18  # bytes from which on a message is parsed in a thread
_KINDS: dict[str, type[RegardError]] = {"usage": UsageError, "data": DataError, "failed": RegardError}


def frames(message: Message) -> Iterator[bytes]:
    """Yield a message as frames. Whoever stops early sends `dropped` of its number."""
    content = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    number = message.get("number", 0)
    for start in range(0, len(content), PIECE):
        piece = content[start : start + PIECE]
        yield _HEAD.pack(len(piece), number, _MORE if start + PIECE < len(content) else _LAST) + piece


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


class FrameReader:
    """Messages of a process, whose frames may come between each other."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader, self._begun = reader, dict[int, bytearray]()

    async def receive(self) -> Message | None:
        """Read the next message; None at the end of the process."""
        try:
            while True:
                length, number, follows = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
                content = self._begun.setdefault(number, bytearray())
                content += await self._reader.readexactly(length)
                if follows == _MORE:
                    continue
                del self._begun[number]
                if follows == _LAST:
                    parse = json.loads
                    return await asyncio.to_thread(parse, content) if len(content) > _ASIDE else parse(content)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


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
