"""Limits of tests: what exceeds one fails with a sentence, and none is shorter than a minute."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import limits
import pytest
from limits import seeds, time_limit, wait_until, wait_until_async
from systems import posix


def test_no_limit_is_short() -> None:
    with pytest.raises(ValueError, match="wanted at least 60"), time_limit(59):
        pass
    with pytest.raises(ValueError, match="wanted at least 60"):
        wait_until(lambda: True, "nothing", 10)
    with pytest.raises(ValueError, match="wanted at least 60"):
        asyncio.run(wait_until_async(lambda: True, "nothing", 10))


@posix
def test_more_processor_time_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEAST", 0)
    before = signal.getsignal(signal.SIGPROF)
    with (
        pytest.raises(pytest.fail.Exception, match=r"more than 0\.05 seconds of processor time"),
        time_limit(0.05),
    ):
        _work()
    assert signal.getsignal(signal.SIGPROF) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)
    with pytest.raises(pytest.fail.Exception, match="processor time"), time_limit(0.05):
        _work_in_c()


def _work() -> None:
    while True:
        pass


def _work_in_c() -> None:
    """Lose the failure, as C does with what a callback raises."""
    with contextlib.suppress(pytest.fail.Exception):
        _work()


def test_waiting_takes_no_processor_time() -> None:
    with time_limit():
        assert wait_until(iter([0, 0, 7]).__next__, "a number comes") == 7
        assert asyncio.run(wait_until_async(iter([0, 7]).__next__, "a number comes")) == 7


def test_what_does_not_come_to_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEAST", 0)
    with pytest.raises(pytest.fail.Exception, match="not within 0 seconds: the server starts"):
        wait_until(lambda: False, "the server starts", 0)
    with pytest.raises(pytest.fail.Exception, match="not within 0 seconds: the server starts"):
        asyncio.run(wait_until_async(lambda: False, "the server starts", 0))


def test_seeds_are_taken_until_the_premise_holds() -> None:
    drawn = list[int]()
    for seed in seeds(lambda: sum(drawn) > 4, "a sum of more than four", least=2):
        drawn.append(seed)
    assert drawn == [0, 1, 2, 3]
    assert list(seeds(lambda: True, "nothing", least=3)) == [0, 1, 2]
    with pytest.raises(
        pytest.fail.Exception, match="20 seeds are not enough: a sum of more than a thousand"
    ):
        drawn.extend(seeds(lambda: sum(drawn) > 1000, "a sum of more than a thousand"))
