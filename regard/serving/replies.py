"""Replies of an engine process to the server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

from regard.serving.frames import Message, dropped, error_message, frames


SWITCH_SECONDS = 0.0005
"""Most that a thread which has something to do waits for one that computes; Python's own is ten times that."""


class Replies:
    """Writes replies to the server, from any thread."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._lock = file, threading.Lock()

    def __call__(self, message: Message, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Write a reply, frame by frame as long as it `is_wanted`; one to a server that has gone is dropped."""
        try:
            for content in frames(message):
                if not is_wanted():
                    self._write(dropped(message["number"]))
                    return
                self._write(content)
        except Exception:  # while a part of it was made
            self._write(dropped(message["number"]))
            raise

    def _write(self, content: bytes) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):
            self._file.write(content)
            self._file.flush()

    def fail(self, number: int, problem: Exception) -> None:
        """Reply with an error."""
        self({"number": number, "error": error_message(problem)})


def start_thread(target: Callable[..., Any], *arguments: Any) -> None:
    """Start a thread that ends with the process."""
    threading.Thread(target=target, args=arguments, daemon=True).start()
