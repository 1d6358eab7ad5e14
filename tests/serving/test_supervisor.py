"""The supervisor: processes that die, hang, grow and are told to end, with children that do so when
a test says it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.system_marks import linux, posix
from helpers.time_limits import wait_until
from running_server import RunningServer

from regard.common.atomic import lock_folder
from regard.common.errors import UsageError, WorkerError
from regard.common.processes import module_command
from regard.serving import child_process, supervisor
from regard.serving.child_process import ChildProcess, Events
from regard.serving.supervisor import Supervisor, listen, serve
from regard.serving.unavailable import Unavailable

pytestmark = [pytest.mark.system, posix]
PLANTED = [sys.executable, str(Path(__file__).with_name("planted.py"))]


class Running(RunningServer):
    """A planted server."""

    def __init__(self, folder: Path, *models: str) -> None:
        self.folder = folder
        configuration = {
            "models": models,
            "languages": [],
            "settings": {"deadline": 60.0, "char_limit": 0},
            "quiet": False,
        }
        arguments = {
            "configuration": configuration,
            "host": "127.0.0.1",
            "port": 0,
            "commands": [PLANTED, PLANTED],
        }
        with tempfile.TemporaryFile("w+") as file:
            json.dump(arguments, file)
            file.seek(0)
            super().__init__(
                module_command("regard.supervise", str(file.fileno()), "regard"),
                pass_fds=[file.fileno()],
                env={**os.environ, "TMPDIR": str(folder)},
                cwd=folder,
            )

    def ask(self, text: str) -> httpx.Response:
        return self.post([text], "en", "ko")

    def asked(self, text: str) -> httpx.Response:
        """Ask until there is an answer, as clients do whose connection was lost."""
        while True:
            with contextlib.suppress(httpx.TransportError):
                return self.ask(text)

    def wait_for(self, name: str) -> None:
        """Wait until a call that waits for this file is open."""
        begun = self.folder / f"{name}.begun"
        wait_until(begun.exists, "the call is open")
        begun.unlink()

    def is_closed(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=60).close()
        except ConnectionError:
            return True
        return False


@contextlib.contextmanager
def running(folder: Path, *models: str) -> Iterator[Running]:
    server = Running(folder, *models)
    try:
        yield server
    finally:
        server.process.terminate()
        server.ended()


def translated(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    (text,) = answer.json()["translatedText"]
    return str(text)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("server")
    model = folder / "model"
    model.touch()
    with running(folder, str(model)) as started:
        yield started


@linux
def test_a_poisonous_call_ends_the_service_three_times_and_no_more(
    server: Running,
) -> None:
    before = server.text.count("has ended")
    for _ in range(3):
        with ThreadPoolExecutor(1) as client:
            beside = client.submit(server.ask, "wait go")
            server.wait_for("go")
            with pytest.raises(httpx.TransportError):
                server.ask("poison")
            with pytest.raises(httpx.TransportError):
                beside.result()
        (server.folder / "go").touch()
        again = server.asked("wait go")
        assert translated(again) == "WAIT GO", "asked again, the neighbour is answered"
        (server.folder / "go").unlink()
        server.wait_for("go")
    refused = server.ask("poison")

    assert refused.status_code == 503
    assert "ended 3 times while it answered this" in refused.json()["error"]
    assert translated(server.ask("hello")) == "HELLO"
    assert server.text.count("has ended") == before + 3


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_lets_open_calls_be_finished_and_a_second_one_ends_all(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running(tmp_path) as server, ThreadPoolExecutor(1) as client:
        answer = client.submit(server.ask, "wait go")
        server.wait_for("go")
        server.process.send_signal(number)
        wait_until(server.is_closed, "no connection is accepted any more")
        if number == signal.SIGTERM:
            (tmp_path / "go").touch()
            assert translated(answer.result()) == "WAIT GO"
            assert server.ended() == 128 + number
            assert "Traceback" not in server.text
        else:
            server.process.send_signal(number)
            with pytest.raises(httpx.TransportError):
                answer.result()
            assert server.ended() == 130
            assert server.lines[-1] == "regard: stopped\n"


@linux
def test_the_serving_process_ends_with_its_supervisor(tmp_path: Path) -> None:
    """Its folder was locked, so that nobody who tidies up, as tmpfiles.d(5) does, removed it
    before.
    """
    with running(tmp_path) as server:
        (folder,) = tmp_path.glob("regard-*")
        with pytest.raises(BlockingIOError), lock_folder(folder, wait=False):
            pass

        server.process.kill()
        server.ended()
        assert server.is_closed()
        assert not folder.exists(), "nothing is left behind"


@pytest.mark.slow
def test_nothing_is_left_of_a_supervisor_that_was_killed_while_its_process_started(
    tmp_path: Path,
) -> None:
    left = tmp_path / "left"
    left.mkdir()
    code = f"""from types import SimpleNamespace
