"""The server's fuzzer: it sees what servers do wrong that do it; and one case of each kind against
a real one.
"""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.cached_folders import FolderCache

pytest.importorskip(
    "resource", reason="the fuzzer limits processes, and reads /proc, as on Linux"
)
from fuzz import attackers, fuzzer, http_cases, http_fuzzer, restarts
from fuzz.exchanges import request
from fuzz.http_cases import BAD, KINDS, Exchange, HttpCase, HttpJudge
from fuzz.material import SECRET, Material
from fuzz.served import SENTENCES, STEADY, SWAPPED, Served
from helpers.system_marks import posix

pytestmark = [pytest.mark.system, posix]
PROBLEM = {"detail": "this is a sentence that says why"}


def _answer(status: int, content: object) -> bytes:
    body = json.dumps(content).encode()
    return f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _texts(text: str) -> bytes:
    return _answer(200, {"translations": [{"text": text}]})


class Deliberate(Served):
    """A server that answers as it is told, and then as it should."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers = list[bytes]()
        self.expected = {STEADY: dict.fromkeys(SENTENCES, "right")}
        self.log.touch()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()[:2]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        # Until the listener is closed.
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with connection:
                    data = connection.recv(1 << 16)
                    right = _answer(200, {}) if b"/health" in data else _texts("right")
                    connection.sendall(self.answers.pop(0) if self.answers else right)


VERDICTS = [
    ("done", [_texts("right")]),
    ("wrong", [_texts("other")]),
    ("wrong", [b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{}"]),
    ("wrong", [b"SSH-2.0\r\n"]),
    ("refused", [_answer(400, PROBLEM)]),
    ("internal", [_answer(400, {"error": "in the form of another endpoint"})]),
    ("internal", [_answer(500, PROBLEM)]),
    ("leaked", [_answer(400, {"detail": f"not {SECRET}"})]),
    ("down", [_texts("right"), _answer(503, {})]),
    ("wrong", [_texts("right"), _answer(200, {}), _texts("other")]),
]


def test_verdicts_on_answers(tmp_path: Path) -> None:
    def is_right(answer: http_cases.Answer, server: Served) -> bool:
        return bool(answer.values["translations"][0]["text"] == "right")

    server = Deliberate(tmp_path)
    data = request("/v1/translate", {"text": SENTENCES[0]})
    exchange = Exchange(data, "/v1/translate", is_right)
    with server.listener:
        for verdict, answers in VERDICTS:
            server.answers = [*answers]
            report = HttpJudge(server)(0, HttpCase("deliberate", exchange))
            assert report.verdict == verdict, report


@pytest.fixture(scope="module")
def material(cached: FolderCache) -> Material:
    """Make the folders to attack once, until the sources change."""
    return fuzzer.material(cached.in_process("fuzz", fuzzer.material))


@pytest.fixture(scope="module")
def judge(
    material: Material, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpJudge]:
    """Start a server over two runtime files, which need no PyTorch."""
    folder = tmp_path_factory.mktemp("http") / "server"
    with Served(folder, material, models=[STEADY, SWAPPED]) as server:
        yield HttpJudge(server)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_no_request_goes_badly(name: str, judge: HttpJudge, number: int) -> None:
    """One case of each kind, a further one in the slow tests; `make fuzz` sends thousands, and
    judges seconds too.
    """
    case = KINDS[name](random.Random(f"default {name} {number}"))
    report = http_fuzzer.attempt(judge, number, case)
    assert report.verdict not in {*BAD} - {"slow"}, (case.name, report)


@pytest.mark.slow
def test_killed_processes_are_replaced(material: Material, tmp_path: Path) -> None:
    """Kill the process that serves a few times, under load; `make fuzz` does so two hundred times,
    and judges seconds too.
    """
    for problem in restarts.restart(material, tmp_path, 3, 1):
        assert problem.startswith(restarts.LATE)


@pytest.mark.slow
def test_attackers(material: Material, tmp_path: Path) -> None:
    """Attack for some seconds; `make fuzz` does so for minutes, and judges seconds too."""
    for problem in attackers.attack(material, tmp_path, 0.2, 1):
        assert "p99" in problem
