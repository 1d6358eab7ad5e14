"""The server's fuzzer: it sees what servers do wrong that do it; and one case of each kind against
a real one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.cached_folders import FolderCache

pytest.importorskip(
    "resource", reason="the fuzzer limits processes, and reads /proc, as on Linux"
)
from fuzz import attackers, fuzzer, http_fuzzer, restarts
from fuzz.exchanges import request
from fuzz.http_cases import BAD, KINDS, Exchange, HttpCase, HttpJudge
from fuzz.material import Material
from fuzz.served import SENTENCES, STEADY, SWAPPED, Served
from helpers.system_marks import posix

pytestmark = [pytest.mark.system, posix]


@pytest.fixture(scope="module")
def material(cached: FolderCache) -> Material:
    """Make the folders to attack once, until the sources change."""
    return fuzzer.material(cached.in_process("fuzz", fuzzer.material))


@pytest.fixture(scope="module")
def judge(
    material: Material, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpJudge]:
    """Start a server over two runtime files, which need no PyTorch."""
    folder = tmp_path_factory.mktemp("http") / "server"
    with Served(folder, material, models=[STEADY, SWAPPED]) as server:
        yield HttpJudge(server)


def test_verdicts(judge: HttpJudge) -> None:
    def verdict(path: str, judged_as: str, is_right: bool, **values: object) -> str:
        data = request(path, {"text": SENTENCES[0], "target": "en", **values})
        exchange = Exchange(data, judged_as, lambda *_: is_right)
        return judge(0, HttpCase("", exchange)).verdict

    path = "/v1/translate"
    assert verdict(path, path, True) == "done"
    assert verdict(path, path, False) == "wrong"
    assert verdict(path, path, True, beam=-1) == "refused"
    assert verdict(path, "/v2/translate", True, beam=-1) == "internal"
    judge.server.expected[STEADY][SENTENCES[0]] += "!"
    assert verdict(path, path, True) == "wrong", "what the server is asked afterwards"
    judge.server.expected[STEADY][SENTENCES[0]] = judge.server.translate(SENTENCES[0])


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_no_request_goes_badly(name: str, judge: HttpJudge, number: int) -> None:
    """One case of each kind, a further one in the slow tests; `make fuzz` sends thousands, and
    judges seconds too.
    """
    case = KINDS[name](random.Random(f"default {name} {number}"))
    report = http_fuzzer.attempt(judge, number, case)
    assert report.verdict not in {*BAD} - {"slow"}, (case.name, report)


@pytest.mark.slow
def test_killed_processes_are_replaced(material: Material, tmp_path: Path) -> None:
    """Kill the process that serves a few times, under load; `make fuzz` does so two hundred times,
    and judges seconds too.
    """
    for problem in restarts.restart(material, tmp_path, 3, 1):
        assert problem.startswith(restarts.LATE)


@pytest.mark.slow
def test_attackers(material: Material, tmp_path: Path) -> None:
    """Attack for some seconds; `make fuzz` does so for minutes, and judges seconds too."""
    for problem in attackers.attack(material, tmp_path, 0.2, 1):
        assert "p99" in problem
