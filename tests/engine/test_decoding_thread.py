"""Calls of several threads, decoded together by one: each has the result that it has alone, and
waits for no other.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import torch
from engine.test_decode import (
    REQUESTS,
    assert_same,
    decode_alone,
)
from helpers.python_process import run_python
from helpers.system_marks import posix
from laws.models import kinds, make

import regard
from regard.common.errors import RegardError
from regard.common.processes import torch_threads
from regard.runtime.engine import BatchLimits, DecodeRequest, Engine
from regard.runtime.engine.continuous_batching import DecodeCall, Scheduler
from regard.search import Hypothesis, SearchSettings

WORKER = "regard-decoding"
GREEDY = SearchSettings(beam=1)
BEAM = SearchSettings(beam=3)
SAMPLE = SearchSettings(beam=2, sample=True, top_k=5, seed=4)
LONG = [
    replace(request, task=replace(request.task, max_steps=14))
    for request in REQUESTS[:14]
]
UNREADABLE = DecodeRequest([10**6], REQUESTS[0].task)
"""A request that fails in the encoder: its token has no embedding."""
UNWRITABLE = DecodeRequest(
    REQUESTS[0].source,
    replace(REQUESTS[0].task, prefix=(4, 10**6), max_steps=9),
)
"""A request that fails in its second step: no row has a score for that token of its prefix."""


def plain_model() -> Any:
    return make(kinds(reads=["text"])[0].values[0], ends=0.02)


def alone(
    model: Any, requests: list[DecodeRequest], settings: SearchSettings
) -> list[list[Hypothesis]]:
    """Decode each request by itself."""
    return [decode_alone(model, request, settings) for request in requests]


class Steps:
    """Observes the steps of a model, in whatever thread: `rows` of each; `at`: what is done before
    some of them.
    """

    def __init__(self, model: Any) -> None:
        self.rows = list[int]()
        self.threads = list[str]()
        self.at = dict[int, Callable[[], object]]()
        step = model.step

        def observed(tokens: Any, state: Any, source: Any) -> Any:
            self.rows.append(len(tokens))
            self.threads.append(threading.current_thread().name)
            self.at.get(len(self.rows), lambda: None)()
            return step(tokens, state, source)

        model.step = observed


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


# --- many threads


@pytest.mark.system
def test_calls_of_many_threads_have_the_results_that_they_have_alone(
    pool: ThreadPoolExecutor,
) -> None:
    """Same and other settings, samples, streams, one left early, one that fails, and one that is
    traced.
    """
    model = plain_model()
    requests = REQUESTS[:12]
    engine = Engine(model, choice="pytorch")
    expected = {
        search: alone(model, requests, search) for search in (GREEDY, BEAM, SAMPLE)
    }
    best = [hypotheses[0].ids for hypotheses in expected[GREEDY]]

    def decode(search: SearchSettings, part: slice) -> None:
        assert_same(engine.decode(requests[part], search), expected[search][part])

    def stream(number: int, length: int) -> None:
        ids = [*islice(engine.stream(requests[number], GREEDY), length)]

        assert all(part == best[number][: len(part)] for part in ids)
        assert length == 1 or ids[-1] == best[number]

    def fail() -> None:
        failing = replace(UNWRITABLE, source=requests[0].source)
        with pytest.raises(Exception, match=r"index|1000000"):
            engine.decode([requests[0], failing], BEAM)

    def trace(number: int) -> None:
        hypotheses, steps = engine.trace(requests[number], BEAM)

        assert_same([hypotheses], [expected[BEAM][number]])
        assert steps

    calls = [pool.submit(decode, search, slice(12)) for search in expected]
    calls += [pool.submit(decode, search, slice(5, 9)) for search in expected]
    calls += [pool.submit(stream, 3, 99), pool.submit(stream, 5, 1)]
    calls += [pool.submit(fail), pool.submit(trace, 8)]
    for call in calls:
        call.result(120)


def test_a_watched_model_has_the_results_that_it_has_alone() -> None:
    model = plain_model()
    engine = Engine(model, choice="pytorch")
    with regard.watch(model) as readings:
        decoded = engine.decode(REQUESTS[:2], BEAM)

    assert readings
    assert_same(decoded, alone(model, REQUESTS[:2], BEAM))


def test_the_thread_ends_with_its_engine() -> None:
    engine = Engine(plain_model(), choice="pytorch")
    before = {*threading.enumerate()}
    engine.decode(REQUESTS[:1], GREEDY)

    assert {*threading.enumerate()} == before, "one thread calls, and none is started"

    with ThreadPoolExecutor(1) as pool:
        pool.submit(engine.decode, REQUESTS[:1], GREEDY).result(60)
    started = {*threading.enumerate()} - before
    (worker,) = (thread for thread in started if thread.name == WORKER)
    del engine
    gc.collect()
    worker.join(60)

    assert not worker.is_alive()


def test_a_stream_is_read_by_several_threads(pool: ThreadPoolExecutor) -> None:
    """As servers do, which ask for each part in a thread of a pool."""
    model = plain_model()
    (expected,) = alone(model, LONG[2:3], GREEDY)
    stream = Engine(model, choice="pytorch").stream(LONG[2], GREEDY)
    ids = next(stream)
    while (following := pool.submit(next, stream, None).result(60)) is not None:
        ids = following

    assert ids == expected[0].ids


@pytest.mark.system
def test_each_call_is_computed_with_the_threads_of_its_caller() -> None:
    model = plain_model()
    engine = Engine(model, choice="pytorch")
    numbers = dict[int, set[int]]()
    project = model.decoder.output.forward

    def observed(features: Any) -> Any:
        numbers.setdefault(len(features), set()).add(torch.get_num_threads())
        return project(features)

    model.decoder.output.forward = observed

    def call(count: int, width: int) -> None:
        with torch_threads(count):
            engine.decode([LONG[0]], SearchSettings(beam=width))

    with torch_threads(1):
        call(1, 1)
        with ThreadPoolExecutor(3) as pool:
            [*pool.map(call, (2, 1, 3), (5, 7, 11))]

    assert (numbers[5], numbers[7], numbers[11]) == ({2}, {1}, {3})


# --- errors, interrupts, forks, the end


def test_an_interrupt_ends_the_calls_of_its_thread() -> None:
    model = plain_model()
    expected = alone(model, LONG, GREEDY)
    steps = Steps(model)
    engine = Engine(model, choice="pytorch")
    stream = engine.stream(LONG[3], GREEDY)
    next(stream)

    def interrupt() -> None:
        raise KeyboardInterrupt

    steps.at[len(steps.rows) + 3] = interrupt

    with pytest.raises(KeyboardInterrupt):
        engine.decode(LONG, GREEDY)
    with pytest.raises(RegardError, match="begin it anew"):
        deque(stream)
    assert_same(engine.decode(LONG, GREEDY), expected)


@posix
def test_an_interrupted_caller_that_waits_withdraws_its_requests(
    pool: ThreadPoolExecutor,
) -> None:
    model = plain_model()
    requests = LONG[:5]
    expected = alone(model, requests, GREEDY)
    steps = Steps(model)
    engine = Engine(model, choice="pytorch")
    pool.submit(engine.decode, LONG[:1], GREEDY).result(60)
    engine.decode(LONG[:1], GREEDY)

    assert steps.threads[-1] == WORKER

    main = threading.main_thread().ident

    assert main is not None

    goes_on = threading.Event()

    def interrupt() -> None:
        signal.pthread_kill(main, signal.SIGINT)
        assert goes_on.wait(60)

    steps.at[len(steps.rows) + 3] = interrupt

    with pytest.raises(KeyboardInterrupt):
        engine.decode(requests, GREEDY)

    other = pool.submit(engine.decode, LONG[:2], GREEDY)
    goes_on.set()

    assert_same(other.result(60), expected[:2])
    assert steps.rows[-1] <= 2, "rows of the interrupted call are free"
    assert_same(engine.decode(requests, GREEDY), expected)


FORKING = """
import torch
torch.set_num_threads(1)  # PyTorch's own threads are gone in a fork, which waits for them
from engine.test_decoding_thread import decode_in_a_fork
decode_in_a_fork()
print("same")
"""


@pytest.mark.system
@posix
def test_a_fork_decodes_anew() -> None:
    """In a process of its own, which has no threads of other tests."""
    ended = run_python(FORKING)
    assert (ended.returncode, ended.stdout) == (0, "same\n"), ended.stderr


def decode_in_a_fork() -> None:
    model = plain_model()
    requests = LONG[:4]
    expected = alone(model, requests, BEAM)
    engine = Engine(model, choice="pytorch")
    stream = Engine(model, choice="pytorch").stream(LONG[3], GREEDY)
    next(stream)

    def decode_in_thread() -> None:
        with ThreadPoolExecutor(1) as pool:
            decoded = pool.submit(engine.decode, requests, BEAM).result(60)
        assert_same(decoded, expected)

    decode_in_thread()
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        with suppress(BaseException):
            assert_same(engine.decode(requests, BEAM), expected)

            decode_in_thread()

            with pytest.raises(RegardError, match="begin it anew"):
                deque(stream)

            os.write(writer, b"same")
        os._exit(0)

    os.close(writer)

    assert os.read(reader, 4) == b"same"

    os.waitpid(child, 0)

    assert [*stream]


ENDING = """
import threading
from engine.test_decoding_thread import BEAM, LONG, Engine, plain_model
engine, begun = Engine(plain_model(), choice="pytorch"), threading.Semaphore(0)
def decode():
    while True:
        engine.decode(LONG, BEAM)
        begun.release()
