"""How the processes that torchrun started find each other, also when it has started all of them again.

torchrun's store outlives its workers, and PyTorch (2.13) puts the same names into it at each start: a worker that was
quicker than the others read the address of one that was dead, and waited for it. Here each start has a name of its own.
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass
from datetime import timedelta

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from regard.errors import TrainingError

__all__ = ["Rendezvous", "meet", "torchrun_store"]

ARRIVAL = 600.0  # seconds in which all processes must have come
GLANCE = 0.02  # seconds between two looks into the store; signals are heard in between


@dataclass(frozen=True)
class Rendezvous:
    """The processes of one start: a store that only they share, and whether the run had begun before it."""

    store: Store
    restarted: bool
    _lasting: Store

    def begun(self) -> None:
        """From now on, processes that torchrun starts again are to go on with this run."""
        self._lasting.set("regard/begun", "1")


def torchrun_store() -> Store | None:
    """The store that torchrun keeps for its workers; None where another launcher lets the first process keep one."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    patience = timedelta(seconds=ARRIVAL)
    return TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=patience)


def meet(lasting: Store, rank: int, size: int, arrival: float = ARRIVAL) -> Rendezvous:
    """Wait until all processes of this start are there.

    The first one calls with a name that was never used. Each other one answers with a word of its own and goes on when
    the first repeats that word: a caller who is dead does not. Raises TrainingError after `arrival` seconds.
    """
    until = time.monotonic() + arrival
    if rank == 0:
        name = uuid.uuid4().hex
        lasting.set(f"regard/{name}/again", "1" if lasting.check(["regard/begun"]) else "0")
        lasting.set("regard/call", name)
        for other in range(1, size):
            while (word := _there(lasting, f"regard/{name}/{other}/here")) is None:
                _wait(until, f"process {other + 1} of {size} did not come", arrival)
            lasting.set(f"regard/{name}/{other}/heard", word)
    else:
        name = _answered(lasting, rank, until, arrival)
    again = _there(lasting, f"regard/{name}/again") == "1"
    return Rendezvous(PrefixStore(f"regard/{name}", lasting), again, lasting)


def _answered(lasting: Store, rank: int, until: float, arrival: float) -> str:
    """The name of the start whose caller is alive."""
    mine = uuid.uuid4().hex
    while True:
        call = _there(lasting, "regard/call")
        if call is not None:
            here = f"regard/{call}/{rank}"
            lasting.set(f"{here}/here", mine)
            if _there(lasting, f"{here}/heard") == mine:
                return call
        _wait(until, "the first process did not call", arrival)


def _there(store: Store, key: str) -> str | None:
    return store.get(key).decode() if store.check([key]) else None


def _wait(until: float, what: str, arrival: float) -> None:
    if time.monotonic() > until:
        raise TrainingError(
            f"{what} within {arrival:g} seconds; look at what it said, and whether the machines reach each other"
        )
    time.sleep(GLANCE)
