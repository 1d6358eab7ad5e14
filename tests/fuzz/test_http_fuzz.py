"""The server's fuzzer: it sees what servers do wrong that do it; and one case of each kind against
a real one.
"""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cached import FolderCache

pytest.importorskip("resource", reason="the fuzzer limits processes, and reads /proc, as on Linux")
from fuzz import attackers, fuzzer, http_cases, http_fuzzer, restarts, served
from fuzz.exchanges import request
from fuzz.http_cases import BAD, KINDS, Exchange, HttpCase, HttpJudge, Report
from fuzz.material import SECRET, Material
from fuzz.served import SENTENCES, STEADY, SWAPPED, Served
from limits import wait_until
from systems import linux, posix

pytestmark = [pytest.mark.system, posix]
HEALTH = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
PROBLEM = {"detail": "this is a sentence that says why"}


def _answer(status: int, content: object) -> bytes:
    body = json.dumps(content).encode()
    return f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _texts(text: str) -> bytes:
    return _answer(200, {"translations": [{"text": text}]})


class Deliberate(Served):
    """A server that answers the case as it is told, and then, if it is well, as it should."""

    def __init__(self, folder: Path, answers: list[bytes]) -> None:
        self.folder = folder
        self.answers = answers
        self.expected = {STEADY: dict.fromkeys(SENTENCES, "right")}
        self.log.touch()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()[:2]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        for answer in [*self.answers, *9 * [b""]]:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            with connection:
                data = connection.recv(1 << 16)
                connection.sendall(answer or (HEALTH if b"/health" in data else _texts("right")))


@pytest.fixture
def deliberate(tmp_path: Path) -> Iterator[Callable[..., Deliberate]]:
    servers = []

    def make(*answers: bytes) -> Deliberate:
        servers.append(Deliberate(tmp_path, list(answers)))
        return servers[-1]

    yield make
    for server in servers:
        server.listener.close()


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([_texts("right")], "done"),
        ([_texts("other")], "wrong"),
        ([_answer(200, {"translations": "none"})], "wrong"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{}"], "wrong"),
        ([b"SSH-2.0\r\n"], "wrong"),
        ([_answer(400, PROBLEM)], "refused"),
        ([_answer(400, {"error": "in the form of another endpoint"})], "internal"),
        ([_answer(400, {"detail": ""})], "internal"),
        ([_answer(500, PROBLEM)], "internal"),
        ([_answer(503, PROBLEM)], "internal"),
        ([_answer(400, {"detail": f"not {SECRET}"})], "leaked"),
        ([_texts("right"), b"HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n"], "down"),
        ([_texts("right"), HEALTH, _texts("other")], "wrong"),
        ([_texts("right"), HEALTH, _answer(503, PROBLEM)], "down"),
    ],
)
def test_verdicts_on_answers(
    deliberate: Callable[..., Deliberate], answers: list[bytes], verdict: str
) -> None:
    def is_right(answer: http_cases.Answer, server: Served) -> bool:
        return bool(
            answer.values["translations"][0]["text"] == server.expected[STEADY][SENTENCES[0]]
        )

    exchange = Exchange(request("/v1/translate", {"text": SENTENCES[0]}), "/v1/translate", is_right)
    report = HttpJudge(deliberate(*answers))(0, HttpCase("deliberate", exchange))
    assert report.verdict == verdict, report


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        ("a line\n", "done"),
        ("Traceback (most recent call last):\n  File x\nKeyError: 1\n", "internal"),
        ("id failed with KeyError\n  File x\n", "internal"),
        ("x" * 5_000, "internal"),
    ],
)
def test_verdicts_on_logs(deliberate: Callable[..., Deliberate], log: str, verdict: str) -> None:
    server = deliberate()
    case = HttpCase("deliberate", lambda server: Report("done", (str(server.log.write_text(log)),)))
    assert HttpJudge(server)(0, case).verdict == verdict


