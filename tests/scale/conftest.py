"""Commands on Ray clusters of this machine, in processes of their own; skipped where Ray is not
installed.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from helpers import small_models

from regard.interchange.runtime import export

LIMIT = 240  # seconds; a cluster takes 5 to 20 to start
Start = Callable[..., "subprocess.Popen[str]"]
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cores, *others = map(int, sys.argv[1:])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": cores, "include_dashboard": False})
for cores in others:
    node = cluster.add_node(num_cpus=cores)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
for _ in sys.stdin:
    cluster.remove_node(node, allow_graceful=False)
cluster.shutdown()
"""


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    small_models.folder(folder / "run", end=-1.0, languages=("ko", "en"))
    export(folder / "run", folder / "ko-en.regard")
    return folder / "ko-en.regard"


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a command of `regard` in a session of its own; what still runs
    is killed.
    """
    running: list[subprocess.Popen[str]] = []

    def begin(
        *arguments: object, command: Sequence[str] = (sys.executable, "-m", "regard")
    ) -> subprocess.Popen[str]:
        command = [*command, *map(str, arguments)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def regard(start: Start) -> Callable[..., str]:
    """Return a function that runs a command, which must succeed, and returns its standard error."""
    return functools.partial(_run, start, (0,))


@pytest.fixture
def refused(start: Start) -> Callable[..., str]:
    """Return a function that runs a command, which must be refused, and returns its standard
    error.
    """
    return functools.partial(_run, start, (1, 2))


def _run(start: Start, statuses: Sequence[int], *arguments: object) -> str:
    process = start(*arguments)
    _, err = process.communicate(timeout=LIMIT)

    assert process.returncode in statuses, err[-3000:]
    assert "Traceback" not in err

    return err


@pytest.fixture
def workers() -> Callable[[int, str], list[int]]:
    return _workers_below


def _workers_below(pid: int, title: str) -> list[int]:
    """Return the processes below one, directly or not, with this title, which Ray gives by what
    they do.
    """
    process = Path(f"/proc/{pid}")
    try:
        children = (process / f"task/{pid}/children").read_text().split()
        has_title = title.encode() in (process / "cmdline").read_bytes()
    except OSError:
        return []

    below = [_workers_below(int(child), title) for child in children]
    own = [pid] if has_title else []
    return [*own, *itertools.chain(*below)]


@contextlib.contextmanager
def _cluster(*cores: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """Start a cluster with a machine for each number of cores; yield its address and a function
    that kills the last.
    """
    command = [sys.executable, "-c", CLUSTER, *map(str, cores)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def lose() -> None:
            print("lose", file=process.stdin, flush=True)

        address = next(
            line
            for line in process.stdout
            if line.startswith("127.0.0.1:") or line[0].isdigit()
        ).strip()
        yield address, lose
        process.stdin.close()


@pytest.fixture
def two_machines() -> Iterator[tuple[str, Callable[[], None]]]:
    with _cluster(1, 1) as started:
        yield started


@pytest.fixture
def one_machine() -> Iterator[str]:
    """Start a cluster of one machine with two cores; yield its address."""
    with _cluster(2) as (address, _):
        yield address
