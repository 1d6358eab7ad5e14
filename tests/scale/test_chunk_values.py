"""Chunks, results and errors as text, and back."""

from __future__ import annotations

import pytest

from regard.common.errors import DataError, MissingExtra, RegardError, UsageError, WorkerError
from regard.pipeline.bulk import Chunk, ChunkResult
from regard.serving.cluster.cluster_workers import Value, from_text, to_text

CHUNK = Chunk(3, 6001, ("나는 집에 간다", "", 'a "quoted"\ttext', "\ud800"), "abc")


@pytest.mark.parametrize("value", [CHUNK, ChunkResult("I go home\n\n", ("note",), 2, 1)], ids=["chunk", "result"])
def test_values_come_back(value: Value) -> None:
    assert from_text(to_text(value)) == value


@pytest.mark.parametrize("problem", [DataError("one", "two"), UsageError("three"), WorkerError("four")])
def test_errors_keep_their_kind_and_all_causes(problem: RegardError) -> None:
    back = from_text(to_text(problem))
    assert type(back) is type(problem)
    assert isinstance(back, RegardError)
    assert back.causes == problem.causes


def test_other_errors_keep_their_causes() -> None:
    back = from_text(to_text(MissingExtra("torch", "train", "this")))
    assert isinstance(back, WorkerError)
    assert back.causes == ("this needs the package torch: pip install 'regard[train]'",)