def test_planted_code_and_silence_are_seen(
    deliberate: Callable[..., Deliberate], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = deliberate()
    server.executed.write_text("numpy ")
    assert (
        HttpJudge(server)(0, HttpCase("deliberate", lambda _: Report("done"))).verdict == "executed"
    )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server.address = silent.getsockname()[:2]
        monkeypatch.setattr(served, "PATIENCE", 0.1)
        assert Exchange(b"GET / HTTP/1.1\r\n\r\n", "/")(server).verdict == "hung"


def test_smuggled_requests_are_seen(deliberate: Callable[..., Deliberate]) -> None:
    """A second answer after damaged framing means that the body was taken for a request; a refusal
    is none.
    """
    exchange = Exchange(b"POST / HTTP/1.1\r\n\r\n", "/v1/translate", is_broken=True)
    assert exchange(deliberate(_texts("right") + HEALTH)).verdict == "wrong"
    assert exchange(deliberate(_answer(400, PROBLEM) + _answer(400, PROBLEM))).verdict == "refused"


def test_mixed_up_answers_are_seen(deliberate: Callable[..., Deliberate]) -> None:
    server = deliberate(_texts("other"), _answer(503, PROBLEM))
    load = restarts.Load(server)
    client = threading.Thread(target=load.use, args=([(STEADY, SENTENCES[0], "right")],))
    client.start()
    try:
        wait_until(lambda: load.right, "a right answer")
    finally:
        load.stop.set()
        server.listener.close()  # so that a call which waits for an answer is given up
        client.join()
    assert (len(load.wrong), load.others[f"503 {PROBLEM['detail']}"]) == (1, 1)


class Unready(Served):
    """A server without models whose program does what a test wants, and never listens."""

    def __init__(self, folder: Path, program: str = "import time\ntime.sleep(3600)\n") -> None:
        super().__init__(folder, None, models=[])  # type: ignore[arg-type]
        script = folder / "regard"
        script.write_text(
            script.read_text().replace(
                "from regard.translate_stdin import main\nsys.exit(main())\n", program
            )
        )

    def refresh(self) -> None:
        pass


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("import time\ntime.sleep(3600)\n", "does not start"),
        ("sys.exit('no models')\n", "no models"),
        (
            "import time\nprint('listening at http://127.0.0.1:1')\ntime.sleep(3600)\n",
            "no process is known as one that serves",
        ),
    ],
)
def test_a_server_that_does_not_start_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, problem: str
) -> None:
    monkeypatch.setattr(served, "PATIENCE", 3.0)
    server = Unready(tmp_path / "server", program)
    with pytest.raises(AssertionError, match=problem):
        server.start()
    assert server.process is not None
    assert server.process.poll() is not None


@linux
@pytest.mark.parametrize("end", ["killed", "raised"])
def test_no_server_outlives_whoever_started_it(tmp_path: Path, end: str) -> None:
    """The process that starts a server is killed, or raises."""
    program = f"""
import sys, threading, time
sys.path[:0] = {[str(Path(__file__).parents[1]), str(Path(__file__).parent)]!r}
from pathlib import Path
from fuzz.test_http_fuzz import Unready
server = Unready(Path({str(tmp_path / "server")!r}))
threading.Thread(target=server.start, daemon=True).start()
while not server.process:
    time.sleep(0.01)
print(server.process.pid, flush=True)
{"raise SystemExit(1)" if end == "raised" else "time.sleep(3600)"}
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        number = int(starter.stdout.readline())
        try:
            if end == "killed":
                starter.kill()
            wait_until(lambda: not _is_alive(number), "the server ends")
        finally:
            starter.kill()


def _is_alive(number: int) -> bool:
    """Return whether a process runs; one that has ended and was not waited for yet does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def material(cached: FolderCache) -> Material:
    """Make the folders to attack once, until the sources change."""
    return fuzzer.material(cached.in_process("fuzz", fuzzer.material))


@pytest.fixture(scope="module")
def judge(material: Material, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpJudge]:
    """Start a server over two runtime files, which need no PyTorch."""
    with Served(
        tmp_path_factory.mktemp("http") / "server", material, models=[STEADY, SWAPPED]
    ) as server:
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
    problems = restarts.restart(material, tmp_path, 3, 1)
    assert [problem for problem in problems if not problem.startswith(restarts.LATE)] == []


def test_a_poisonous_call_kills_three_times(material: Material, tmp_path: Path) -> None:
    assert restarts.poison(material, tmp_path) == []


@pytest.mark.slow
def test_attackers(material: Material, tmp_path: Path) -> None:
    problems = attackers.attack(material, tmp_path, 0.2, 1)
    assert [problem for problem in problems if "p99" not in problem] == [], (
        "make fuzz judges seconds too"
    )
