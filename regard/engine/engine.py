"""Which engine decodes a model here, with how many threads, and on what it depends."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from regard.engine.autotune import cached, fastest, seconds
from regard.engine.ctranslate2 import CTranslate2, exports, up_to_date
from regard.engine.packed_model import PackedModel, pack_model, why_not_packed
from regard.engine.program import Precision
from regard.engine.scheduler import BatchLimits, DecodeRequest, Reader, decode_requests, stream
from regard.errors import MissingExtra, ModelFolderError, UsageError
from regard.models import Ensemble, Model
from regard.search import Hypothesis, Rule, SearchSettings, SuppressTokens

__all__ = ["Engine", "EngineName"]

EngineName = Literal["auto", "native", "ctranslate2"]
PLAIN = BatchLimits(rows=160, tokens=4096)
"""What PyTorch decodes together."""
ROWS = (96, 48, 192)
SMALL = 8_000_000
"""Weights of a model whose steps are over before a second thread has woken."""
TOGETHER = 32
"""Sentences in one batch of CTranslate2, and in the trial that decides between it and our own kernels."""


class Engine:
    """Decodes sentences by the fastest means that can: native kernels where they are to be had, PyTorch elsewhere.

    `auto` takes CTranslate2 where the model's `folder` holds an export for it and it is found to be quicker;
    `ctranslate2` takes nothing else, `native` never does. Raises UsageError for what this machine or this model lacks.
    """

    def __init__(
        self,
        model: Model | Ensemble,
        name: EngineName = "auto",
        precision: Precision = "float32",
        folder: Path | None = None,
    ) -> None:
        self.model, self.name, self.precision = model, name, precision
        self._folder = folder
        self._exported = self._open()
        self._went: bool | None = None  # whether the last sentences were decoded by it
        self._readers: dict[int, Reader] = {}
        self._left: list[Any] = []
        self._versions: tuple[int, ...] = ()
        self._process = os.getpid()
        self._lock = threading.Lock()
        self.reason = why_not_packed(model)
        if self._exported is None:
            self._check_precision()

    def decode(
        self, jobs: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule] = (SuppressTokens(),)
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each job, best first, in the order of the jobs. Callers in other threads take turns.

        Raises UsageError for a search that only our own can do, where CTranslate2 was asked for.
        """
        with self._lock:
            self._wake()
            self._went = self._exported is not None and self._elsewhere(jobs, settings, rules)
            if self._went:
                assert self._exported is not None
                return _by_ctranslate2(self._exported, jobs, settings)
            return self._decode(jobs, settings, rules)

    def stream(
        self, job: DecodeRequest, settings: SearchSettings, rules: Sequence[Rule] = (SuppressTokens(),)
    ) -> Iterator[tuple[int, ...]]:
        """What is written of one sentence after each step: the same pieces that `decode` gives in the end.

        Others may decode between the steps.
        """
        if self.reason is not None:
            self._check_precision()
            yield from stream(self.model, job, settings, rules)
            return
        with self._lock:
            self._wake()
            self._renew()
            steps = stream(self._together(torch.get_num_threads()), job, settings, rules)
        while True:
            with self._lock:
                ids = next(steps, None)
            if ids is None:
                return
            yield ids

    def _check_precision(self) -> None:
        """Raise UsageError where only the model itself could decode, which is in float32."""
        if self.reason is not None and self.precision != "float32":
            raise UsageError(
                f"precision {self.precision} needs the native kernels, and {self.reason}; leave --precision at float32"
            )

    def _elsewhere(self, jobs: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule]) -> bool:
        """Whether CTranslate2 is to do this."""
        exported = self._exported
        assert exported is not None
        causes = exported.why_not(settings, rules)
        if any(_special(job, settings, self.model.max_target) for job in jobs):
            causes = [*causes, "prefixes, terms and forbidden words"]
        if self.name == "ctranslate2":
            if causes:
                raise UsageError(*(f"CTranslate2 cannot do {cause}; leave --engine at auto" for cause in causes))
            return True
        if causes or any(job.size > exported.positions for job in jobs):
            return False
        if self.reason is not None:
            return True
        if len(jobs) < TOGETHER:
            return False
        trial, what = jobs[:TOGETHER], f"engine {self._key()} {settings.beam} {torch.get_num_threads()}"
        return bool(cached(what, lambda: self._trial(trial, settings, rules)))

    def _trial(self, jobs: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule]) -> bool:
        """Whether CTranslate2 is the quicker for these sentences."""
        exported = self._exported
        assert exported is not None
        ours, theirs = lambda: self._decode(jobs, settings, rules), lambda: _by_ctranslate2(exported, jobs, settings)
        return fastest((0, 1), lambda choice: seconds((ours, theirs)[choice])) == 1

    def _decode(
        self, jobs: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule]
    ) -> list[list[Hypothesis]]:
        if self.reason is not None:
            self._check_precision()
            return decode_requests([self.model], jobs, settings, rules, PLAIN)
        self._renew()
        threads = torch.get_num_threads()
        if threads == 1 or len(jobs) == 1:
            readers = [self._together(threads)]
        else:
            readers = [self._reader(number) for number in range(threads)]
        return decode_requests(readers, jobs, settings, rules, self._room(len(jobs) * settings.beam))

    def _open(self) -> CTranslate2 | None:
        wanted = self.name == "ctranslate2"
        if self.name == "native" or not (wanted or self.model.device.type == "cpu"):
            return None  # an export is opened for the processor
        return _exported(self._folder, self.precision, wanted)

    def ready(self) -> None:
        """Prepare now what the first sentence would have to wait for; copies of this process then share it."""
        if self.reason is None:
            self._renew()

    def describe(self) -> str:
        """What decodes, or decoded the last sentences, in a few words for a person."""
        likely = self.name == "ctranslate2" or (self._exported is not None and self.reason is not None)
        if likely if self._went is None else self._went:
            return f"CTranslate2, {self.precision}"
        if self.reason is None:
            return f"native kernels, {self.precision}"
        return f"PyTorch, {self.precision} ({self.reason})"

    def _renew(self) -> None:
        """Pack the weights anew where they have been learning since."""
        versions = tuple(parameter._version for parameter in self.model.parameters())
        assert isinstance(self.model, Model), "an ensemble is not prepared"
        if versions != self._versions:
            self._readers, self._versions = {0: pack_model(self.model, self.precision)}, versions

    def _wake(self) -> None:
        """In a fork of the process that prepared the weights: use them, but nothing that has threads. These were left
        behind, and who waits for their end, be it to tidy up, waits for ever.
        """
        if self._process != os.getpid():
            self._left = [*self._left, self._readers, self._exported]
            first = self._readers.get(0)
            self._readers = {0: first.clone()} if isinstance(first, PackedModel) else {}
            self._exported, self._process = self._open(), os.getpid()

    def _reader(self, number: int) -> Reader:
        if number not in self._readers:
            first = self._readers[0]
            assert isinstance(first, PackedModel)
            self._readers[number] = first.clone()
        return self._readers[number]

    def _together(self, threads: int) -> Reader:
        """The verbs for one sentence: by as many threads as were found to be quickest."""
        if threads == 1 or sum(parameter.numel() for parameter in self.model.parameters()) < SMALL:
            return self._reader(0)
        most = int(cached(f"threads {self._key()} {threads}", lambda: self._threads(threads)))
        if most == 1:
            return self._reader(0)
        if -most not in self._readers:
            first = self._readers[0]
            assert isinstance(first, PackedModel)
            self._readers[-most] = first.clone(most)
        return self._readers[-most]

    def _room(self, rows: int) -> BatchLimits:
        """How much each thread decodes together; found out when there is enough to do for it to matter."""
        if rows <= 8 * max(ROWS):
            return BatchLimits(rows=ROWS[0])
        return BatchLimits(rows=int(cached(f"rows {self._key()}", self._rows)))

    def _key(self) -> str:
        shapes = sorted({f"{tuple(p.shape)}" for p in self.model.parameters()})
        return f"{self.precision} {len(list(self.model.parameters()))} {' '.join(shapes)}"

    def _threads(self, most: int) -> int:
        """How many threads make one step of one sentence quickest."""
        first = self._readers[0]
        assert isinstance(first, PackedModel)
        teams = {count: first.clone(count) for count in {1, 2, most} if count <= most}
        return fastest(sorted(teams), lambda count: _steps(teams[count], 1, 8))

    def _rows(self) -> int:
        """How many rows together take the least time for each."""
        first = self._readers[0]
        return fastest(ROWS, lambda rows: _steps(first, rows, 4) / rows)


