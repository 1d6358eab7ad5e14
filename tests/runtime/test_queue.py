"""Continuous batching: whatever calls are searched together, each gets what it would get alone."""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from small import SENTENCES, folder
from systems import posix

from regard.common.errors import LineError, UsageError
from regard.model_folder import load_folder
from regard.runtime import native
from regard.runtime.engine import pack_model
from regard.runtime.engine.runtime_file import runtime_file
from regard.runtime.model import Constraints, Options, RuntimeLine, RuntimeModel

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

LINES = [*SENTENCES, "", "빵!", "I", " ".join(f"{sentence}." for sentence in SENTENCES * 4)]
KINDS = (
    {"beam": 1},
    {"beam": 5, "nbest": 3},
    {"beam": 1, "no_repeat_ngram": 2},
    {"beam": 3, "alignments": 1},
    {"beam": 2, "attention": 2},
)
FAMILIES = [
    ("transformer", "transformer"),
    ("recurrent", "recurrent"),
    ("convolutional", "convolutional"),
]


@pytest.fixture(scope="module", params=FAMILIES, ids="-".join)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RuntimeModel:
    return RuntimeModel(write_file(tmp_path_factory.mktemp("model"), *request.param))


def write_file(directory: Path, encoder: str, decoder: str) -> Path:
    model = load_folder(folder(directory / "run", encoder, decoder, end=0.5))
    values = {"precision": "float32", "search": json.loads(model.settings.search.model_dump_json())}
    file = directory / "model.regard"
    file.write_bytes(runtime_file(model, pack_model(model.model, "float32"), None, values))
    return file


def options(model: RuntimeModel, **changes: Any) -> Options:
    chosen = model.options()
    for name, value in changes.items():
        setattr(chosen, name, value)
    return chosen


def contents(line: RuntimeLine) -> tuple[Any, ...]:
    weights = [
        {name: array.tobytes() for name, array in hypothesis.weights.items()}
        for hypothesis in line.hypotheses
    ]
    parts = [(part.source, part.text) for part in line.parts]
    return (
        [(h.text, h.ids, h.links) for h in line.hypotheses],
        weights,
        line.source,
        parts,
        line.notes,
    )


def draw_calls(kinds: int, generator: random.Random) -> list[tuple[int, list[int]]]:
    calls = [
        (kind, [generator.randrange(len(LINES)) for _ in range(generator.choice([0, 1, 1, 2, 7]))])
        for kind in range(kinds)
        for _ in range(12)
    ]
    generator.shuffle(calls)
    return calls


@pytest.mark.parametrize("threads", [1, 3])
def test_calls_with_unlike_options_get_what_they_would_get_alone(
    model: RuntimeModel, threads: int
) -> None:
    kinds = [
        kind for kind in KINDS if model.layers or not {"alignments", "attention"} & kind.keys()
    ]
    alone = [model.translate(LINES, options(model, **kind)) for kind in kinds]
    assert len({h.ids for kind in alone for line in kind for h in line.hypotheses}) > 20
    calls = draw_calls(len(kinds), random.Random(threads))
    queue = model.queue(threads)

    def submit(first: int) -> None:
        for ticket in range(first, len(calls), 2):
            kind, numbers = calls[ticket]
            queue.submit(
                ticket, [LINES[number] for number in numbers], options(model, **kinds[kind])
            )

    submitters = [threading.Thread(target=submit, args=(first,)) for first in range(2)]
    for thread in submitters:
        thread.start()
    results = dict(filter(None, (queue.take(30.0) for _ in calls)))
    for thread in submitters:
        thread.join()
    assert results.keys() == set(range(len(calls)))
    for ticket, (kind, numbers) in enumerate(calls):
        lines = results[ticket]
        assert lines is not None
        for number, line in zip(numbers, lines, strict=True):
            assert contents(line) == contents(alone[kind][number])
            expected = [hypothesis.score for hypothesis in alone[kind][number].hypotheses]
            assert [hypothesis.score for hypothesis in line.hypotheses] == pytest.approx(
                expected, abs=1e-5
            )
    assert queue.take(0.0) is None
    queue.close()


def test_traces_and_prefixes_are_those_of_a_call_alone(model: RuntimeModel) -> None:
    """A wide beam beside a narrow one, so that more tokens are asked for at a step than one of them
    needs.
    """
    chosen = options(model, beam=2, trace=1)
    prefix = [
        Constraints.of_prefix(
            model.translate([LINES[1]], options(model, beam=1))[0].hypotheses[0].ids[:2]
        )
    ]
    queue = model.queue(1)
    queue.submit(0, LINES, options(model, beam=12))
    for ticket, line in enumerate(LINES[:4], 1):
        queue.submit(ticket, [line], chosen, prefix if ticket % 2 else None)
    results = dict(filter(None, (queue.take(30.0) for _ in range(5))))
    for ticket, line in enumerate(LINES[:4], 1):
        (expected,), lines = (
            model.translate([line], chosen, prefix if ticket % 2 else None),
            results[ticket],
        )
        assert lines is not None
        assert contents(lines[0]) == contents(expected)
        assert len(lines[0].steps) == len(expected.steps) > 1
        for step, other in zip(lines[0].steps, expected.steps, strict=True):
            assert step.prefixes == other.prefixes
            assert [(c.beam, c.token, c.fate) for c in step.candidates] == [
                (c.beam, c.token, c.fate) for c in other.candidates
            ]
    queue.close()


