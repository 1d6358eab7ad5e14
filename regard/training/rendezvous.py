"""Rendezvous: the processes that torchrun started find each other, also after it has restarted all
of them.

torchrun's store outlives its workers, and PyTorch (2.13) puts the same names into it at each start:
a worker that was quicker than the others read the address of one that was dead, and waited for it.
Here each start has a name of its own.
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass
from datetime import timedelta

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from regard.common.errors import TrainingError

TIMEOUT = 600.0  # seconds in which all processes must have joined
POLL_SECONDS = 0.02  # between two reads of the store; signals are handled in between


@dataclass(frozen=True)
class Rendezvous:
    """The processes of one start: a store that only they share, and whether the run had started
    before it.
    """

    store: Store
    restarted: bool
    _lasting: Store

    def mark_started(self) -> None:
        """Make processes that torchrun starts from now on resume this run."""
        self._lasting.set("regard/started", "1")


def torchrun_store() -> Store | None:
    """The store that torchrun keeps for its workers; None if another launcher lets the first
    process keep one.
    """
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
    """Wait until all processes of this start have joined. `lasting` is the store that outlives
    restarts.

    The first process publishes a name that was never used. Each other one answers with a token of
    its own and continues when the first repeats that token: a process that is dead does not. Raises
    TrainingError after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    if rank == 0:
        name = uuid.uuid4().hex
        lasting.set(
            f"regard/{name}/restarted",
            "1" if lasting.check(["regard/started"]) else "0",
        )
        lasting.set("regard/call", name)
        for other in range(1, size):
            while (token := _get(lasting, f"regard/{name}/{other}/token")) is None:
                _wait(deadline, f"process {other + 1} of {size} did not join", timeout)
            lasting.set(f"regard/{name}/{other}/repeated", token)
    else:
        name = _join(lasting, rank, deadline, timeout)
    restarted = _get(lasting, f"regard/{name}/restarted") == "1"
    return Rendezvous(PrefixStore(f"regard/{name}", lasting), restarted, lasting)


def _join(lasting: Store, rank: int, deadline: float, timeout: float) -> str:
    """The name of the start whose first process is alive."""
    token = uuid.uuid4().hex
    while True:
        call = _get(lasting, "regard/call")
        if call is not None:
            prefix = f"regard/{call}/{rank}"
            lasting.set(f"{prefix}/token", token)
            if _get(lasting, f"{prefix}/repeated") == token:
                return call
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
