"""ClusterWorkers: translate the chunks of a file on the machines of a Ray cluster; results keep the order of lines."""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.common.errors import RegardError, WorkerError
from regard.pipeline.bulk import Chunk, ChunkResult, ChunkTranslator, Lines
from regard.serving.cluster.chunk_values import COLUMN, Value, from_text, to_text
from regard.serving.cluster.cluster import cluster, cores_of
from regard.serving.cluster.sent_model import SentModel

if TYPE_CHECKING:
    from regard.pipeline import RuntimeTranslator, Translator


@dataclass(frozen=True)
class ClusterJob:
    """Work for a cluster: translate the lines, in chunks of `size`, with the model at `paths`.

    `count`: chunks in translation at a time; None: as many as the cores of the cluster allow. `model`: the options of
    `SentModel`.
    """

    translate: ChunkTranslator
    lines: Lines
    size: int
    paths: tuple[Path, ...]
    count: int | None = None
    model: Mapping[str, Any] = field(default_factory=dict)


class ClusterWorkers:
    """Translates chunks on all machines of a cluster, each by a process that has opened the model.

    Ray repeats what was in hand on a machine that is lost, on another one. Use it in a `with` block.
    """

    def __init__(self, address: str, job: ClusterJob) -> None:
        self._address, self._job, self._open = address, job, contextlib.ExitStack()

    def __enter__(self) -> ClusterWorkers:
        with contextlib.ExitStack() as stack:
            self._ray = stack.enter_context(cluster(self._address, self._job.count))
            self._model = SentModel.put(self._ray, self._job.paths, **self._job.model)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._open.__exit__(*problem)

    def results(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Yield each chunk with its result, in order.

        Of `chunks` only the first is read here; from it on, a process beside this one reads the lines again. Raises
        what reading or translating raised, when all chunks before are done, and WorkerError if the cluster gives up.
        """
        from ray.exceptions import RayError

        first = next(iter(chunks), None)
        if first is None:
            return
        try:
            for batch in self._dataset(first.number).iter_batches(batch_size=1, batch_format="numpy"):
                value = from_text(batch[COLUMN][0])
                if isinstance(value, RegardError):
                    raise value
                assert isinstance(value, tuple), "a chunk comes back with its result"
                yield value
        except RayError as problem:
            reason = " ".join(str(problem).split())[-300:]
            raise WorkerError(f"the cluster gave up: {reason}; the same command with `resume=True` continues") from None

    def _dataset(self, first: int) -> Any:
        from ray.data import DataContext, TaskPoolStrategy, read_datasource
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from regard.serving.cluster.chunk_source import ChunkSource

        context = DataContext.get_current()
        context.enable_progress_bars = False
        context.target_max_block_size = 1  # a chunk is a block
        context.execution_options.preserve_order = True
        here = NodeAffinitySchedulingStrategy(self._ray.get_runtime_context().get_node_id(), soft=False)
        source = read_datasource(
            ChunkSource(self._job.lines, self._job.size, first),
            ray_remote_args={"num_cpus": 0, "scheduling_strategy": here},
            override_num_blocks=1,
        )
        # Tasks, not actors: a chunk then waits for no particular process, which may never come back.
        return source.map_batches(
            translate_chunk,
            fn_kwargs={"translate": self._job.translate, "model": self._model},
            batch_size=1,
            batch_format="numpy",
            num_cpus=self._model.threads,
            compute=TaskPoolStrategy(size=self._job.count or max(1, cores_of(self._ray) // self._model.threads)),
            scheduling_strategy="SPREAD",
            max_retries=-1,
        )


@functools.lru_cache(maxsize=1)  # Ray gives a worker process many chunks, one after another
def _opened(model: SentModel) -> Translator | RuntimeTranslator:
    return model.open()


def translate_chunk(batch: dict[str, Any], translate: ChunkTranslator, model: SentModel) -> dict[str, Any]:
    """Translate the chunk in a batch of one row, in a worker process; an error is a result too."""
    value = from_text(batch[COLUMN][0])
    if isinstance(value, Chunk):
        value = _result(value, translate, model)
    return {COLUMN: [to_text(value)]}


def _result(chunk: Chunk, translate: ChunkTranslator, model: SentModel) -> Value:
    try:
        return chunk, translate(_opened(model), chunk)
    except RegardError as problem:
        return problem
    except Exception:
        return WorkerError(f"lines {chunk.start:,} to {chunk.end:,}: {traceback.format_exc()}")
