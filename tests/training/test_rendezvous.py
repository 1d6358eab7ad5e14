"""Processes find each other, and not what those of an earlier start left behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest
import torch.distributed as dist

from regard.errors import TrainingError
from regard.training.distributed import join_processes
from regard.training.rendezvous import Rendezvous, rendezvous

SIZE = 3


@pytest.fixture
def server() -> dist.TCPStore:
    """What torchrun keeps from start to start."""
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def _all_meet(server: dist.TCPStore, late: int) -> list[Rendezvous]:
    def come(rank: int) -> Rendezvous:
        sleep(0.3 * (rank == late))
        return rendezvous(
            dist.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False), rank, SIZE, 20.0
        )

    with ThreadPoolExecutor(SIZE) as pool:
        return list(pool.map(come, range(SIZE)))


@pytest.mark.parametrize("late", range(SIZE))
def test_each_start_has_a_store_of_its_own(server: dist.TCPStore, late: int) -> None:
    for start in range(3):
        found = _all_meet(server, late)
        assert not found[0].store.check(["address"]), "what an earlier start wrote is not seen"
        found[0].store.set("address", str(start))
        assert [meeting.store.get("address") for meeting in found] == [str(start).encode()] * SIZE


def test_only_a_run_that_had_begun_is_gone_on_with(server: dist.TCPStore) -> None:
    assert [meeting.restarted for meeting in _all_meet(server, 0)] == [False] * SIZE
    first = _all_meet(server, 1)
    assert [meeting.restarted for meeting in first] == [False] * SIZE, (
        "the first start was over before it had begun a run"
    )
    first[0].mark_started()
    assert [meeting.restarted for meeting in _all_meet(server, 2)] == [True] * SIZE


def test_who_does_not_come_is_named(server: dist.TCPStore) -> None:
    with pytest.raises(TrainingError, match=r"process 2 of 3 did not join within 0.1 seconds"):
        rendezvous(server, 0, SIZE, 0.1)
    with pytest.raises(TrainingError, match=r"the first process did not answer within 0.1 seconds"):
        rendezvous(server, 1, SIZE, 0.1)  # the call that is there is of one who went away


def test_a_process_joins_and_is_told_that_it_was_restarted(
    server: dist.TCPStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
    given |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": server.port, "TORCHELASTIC_USE_AGENT_STORE": True}
    for name, value in given.items():
        monkeypatch.setenv(name, str(value))
    with join_processes("cpu", 1) as (world, place):
        assert (world.restarted, world.size, place) == (False, 1, "cpu")
        world.mark_started()
    with join_processes("cpu", 1) as (world, _):
        assert world.restarted
        assert world.split(True).restarted
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE")  # another launcher, that counts its starts
    monkeypatch.setenv("MASTER_PORT", "0")
    for restarts in (0, 1):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(restarts))
        with join_processes("cpu", 1) as (world, _):
            assert world.restarted == bool(restarts)


def test_a_lost_process_is_told_as_what_it_is(server: dist.TCPStore, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
    given |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": server.port, "TORCHELASTIC_USE_AGENT_STORE": True}
    for name, value in given.items():
        monkeypatch.setenv(name, str(value))
    told = "[/a/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:235. This is typically caused by"
    lost = r"lost each other \(Connection closed by peer \[127.0.0.1\]:235\): most"
    with pytest.raises(TrainingError, match=lost), join_processes("cpu", 1):
        raise RuntimeError(told)
    with pytest.raises(RuntimeError, match=r"^another$"), join_processes("cpu", 1):
        raise RuntimeError("another")
