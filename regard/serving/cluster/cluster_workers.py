"""Translate the chunks of a file on a Ray cluster, and return the results in the order of lines."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.common.errors import RegardError, WorkerError
from regard.pipeline.bulk import Chunk, ChunkResult, ChunkTranslator
from regard.serving.cluster.cluster import cluster, cores_of, one_line
from regard.serving.cluster.model_transfer import SentFiles, SentModel

_AHEAD = 4
"""Maximum number of chunks in memory per chunk in translation; finished ones wait for those before
them.
"""


@contextlib.contextmanager
def translate_on_cluster(
    address: str,
    translate: ChunkTranslator,
    paths: Sequence[Path],
    count: int | None = None,
    **options: Any,
) -> Iterator[Callable[[Iterable[Chunk]], Iterator[tuple[Chunk, ChunkResult]]]]:
    """Send the model at `paths` to a cluster; yield a function that returns chunks with their
    results, in order.

    Processes on all machines open the model and translate chunks; if a machine is lost, Ray repeats
    its chunks on another one. Chunks are read a few ahead. An error of reading or translating is
    raised when all chunks before it are done, and WorkerError if the cluster gives up. `count`:
    chunks in translation at a time, by default as many as the cores of the cluster allow;
    `options`: those of `SentModel`.
    """
    with cluster(address, count) as ray:
        model = SentModel(tuple(SentFiles.put(ray, path) for path in paths), **options)
        most = count or max(1, cores_of(ray) // model.threads)
        yield lambda chunks: _results(
            ray, _references(ray, chunks, translate, model, most)
        )


def _results(
    ray: Any, references: Iterable[tuple[Chunk, Any]]
) -> Iterator[tuple[Chunk, ChunkResult]]:
    try:
        for chunk, reference in references:
            yield chunk, ray.get(reference)
    except ray.exceptions.RayError as problem:
        cause = getattr(problem, "cause", None)
        if isinstance(cause, RegardError):
            raise cause from None
        raise WorkerError(
            f"the cluster gave up: {one_line(problem)}; the same command with `resume=True` "
            "continues"
        ) from None


def _references(
    ray: Any,
    chunks: Iterable[Chunk],
    translate: ChunkTranslator,
    model: SentModel,
    most: int,
) -> Iterator[tuple[Chunk, Any]]:
    """Yield each chunk with Ray's reference to its result, in order.

    An error of reading is raised after the chunks that were read before it.
    """
    # A task, unlike the call of an actor, does not wait for one process that may never return.
    task = ray.remote(
        num_cpus=model.threads, max_retries=-1, scheduling_strategy="SPREAD"
    )(translate_chunk)
    context = ray.put((translate, model))
    running = list[Any]()
    waiting = deque[tuple[Chunk, Any]]()
    try:
        for chunk in chunks:
            while len(running) == most or len(waiting) >= _AHEAD * most:
                _, running = ray.wait(running)
                while waiting and waiting[0][1] not in running:
                    yield waiting.popleft()
            running.append(task.remote(chunk, context))
            waiting.append((chunk, running[-1]))
    except RegardError:
        yield from waiting
        raise
    yield from waiting


# A worker process translates many chunks, one after another, with the same model.
_open_model = functools.lru_cache(maxsize=1)(SentModel.open)


def translate_chunk(
    chunk: Chunk, context: tuple[ChunkTranslator, SentModel]
) -> ChunkResult:
    """Translate a chunk in a worker process."""
    translate, model = context
    return translate(_open_model(model), chunk)
