"""Engine that decodes a model: the C library, or PyTorch for what the library cannot do."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence

import torch

from regard.common.errors import UsageError
from regard.model_folder import ModelFolder
from regard.models import Batch, Ensemble, Model
from regard.runtime.engine.c_search import LibraryModel
from regard.runtime.engine.continuous_batching import DecodeRequest, decode_requests, stream
from regard.runtime.engine.packed_model import pack_model, why_not_packed
from regard.runtime.engine.program import Precision
from regard.search import Hypothesis, Rule, SearchSettings, SuppressTokens
from regard.search.search_steps import SearchStep
from regard.search.search_trace import trace_search


class Engine:
    """Decodes with the C library on a CPU; what that cannot do (GPUs, ensembles, some variants) with PyTorch.

    Both find the same hypotheses. `precision` is that of weights and products; PyTorch's is float32. `folder`: the
    model with its tokenizer and settings, which the library needs. Threads are torch.get_num_threads(). Raises
    UsageError for what machine or model lacks.
    """

    def __init__(
        self, model: Model | Ensemble, precision: Precision = "float32", folder: ModelFolder | None = None
    ) -> None:
        self.model, self.precision, self._folder = model, precision, folder
        self.reason = why_not_packed(model)
        if self.reason is None and folder is None:
            self.reason = "the engine was given no tokenizer"
        self._why_pytorch = self.reason
        self._parts = list(model.modules())  # to walk them takes as long as some of the steps of a sentence
        self._library: LibraryModel | None = None
        self._abandoned: list[LibraryModel] = []
        self._versions: list[tuple[int, int]] = []
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._check_precision(self.reason)

    def decode(
        self, requests: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule] = (SuppressTokens(),)
    ) -> list[list[Hypothesis]]:
        """Decode requests; return the hypotheses of each, best first, in their order. Threads of callers take turns."""
        with self._lock:
            if library := self._library_for(requests, settings, rules):
                return library.decode(requests, settings, torch.get_num_threads())
            return decode_requests(self.model, requests, settings, rules)

    def stream(
        self, request: DecodeRequest, settings: SearchSettings, rules: Sequence[Rule] = (SuppressTokens(),)
    ) -> Iterator[tuple[int, ...]]:
        """Yield the token ids of one target after each step: the last are those of `decode`.

        Other requests may be decoded between the steps.
        """
        with self._lock:
            if library := self._library_for([request], settings, rules):
                steps = library.stream(request, settings, torch.get_num_threads())
            else:
                steps = stream(self.model, request, settings, rules)
        while True:
            with self._lock:
                ids = next(steps, None)
            if ids is None:
                return
            yield ids

    def trace(self, request: DecodeRequest, settings: SearchSettings) -> tuple[list[Hypothesis], list[SearchStep]]:
        """Decode one request and record its search step by step; the hypotheses are those that `decode` returns."""
        with self._lock, torch.inference_mode():
            if library := self._library_for([request], settings, (SuppressTokens(),)):
                return library.trace(request, settings, torch.get_num_threads())
            source = self.model.encode(Batch.of([request.source], self.model.device))
            return trace_search(self.model, source, request.task, settings)

    def evaluate(self) -> None:
        """Put the model into evaluation mode, if a part of it is not."""
        if any(part.training for part in self._parts):
            self.model.eval()

    def prepare(self) -> None:
        """Pack the weights now, so that the first sentence need not wait."""
        with self._lock:
            self._repack()

    def describe(self) -> str:
        """Name what decodes, or decoded the last requests, and its precision, for a person."""
        if self._why_pytorch is None:
            return f"C library, {self.precision}"
        return f"PyTorch, {self.precision} ({self._why_pytorch})"

    def _library_for(
        self, requests: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule]
    ) -> LibraryModel | None:
        """Return the library's model if it can decode these requests; None: PyTorch does.

        Raises UsageError if PyTorch would, and was asked for another precision than its own.
        """
        self._repack()
        self._why_pytorch = self.reason
        if self._library is not None and self.reason is None:
            self._why_pytorch = self._library.why_not(requests, settings, rules)
        self._check_precision(self._why_pytorch)
        return None if self._why_pytorch else self._library

    def _check_precision(self, reason: str | None) -> None:
        """Raise UsageError if only PyTorch could decode, whose precision is float32."""
        if reason is not None and self.precision != "float32":
            raise UsageError(f"precision {self.precision} needs the C library, and {reason}; take `precision=float32`")

    def _repack(self) -> None:
        """Pack the weights, again if they have changed since or this process is a fork.

        A model from before the fork is kept, unused: it has threads that do not exist here, and freeing it would hang.
        """
        if self.reason is not None or self._folder is None:
            return
        if self._process != os.getpid():
            self._abandoned += [self._library] if self._library else []
            self._library, self._process = None, os.getpid()
        weights = (weight for part in self._parts for weight in part._parameters.values() if weight is not None)
        versions = [(id(weight), weight._version) for weight in weights]
        if self._library is None or versions != self._versions:
            assert isinstance(self.model, Model), "an ensemble is not packed"
            try:
                self._library = LibraryModel(self._folder, pack_model(self.model, self.precision))
            except ValueError as problem:  # a vocabulary that the library cannot hold
                self.reason, self._library = str(problem), None
            self._versions = versions
