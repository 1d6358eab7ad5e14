"""Answers at the socket of a server whose serving process is away: it lives, and is to be asked again later."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_MOST_THREADS = 128
_MOST_BODY = 1 << 20
_SENTENCE = "the server is being started again; try again later"
_BODY = {"error": _SENTENCE, "message": _SENTENCE, "title": "Service Unavailable", "status": 503, "detail": _SENTENCE}
"""One body for the clients of every API."""


class Unavailable:
    """A server of 503 in a thread, at a socket that others may have, too. `retry_after`: seconds."""

    def __init__(self, listener: socket.socket, retry_after: Callable[[], int]) -> None:
        self._server = _Server(listener, retry_after)
        threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True).start()

    def stop(self) -> None:
        """Accept no further connections; those that were accepted are answered."""
        self._server.shutdown()


class _Server(ThreadingHTTPServer):
    def __init__(self, listener: socket.socket, retry_after: Callable[[], int]) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.retry_after = listener, retry_after

    def verify_request(self, *_: Any) -> bool:
        """Return whether there is a thread for a connection; it is closed if not."""
        return threading.active_count() < _MOST_THREADS

    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients that are gone."""


class _Handler(BaseHTTPRequestHandler):
    timeout = 5
    server: _Server

    def _answer(self) -> None:
        length = self.headers.get("Content-Length", "")
        if length.isdecimal():
            self.rfile.read(min(int(length), _MOST_BODY))  # else closing would take the answer away, too
        is_health = self.path.partition("?")[0] == "/health"
        content = json.dumps({"status": "ok"} if is_health else _BODY).encode()
        self.send_response(200 if is_health else 503)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        if not is_health:
            self.send_header("Retry-After", str(self.server.retry_after()))
        self.end_headers()
        self.wfile.write(content if self.command != "HEAD" else b"")

    do_GET = do_HEAD = do_POST = do_OPTIONS = _answer  # noqa: N815 (names of the library)

    def log_message(self, *_: Any) -> None:
        """Log nothing: what is asked may hold texts."""
