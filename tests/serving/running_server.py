"""A server in processes of its own, and what it writes."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Sequence
from typing import Any

import httpx
from helpers.time_limits import wait_until


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
