"""The server as it is run: started by the command line, called over a socket, disturbed, and ended
by signals.
"""

from __future__ import annotations

import contextlib
import json
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

from regard.cli.serve import serve, server_settings
from regard.common.errors import UsageError
from regard.pipeline import RuntimeTranslator
from regard.requests.serve_request import ServeCommand
from regard.requests.server_settings import LOOPBACK, ServerSettings
from regard.serving.serving_process import parse_pairs
from regard.serving.supervisor import listen
from tests.serving.test_models import write_file

pytestmark = pytest.mark.system
SERVE = [sys.executable, "-m", "regard", "serve", "--port", "0"]


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[RunningServer]:
    server = RunningServer([*SERVE, *arguments])
    try:
        yield server
    finally:
        server.process.terminate()
        server.ended()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_file(tmp_path_factory.mktemp("model") / "ko-en.regard")


@linux
def test_a_changed_file_is_served_after_sighup(tmp_path: Path, file: Path) -> None:
    """The processes have not loaded PyTorch."""
    path = Path(shutil.copy(file, tmp_path / "model.regard"))
    other = write_file(tmp_path / "other.regard", "recurrent")
    translations = RuntimeTranslator(other).translate(SENTENCES)
    expected = [translation.text for translation in translations]
    with running(str(path), "--languages", "ko,en", "--reload-seconds", "0") as server:

        def is_served() -> bool:
            answer = server.post(SENTENCES, "ko", "en").json()
            return bool(answer["translatedText"] == expected)

        assert not is_served()

        os.replace(other, path)
        server.process.send_signal(signal.SIGHUP)
        wait_until(is_served, "the other model is served")
        supervisor = server.process.pid
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text()
        for process in (supervisor, *children.split()):
            assert "libtorch" not in Path(f"/proc/{process}/maps").read_text()


@pytest.mark.parametrize(
    ("options", "status", "messages"),
    [
        ("a.regard b.regard", 1, ["a.regard: there is no", "b.regard: there is no"]),
        ("--languages Elvish", 2, ["--languages Elvish: wanted a language code"]),
    ],
)
def test_what_cannot_be_served_ends_in_a_sentence(
    file: Path, options: str, status: int, messages: list[str]
) -> None:
    command = [*SERVE, str(file), *options.split()]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr
    assert all(message in done.stderr for message in messages)


def test_options_become_settings_of_the_server() -> None:
    """They reach the process that serves as JSON."""
    options: dict[str, Any] = {"key_file": Path("keys.json"), "require_key": True}
    command = ServeCommand(models=(Path("m"),), hosts=("a.example",), **options)
    settings = server_settings(command)
    sent = json.loads(settings.model_dump_json())

    assert settings == ServerSettings(hosts=("a.example",), **options)
    assert ServerSettings.parse(sent, "regard serve") == settings

    command = ServeCommand(models=(Path("m"),), host="192.0.2.1", cluster="local")
    settings = server_settings(command)
    assert settings.hosts == (*LOOPBACK, "192.0.2.1")
    assert settings.threads == 1


def test_options_that_are_refused(file: Path) -> None:
    with pytest.raises(UsageError, match="wanted a size such as 2GB"):
        serve(ServeCommand(models=(file,), max_memory="much"))
    with pytest.raises(UsageError, match="--languages: given 2 times"):
        parse_pairs(["ko,en", "en,ko"], 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
        with pytest.raises(UsageError, match=r"cannot listen there \(Address already"):
            listen(*address)
