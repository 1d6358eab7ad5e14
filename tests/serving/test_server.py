"""The server as it is run: started by the command line, called over a socket, disturbed, and ended
by signals.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from limits import wait_until
from small import SENTENCES

from regard.pipeline import RuntimeTranslator
from tests.serving.test_models import write_file

pytest.importorskip("uvicorn", reason="needs the extra serve")
pytestmark = pytest.mark.system
LINES = SENTENCES * 5


class Running:
    """A server that was started as a command, and what it has said."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "regard", "serve", *arguments, "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.said: list[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if match := re.search(r"listening at http://127\.0\.0\.1:(\d+)", line):
                self.port = int(match[1])
                break
        else:
            raise AssertionError("".join(self.said))
        self.reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr or ()))
        self.reader.start()

    def ask(
        self, path: str, values: Any = None, **headers: str
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            body = None if values is None else json.dumps(values)
            connection.request(
                "GET" if values is None else "POST",
                path,
                body,
                {"Content-Type": "application/json", **headers},
            )
            response = connection.getresponse()
            return response.status, json.loads(response.read()), response.headers

    def children(self) -> list[int]:
        pid = self.process.pid
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait for the end; return the exit status."""
        status = self.process.wait(60)
        self.reader.join(60)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return status


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[Running]:
    server = Running(*arguments)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_file(tmp_path_factory.mktemp("model") / "ko-en.regard")


@pytest.fixture(scope="module")
def server(file: Path) -> Iterator[Running]:
    with running(str(file), "--languages", "ko,en", "--deadline", "20", "--metrics") as started:
        yield started


@pytest.fixture(scope="module")
def expected(file: Path) -> list[str]:
    return [translation.text for translation in RuntimeTranslator(file).translate(LINES)]


def translated(server: Running) -> Any:
    status, answer, _ = server.ask("/translate", {"q": LINES, "source": "ko", "target": "en"})
    assert status == 200, answer
    return answer["translatedText"]


def test_requests_at_the_same_time_are_not_mixed_up(server: Running, file: Path) -> None:
    expected = dict(
        zip(SENTENCES, (t.text for t in RuntimeTranslator(file).translate(SENTENCES)), strict=True)
    )

    def ask(number: int) -> bool:
        lines = [SENTENCES[(number + i) % len(SENTENCES)] for i in range(1 + number % 7)]
        answer = server.ask("/translate", {"q": lines, "source": "ko", "target": "en"})[1][
            "translatedText"
        ]
        return bool(answer == [expected[line] for line in lines])

    with concurrent.futures.ThreadPoolExecutor(24) as clients:
        assert all(clients.map(ask, range(120)))


def test_pytorch_is_not_loaded(server: Running) -> None:
    for pid in [server.process.pid, *server.children()]:
        assert "libtorch" not in Path(f"/proc/{pid}/maps").read_text()


def test_a_client_that_leaves_amid_a_stream_disturbs_nobody(
    server: Running, expected: list[str]
) -> None:
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            body = json.dumps(
                {"text": " ".join(LINES), "source": "ko", "target": "en", "stream": True}
            ).encode()
            head = f"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert translated(server) == expected


def test_a_changed_file_is_served_after_sighup(tmp_path: Path, file: Path) -> None:
    path = shutil.copy(file, tmp_path / "model.regard")
    other = write_file(tmp_path / "other.regard", "recurrent")
    with running(str(path), "--languages", "ko,en", "--reload-seconds", "0") as server:
        before = translated(server)
        shutil.copy(other, tmp_path / "beside")
        os.replace(tmp_path / "beside", path)
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: translated(server) != before, "the other model is served")
        after = translated(server)
    assert after == [translation.text for translation in RuntimeTranslator(other).translate(LINES)]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["missing.regard"], 1, "missing.regard: there is no such file or folder"),
        (
            ["{file}", "--languages", "Elvish"],
            2,
            "--languages Elvish: wanted a language code such as ko",
        ),
        (
            ["{file}", "--languages", "en"],
            1,
            "ko-en.regard: --languages en: this model translates; give source and target",
        ),
        (
            ["{file}", "--languages", "ko,en", "--languages", "en,ko"],
            2,
            "--languages: given 2 times, for 1 models",
        ),
        (["{file}", "--host", "203.0.113.7"], 2, "cannot listen there"),
        (
            ["{file}", "--port", "{port}"],
            2,
            "127.0.0.1:{port}: cannot listen there (Address already in use); choose another --port",
        ),
        (["{file}", "--require-key"], 2, "key"),
        (["{file}", "--keys", "missing.json"], 1, "missing.json"),
        (["{file}", "--deadline", "0"], 2, "deadline"),
        (
            ["{file}", "--max-memory", "much"],
            2,
            "--max-memory much: wanted a size such as 2GB or 500MiB",
        ),
        ([], 2, "missing argument"),
    ],
)
def test_what_cannot_be_served_ends_in_a_sentence(
    file: Path, arguments: list[str], status: int, message: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = [item.format(file=file, port=port) for item in arguments]
        command = [sys.executable, "-m", "regard", "serve", "--port", "0", *given]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr
    assert message.format(port=port) in done.stderr