from pathlib import Path
from regard.serving import serving_process
server = SimpleNamespace(started=False)
serving_process._read_commands(server, None, 0, Path({str(left)!r}))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)

    assert (done.returncode, left.exists()) == (1, False)


def test_after_a_death_the_others_are_served_without_a_model_that_is_away(
    server: Running,
) -> None:
    path = server.folder / "model"
    path.unlink()
    with pytest.raises(httpx.TransportError):
        server.ask("poison once")
    assert translated(server.asked("hello")) == "HELLO"

    wait_until(lambda: f"{path} is away" in server.text, "it is said")


# --- processes without a server

STUB = """
import json, sys, time
from pathlib import Path
configuration = json.loads(sys.stdin.readline())
folder = Path({folder!r})
number = len(list(folder.glob("{name}-*")))
(folder / f"{name}-{{number}}").write_text(json.dumps(configuration))
def report(**message): print(json.dumps(message), flush=True)
{code}
sys.stdin.read()
"""


@contextlib.contextmanager
def supervised(
    folder: Path, serving: str, pytorch: str = "", **options: Any
) -> Iterator[tuple[int, list[str]]]:
    """Supervise stubs that run this code; yield the port, and what the supervisor says."""
    commands = [
        [sys.executable, "-c", STUB.format(folder=str(folder), name=name, code=code)]
        for name, code in (("serving", serving), ("pytorch", pytorch))
    ]
    events: Events = queue.SimpleQueue()
    lines = list[str]()
    with (
        contextlib.closing(listen("127.0.0.1", 0)) as listener,
        ThreadPoolExecutor(1) as thread,
    ):
        port = listener.getsockname()[1]
        one = Supervisor(
            {"settings": {"deadline": 20.0}},
            listener,
            events,
            lines.append,
            commands=commands,
            **options,
        )
        number = thread.submit(one.run)
        try:
            yield port, lines
        finally:
            events.put((None, {"signal": signal.SIGTERM}))
            events.put((None, {"signal": signal.SIGTERM}))
            assert number.exception(60) or number.result() == signal.SIGTERM
        if (problem := number.exception()) is not None:
            raise problem


def test_a_process_that_hangs_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "_SILENT_SECONDS", 0.3)
    monkeypatch.setattr(supervisor, "BEAT_SECONDS", 0.1)
    with supervised(tmp_path, "report(ready=True); report(beat=1)") as (_, lines):
        wait_until((tmp_path / "serving-2").exists, "two have been replaced")

    assert "has ended with status -9; another is started" in lines[1]


@linux
def test_a_process_that_takes_too_much_memory_is_replaced(tmp_path: Path) -> None:
    code = """if number == 0: kept = bytearray(b"x") * (200 << 20)
report(ready=True)"""
    with supervised(tmp_path, code, max_memory=100 << 20) as (_, lines):
        wait_until((tmp_path / "serving-1").exists, "another takes its place")
    assert lines[1].endswith("takes more memory than it may; another takes its place")


def test_a_process_is_not_taken_for_one_that_hangs_because_the_supervisor_was_stopped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by Ctrl-Z, or when a machine sleeps: much time has passed when it looks again."""
    now = [0.0]
    beats = tmp_path / "beats"
    code = f"""report(ready=True)
