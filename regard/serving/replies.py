"""Replies of an engine process to the server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, BinaryIO

from regard.serving.frames import Message, error_message, frame


class Replies:
    """Writes replies to the server, from any thread."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._lock = file, threading.Lock()

    def __call__(self, message: Message) -> None:
        """Write a reply whole; one to a server that has gone is dropped."""
        content = frame(message)
        with self._lock:
            try:
                self._file.write(content)
                self._file.flush()
            except (BrokenPipeError, ValueError):
                pass

    def fail(self, number: int, problem: Exception) -> None:
        """Reply with an error."""
        self({"number": number, "error": error_message(problem)})


def start_thread(target: Callable[..., Any], *arguments: Any) -> None:
    """Start a thread that ends with the process."""
    threading.Thread(target=target, args=arguments, daemon=True).start()