def _steps(reader: Any, rows: int, count: int) -> float:
    """Seconds for some steps of so many sentences."""
    source = reader.encode(reader.model.encoder.dummy_batch(rows))
    tokens = np.zeros((rows, 1), np.int64)

    def run() -> None:
        state = reader.begin(source)
        for _ in range(count):
            features, state = reader.step(tokens, state, source)
            reader.best(features, 1)

    return seconds(run)


def _exported(folder: Path | None, precision: Precision, wanted: bool) -> CTranslate2 | None:
    """The model's export for CTranslate2. Raises UsageError, or MissingExtra, where it is `wanted` and not there."""
    if folder is None:
        if wanted:
            raise UsageError("engine ctranslate2 needs one model folder with its export; leave --engine at auto")
        return None
    export = exports(folder, precision)
    if not up_to_date(export, folder):
        if wanted:
            raise UsageError(
                f"{folder}: has no export for CTranslate2 in {precision} that is of its weights; make one with: regard "
                f"export {folder} --to ctranslate2 --precision {precision}"
            )
        return None
    try:
        return CTranslate2(export, workers=torch.get_num_threads(), threads=1)
    except (MissingExtra, ModelFolderError):
        if wanted:
            raise
        return None


def _special(job: DecodeRequest, settings: SearchSettings, limit: int | None) -> bool:
    """Whether more is asked of this sentence than to be translated."""
    task = job.task
    return bool(task.prefix or task.terms or task.banned) or task.longest != settings.longest(job.size, limit)


def _by_ctranslate2(
    exported: CTranslate2, jobs: Sequence[DecodeRequest], settings: SearchSettings
) -> list[list[Hypothesis]]:
    """Sentences of like lengths together, as many batches at a time as there are threads."""
    order = sorted(range(len(jobs)), key=lambda i: -jobs[i].size)
    groups = [order[i : i + TOGETHER] for i in range(0, len(order), TOGETHER)]
    found: dict[int, list[Hypothesis]] = {}
    with ThreadPoolExecutor(torch.get_num_threads(), "regard-ctranslate2") as threads:
        searched = threads.map(lambda group: exported.search([jobs[i].pieces for i in group], settings), groups)
        for group, some in zip(groups, searched, strict=True):
            found |= dict(zip(group, some, strict=True))
    return [found[i] for i in range(len(jobs))]
