"""Chunks, results and errors as Ray moves them between machines: pickled."""

from __future__ import annotations

import pickle

import pytest

from regard.common.errors import DataError, MissingExtra, RegardError, UsageError, WorkerError
from regard.pipeline.bulk import Chunk, ChunkResult

CHUNK = Chunk(3, 6001, ("나는 집에 간다", "", 'a "quoted"\ttext', "\ud800"), "abc")


@pytest.mark.parametrize(
    "value", [CHUNK, ChunkResult("I go home\n\n", ("note",), 2, 1)], ids=["chunk", "result"]
)
def test_values_come_back(value: Chunk | ChunkResult) -> None:
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize(
    "problem", [DataError("one", "two"), UsageError("three"), WorkerError("four")]
)
def test_errors_keep_their_kind_and_all_causes(problem: RegardError) -> None:
    back = pickle.loads(pickle.dumps(problem))
    assert type(back) is type(problem)
    assert isinstance(back, RegardError)
    assert back.causes == problem.causes


def test_other_errors_keep_their_causes() -> None:
    back = pickle.loads(pickle.dumps(MissingExtra("torch", "train", "this")))
    assert isinstance(back, RegardError)
    assert back.causes == ("this needs the package torch: pip install 'regard[train]'",)