for _ in range(3):
    threading.Thread(target=decode, daemon=True).start()
for _ in range(6):
    begun.acquire()
print("ends")
"""


@pytest.mark.system
def test_a_program_ends_while_calls_are_decoded() -> None:
    ended = run_python(ENDING)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ends\n", "")


# --- whose turn it is


class Watched:
    """A scheduler that is stepped by hand, and the rows that are open in it."""

    def __init__(self, limits: BatchLimits | None = None) -> None:
        self.model = plain_model()
        self.steps = Steps(self.model)
        self.scheduler = Scheduler(self.model, limits)
        self.limits = limits or BatchLimits()

    def add(
        self,
        requests: list[DecodeRequest],
        settings: SearchSettings,
        **options: Any,
    ) -> DecodeCall:
        call = DecodeCall(requests, settings, **options)
        self.scheduler.add(call)
        return call

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.scheduler.step()

            decodings = self.scheduler._decodings
            sentences = [
                one for decoding in decodings for one in decoding.sentences.values()
            ]
            small = [one for one in sentences if self.fits(one.rows, one.tokens)]

            assert len(sentences) - len(small) <= 1
            assert self.fits(
                sum(one.rows for one in small), sum(one.tokens for one in small)
            )

    def fits(self, rows: int, tokens: int) -> bool:
        return rows <= self.limits.rows and tokens <= self.limits.tokens

    def check(self, *calls: tuple[DecodeCall, list[DecodeRequest]]) -> None:
        """Step to the end, and compare results with those of each request alone."""
        while self.scheduler.step():
            pass

        for call, requests in calls:
            assert not [*call.follow(lambda: None)]
            assert_same(call.results, alone(self.model, requests, call.settings))


def test_calls_with_the_same_search_share_their_steps() -> None:
    watched = Watched()
    first = watched.add(LONG[:2], GREEDY)
    watched.step()
    second = watched.add(LONG[2:5], GREEDY)
    watched.step()

    assert watched.steps.rows == [2, 2, 3, 5], (
        "the first step of a call is its own, all others are shared"
    )

    watched.check((first, LONG[:2]), (second, LONG[2:5]))


@pytest.mark.system
@pytest.mark.parametrize("settings", [BEAM, GREEDY], ids=["same", "other"])
def test_a_line_does_not_wait_for_the_end_of_a_long_call(
    settings: SearchSettings,
) -> None:
    watched = Watched(BatchLimits(rows=12, tokens=60))
    requests = LONG[:8]
    long = watched.add(requests, BEAM)
    watched.step(3)
    short = watched.add(REQUESTS[:1], settings)
    watched.step(2)

    assert not short.waiting, "it has begun at its next turn"
    assert long.open_rows, "and the long call goes on"

    watched.step(8)

    assert not short.events.empty()

    watched.check((long, requests), (short, REQUESTS[:1]))


def test_more_callers_than_rows_are_served_in_the_order_of_their_arrival() -> None:
    watched = Watched(BatchLimits(rows=4, tokens=1000))
    parts = [REQUESTS[number : number + 3] for number in range(8)]
    calls = [watched.add(part, GREEDY) for part in parts]
    order = list[DecodeCall]()

    while any(not call.turn or len(call.waiting) == 3 for call in calls):
        watched.step()
        begun = [call for call in calls if len(call.waiting) < 3]
        order += [call for call in begun if call not in order]

    assert order == calls
    assert all(call.remaining for call in calls[4:]), (
        "none was done before all had begun"
    )

    watched.check(*zip(calls, parts, strict=True))


@pytest.mark.system
def test_large_sentences_are_decoded_one_at_a_time_beside_others() -> None:
    watched = Watched(BatchLimits(rows=4, tokens=40))
    wide = SearchSettings(beam=6)
    first = watched.add(LONG[:1], wide)
    second = watched.add(LONG[1:2], wide)
    third = watched.add(LONG[:5], BEAM)
    watched.step(4)

    assert first.open_rows + second.open_rows == 6
    assert third.open_rows

    watched.check((first, LONG[:1]), (second, LONG[1:2]), (third, LONG[:5]))


def test_a_stream_that_is_left_frees_its_row_at_the_next_step() -> None:
    watched = Watched()
    call = watched.add(LONG[:2], GREEDY)
    stream = watched.add(LONG[2:3], GREEDY, is_streamed=True)
    followed = stream.follow(watched.step)

    assert len(next(followed)) == 1

    watched.step()

    assert watched.steps.rows[-1] == 3

    del followed
    watched.step()

    assert watched.steps.rows[-1] == 2

    watched.check((call, LONG[:2]))


@pytest.mark.parametrize("failing", [UNREADABLE, UNWRITABLE])
def test_a_call_that_fails_leaves_others_their_results(
    failing: DecodeRequest,
) -> None:
    watched = Watched()
    first = watched.add(LONG[:2], BEAM)
    watched.step()
    failed = watched.add([LONG[0], failing], BEAM)
    last = watched.add(LONG[4:6], BEAM)

    watched.check((first, LONG[:2]), (last, LONG[4:6]))

    with pytest.raises((IndexError, RegardError)):
        next(failed.follow(lambda: None))
