"""Rendezvous of the processes that torchrun started, also after it has restarted all of them.

torchrun's store outlives its workers, and PyTorch (2.13) uses the same keys in it at each start. A
worker that started before the others could therefore read the address of a dead process, and wait
for it. Here each start has its own keys.
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass
from datetime import timedelta

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from regard.common.errors import TrainingError

TIMEOUT = 600.0
"""Seconds within which all processes must have joined."""
POLL_SECONDS = 0.02
"""Seconds between two reads of the store, in which signals are handled."""


@dataclass(frozen=True)
class Rendezvous:
    """The processes of one start: their own store, and whether the run had started before."""

    store: Store
    restarted: bool
    _lasting: Store

    def mark_started(self) -> None:
        """Make all processes that torchrun starts from now on resume this run."""
        self._lasting.set("regard/started", "1")


def torchrun_store() -> Store | None:
    """Return the store that torchrun keeps for its workers; None under another launcher."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    timeout = timedelta(seconds=TIMEOUT)
    return TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=False,
        timeout=timeout,
    )


def rendezvous(
    lasting: Store, rank: int, size: int, timeout: float = TIMEOUT
) -> Rendezvous:
    """Wait until all processes of this start have joined.

    `lasting` is the store that outlives restarts. The first process publishes a new start id.
    Every other process answers with a token, and continues when the first process repeats that
    token, which a dead process would not do. Raises TrainingError after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    if rank == 0:
        start_id = uuid.uuid4().hex
        restarted_flag = "1" if lasting.check(["regard/started"]) else "0"
        lasting.set(f"regard/{start_id}/restarted", restarted_flag)
        lasting.set("regard/call", start_id)
        for other in range(1, size):
            while (token := _get(lasting, f"regard/{start_id}/{other}/token")) is None:
                _wait(deadline, f"process {other + 1} of {size} did not join", timeout)
            lasting.set(f"regard/{start_id}/{other}/repeated", token)
    else:
        start_id = _join(lasting, rank, deadline, timeout)
    restarted = _get(lasting, f"regard/{start_id}/restarted") == "1"
    return Rendezvous(PrefixStore(f"regard/{start_id}", lasting), restarted, lasting)


def _join(lasting: Store, rank: int, deadline: float, timeout: float) -> str:
    """Return the id of the start whose first process is alive."""
    token = uuid.uuid4().hex
    while True:
        start_id = _get(lasting, "regard/call")
        if start_id is not None:
            prefix = f"regard/{start_id}/{rank}"
            lasting.set(f"{prefix}/token", token)
            if _get(lasting, f"{prefix}/repeated") == token:
                return start_id
        _wait(deadline, "the first process did not answer", timeout)


def _get(store: Store, key: str) -> str | None:
    return store.get(key).decode() if store.check([key]) else None


def _wait(deadline: float, problem: str, timeout: float) -> None:
    if time.monotonic() > deadline:
        raise TrainingError(
            f"{problem} within {timeout:g} seconds; look at its messages, and whether the machines "
            "reach each other"
        )
    time.sleep(POLL_SECONDS)
