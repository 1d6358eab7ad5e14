"""Two machines: an agent of torchrun on each, which find each other by a rendezvous; here both on
the loopback address.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.system_marks import linux
from helpers.time_limits import wait_until

from tests.training.runs import (
    arguments,
    assert_same_weights,
    corpus,
    has_checkpoint,
    workers,
)

pytestmark = [linux, pytest.mark.slow]

TRAINING = {"updates": 150, "validate_every": 50, "log_every": 1, "patience": 100}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("data"))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _agent(port: int, options: list[str]) -> subprocess.Popen[str]:
    """Start the agent of one machine, with one process, in a session of its own."""
    launcher = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    launcher += ["--max-restarts=3", "--rdzv-backend=c10d", "--rdzv-id=7"]
    launcher += [f"--rdzv-endpoint=127.0.0.1:{port}", "--local-addr=127.0.0.1"]
    # As docs/training.md says: the workers get a store of their own, which does not end with the
    # agent that kept it.
    store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "GLOO_SOCKET_IFNAME": "lo"}

    return subprocess.Popen(
        [sys.executable, *launcher, "-m", "regard", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **store},
        start_new_session=True,
    )


def _wait(*agents: subprocess.Popen[str]) -> str:
    """Wait until all agents have ended well, and return what they wrote."""
    try:
        texts = [agent.communicate(timeout=240)[1] for agent in agents]
    finally:
        for agent in agents:
            if agent.poll() is None:
                agent.terminate()  # it ends its processes
                agent.communicate()

    for agent, text in zip(agents, texts, strict=True):
        assert agent.returncode == 0, text[-3000:]
    return "".join(texts)


def test_a_machine_that_was_lost_and_returns_lets_the_run_complete(
    data: Path, tmp_path: Path
) -> None:
    undisturbed = tmp_path / "undisturbed"
    disturbed = tmp_path / "disturbed"
    port = _free_port()
    options = arguments(data, undisturbed, "transformer", "transformer", **TRAINING)
    _wait(*[_agent(port, options) for _ in range(2)])

    port = _free_port()
    options = arguments(
        data, disturbed, "transformer", "transformer", **TRAINING, checkpoint_minutes=0
    )
    stays = _agent(port, options)
    wait_until(lambda: _listens(port), "the first machine keeps the rendezvous", 600)
    lost = _agent(port, options)

    def is_resumable() -> bool:
        assert stays.poll() is lost.poll() is None, (
            "the run ended before a machine could be lost"
        )
        return has_checkpoint(disturbed)

    wait_until(is_resumable, "the first checkpoint is written", 600)
    # torchrun puts its processes into sessions of their own.
    for pid in (*workers(lost.pid), lost.pid):
        os.kill(pid, signal.SIGKILL)
    lost.communicate()
    time.sleep(10)
    text = _wait(stays, _agent(port, options))

    assert "resuming from update" in text
    assert_same_weights(disturbed, undisturbed)
