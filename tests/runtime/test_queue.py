"""Continuous batching: whatever calls are searched together, each gets what it would get alone."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.small_models import SENTENCES
from helpers.system_marks import posix

from regard.common.errors import LineError, UsageError
from regard.runtime import native
from regard.runtime.model import (
    Constraints,
    Options,
    RuntimeModel,
    RuntimeQueue,
)
from tests.runtime.conftest import Sanitised
from tests.runtime.pairs import Maker

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

LINES = [
    *SENTENCES,
    "",
    "빵!",
    "I",
    " ".join(f"{sentence}." for sentence in SENTENCES * 4),
]
KINDS = (
    {"beam": 1},
    {"beam": 5, "nbest": 3},
    {"beam": 1, "no_repeat_ngram": 2},
    {"beam": 3, "alignments": 1},
    {"beam": 2, "attention": 2},
)


@pytest.fixture
def kind() -> str:
    """Return the kind of encoder and decoder; a test may name another one."""
    return "transformer"


@pytest.fixture
def model(make: Maker, kind: str) -> RuntimeModel:
    _, runtime = make(kind, kind)
    return runtime.model


@pytest.fixture
def queue(model: RuntimeModel) -> Iterator[RuntimeQueue]:
    """Start a queue of two threads."""
    queue = model.queue(2)
    yield queue
    queue.close()


def options(model: RuntimeModel, **changes: Any) -> Options:
    chosen = model.options()
    for name, value in changes.items():
        setattr(chosen, name, value)
    return chosen


def contents(lines: Any) -> list[Any]:
    """Return all that is told of lines, but the scores, which depend on the batch in the last
    bits.
    """
    told: list[Any] = []
    for line in lines:
        told += [line.source, line.notes]
        told += [(part.source, part.text) for part in line.parts]
        for hypothesis in line.hypotheses:
            told += [hypothesis.text, hypothesis.ids, hypothesis.links]
            for name, weights in hypothesis.weights.items():
                told += [name, weights.tobytes()]
    return told


def scores_of(lines: Any) -> list[float]:
    return [h.score for line in lines for h in line.hypotheses]


def taken_from(queue: RuntimeQueue) -> tuple[int, Any]:
    """Wait for the next call that is done."""
    taken = queue.take(60.0)

    assert taken is not None

    return taken


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "convolutional"])
def test_calls_with_unlike_options_get_what_they_would_get_alone(
    model: RuntimeModel,
    queue: RuntimeQueue,
) -> None:
    kinds = [options(model, **kind) for kind in KINDS]
    alone = [model.translate(LINES, kind) for kind in kinds]

    assert len({h.ids for kind in alone for line in kind for h in line.hypotheses}) > 20

    rng = random.Random(1)
    calls = []
    for kind in [*range(len(kinds))] * 12:
        count = rng.choice([0, 1, 1, 2, 7])
        calls.append((kind, rng.choices(range(len(LINES)), k=count)))
    rng.shuffle(calls)

    def submit(first: int) -> None:
        for ticket in range(first, len(calls), 2):
            kind, numbers = calls[ticket]
            queue.submit(ticket, [LINES[number] for number in numbers], kinds[kind])

    threads = [threading.Thread(target=submit, args=(first,)) for first in range(2)]
    for thread in threads:
        thread.start()
    results = dict(taken_from(queue) for _ in calls)
    for thread in threads:
        thread.join()

    assert results.keys() == set(range(len(calls)))

    for ticket, (kind, numbers) in enumerate(calls):
        expected = [alone[kind][number] for number in numbers]

        assert contents(results[ticket]) == contents(expected)

        scores = pytest.approx(scores_of(expected), abs=1e-5)

        assert scores_of(results[ticket]) == scores

    assert queue.take(0.0) is None


def test_token_ids_are_searched_among_lines_and_calls_are_cancelled(
    model: RuntimeModel,
    queue: RuntimeQueue,
) -> None:
    chosen = options(
        model,
        beam=3,
        nbest=2,
        min_length=1,
    )
    sources = [model.encode(line) for line in SENTENCES]
    prefixes = [
        Constraints((ctypes.c_int32 * 2)(5, 6), 2, max_steps=9, sampling_key=number)
        for number in range(len(sources))
    ]
    calls: list[tuple[Any, Any]] = [(sources, None), (LINES, None), (sources, prefixes)]
    expected = [
        model.translate(given, chosen, constraints) for given, constraints in calls
    ]

    assert {line.hypotheses[0].ids[:2] for line in expected[2]} == {(5, 6)}

    for ticket in range(30):
        given, constraints = calls[ticket % 3]
        queue.submit(ticket, given, chosen, constraints)
    for ticket in (*range(0, 30, 4), 1000):
        queue.cancel(ticket)

    for ticket in reversed(range(30)):
        if ticket % 4:
            taken = queue.take(60.0, ticket)

            assert taken is not None
            assert taken[0] == ticket
            assert contents(taken[1]) == contents(expected[ticket % 3])


@posix
def test_a_fork_has_a_queue_of_its_own(model: RuntimeModel) -> None:
    chosen = options(model, beam=2)
    expected = contents(model.translate(LINES, chosen))
    with model._single_call:  # as if another call were open
        assert contents(model.translate(LINES, chosen)) == expected
        if not (child := os.fork()):
            is_equal = contents(model.translate(LINES, chosen)) == expected
            os._exit(0 if is_equal and len(model._queues) == 2 else 1)

    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.system
def test_a_long_call_does_not_keep_others_waiting(model: RuntimeModel) -> None:
    queue = model.queue(1)
    chosen = options(model, beam=1)
    queue.submit(1, LINES * 100, chosen)
    queue.submit(2, LINES[:1], chosen)

    assert [taken_from(queue)[0] for _ in range(2)] == [2, 1]

    wide = options(
        model,
        beam=250,
        min_length=30,
        max_length=30,
    )
    queue.submit(3, [SENTENCES[0]], wide)
    queue.submit(4, LINES[:1], chosen)

    assert [taken_from(queue)[0] for _ in range(2)] == [4, 3], (
        "one of a wide beam neither"
    )

    queue.close()


def test_what_cannot_be_translated_is_refused_at_once_and_a_queue_is_closed(
    model: RuntimeModel,
    queue: RuntimeQueue,
) -> None:
    with pytest.raises(UsageError, match="beam: wanted 1 to 250"):
        queue.submit(1, ["I"], options(model, beam=0))
    with pytest.raises(UsageError, match="source 1: wanted 1 to"):
        queue.submit(1, [[10**6]], model.options())
    with pytest.raises(LineError, match="line 2"):
        queue.translate(["I", "x" * 100], options(model, max_line=50))

    queue.submit(1, ["I"], model.options())
    ticket, _ = taken_from(queue)

    assert ticket == 1

    for ticket in range(20):
        queue.submit(ticket, LINES, options(model, beam=5))
    queue.close()
    queue.close()


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ["thread", "address,undefined"])
def test_sanitizers_see_nothing(
    make: Maker,
    sanitised: Sanitised,
    sanitizers: str,
) -> None:
    """Threads submit, cancel and take, and the queue is closed under them; by hand more:
    `queue_driver FILE CALLS`.
    """
    driver = Path(__file__).with_name("queue_driver.c")
    program = sanitised(driver, native.SOURCES, sanitizers)
    _, runtime = make("transformer", "transformer")
    command = [program, runtime.model.path, "150"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[0]) > 100
