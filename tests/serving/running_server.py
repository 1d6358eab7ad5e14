"""Servers: in a thread, and in processes of their own, with what these write."""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import uvicorn
from helpers.time_limits import wait_until

from regard.requests.server_settings import ServerSettings
from regard.serving.application import create_app
from regard.serving.serving_process import server_config
from regard.serving.supervisor import listen


@contextlib.contextmanager
def serving(service: Any, port: int = 0, **settings: Any) -> Iterator[str]:
    """Run the application over a service in a thread; yield its address."""
    given = ServerSettings(**settings)
    listener = listen("127.0.0.1", port)
    address = listener.getsockname()
    server = uvicorn.Server(server_config(create_app(service, given), given))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{address[1]}"
    finally:
        server.force_exit = True
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


class RunningServer:
    """A server that was started by a command, and listens."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, **options
        )
        self.lines = list[str]()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        wait_until(
            lambda: "listening at" in self.text or self.process.poll() is not None,
            "the server starts",
        )
        address = re.search(r"listening at (http://127\.0\.0\.1:(\d+))", self.text)

        assert address is not None, self.text

        self.address = address[1]
        self.port = int(address[2])

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            self.lines.extend(lines)

    @property
    def text(self) -> str:
        """What the server has written to standard error."""
        return "".join(self.lines)

    def post(self, texts: Sequence[str], source: str, target: str) -> httpx.Response:
        """Ask in any way that tells a serving process that died from one that refuses."""
        asked = {"q": texts, "source": source, "target": target}
        return httpx.post(f"{self.address}/translate", json=asked, timeout=60)

    def ended(self) -> int:
        """Wait for the end, also of the serving process, which writes to the same file; return the
        exit status.
        """
        status = self.process.wait(60)
        self.reader.join(60)
        assert not self.reader.is_alive()

        return status
