"""Engine: callers, threads, forks and streams get the same hypotheses, and unsupported requests are
refused.
"""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType
from typing import Any

import pytest
import torch
from engine.test_c_search import SEARCHES, is_packed, loaded, requests
from laws.models import kinds
from systems import posix

from regard.common import monkey_patches
from regard.common.errors import UsageError
from regard.model_folder import ModelFolder
from regard.models import Ensemble
from regard.runtime.engine import DecodeRequest, Engine, engine, known_model
from regard.search import Hypothesis, SearchSettings

BEAM, GREEDY = SEARCHES[:2]
COMPARED = "all weights are compared at each call, since `model` was handed out"


def folder_of(search: dict[str, Any]) -> ModelFolder:
    folders = (loaded(kind.values[0], search) for kind in kinds(reads=["text"]))
    return next(folder for folder in folders if is_packed(folder))


def engine_of(folder: ModelFolder) -> Engine:
    return Engine(folder.model, folder=folder)


def ids(results: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in results]


def test_what_only_pytorch_decodes_has_its_precision() -> None:
    folder = folder_of(BEAM)
    with pytest.raises(
        UsageError,
        match="precision int8 needs the C library, and an ensemble is averaged by PyTorch",
    ):
        Engine(Ensemble([folder.model, folder.model]), "int8")
    rounded = Engine(folder.model, "int8", folder)
    settings = folder.settings.search
    rounded.decode(requests(folder, False), settings)
    assert rounded.describe() == f"C library, int8 ({COMPARED})"
    with pytest.raises(
        UsageError, match="needs the C library, and the last search had groups of beams"
    ):
        rounded.decode(requests(folder, False), settings.with_values(groups=2))
    private = Engine(folder.model, "int8", folder, is_private=True)
    assert private.describe() == "C library, int8"
    assert private.model is folder.model
    assert private.describe() == f"C library, int8 ({COMPARED})"
    asked_for = Engine(folder.model, folder=folder, choice="pytorch")
    assert asked_for.describe() == "PyTorch, float32 (`engine=pytorch` was asked for)"
    with pytest.raises(
        UsageError, match="precision int8 needs the C library, and `engine=pytorch` was asked for"
    ):
        Engine(folder.model, "int8", folder, "pytorch")
    with pytest.raises(
        UsageError, match="`engine=library`: an ensemble is averaged by PyTorch; take `engine=auto`"
    ):
        Engine(Ensemble([folder.model, folder.model]), choice="library")


def test_concurrent_callers_get_the_hypotheses_of_one_caller() -> None:
    folder = folder_of(BEAM)
    tested = engine_of(folder)
    asked = requests(folder, False)
    settings = folder.settings.search
    expected = ids(tested.decode(asked, settings))
    actual = dict[int, Any]()

    def call(number: int) -> None:
        actual[number] = ids(tested.decode(asked[number:], settings))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert actual == {number: expected[number:] for number in range(6)}


@pytest.mark.parametrize("prefixed", [False, True])
def test_streams_and_traces_end_with_what_is_decoded(prefixed: bool) -> None:
    for search in (GREEDY, BEAM):
        folder = folder_of(search)
        library = engine_of(folder)
        settings = folder.settings.search
        pytorch = Engine(folder.model, folder=folder, choice="pytorch")
        for request in requests(folder, prefixed)[3:8]:
            (expected,) = library.decode([request], settings)
            traced = [tested.trace(request, settings) for tested in (library, pytorch)]
            assert [ids([hypotheses]) for hypotheses, _ in traced] == [ids([expected])] * 2
            (steps, reference) = (steps for _, steps in traced)
            assert [step.prefixes for step in steps] == [step.prefixes for step in reference]
            for step, other in zip(steps, reference, strict=True):
                fates = [
                    {(c.beam, c.token): c.fate for c in item.candidates} for item in (step, other)
                ]
                assert fates[0] == fates[1]
            if search is GREEDY:
                streamed = [*library.stream(request, settings)]
                assert streamed[-1] == expected[0].ids
                assert streamed == [*pytorch.stream(request, settings)][len(request.task.prefix) :]


@posix
def test_engine_decodes_after_a_fork() -> None:
    folder = folder_of(BEAM)
    tested = engine_of(folder)
    asked = requests(folder, False)
    settings = folder.settings.search
    expected = ids(tested.decode(asked, settings))
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, b"same" if ids(tested.decode(asked, settings)) == expected else b"else")
        os._exit(0)
    os.close(writer)
    assert os.read(reader, 4) == b"same"
    os.waitpid(child, 0)


def calls_of_the_engine(
    tested: Engine, asked: list[DecodeRequest], settings: SearchSettings
) -> int:
    """Count the calls of Python's functions that decide which engine decodes."""
    files = {engine.__file__, known_model.__file__, monkey_patches.__file__}
    calls = list[str]()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename in files:
            calls.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        tested.decode(asked, settings)
    finally:
        sys.setprofile(None)
    return len(calls)


def test_a_private_model_is_not_compared() -> None:
    """A call of an engine whose model nobody has takes a handful of calls, however many lines and
    weights there are.
    """
    folder = folder_of(GREEDY)
    asked = requests(folder, False)
    settings = folder.settings.search
    private = Engine(folder.model, folder=folder, is_private=True)
    shared = engine_of(folder)
    for tested in (private, shared):
        tested.decode(asked, settings)  # packs the weights
    (few, many), compared = (
        [calls_of_the_engine(private, part, settings) for part in (asked[:1], asked)],
        calls_of_the_engine(shared, asked, settings),
    )
    assert few == many <= 9
    assert compared > 100


def test_changed_weights_are_packed_again() -> None:
    folder = folder_of(BEAM)
    tested = engine_of(folder)
    asked = requests(folder, False)
    settings = folder.settings.search
    before = ids(tested.decode(asked, settings))
    with torch.no_grad():
        bias: Any = folder.model.decoder.output.bias
        bias.copy_(torch.randn(bias.shape, generator=torch.Generator().manual_seed(1)) * 3)
    after = ids(tested.decode(asked, settings))
    assert after != before
    assert after == ids(engine_of(folder).decode(asked, settings))
