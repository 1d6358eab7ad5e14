"""The table of open calls: deaths are counted for those that were open, and forgotten for those
that were answered.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from regard.common.errors import RegardError
from regard.serving import crash_table
from regard.serving.crash_table import CallTable

POISON = b"1" * crash_table.DIGEST_BYTES
NEIGHBOUR = b"2" * crash_table.DIGEST_BYTES


class Processes:
    """One process after the other, with a table each over the same file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "calls"
        self.now = 1000.0
        self.supervisor = self.begin()
        self.table = self.begin()

    def begin(self) -> CallTable:
        return CallTable(self.path, lambda: self.now)

    def die(self, is_death: bool = True) -> None:
        self.supervisor.note_end(is_death)
        self.table = self.begin()

    def is_refused(self, digest: bytes) -> bool:
        try:
            self.table.begin(digest)
        except RegardError:
            return True
        self.table.end(digest, completed=False)
        return False


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


def test_a_call_that_was_open_at_three_deaths_is_refused_for_ten_minutes(
    processes: Processes,
) -> None:
    for _ in range(3):
        for digest in (NEIGHBOUR, POISON):
            processes.table.begin(digest)
        processes.table.end(NEIGHBOUR, completed=True)
        processes.die()

    assert (processes.is_refused(POISON), processes.is_refused(NEIGHBOUR)) == (
        True,
        False,
    )

    processes.die(is_death=False)
    processes.now += crash_table.REFUSED_SECONDS - 1
    assert processes.is_refused(POISON)

    processes.now += 1
    assert not processes.is_refused(POISON)


def test_a_call_that_was_open_at_two_deaths_is_suspect(processes: Processes) -> None:
    suspects = list[bool]()
    for _ in range(4):
        suspects.append(processes.table.is_suspect(POISON))
        if not processes.is_refused(POISON):
            processes.table.begin(POISON)
        processes.die()
    assert suspects == [False, False, True, False]


def test_an_answer_makes_deaths_forgotten(processes: Processes) -> None:
    for _ in range(5):
        processes.table.begin(POISON)
        processes.die()
        processes.table.begin(POISON)
        processes.table.end(POISON, completed=True)
    assert not processes.is_refused(POISON)


def test_equal_calls_are_open_until_the_last_has_ended(processes: Processes) -> None:
    for _ in range(3):
        processes.table.begin(POISON)
        processes.table.begin(POISON)
        processes.table.end(POISON, completed=False)
        processes.die()
    assert processes.is_refused(POISON)


@pytest.mark.parametrize(("seconds", "is_refused"), [(0.1, False), (5.0, True)])
def test_equal_calls_are_to_blame_once_for_a_death_of_another_process(
    processes: Processes, seconds: float, is_refused: bool
) -> None:
    for _ in range(3):
        processes.table.begin(POISON)
    for _ in range(3):
        processes.table.blame(POISON)
        processes.table.end(POISON, completed=False)
        processes.now += seconds
    assert processes.is_refused(POISON) == is_refused


def test_more_calls_than_there_are_rows(processes: Processes) -> None:
    digests = [
        number.to_bytes(crash_table.DIGEST_BYTES, "big") for number in range(1, 10_001)
    ]
    for _ in range(3):
        for digest in digests:
            if not processes.is_refused(digest):
                processes.table.begin(digest)
        processes.die()

    assert processes.is_refused(digests[0])
    assert not processes.is_refused(digests[-1])


def test_a_table_that_a_death_has_torn_does_no_harm(processes: Processes) -> None:
    """Whatever bytes are in it, it is read, and calls are taken and refused as before."""
    with processes.path.open("r+b") as file:
        file.seek(100)
        file.write(random.Random(1).randbytes(20_000))
    processes.die()

    assert not processes.is_refused(POISON)

    for _ in range(3):
        processes.table.begin(POISON)
        processes.die()
    assert processes.is_refused(POISON)
