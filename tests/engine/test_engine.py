"""Engine: what PyTorch decodes and what the library does, over streams, forks and private models."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import pytest
from engine.test_c_search import SEARCHES, is_packed, loaded, requests
from engine.test_decode import assert_same
from helpers.python_process import run_python
from helpers.system_marks import posix
from laws.models import kinds

from regard.common.errors import UsageError
from regard.model_folder import ModelFolder
from regard.models import Ensemble
from regard.runtime.engine import Engine

BEAM, GREEDY = SEARCHES[:2]
COMPARED = "all weights are compared at each call, since `model` was handed out"


def folder_of(search: dict[str, Any]) -> ModelFolder:
    folders = (loaded(kind.values[0], search) for kind in kinds(reads=["text"]))
    return next(folder for folder in folders if is_packed(folder))


def test_what_only_pytorch_decodes_has_its_precision() -> None:
    folder = folder_of(BEAM)
    settings = folder.settings.search
    asked = requests(folder)
    ensemble = Ensemble([folder.model, folder.model])
    needs = "precision int8 needs the C library, and "
    averaged = "an ensemble is averaged by PyTorch"

    with pytest.raises(UsageError, match=f"{needs}{averaged}"):
        Engine(ensemble, "int8")
    with pytest.raises(UsageError, match=f"{needs}`engine=pytorch` was asked for"):
        Engine(folder.model, "int8", folder, "pytorch")
    with pytest.raises(UsageError, match=f"{averaged}; take `engine=auto`"):
        Engine(ensemble, choice="library")

    rounded = Engine(folder.model, "int8", folder)
    rounded.decode(asked, settings)

    assert rounded.describe() == f"C library, int8 ({COMPARED})"
    with pytest.raises(UsageError, match=f"{needs}the last search had groups of beams"):
        rounded.decode(asked, settings.with_values(groups=2))

    asked_for = Engine(folder.model, folder=folder, choice="pytorch")

    assert asked_for.describe() == "PyTorch, float32 (`engine=pytorch` was asked for)"


def test_streams_of_the_library_are_those_of_pytorch() -> None:
    folder = folder_of(GREEDY)
    settings = folder.settings.search
    library = Engine(folder.model, folder=folder)
    pytorch = Engine(folder.model, folder=folder, choice="pytorch")

    for request in requests(folder, prefixed=True)[3:6]:
        streamed = [*pytorch.stream(request, settings)]
        prefix = len(request.task.prefix)

        assert [*library.stream(request, settings)] == streamed[prefix:]


FORKING = """
import torch
torch.set_num_threads(1)  # PyTorch's own threads are gone in a fork, which waits for them
from engine.test_engine import decode_in_a_fork
decode_in_a_fork()
print("same")
"""


@posix
def test_engine_decodes_after_a_fork() -> None:
    """In a process of its own, which has no threads of other tests."""
    ended = run_python(FORKING)
    assert (ended.returncode, ended.stdout) == (0, "same\n"), ended.stderr


def decode_in_a_fork() -> None:
    folder = folder_of(BEAM)
    tested = Engine(folder.model, folder=folder)
    asked = requests(folder)
    expected = tested.decode(asked, folder.settings.search)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        with suppress(BaseException):
            assert_same(tested.decode(asked, folder.settings.search), expected)
            os.write(writer, b"same")
        os._exit(0)

    os.close(writer)

    assert os.read(reader, 4) == b"same"

    os.waitpid(child, 0)


def test_a_private_model_is_not_compared() -> None:
    """Comparing takes as long as there are weights; whoever asks for the model may change it."""
    folder = folder_of(GREEDY)
    private = Engine(folder.model, folder=folder, is_private=True)
    private.decode(requests(folder), folder.settings.search)

    assert private.describe() == "C library, float32"
    assert private.model is folder.model
    assert private.describe() == f"C library, float32 ({COMPARED})"
