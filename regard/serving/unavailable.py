"""Answer 503 at the socket of a server while its serving process is started again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import threading
from collections.abc import Callable

_MOST_CONNECTIONS = 512
"""Maximum number of connections that are answered concurrently; further ones are closed."""
_HEAD_BYTES = 1 << 19
"""Maximum number of bytes of a request head, more than the serving process accepts."""
_SECONDS = 5.0
"""Time limit of a client for sending its request."""
_POLL_SECONDS = 0.05
_SENTENCE = "the server is being started again; try again later"
_BODY = {
    "error": _SENTENCE,
    "message": _SENTENCE,
    "title": "Service Unavailable",
    "status": 503,
    "detail": _SENTENCE,
}
"""Body with the fields that the clients of all APIs expect."""


class Unavailable:
    """A server in a thread that answers 503, on a socket that it may share with other processes.

    `retry_after`: returns the value of the header Retry-After in seconds.
    """

    def __init__(self, listener: socket.socket, retry_after: Callable[[], int]) -> None:
        self._retry_after = retry_after
        self._is_stopped = threading.Event()
        self._room = asyncio.Semaphore(_MOST_CONNECTIONS)
        threading.Thread(
            target=asyncio.run, args=[self._serve(listener.dup())], daemon=True
        ).start()

    def stop(self) -> None:
        """Stop accepting connections; accepted ones are still answered."""
        self._is_stopped.set()

    async def _serve(self, listener: socket.socket) -> None:
        server = await asyncio.start_server(
            self._answer, sock=listener, limit=_HEAD_BYTES, backlog=_MOST_CONNECTIONS
        )
        while not self._is_stopped.is_set():
            await asyncio.sleep(_POLL_SECONDS)
        server.close()
        while answers := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(answers)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        problems = (
            OSError,
            asyncio.TimeoutError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        )
        with contextlib.closing(writer), contextlib.suppress(*problems):
            if self._room.locked():
                return
            async with self._room:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _SECONDS)
                writer.write(self._response(head))
                writer.write_eof()
                await asyncio.wait_for(_read_rest(reader), _SECONDS)

    def _response(self, head: bytes) -> bytes:
        """Return the answer to the request with this head; only /health is answered with 200."""
        status = "503 Service Unavailable"
        content = json.dumps(_BODY)
        retry = f"Retry-After: {self._retry_after()}\r\n"
        if re.match(rb"\S+ /health[? ]", head):
            status = "200 OK"
            content = json.dumps({"status": "ok"})
            retry = ""
        fields = (
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n"
            "Cache-Control: no-store\r\n"
        )
        body = "" if head.startswith(b"HEAD ") else content
        return f"HTTP/1.1 {status}\r\n{fields}{retry}Connection: close\r\n\r\n{body}".encode()


async def _read_rest(reader: asyncio.StreamReader) -> None:
    """Read the rest of a request; otherwise closing the connection would reset it, and the client
    would lose the answer.
    """
    while await reader.read(1 << 16):
        pass
