"""The engine that decodes a model here: native kernels, CTranslate2 or PyTorch, with its precision and threads."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from regard.engine.autotune import cached, fastest, seconds
from regard.engine.c_search import LibraryModel
from regard.engine.continuous_batching import BatchLimits, DecodeRequest, decode_requests, stream
from regard.engine.ctranslate2 import CTranslate2, export_folder, up_to_date
from regard.engine.packed_model import PackedModel, pack_model, why_not_packed
from regard.engine.program import Precision
from regard.errors import MissingExtra, ModelFolderError, UsageError
from regard.model_folder import ModelFolder
from regard.models import Batch, Ensemble, Model
from regard.search import DecodingModel, Hypothesis, Rule, SearchSettings, SuppressTokens
from regard.search.search_steps import SearchStep
from regard.search.search_trace import trace_search

EngineName = Literal["auto", "native", "ctranslate2"]
PYTORCH_LIMITS = BatchLimits(rows=160, tokens=4096)
ROWS = (96, 48, 192)
"""Numbers of rows that a thread of the native kernels may decode together; the fastest is measured."""
SMALL = 8_000_000
"""Parameters of a model whose steps are over before a second thread has woken."""
CT2_BATCH = 32
"""Sentences in one batch of CTranslate2, and in the trial that decides between it and the native kernels."""


class Engine:
    """Decodes with the fastest engine that can: native kernels (CPU), CTranslate2 from an export, or PyTorch.

    `auto` takes CTranslate2 if the model's `folder` holds an up-to-date export and it is measured to be faster;
    `ctranslate2` takes nothing else, `native` never does. PyTorch decodes what the kernels cannot (GPU, ensembles, some
    variants), in float32. `precision` is that of weights and products. Threads are torch.get_num_threads(): one model
    a thread for many sentences, or a team of threads for one. Raises UsageError for what machine or model lacks.
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
        self._ct2 = self._open_ct2()
        self._last_was_ct2: bool | None = None
        self._packed: list[PackedModel] = []  # one for each thread, sharing weights
        self._loaded: ModelFolder | None = None
        self._library: LibraryModel | None = None
        self._teams: dict[int, PackedModel] = {}  # by their number of threads, which compute each step together
        self._abandoned: list[Any] = []
        self._versions: tuple[int, ...] = ()
        self._process = os.getpid()
        self._lock = threading.Lock()
        self.reason = why_not_packed(model)
        if self._ct2 is None:
            self._check_precision()

    def read(self, loaded: ModelFolder) -> None:
        """Take note of the tokenizer and settings of the model: with these the C library can search by itself."""
        self._loaded = loaded

    def decode(
        self,
        requests: Sequence[DecodeRequest],
        settings: SearchSettings,
        rules: Sequence[Rule] = (SuppressTokens(),),
        streamed: bool = False,
    ) -> list[list[Hypothesis]]:
        """Decode requests; return the hypotheses of each, best first, in their order. Threads of callers take turns.

        `streamed`: as `stream` decodes, so never with CTranslate2. Raises UsageError if that was asked for, and this
        search is beyond it.
        """
        with self._lock:
            self._handle_fork()
            ct2 = None if streamed else self._ct2
            self._last_was_ct2 = ct2 is not None and self._prefers_ct2(ct2, requests, settings, rules)
            if ct2 is not None and self._last_was_ct2:
                return _decode_by_ct2(ct2, requests, settings)
            return self._decode(requests, settings, rules)

    def stream(
        self, request: DecodeRequest, settings: SearchSettings, rules: Sequence[Rule] = (SuppressTokens(),)
    ) -> Iterator[tuple[int, ...]]:
        """Yield the token ids of one target after each step: the last are those of `decode`, with `streamed`.

        Other requests may be decoded between the steps.
        """
        if self.reason is not None:
            self._check_precision()
            yield from stream(self.model, request, settings, rules)
            return
        with self._lock:
            self._handle_fork()
            self._repack()
            steps = stream(self._team(torch.get_num_threads()), request, settings, rules)
        while True:
            with self._lock:
                ids = next(steps, None)
            if ids is None:
                return
            yield ids

    def trace(self, request: DecodeRequest, settings: SearchSettings) -> tuple[list[Hypothesis], list[SearchStep]]:
        """Decode one request and record its search step by step; the hypotheses are those that `decode` returns.

        CTranslate2 does not offer its steps, so the model itself decodes, even if there is an export.
        """
        with self._lock, torch.inference_mode():
            model: DecodingModel = self.model
            if self.reason is None:
                self._handle_fork()
                self._repack()
                model = self._team(torch.get_num_threads())
            else:
                self._check_precision()
            source = model.encode(Batch.of([request.source], model.device))
            return trace_search(model, source, request.task, settings)

    def _check_precision(self) -> None:
        """Raise UsageError if only PyTorch could decode, whose precision is float32."""
        if self.reason is not None and self.precision != "float32":
            raise UsageError(
                f"precision {self.precision} needs the native kernels, and {self.reason}; take `precision=float32`"
            )

    def _prefers_ct2(
        self, ct2: CTranslate2, requests: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule]
    ) -> bool:
        """Return whether CTranslate2 decodes these requests: it can, and was asked for or is faster."""
        causes = ct2.unsupported(settings, rules)
        if any(_is_constrained(request, settings, self.model.max_target) for request in requests):
            causes = [*causes, "prefixes, terms and forbidden words"]
        if self.name == "ctranslate2":
            if causes:
                raise UsageError(*(f"CTranslate2 cannot do {cause}; take `engine=auto`" for cause in causes))
            return True
        if causes or any(request.source_length > ct2.max_source for request in requests):
            return False
        if self.reason is not None:
            return True
        if len(requests) < CT2_BATCH:
            return False
        trial, measurement = requests[:CT2_BATCH], f"engine {self._key()} {settings.beam} {torch.get_num_threads()}"
        runs = (lambda: self._decode(trial, settings, rules), lambda: _decode_by_ct2(ct2, trial, settings))
        choices = range(len(runs))
        return cached(measurement, choices, lambda: fastest(choices, lambda choice: seconds(runs[choice]))) == 1

    def _decode(
        self, requests: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule]
    ) -> list[list[Hypothesis]]:
        """Decode by the native kernels, or by PyTorch if there are none for this model."""
        if self.reason is not None:
            self._check_precision()
            return decode_requests([self.model], requests, settings, rules, PYTORCH_LIMITS)
        self._repack()
        threads = torch.get_num_threads()
        if self._library is not None and self._library.can(requests, settings, rules):
            return self._library.decode(requests, settings, threads)
        models: list[DecodingModel] = []
        if threads == 1 or len(requests) == 1:
            models.append(self._team(threads))
        else:
            clones = [self._first.clone() for _ in range(len(self._packed) or 1, threads)]
            self._packed += clones
            models += self._packed[:threads]
        return decode_requests(models, requests, settings, rules, self._limits(len(requests) * settings.beam))

    def _open_ct2(self) -> CTranslate2 | None:
        is_required = self.name == "ctranslate2"
        if self.name == "native" or not (is_required or self.model.device.type == "cpu"):
            return None  # an export is opened for the processor
        return _open_export(self._folder, self.precision, is_required)

    def warm_up(self) -> None:
        """Pack the weights now, so that the first sentence need not wait; forks of this process share them."""
        if self.reason is None:
            self._repack()

    def describe(self) -> str:
        """Name the engine that decodes, or decoded the last requests, and its precision, for a person."""
        expected = self.name == "ctranslate2" or (self._ct2 is not None and self.reason is not None)
        if expected if self._last_was_ct2 is None else self._last_was_ct2:
            return f"CTranslate2, {self.precision}"
        if self.reason is None:
            return f"native kernels, {self.precision}"
        return f"PyTorch, {self.precision} ({self.reason})"

    def _repack(self) -> None:
        """Pack the weights, again if they have changed since."""
        versions = tuple(parameter._version for parameter in self.model.parameters())
        assert isinstance(self.model, Model), "an ensemble is not packed"
        if versions != self._versions:
            self._packed, self._teams, self._library = [], {}, None
            packed = pack_model(self.model, self.precision)
            if self._loaded is not None and packed.programs.encoder is not None:
                self._library = LibraryModel(self._loaded, packed)
            else:
                self._packed = [packed]
            self._versions = versions

    @property
    def _first(self) -> PackedModel:
        """The packed model that decodes what the library cannot; packed when it is first needed."""
        if not self._packed:
            assert isinstance(self.model, Model), "an ensemble is not packed"
            self._packed = [pack_model(self.model, self.precision)]
        return self._packed[0]

    def _handle_fork(self) -> None:
        """After a fork, keep the packed weights but nothing that has threads.

        The old objects are kept, unused: their threads do not exist here, and joining them, even to free them, hangs.
        """
        if self._process != os.getpid():
            self._abandoned = [*self._abandoned, self._packed, self._teams, self._ct2]
            self._packed, self._teams = [packed.clone() for packed in self._packed[:1]], {}
            self._ct2, self._process = self._open_ct2(), os.getpid()

    def _team(self, threads: int) -> PackedModel:
        """Return a packed model for one sentence, computed by as many threads as are measured to be fastest."""
        if threads == 1 or sum(parameter.numel() for parameter in self.model.parameters()) < SMALL:
            return self._first
        choices = sorted({1, 2, threads})
        count = cached(f"threads {self._key()} {threads}", choices, lambda: self._fastest_team(choices))
        if count == 1:
            return self._first
        if count not in self._teams:
            self._teams[count] = self._first.clone(count)
        return self._teams[count]

    def _limits(self, rows: int) -> BatchLimits:
        """Return how much each thread decodes together; measured if there are enough rows for it to matter."""
        if rows <= 8 * max(ROWS):
            return BatchLimits(rows=ROWS[0])
        return BatchLimits(rows=cached(f"rows {self._key()}", ROWS, self._fastest_rows))

    def _key(self) -> str:
        """Describe precision and model sizes, on which measurements depend."""
        shapes = sorted({f"{tuple(p.shape)}" for p in self.model.parameters()})
        return f"{self.precision} {len(list(self.model.parameters()))} {' '.join(shapes)}"

    def _fastest_team(self, choices: Sequence[int]) -> int:
        """Measure how many threads step one sentence fastest."""
        teams = {count: self._first.clone(count) for count in choices}
        return fastest(choices, lambda count: _step_seconds(teams[count], 1, 8))

    def _fastest_rows(self) -> int:
        """Measure how many rows decoded together take the least time each."""
        return fastest(ROWS, lambda rows: _step_seconds(self._first, rows, 4) / rows)