def test_a_cancelled_call_has_no_result_and_disturbs_no_other(model: RuntimeModel) -> None:
    queue = model.queue(2)
    chosen = options(model, beam=4)
    expected = model.translate(LINES, chosen)
    for ticket in range(40):
        queue.submit(ticket, LINES, chosen)
    for ticket in range(0, 40, 2):
        queue.cancel(ticket)
    queue.cancel(1000)
    queue.submit(40, LINES, chosen)
    results: dict[int, Any] = {}
    while len(results.keys() & {*range(1, 40, 2), 40}) < 21:
        taken = queue.take(30.0)
        assert taken is not None, "a call that was not cancelled is done"
        results[taken[0]] = taken[1]
    assert len(results) < 41, "the last calls were cancelled before they were begun"
    for lines in results.values():
        assert [contents(line) for line in lines] == [contents(line) for line in expected]
    queue.close()


def test_token_ids_are_searched_among_lines(model: RuntimeModel) -> None:
    queue = model.queue(2)
    chosen = options(model, beam=3, nbest=2, min_length=1)
    sources = [model.encode(line) for line in SENTENCES]
    prefixes = [
        Constraints((ctypes.c_int32 * 2)(5, 6), 2, max_steps=9, sampling_key=n)
        for n in range(len(sources))
    ]
    calls: list[tuple[Any, Any]] = [(sources, None), (LINES, None), (sources, prefixes)]
    expected = [model.translate(given, chosen, asked) for given, asked in calls]
    assert {line.hypotheses[0].ids[:2] for line in expected[2]} == {(5, 6)}
    for ticket in range(30):
        given, asked = calls[ticket % 3]
        queue.submit(ticket, given, chosen, asked)
    for ticket in range(0, 30, 4):
        queue.cancel(ticket)
    with pytest.raises(UsageError, match="source 1: wanted 1 to"):
        queue.submit(1, [[10**6]], chosen)
    for ticket in range(29, -1, -1):
        if ticket % 4:
            taken = queue.take(60.0, ticket)
            assert taken is not None
            assert taken[0] == ticket
            assert isinstance(taken[1], list)
            assert [contents(line) for line in taken[1]] == [
                contents(line) for line in expected[ticket % 3]
            ]
    queue.close()


def test_whoever_stops_waiting_cancels_the_call(
    model: RuntimeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    queue = model.queue(1)
    chosen = options(model, beam=4)
    monkeypatch.setattr(queue, "take", interrupt)
    with pytest.raises(KeyboardInterrupt):
        queue.translate(LINES * 50, chosen)
    monkeypatch.undo()
    queue.submit(1000, LINES[:1], chosen)
    assert (queue.take(60.0) or (0,))[0] == 1000
    with pytest.raises(LineError):
        queue.translate(["x" * 100], options(model, max_line=50))
    queue.close()


@posix
def test_a_fork_has_a_queue_of_its_own(model: RuntimeModel) -> None:
    chosen = options(model, beam=2)
    expected = [contents(line) for line in model.translate(LINES, chosen)]
    with model._alone:  # as if another call were open
        assert [contents(line) for line in model.translate(LINES, chosen)] == expected
        if not (child := os.fork()):
            is_equal = [contents(line) for line in model.translate(LINES, chosen)] == expected
            os._exit(0 if is_equal and len(model._queues) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_long_call_does_not_keep_others_waiting(model: RuntimeModel) -> None:
    queue = model.queue(1)
    chosen = options(model, beam=1)
    queue.submit(1, LINES * 200, chosen)
    queue.submit(2, LINES[:1], chosen)
    first = queue.take(60.0)
    assert first is not None
    assert first[0] == 2
    assert queue.take(60.0) is not None
    queue.submit(3, [SENTENCES[0]], options(model, beam=250, min_length=40, max_length=40))
    queue.submit(4, LINES[:1], chosen)
    assert [(queue.take(60.0) or (0,))[0] for _ in range(2)] == [4, 3], "one of a wide beam neither"
    queue.close()


def test_a_queue_is_closed_while_calls_are_open(model: RuntimeModel) -> None:
    queue = model.queue(2)
    for ticket in range(20):
        queue.submit(ticket, LINES, options(model, beam=5))
    queue.close()
    queue.close()


def test_what_cannot_be_translated_is_refused_at_once(model: RuntimeModel) -> None:
    queue = model.queue(1)
    with pytest.raises(UsageError, match="beam: wanted 1 to 250"):
        queue.submit(1, ["I"], options(model, beam=0))
    with pytest.raises(LineError) as caught:
        queue.submit(1, ["I", "x" * 100], options(model, max_line=50))
    assert caught.value.causes
    queue.submit(1, ["I"], model.options())
    taken = queue.take(30.0)
    assert taken is not None
    assert taken[0] == 1
    queue.close()


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ["thread", "address,undefined"])
def test_sanitizers_see_nothing(tmp_path: Path, sanitizers: str) -> None:
    """Threads submit, cancel and take, and the queue is closed under them; by hand more:
    `queue_driver FILE CALLS`.
    """
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs gcc or clang")
    program = tmp_path / "driver"
    driver = Path(__file__).with_name("queue_driver.c")
    flags = [
        "-g",
        "-O1",
        "-std=gnu11",
        "-march=native",
        f"-fsanitize={sanitizers}",
        "-I",
        str(native.FOLDER_OF_SOURCES),
    ]
    command = [
        compiler,
        *flags,
        "-o",
        str(program),
        str(driver),
        *map(str, native.SOURCES),
        "-lm",
        "-lpthread",
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"this compiler has no sanitizers: {built.stderr[-200:]}")
    file = write_file(tmp_path, "transformer", "transformer")
    done = subprocess.run(
        [str(program), str(file), "150"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[0]) > 100
