"""Which engine decodes a model here, with how many threads, and on what it depends."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch

from regard.data.tokenizer import EOS
from regard.engine.company import Job, Reader, Room, decode
from regard.engine.prepared import Prepared, prepare, unprepared
from regard.engine.program import Precision
from regard.engine.tuning import quickest, remembered, seconds
from regard.errors import UsageError
from regard.models import Batch, Model
from regard.search import Forbid, Hypothesis, Rule, SearchSettings

__all__ = ["Engine", "EngineName"]

EngineName = Literal["auto", "native"]
PLAIN = Room(rows=160, pieces=4096)
"""What PyTorch decodes together."""
ROWS = (96, 48, 192)
SMALL = 8_000_000
"""Weights of a model whose steps are over before a second thread has woken."""


class Engine:
    """Decodes sentences by the fastest means that can: native kernels where they are to be had, PyTorch elsewhere.

    Raises UsageError for a precision that only the kernels have, where there are none.
    """

    def __init__(self, model: Model, name: EngineName = "auto", precision: Precision = "float32") -> None:
        self.model, self.name, self.precision = model, name, precision
        self._readers: dict[int, Reader] = {}
        self._made: tuple[int, ...] = ()
        self._lock = threading.Lock()
        self.reason = unprepared(model)
        if self.reason is not None and precision != "float32":
            raise UsageError(
                f"precision {precision} needs the native kernels, and {self.reason}; leave --precision at float32"
            )

    def decode(
        self, jobs: Sequence[Job], settings: SearchSettings, rules: Sequence[Rule] = (Forbid(),)
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each job, best first, in the order of the jobs. Callers in other threads take turns."""
        if self.reason is not None:
            return decode([self.model], jobs, settings, rules, PLAIN)
        with self._lock:
            return self._decode(jobs, settings, rules)

    def _decode(self, jobs: Sequence[Job], settings: SearchSettings, rules: Sequence[Rule]) -> list[list[Hypothesis]]:
        self._renew()
        threads = torch.get_num_threads()
        if threads == 1 or len(jobs) == 1:
            readers = [self._together(threads)]
        else:
            readers = [self._reader(number) for number in range(threads)]
        return decode(readers, jobs, settings, rules, self._room(len(jobs) * settings.beam))

    def ready(self) -> None:
        """Prepare now what the first sentence would have to wait for; copies of this process then share it."""
        if self.reason is None:
            self._renew()

    def describe(self) -> str:
        """What decodes, in a few words for a person."""
        if self.reason is None:
            return f"native kernels, {self.precision}"
        return f"PyTorch, {self.precision} ({self.reason})"

    def _renew(self) -> None:
        """Pack the weights anew where they have been learning since, or where a fork has left the threads behind."""
        made = (os.getpid(), *(parameter._version for parameter in self.model.parameters()))
        if made != self._made:
            self._readers, self._made = {0: prepare(self.model, self.precision)}, made

    def _reader(self, number: int) -> Reader:
        if number not in self._readers:
            first = self._readers[0]
            assert isinstance(first, Prepared)
            self._readers[number] = first.another()
        return self._readers[number]

    def _together(self, threads: int) -> Reader:
        """The verbs for one sentence: by as many threads as were found to be quickest."""
        if threads == 1 or sum(parameter.numel() for parameter in self.model.parameters()) < SMALL:
            return self._reader(0)
        most = int(remembered(f"threads {self._key()} {threads}", lambda: self._threads(threads)))
        if most == 1:
            return self._reader(0)
        if -most not in self._readers:
            first = self._readers[0]
            assert isinstance(first, Prepared)
            self._readers[-most] = first.another(most)
        return self._readers[-most]

    def _room(self, rows: int) -> Room:
        """How much each thread decodes together; found out when there is enough to do for it to matter."""
        if rows <= 8 * max(ROWS):
            return Room(rows=ROWS[0])
        return Room(rows=int(remembered(f"rows {self._key()}", self._rows)))

    def _key(self) -> str:
        shapes = sorted({f"{tuple(p.shape)}" for p in self.model.parameters()})
        return f"{self.precision} {len(list(self.model.parameters()))} {' '.join(shapes)}"

    def _threads(self, most: int) -> int:
        """How many threads make one step of one sentence quickest."""
        first = self._readers[0]
        assert isinstance(first, Prepared)
        teams = {count: first.another(count) for count in {1, 2, most} if count <= most}
        return quickest(sorted(teams), lambda count: _steps(teams[count], 1, 8))

    def _rows(self) -> int:
        """How many rows together take the least time for each."""
        first = self._readers[0]
        return quickest(ROWS, lambda rows: _steps(first, rows, 4) / rows)


def _steps(reader: Any, rows: int, count: int) -> float:
    """Seconds for some steps of so many sentences."""
    source = reader.encode(Batch(torch.full((rows, 16), EOS)))
    tokens = np.full((rows, 1), EOS)

    def run() -> None:
        state = reader.begin(source)
        for _ in range(count):
            features, state = reader.step(tokens, state, source)
            reader.best(features, 1)

    return seconds(run)
