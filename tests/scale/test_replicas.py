"""The server on a Ray cluster of this machine: replicas that are killed while requests come."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from helpers.system_marks import linux
from helpers.time_limits import wait_until

pytest.importorskip("ray", reason="Ray is not installed: pip install 'regard[scale]'")
pytestmark = [pytest.mark.system, pytest.mark.slow, linux]
Start = Callable[..., "subprocess.Popen[str]"]
FEW = ("--replicas", 2, "--max-replicas", 1)
LINES = ["나는 집에 간다", "나는 빵을 먹고 있었다", "너는 책을 읽는다", "I go home"]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _translate(address: str, text: str, tries: int = 5) -> str:
    """Send a request, again if a server or a connection fails, as clients do."""
    for number in range(tries):
        try:
            answer = httpx.post(
                f"{address}/translate",
                json={"q": text, "source": "ko", "target": "en"},
                timeout=20,
            )
            if answer.status_code < 500:
                assert answer.status_code == 200, answer.text
                return str(answer.json()["translatedText"])
        except httpx.TransportError:
            pass
        time.sleep(0.2 * 2**number)
    raise AssertionError(f"{text}: failed {tries} times")


def test_a_killed_replica_fails_no_request_that_is_tried_again(
    start: Start, workers: Callable[[int, str], list[int]], model: Path
) -> None:
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    options = ("--port", port, "--cluster", "local", "--replicas", 2)
    server = start("serve", model, *options)
    _wait_until_it_says(server, "replicas: 2; listening at")
    wanted = [_translate(address, line) for line in LINES]
    replicas = workers(server.pid, "ray::ServeReplica")

    assert len(replicas) == 2

    stop = threading.Event()

    def ask() -> int:
        count = 0
        while not stop.is_set():
            assert [_translate(address, line) for line in LINES] == wanted
            count += 1
        return count

    def is_replaced() -> bool:
        now = workers(server.pid, "ray::ServeReplica")
        return len(now) == 2 and replicas[0] not in now

    with ThreadPoolExecutor(8) as pool:
        clients = [pool.submit(ask) for _ in range(8)]
        time.sleep(2)
        os.kill(replicas[0], signal.SIGKILL)
        wait_until(is_replaced, "the killed replica is replaced")
        time.sleep(3)
        stop.set()

        assert min(client.result() for client in clients) > 2

    server.terminate()
    _, err = server.communicate(timeout=60)

    assert server.returncode == 143, err[-2000:]


def _wait_until_it_says(server: subprocess.Popen[str], text: str) -> None:
    assert server.stderr is not None

    for line in server.stderr:
        if text in line:
            return
    pytest.fail(f"the server ended without saying {text!r}")


def test_the_same_command_replaces_the_replicas_and_the_last_to_end_removes_them(
    start: Start, refused: Callable[..., str], one_machine: str, model: Path
) -> None:
    port = _free_port()
    command = ("serve", model, "--port", port, "--cluster", one_machine)
    # Seconds of work.
    address, texts = f"http://127.0.0.1:{port}", [" ".join(LINES * 5)] * 400
    first = start(*command)
    _wait_until_it_says(first, "listening")
    wanted = {line: _translate(address, line) for line in LINES}
    other = refused("serve", model, "--port", _free_port(), "--cluster", one_machine)

    assert "Ray Serve of this cluster runs already, and listens elsewhere" in other

    second = start(*command)
    _wait_until_it_says(second, "listening")
    first.terminate()
    _, err = first.communicate(timeout=60)

    assert first.returncode == 143, err[-2000:]
    assert {line: _translate(address, line, tries=1) for line in LINES} == wanted

    answers = list[httpx.Response]()

    def ask() -> None:
        body = {
            "text": texts,
            "source": "ko",
            "target": "en",
            "beam": 16,
            "split": False,
        }
        answers.append(httpx.post(f"{address}/v1/translate", json=body, timeout=40))

    client = threading.Thread(target=ask)
    client.start()
    time.sleep(0.5)

    assert not answers, "the request is not done when the signal comes"

    second.terminate()
    _, err = second.communicate(timeout=60)

    assert second.returncode == 143, err[-2000:]

    client.join()

    assert answers[0].status_code == 200, answers[0].text
    assert len(answers[0].json()["translations"]) == len(texts)

    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))


def test_bad_input_is_refused(
    refused: Callable[..., str], model: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged.regard"
    damaged.write_bytes(model.read_bytes()[:-100])
    text = refused("serve", damaged, tmp_path / "absent", "--cluster", "local")

    assert "damaged.regard" in text
    assert "absent" in text

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = refused("serve", model, "--port", port, "--cluster", "local")

        assert f"127.0.0.1:{port}: cannot listen there" in text

    for message, options in (
        ("wanted local, or HOST:PORT", ("--cluster", "here")),
        ("--max-replicas 1: wanted at least 2", ("--cluster", "local", *FEW)),
        ("only with --cluster", ("--replicas", 2)),
    ):
        assert message in refused("serve", model, *options)


def test_replicas_that_lack_cores_are_waited_for_until_a_signal(
    start: Start, two_machines: tuple[str, Callable[[], None]], model: Path
) -> None:
    options = ("--port", _free_port(), "--cluster", two_machines[0], "--replicas", 3)
    server = start("serve", model, *options)

    assert server.stderr is not None

    first = server.stderr.readline()

    assert "the replicas wait for 1 more core" in first

    server.terminate()
    _, err = server.communicate(timeout=60)

    assert server.returncode == 143, err[-2000:]
    assert "listening" not in err
    assert "Traceback" not in err
