"""Continuous batching: as sentences finish, others take their rows, in as many threads as there are models."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from regard.models import Batch, SourceInput, source_length
from regard.search import Decoding, DecodingModel, Finished, Hypothesis, Rule, SearchSettings, SuppressTokens, Task


@dataclass(frozen=True)
class DecodeRequest:
    """A source to decode, token ids of a sentence or pixels of an image, and the task of its target."""

    source: SourceInput
    task: Task

    @property
    def source_length(self) -> int:
        """About how many memory entries the source has."""
        return source_length(self.source)

    @property
    def source_ids(self) -> Sequence[int]:
        """Token ids of a source that is a sentence."""
        assert not isinstance(self.source, torch.Tensor), "an image has no token ids"
        return self.source


@dataclass(frozen=True)
class BatchLimits:
    """Most that one thread decodes together: hypotheses (`rows`), and source tokens with their padding (`tokens`)."""

    rows: int = 96
    tokens: int = 4096


def decode_requests(
    models: Sequence[DecodingModel],
    requests: Sequence[DecodeRequest],
    settings: SearchSettings,
    rules: Sequence[Rule] = (SuppressTokens(),),
    limits: BatchLimits | None = None,
) -> list[list[Hypothesis]]:
    """Decode requests by continuous batching; return the hypotheses of each, best first, in their order.

    Task ids are unique. Each model works in a thread of its own. The longest sources go first; no sentence depends on
    those it is batched with.
    """
    queue = _Queue(requests, limits or BatchLimits(), settings.beam)
    if len(models) == 1 or len(requests) == 1:
        results = _decode_queue(models[0], queue, settings, rules)
    else:
        results = {}
        with ThreadPoolExecutor(len(models), "regard-decode") as pool:
            workers = [pool.submit(_decode_queue, model, queue, settings, rules) for model in models]
            try:
                for worker in workers:
                    results |= worker.result()
            except BaseException:  # a failure in one thread, or Ctrl-C, stops all
                queue.close()
                raise
    return [results[request.task.id] for request in requests]


def stream(
    model: DecodingModel,
    request: DecodeRequest,
    settings: SearchSettings,
    rules: Sequence[Rule] = (SuppressTokens(),),
) -> Iterator[tuple[int, ...]]:
    """Yield the token ids of one target after each step, end of sentence not counted: greedy, or one sample."""
    assert settings.beam == 1, "with several beams none is final before all are done"
    with torch.inference_mode():
        decoding, finished = _begin(model, [request], settings, rules)
    while not finished:
        yield decoding.beams.prefix_of(0)
        with torch.inference_mode():
            decoding, finished = decoding.step(model)
    yield finished[0].hypotheses[0].ids


class _Queue:
    """Requests that no thread has begun, longest source first."""

    def __init__(self, requests: Sequence[DecodeRequest], limits: BatchLimits, beam: int) -> None:
        self.limits, self.beam, self._lock = limits, beam, threading.Lock()
        self._requests = deque(sorted(requests, key=lambda request: -request.source_length))
        self._lengths = {request.task.id: request.source_length for request in requests}

    def take(self, tasks: Sequence[Task]) -> list[DecodeRequest]:
        """Take the next requests that fit beside the open tasks; at least one if there are none.

        Fewer than a quarter of the rows are not worth a separate first step: nothing is taken until more are free.
        """
        rows = len(tasks) * self.beam
        if rows > self.limits.rows * 3 // 4:
            return []
        tokens = sum(self._lengths[task.id] for task in tasks)
        taken: list[DecodeRequest] = []
        with self._lock:
            while self._requests:
                length = self._requests[0].source_length
                fits = rows + self.beam <= self.limits.rows and tokens + length <= self.limits.tokens
                if not fits and (tasks or taken):
                    break
                taken.append(self._requests.popleft())
                rows, tokens = rows + self.beam, tokens + length
        return taken

    def close(self) -> None:
        """Drop all waiting requests."""
        with self._lock:
            self._requests.clear()


def _decode_queue(
    model: DecodingModel, queue: _Queue, settings: SearchSettings, rules: Sequence[Rule]
) -> dict[int, list[Hypothesis]]:
    """Take requests and decode them until none is left; return the hypotheses of each task id."""
    results: dict[int, list[Hypothesis]] = {}
    decoding: Decoding | None = None
    with torch.inference_mode():
        while True:
            finished: list[Finished] = []
            if requests := queue.take(decoding.beams.tasks if decoding else ()):
                begun, finished = _begin(model, requests, settings, rules)
                decoding = decoding.join(begun) if decoding and begun else decoding or begun
            elif not decoding:
                return results
            if decoding:
                decoding, ended = decoding.step(model)
                finished += ended
            results |= {task.id: hypotheses for task, hypotheses in finished}


def _begin(
    model: DecodingModel, requests: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule]
) -> tuple[Decoding, list[Finished]]:
    """Encode requests and make their first step, after which each has as many rows as those already open."""
    source = model.encode(Batch.of([request.source for request in requests], model.device))
    tasks = [request.task for request in requests]
    return Decoding.begin(model, source, tasks, settings, rules).step(model)
