"""Rendezvous: the processes of one start find each other, and nothing left behind by an earlier
start.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch.distributed as dist

from regard.common.errors import TrainingError
from regard.training.distributed import join_processes
from regard.training.rendezvous import Rendezvous, rendezvous

SIZE = 3


@pytest.fixture
def store() -> dist.Store:
    """Store that outlives the starts."""
    return dist.HashStore()


def _join_all(store: dist.Store, late: int) -> list[Rendezvous]:
    def join(rank: int) -> Rendezvous:
        time.sleep(0.1 * (rank == late))
        return rendezvous(store, rank, SIZE, 20.0)

    with ThreadPoolExecutor(SIZE) as pool:
        return list(pool.map(join, range(SIZE)))


@pytest.mark.parametrize("late", [0, 2])
def test_each_start_has_its_own_store(store: dist.Store, late: int) -> None:
    for start in range(3):
        first, *others = _join_all(store, late)

        assert not first.store.check(["address"]), "that of an earlier start is hidden"

        first.store.set("address", str(start))
        for process in others:
            assert process.store.get("address") == str(start).encode()


def test_only_a_run_that_had_started_is_resumed(store: dist.Store) -> None:
    _join_all(store, 0)
    first = _join_all(store, 1)

    assert not any(process.restarted for process in first), "no run had started"

    first[0].mark_started()

    assert all(process.restarted for process in _join_all(store, 2))


def test_a_missing_process_is_named(store: dist.Store) -> None:
    message = "process 2 of 3 did not join within 0.1 seconds"

    with pytest.raises(TrainingError, match=message):
        rendezvous(store, 0, SIZE, 0.1)

    # The entry in the store is of a process that has ended.
    message = "the first process did not answer within 0.1 seconds"

    with pytest.raises(TrainingError, match=message):
        rendezvous(store, 1, SIZE, 0.1)


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make this process one that torchrun started, with a store that outlives it."""
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    environment = {
        "RANK": 0,
        "WORLD_SIZE": 1,
        "LOCAL_RANK": 0,
        "LOCAL_WORLD_SIZE": 1,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": server.port,
        "TORCHELASTIC_USE_AGENT_STORE": True,
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))
    yield
    del server


@pytest.mark.system
@pytest.mark.usefixtures("agent")
def test_a_process_that_joins_knows_if_it_was_restarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with join_processes("cpu", 1) as (world, device):
        assert (world.restarted, world.size, device) == (False, 1, "cpu")
        world.mark_started()

    with join_processes("cpu", 1) as (world, _):
        assert world.restarted
        assert world.split(True).restarted

    # A launcher that counts its restarts.
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE")
    monkeypatch.setenv("MASTER_PORT", "0")
    for restarts in (0, 1):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(restarts))
        with join_processes("cpu", 1) as (world, _):
            assert world.restarted == bool(restarts)


@pytest.mark.system
@pytest.mark.usefixtures("agent")
def test_a_lost_process_is_explained() -> None:
    lost = "Connection closed by peer [127.0.0.1]:235"
    message = f"[/a/gloo/transport/tcp/pair.cc:553] {lost}. This is typically caused by"
    pattern = re.escape(f"lost each other ({lost}): most")
    with pytest.raises(TrainingError, match=pattern), join_processes("cpu", 1):
        raise RuntimeError(message)
    with pytest.raises(RuntimeError, match=r"^another$"), join_processes("cpu", 1):
        raise RuntimeError("another")
