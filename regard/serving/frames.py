"""Messages between the server and its engine processes: JSON in frames, each with its length before it."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any, BinaryIO

from regard.errors import DataError, LineError, RegardError, UsageError

MAX_FRAME = 1 << 30
"""Bytes of a message, at most."""
Message = dict[str, Any]
_LENGTH = struct.Struct("<I")
_KINDS: dict[str, type[RegardError]] = {"usage": UsageError, "data": DataError, "failed": RegardError}


def frame(message: Message) -> bytes:
    """Return a message as bytes, its length first."""
    content = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return _LENGTH.pack(len(content)) + content


def read_frame(file: BinaryIO) -> Message | None:
    """Read the next message; None at the end of the file, also in the middle of a message."""
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    content = file.read(length)
    return None if len(content) < length else _parsed(content)


async def receive_frame(reader: asyncio.StreamReader) -> Message | None:
    """Read the next message of a process; None at its end."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return _parsed(await reader.readexactly(length)) if length <= MAX_FRAME else None
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


def _parsed(content: bytes) -> Message:
    message: Message = json.loads(content)
    return message