for number in range(10**6):
    Path({str(beats)!r}).write_text(str(number))
    report(beat=number)
    time.sleep(0.02)"""
    monkeypatch.setattr(Supervisor, "clock", lambda _: now[0])
    with supervised(tmp_path, code):
        for _ in range(3):
            wait_until(beats.exists, "it beats")
            now[0] += 1000.0
            beats.unlink()

    assert not (tmp_path / "serving-1").exists()


def test_while_a_process_cannot_start_the_supervisor_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "_SHORTEST_PAUSE", 0.2)
    code = "report(ready=True) if number == 0 else None\nsys.exit(3)"
    with supervised(tmp_path, code) as (port, _):
        address = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{address}/health", timeout=60).json() == {"status": "ok"}

        answer = httpx.post(
            f"{address}/translate", json={"q": "x" * 200_000}, timeout=60
        )
        wait_until((tmp_path / "serving-3").exists, "it is started again and again")

    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) in range(1, 61)
    assert answer.json().keys() >= {"error", "message", "title", "status", "detail"}


def test_a_process_that_was_never_ready_is_an_error() -> None:
    code = "print('from a library\\nnull\\n3'); raise SystemExit(3)"
    commands = [[sys.executable, "-c", code]] * 2
    with pytest.raises(
        WorkerError, match="ended with status 3 before the server was ready"
    ):
        serve({"settings": {"deadline": 20.0}}, "127.0.0.1", 0, commands=commands)


def test_a_pytorch_process_is_started_when_it_is_wanted_and_again_when_it_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "_SHORTEST_PAUSE", 0.2)
    serving = (
        "report(ready=True); report(beat=1); report(pytorch=True); report(pytorch=True)"
    )
    with supervised(tmp_path, serving, "if number == 0: sys.exit(1)") as (_, lines):
        again = tmp_path / "pytorch-1"
        wait_until(lambda: again.exists() and again.read_text(), "it is started twice")
    configuration = json.loads((tmp_path / "serving-0").read_text())

    assert json.loads(again.read_text())["pytorch"] == configuration["pytorch"]
    assert not (tmp_path / "serving-1").exists()
    assert "the PyTorch process has ended with status 1; another is started" in lines


LIVED = "ready"
DIED = "never ready"
FULL = "ready, soon to end"
OLD = "ready, late to end"


@pytest.mark.parametrize(
    ("lives", "pauses"),
    [
        ([LIVED, *[DIED] * 8], [0, 1, 2, 4, 8, 16, 32, 60, 60]),
        ([DIED, LIVED, DIED], [1, 0, 1]),
        ([FULL] * 3, [1, 2, 4]),
        ([OLD] * 3, [0, 0, 0]),
    ],
)
def test_pauses_double_for_processes_that_were_not_ready_or_soon_had_to_end(
    lives: list[str], pauses: list[float]
) -> None:
    """A process has to end for the memory that it takes."""
    child = ChildProcess("it", [], queue.SimpleQueue())
    for life, pause in zip(lives, pauses, strict=True):
        if life != DIED:
            child.note({"ready": True})
        child.advance(100.0 if life == OLD else 1.0)
        if life in (FULL, OLD):
            child.stop(5.0)
        child.note_end()
        assert child.pause == pause


def test_clients_that_send_nothing_keep_nobody_from_the_503() -> None:
    """Nor is a head too large for it, or comes too late, that the serving process would take."""
    with (
        contextlib.closing(listen("127.0.0.1", 0)) as listener,
        contextlib.ExitStack() as open_,
    ):
        address = listener.getsockname()
        unavailable = Unavailable(listener, lambda: 37)
        for _ in range(400):
            open_.enter_context(socket.create_connection(address))
        late = open_.enter_context(socket.create_connection(address, timeout=60))
        late.sendall(b"GET /ready HTTP/1.1\r\n")
        asked = {"X-Large": "x" * 200_000}
        answer = httpx.get(
            f"http://127.0.0.1:{address[1]}/ready", headers=asked, timeout=60
        )

        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "37")

        unavailable.stop()
        late.sendall(b"\r\n")
        assert late.recv(12) == b"HTTP/1.1 503"


INTERRUPT = """
import os, signal, sys
if any("regard.supervise" in argument for argument in sys.orig_argv):
    os.kill(os.getpid(), signal.SIGINT)
"""
"""A program that runs before any other: a user's Ctrl-C comes while the supervisor starts."""


@pytest.mark.slow
def test_ctrl_c_during_imports_stops_the_command_without_a_traceback(
    tmp_path: Path,
) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-m", "regard", "serve", "absent"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (130, "regard: stopped\n")


def test_memory_is_limited_where_it_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: False)
    with pytest.raises(UsageError, match="max_memory"):
        serve({}, "127.0.0.1", 0, max_memory=1)
