"""Chunks of a file translated on the machines of a Ray cluster; results keep the order of lines."""

from __future__ import annotations

import contextlib
import functools
import json
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.common.errors import ConfigurationError, DataError, ModelFolderError, RegardError, UsageError, WorkerError
from regard.pipeline.bulk import Chunk, ChunkResult, ChunkTranslator
from regard.serving.cluster.cluster import cluster, cores_of
from regard.serving.cluster.sent_model import SentModel

if TYPE_CHECKING:
    from regard.pipeline import RuntimeTranslator, Translator

Value = Chunk | ChunkResult | RegardError
"""A chunk to translate, its result, or what prevented either."""
_ERRORS = {kind.__name__: kind for kind in (UsageError, ConfigurationError, DataError, ModelFolderError)}
_AHEAD = 4
"""Chunks that are in hand for each one in translation: results that are done wait for those before them."""


@contextlib.contextmanager
def translate_on_cluster(
    address: str, translate: ChunkTranslator, paths: Sequence[Path], count: int | None = None, **options: Any
) -> Iterator[Callable[[Iterable[Chunk]], Iterator[tuple[Chunk, ChunkResult]]]]:
    """Send the model at `paths` to a cluster; yield a function that returns chunks with their results, in order.

    They are translated on all machines, each by a process that has opened the model; Ray repeats what was in hand on a
    machine that is lost, on another one. Chunks are read a few ahead. The function raises what reading or translating
    raised, when all chunks before are done, and WorkerError if the cluster gives up. `count`: chunks in translation at
    a time; None: as many as the cores of the cluster allow. `options`: those of `SentModel`.
    """
    with cluster(address, count) as ray:
        model = SentModel.put(ray, paths, **options)
        most = count or max(1, cores_of(ray) // model.threads)
        yield lambda chunks: _results(ray, _references(ray, chunks, translate, model, most))


def _results(ray: Any, references: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Chunk, ChunkResult]]:
    try:
        for chunk, reference in references:
            value = from_text(ray.get(reference))
            if isinstance(value, RegardError):
                raise value
            assert isinstance(value, ChunkResult), "a result comes back of a chunk"
            yield chunk, value
    except ray.exceptions.RayError as problem:
        reason = " ".join(str(problem).split())[-300:]
        raise WorkerError(f"the cluster gave up: {reason}; the same command with `resume=True` continues") from None


def _references(
    ray: Any, chunks: Iterable[Chunk], translate: ChunkTranslator, model: SentModel, most: int
) -> Iterator[tuple[Any, Any]]:
    """Yield each chunk with Ray's reference to its result as text, in order; an error in reading is the last."""
    # Tasks, not actors: a chunk then waits for no particular process, which may never come back.
    task = ray.remote(num_cpus=model.threads, max_retries=-1, scheduling_strategy="SPREAD")(translate_chunk)
    context, running, waiting = ray.put((translate, model)), list[Any](), deque[tuple[Any, Any]]()
    for chunk in _until_error(chunks):
        while len(running) == most or len(waiting) >= _AHEAD * most:
            _, running = ray.wait(running)
            while waiting and waiting[0][1] not in running:
                yield waiting.popleft()
        if isinstance(chunk, RegardError):
            waiting.append((chunk, ray.put(to_text(chunk))))
        else:
            running.append(task.remote(to_text(chunk), context))
            waiting.append((chunk, running[-1]))
    yield from waiting


def _until_error(chunks: Iterable[Chunk]) -> Iterator[Chunk | RegardError]:
    try:
        yield from chunks
    except RegardError as problem:
        yield problem


@functools.lru_cache(maxsize=1)  # Ray gives a worker process many chunks, one after another
def _opened(model: SentModel) -> Translator | RuntimeTranslator:
    return model.open()


def translate_chunk(text: str, context: tuple[ChunkTranslator, SentModel]) -> str:
    """Translate a chunk in a worker process; an error is a result too."""
    (translate, model), chunk = context, from_text(text)
    assert isinstance(chunk, Chunk)
    try:
        return to_text(translate(_opened(model), chunk))
    except RegardError as problem:
        return to_text(problem)
    except Exception:
        return to_text(WorkerError(f"lines {chunk.start:,} to {chunk.end:,}: {traceback.format_exc()}"))


def to_text(value: Value) -> str:
    """Return a value as JSON, which is what Ray moves: nothing is unpickled here."""
    if isinstance(value, RegardError):
        return json.dumps({"error": type(value).__name__, "causes": value.causes})
    return json.dumps({"chunk" if isinstance(value, Chunk) else "result": asdict(value)})


def from_text(text: str) -> Value:
    """Return the value that `to_text` made text of; an error of a kind that has no place here as a WorkerError."""
    content: dict[str, Any] = json.loads(text)
    if "error" in content:
        return _ERRORS.get(content["error"], WorkerError)(*content["causes"])
    if "chunk" in content:
        return Chunk(**{**content["chunk"], "lines": tuple(content["chunk"]["lines"])})
    return ChunkResult(**{**content["result"], "notes": tuple(content["result"]["notes"])})
