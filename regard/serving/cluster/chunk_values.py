"""Chunks, results and errors as JSON text, one cell of a block of Ray Data each: nothing is unpickled here."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from regard.common.errors import ConfigurationError, DataError, ModelFolderError, RegardError, UsageError, WorkerError
from regard.pipeline.bulk import Chunk, ChunkResult

Value = Chunk | tuple[Chunk, ChunkResult] | RegardError
"""A chunk to translate, one with its result, or what prevented either."""
COLUMN = "value"
_ERRORS = {kind.__name__: kind for kind in (UsageError, ConfigurationError, DataError, ModelFolderError)}


def to_text(value: Value) -> str:
    """Return a value as JSON."""
    if isinstance(value, RegardError):
        return json.dumps({"error": type(value).__name__, "causes": value.causes})
    if isinstance(value, Chunk):
        return json.dumps({"chunk": asdict(value)})
    return json.dumps({"chunk": asdict(value[0]), "result": asdict(value[1])})


def from_text(text: str) -> Value:
    """Return the value that `to_text` made text of; an error of a kind that has no place here as a WorkerError."""
    content: dict[str, Any] = json.loads(text)
    if "error" in content:
        return _ERRORS.get(content["error"], WorkerError)(*content["causes"])
    chunk = Chunk(**{**content["chunk"], "lines": tuple(content["chunk"]["lines"])})
    if "result" not in content:
        return chunk
    return chunk, ChunkResult(**{**content["result"], "notes": tuple(content["result"]["notes"])})
