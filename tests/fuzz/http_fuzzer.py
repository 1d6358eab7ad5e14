"""Attack servers with the cases of all kinds, several at a time, each of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import fuzz.hostile_requests
import fuzz.mishaps  # noqa: F401
from fuzz.http_cases import BAD, KINDS, HttpCase, HttpJudge, Report
from fuzz.material import Material
from fuzz.served import Served

AFRESH = ("hung", "down", "leaked", "executed")
"""Verdicts after which the server is started anew, so that the next case is judged by itself."""
Results = queue.Queue["tuple[int, str, Report] | BaseException"]


def attempts(
    numbers: Sequence[int], seed: int, material: Material, folder: Path, jobs: int
) -> Iterator[tuple[int, str, Report]]:
    """Do the cases with these numbers; yield the number, name and report of each as it is done."""
    results = Results()
    for number in range(jobs):
        server = Served(folder / f"server-{number}", material)
        given = (numbers[number::jobs], seed, server, results)
        threading.Thread(target=_work, args=given, daemon=True).start()
    for _ in numbers:
        result = results.get()
        if isinstance(result, BaseException):
            raise result
        yield result


def _work(numbers: Sequence[int], seed: int, server: Served, results: Results) -> None:
    try:
        with server:
            judge = HttpJudge(server)
            for number in numbers:
                case = KINDS.draw(f"{seed} http {number}")
                report = attempt(judge, number, case)
                results.put((number, case.name, report))
    except BaseException as problem:
        results.put(problem)


def attempt(judge: HttpJudge, number: int, case: HttpCase) -> Report:
    """Do a case; one that seems to hang or to bring the server down is followed by a new server."""
    try:
        report = judge(number, case)
    except OSError as problem:  # nobody listens, or nobody answers
        report = Report("down", (repr(problem),))
    if report.verdict in AFRESH:
        judge.recover()
    assert report.verdict in (*BAD, "done", "refused", "closed")
    return report
