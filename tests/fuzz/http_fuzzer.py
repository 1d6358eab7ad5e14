"""Attack servers with the cases of all kinds, several at a time, each of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import fuzz.hostile_requests
import fuzz.mishaps  # noqa: F401
from fuzz.http_cases import BAD, HttpCase, HttpJudge, Report, draw
from fuzz.material import Material
from fuzz.served import Served

__all__ = ["attempts", "draw"]
AFRESH = ("hung", "down", "leaked", "executed")
"""Verdicts after which the server is started anew, so that the next case is judged by itself."""


def attempts(
    work: Sequence[tuple[int, int]], material: Material, folder: Path, jobs: int = 1
) -> Iterator[tuple[int, str, Report]]:
    """Do cases, given by number and seed; yield the number, name and report of each as it is
    done.
    """
    results = queue.Queue[tuple[int, str, Report] | BaseException]()
    workers = list[threading.Thread]()
    for number in range(jobs):
        given = (work[number::jobs], material, folder / f"server-{number}", results)
        workers.append(threading.Thread(target=_worker, args=given, daemon=True))
        workers[-1].start()
    for _ in work:
        result = results.get()
        if isinstance(result, BaseException):
            raise result
        yield result
    for worker in workers:
        worker.join()


def _worker(
    work: Sequence[tuple[int, int]],
    material: Material,
    folder: Path,
    results: queue.Queue[tuple[int, str, Report] | BaseException],
) -> None:
    try:
        with Served(folder, material) as server:
            judge = HttpJudge(server)
            for number, seed in work:
                case = draw(number, seed)
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
