"""The server as it is run: started by the command line, called over a socket, disturbed, and ended
by signals.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.small_models import SENTENCES
from helpers.system_marks import linux
from helpers.time_limits import wait_until
from running_server import RunningServer

from regard.pipeline import RuntimeTranslator
from tests.serving.test_models import write_file

pytest.importorskip("uvicorn", reason="needs the extra serve")
pytestmark = pytest.mark.system


class Running(RunningServer):
    """A server that was started by the command line."""

    def __init__(self, *arguments: str) -> None:
        super().__init__(
            [sys.executable, "-m", "regard", "serve", *arguments, "--port", "0"]
        )


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[Running]:
    server = Running(*arguments)
    try:
        yield server
    finally:
        server.process.terminate()
        server.ended()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_file(tmp_path_factory.mktemp("model") / "ko-en.regard")


def translated(server: Running) -> Any:
    return server.post(SENTENCES, "ko", "en").json()["translatedText"]


@linux
def test_a_changed_file_is_served_after_sighup(tmp_path: Path, file: Path) -> None:
    """The processes have not loaded PyTorch."""
    path = Path(shutil.copy(file, tmp_path / "model.regard"))
    other = write_file(tmp_path / "other.regard", "recurrent")
    expected = [
        translation.text
        for translation in RuntimeTranslator(other).translate(SENTENCES)
    ]
    with running(str(path), "--languages", "ko,en", "--reload-seconds", "0") as server:
        assert translated(server) != expected
        os.replace(other, path)
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: translated(server) == expected, "the other model is served")
        supervisor = server.process.pid
        children = (
            Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        )
        for process in (supervisor, *children):
            assert "libtorch" not in Path(f"/proc/{process}/maps").read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("missing.regard", 1, "missing.regard: there is no such file or folder"),
        (
            "{file} --languages Elvish",
            2,
            "--languages Elvish: wanted a language code such as ko",
        ),
        ("{file} --languages ko,en --languages en,ko", 2, "--languages: given 2 times"),
        (
            "{file} --port {port}",
            2,
            "127.0.0.1:{port}: cannot listen there (Address already",
        ),
        ("{file} --require-key", 2, "key"),
        (
            "{file} --max-memory much",
            2,
            "--max-memory much: wanted a size such as 2GB or 500MiB",
        ),
    ],
)
def test_what_cannot_be_served_ends_in_a_sentence(
    file: Path, arguments: str, status: int, message: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = [item.format(file=file, port=port) for item in arguments.split()]
        command = [sys.executable, "-m", "regard", "serve", "--port", "0", *given]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60
        )
    assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr
    assert message.format(port=port) in done.stderr
