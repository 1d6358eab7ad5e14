"""Chunks of a file translated on the machines of a Ray cluster; results keep the order of lines."""

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
"""Chunks that are in hand for each one in translation: results that are done wait for those before
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

    They are translated on all machines, each by a process that has opened the model; Ray repeats
    what was in hand on a machine that is lost, on another one. Chunks are read a few ahead. The
    function raises what reading or translating raised, when all chunks before are done, and
    WorkerError if the cluster gives up. `count`: chunks in translation at a time; None: as many as
    the cores of the cluster allow. `options`: those of `SentModel`.
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
        if isinstance(cause := getattr(problem, "cause", None), RegardError):
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
    """Yield each chunk with Ray's reference to its result, in order; an error in reading is raised
    after them.
    """
    # Tasks, not actors: a chunk then waits for no particular process, which may never come back.
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


# Ray gives a worker process many chunks, one after another.
_opened = functools.lru_cache(maxsize=1)(SentModel.open)


def translate_chunk(
    chunk: Chunk, context: tuple[ChunkTranslator, SentModel]
) -> ChunkResult:
    """Translate a chunk in a worker process."""
    translate, model = context
    return translate(_opened(model), chunk)
