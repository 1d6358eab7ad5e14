"""Replies of an engine process to the server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

from regard.serving.frames import Message, dropped, error_message, frames


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


def start_thread(target: Callable[..., Any], *arguments: Any) -> None:
    """Start a thread that ends with the process."""
    threading.Thread(target=target, args=arguments, daemon=True).start()