def _step_seconds(model: PackedModel, rows: int, steps: int) -> float:
    """Measure the seconds of some greedy steps of this many sentences."""
    source = model.encode(model.model.encoder.dummy_batch(rows))
    tokens = np.zeros((rows, 1), np.int64)

    def run() -> None:
        state = model.begin(source)
        for _ in range(steps):
            features, state = model.step(tokens, state, source)
            model.top_tokens(features, 1)

    return seconds(run)


def _open_export(folder: Path | None, precision: Precision, is_required: bool) -> CTranslate2 | None:
    """Open the model's CTranslate2 export; if there is none: None, or UsageError or MissingExtra if `is_required`."""
    if folder is None:
        if is_required:
            raise UsageError("engine ctranslate2 needs one model folder with its export; take `engine=auto`")
        return None
    export = export_folder(folder, precision)
    try:
        if not up_to_date(export, folder):
            if is_required:
                raise UsageError(
                    f"{folder}: has no CTranslate2 export in {precision} of its present weights; make one with: regard "
                    f"export {folder} --to ctranslate2 --precision {precision}"
                )
            return None
        return CTranslate2(export, workers=torch.get_num_threads(), threads=1)
    except MissingExtra:
        if is_required:
            raise
    except ModelFolderError as problem:
        if is_required:
            raise
        warnings.warn(f"{problem}; until then it is not used", stacklevel=2)
    return None


def _is_constrained(request: DecodeRequest, settings: SearchSettings, max_target: int | None) -> bool:
    """Return whether a request has constraints, or a length limit of its own."""
    task = request.task
    has_own_limit = task.max_steps != settings.max_steps(request.source_length, max_target)
    return bool(task.prefix or task.terms or task.banned) or has_own_limit


def _decode_by_ct2(
    ct2: CTranslate2, requests: Sequence[DecodeRequest], settings: SearchSettings
) -> list[list[Hypothesis]]:
    """Decode in batches of similar source lengths, as many at a time as there are threads."""
    order = sorted(range(len(requests)), key=lambda i: -requests[i].source_length)
    batches = [order[i : i + CT2_BATCH] for i in range(0, len(order), CT2_BATCH)]
    results: dict[int, list[Hypothesis]] = {}
    with ThreadPoolExecutor(torch.get_num_threads(), "regard-ctranslate2") as pool:
        searched = pool.map(lambda batch: ct2.search([requests[i].source_ids for i in batch], settings), batches)
        for batch, hypotheses in zip(batches, searched, strict=True):
            results |= dict(zip(batch, hypotheses, strict=True))
    return [results[i] for i in range(len(requests))]
