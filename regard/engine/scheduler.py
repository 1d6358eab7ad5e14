"""Sentences that come and go: as some are finished others take their places, on as many threads as there are verbs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from regard.models import Batch, SourceInput, source_length
from regard.search import Hypothesis, Rule, SearchSettings, SuppressTokens, Task
from regard.search.beams import Beams, StepCandidates

__all__ = ["BatchLimits", "DecodeRequest", "Reader", "decode_requests", "stream"]


class Reader(Protocol):
    """The verbs of a model that reads and writes: a `Model` or a `Prepared` one."""

    @property
    def device(self) -> torch.device: ...
    @property
    def max_target(self) -> int | None: ...
    def encode(self, batch: Batch) -> Any: ...
    def begin(self, source: Any) -> Any: ...
    def step(self, tokens: Any, state: Any, source: Any) -> tuple[Any, Any]: ...
    def project(self, features: Any) -> torch.Tensor: ...
    def top_tokens(self, features: Any, k: int, suppressed: Sequence[int] = ()) -> tuple[Any, Any, Any]: ...


@dataclass(frozen=True)
class DecodeRequest:
    """A source to decode, the pieces of a sentence or the pixels of a picture, and what is asked of its target."""

    source: SourceInput
    task: Task

    @property
    def size(self) -> int:
        """About how many entries its source has."""
        return source_length(self.source)

    @property
    def pieces(self) -> Sequence[int]:
        """Those of its source, which is a sentence."""
        assert not isinstance(self.source, torch.Tensor), "a picture has no pieces"
        return self.source


@dataclass(frozen=True)
class BatchLimits:
    """How much is decoded together by one thread: hypotheses, and source pieces with their padding."""

    rows: int = 96
    tokens: int = 4096


def decode_requests(
    readers: Sequence[Reader],
    jobs: Sequence[DecodeRequest],
    settings: SearchSettings,
    rules: Sequence[Rule] = (SuppressTokens(),),
    room: BatchLimits | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each job, best first, in the order of the jobs, whose tasks have different names.

    Each reader works in a thread of its own. The longest sources go first; a sentence does not depend on its company.
    """
    waiting = _Waiting(jobs, room or BatchLimits(), settings.beam)
    if len(readers) == 1 or len(jobs) == 1:
        found = _work(readers[0], waiting, settings, rules)
    else:
        found = {}
        with ThreadPoolExecutor(len(readers), "regard-decode") as threads:
            works = [threads.submit(_work, reader, waiting, settings, rules) for reader in readers]
            try:
                for work in works:
                    found |= work.result()
            except BaseException:  # one that fails, or Ctrl-C, stops all
                waiting.stop()
                raise
    return [found[job.task.name] for job in jobs]


def stream(
    reader: Reader, job: DecodeRequest, settings: SearchSettings, rules: Sequence[Rule] = (SuppressTokens(),)
) -> Iterator[tuple[int, ...]]:
    """What is written of one sentence after each step, its end not counted: greedy, or one sample."""
    assert settings.beam == 1, "of several beams none can be told before all are done"
    found: dict[int, list[Hypothesis]] = {}
    with torch.inference_mode():
        now = _begun(reader, [job], settings, rules, found)
    while now is not None:
        yield now.front.prefix_of(0)
        with torch.inference_mode():
            now = _stepped(reader, now, found)
    yield found[job.task.name][0].ids


class _Waiting:
    """The jobs that nobody has begun."""

    def __init__(self, jobs: Sequence[DecodeRequest], room: BatchLimits, beam: int) -> None:
        self.room, self.beam, self._lock = room, beam, threading.Lock()
        self._jobs = deque(sorted(jobs, key=lambda job: -job.size))

    def take(self, rows: int, pieces: int, alone: bool) -> list[DecodeRequest]:
        """The next jobs that find room beside so many rows and pieces; at least one for who has nothing to do."""
        taken: list[DecodeRequest] = []
        with self._lock:
            while self._jobs:
                length = self._jobs[0].size
                fits = rows + self.beam <= self.room.rows and pieces + length <= self.room.tokens
                if not fits and not (alone and not taken):
                    break
                taken.append(self._jobs.popleft())
                rows, pieces = rows + self.beam, pieces + length
        return taken

    def stop(self) -> None:
        """Nothing more is begun."""
        with self._lock:
            self._jobs.clear()


@dataclass(frozen=True)
class _Open:
    """What is being written."""

    front: Beams
    state: Any
    source: Any
    lengths: NDArray[Any]  # (A,) pieces of each source


def _work(
    reader: Reader, waiting: _Waiting, settings: SearchSettings, rules: Sequence[Rule]
) -> dict[int, list[Hypothesis]]:
    """Take jobs and decode them until none is left."""
    found: dict[int, list[Hypothesis]] = {}
    now: _Open | None = None
    with torch.inference_mode():
        while True:
            rows = 0 if now is None else len(now.front) * settings.beam
            if now is None or rows <= waiting.room.rows * 3 // 4:
                pieces = 0 if now is None else int(now.lengths.sum())
                if jobs := waiting.take(rows, pieces, alone=now is None):
                    now = _joined(now, _begun(reader, jobs, settings, rules, found))
                elif now is None:
                    return found
            if now is not None:
                now = _stepped(reader, now, found)


def _begun(
    reader: Reader,
    jobs: list[DecodeRequest],
    settings: SearchSettings,
    rules: Sequence[Rule],
    found: dict[int, list[Hypothesis]],
) -> _Open | None:
    """Jobs read, and their first step made: after it each has as many rows as all others."""
    source = reader.encode(Batch.of([job.source for job in jobs], reader.device))
    front = Beams.open([job.task for job in jobs], settings, rules)
    lengths, state = np.array([job.size for job in jobs]), reader.begin(source)
    if front.initial_rows is not None:
        state = state.select(torch.from_numpy(front.initial_rows).to(reader.device))
    return _stepped(reader, _Open(front, state, source, lengths), found)


def _joined(one: _Open | None, other: _Open | None) -> _Open | None:
    if one is None or other is None:
        return one or other
    lengths = np.concatenate([one.lengths, other.lengths])
    return _Open(one.front.join(other.front), one.state.join(other.state), one.source.join(other.source), lengths)


def _stepped(reader: Reader, now: _Open, found: dict[int, list[Hypothesis]]) -> _Open | None:
    """One piece more for every row; None when all sentences are done."""
    front, device = now.front, reader.device
    tokens = torch.from_numpy(front.tokens[:, None])
    features, state = reader.step(tokens.to(device), now.state, now.source)
    moved = front.advance(_best(reader, features, front))
    for task, hypotheses in moved.finished:
        found[task.name] = hypotheses
    if not len(moved.beams):
        return None
    source, lengths = now.source, now.lengths
    if moved.rows is not None:
        state = state.select(torch.from_numpy(moved.rows).to(device))
    if moved.staying is not None:
        source, lengths = source.select(torch.from_numpy(moved.staying).to(device)), lengths[moved.staying]
    return _Open(moved.beams, state, source, lengths)


def _best(reader: Reader, features: Any, front: Beams) -> StepCandidates:
    if front.k_needed is None:
        return StepCandidates(reader.project(features)[:, -1].float().log_softmax(-1).cpu().numpy())
    return StepCandidates(
        *(some.cpu().numpy() for some in reader.top_tokens(features, front.k_needed, front.suppressed))
    )
