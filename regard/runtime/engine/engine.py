"""Engine that decodes a model: the C library, or PyTorch for what the library cannot do."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import torch

from regard.common.errors import UsageError
from regard.model_folder import ModelFolder
from regard.models import Batch, EncoderSizes, Ensemble, Model
from regard.runtime.engine.c_search import LibraryModel
from regard.runtime.engine.continuous_batching import DecodeRequest, decode_requests, stream
from regard.runtime.engine.known_model import (
    Classes,
    build_parts,
    computed_parts,
    fingerprint,
    why_changed,
    why_intercepted,
)
from regard.runtime.engine.packed_model import pack_model, runs_encoder, why_not_packed
from regard.runtime.engine.program import Precision
from regard.search import Hypothesis, Rule, SearchSettings, SuppressTokens
from regard.search.search_steps import SearchStep
from regard.search.search_trace import trace_search

EngineName = Literal["auto", "library", "pytorch"]
"""Names of the engines; auto: the C library if it can, else PyTorch."""


class Engine:
    """Decodes with the C library on a CPU; what that cannot do (GPUs, ensembles, some variants) with PyTorch.

    Both find the same hypotheses, and what decodes is the model as it is at each call. The library computes only what
    it knows to be the same: the classes and attributes that `build` gives a model, without hooks or patches, while
    nothing records it (`known_model`). Weights that only the engine has cannot change. Once `model` was asked for, or
    if the model came from elsewhere, all weights are compared by their checksum at each call.

    `precision` is that of weights and products; PyTorch's is float32. `folder`: the model with its tokenizer and
    settings, which the library needs. `choice`: the engine to use. `is_private`: nobody else has the model. Threads are
    torch.get_num_threads(). Raises UsageError for what machine or model lacks.
    """

    def __init__(
        self,
        model: Model | Ensemble,
        precision: Precision = "float32",
        folder: ModelFolder | None = None,
        choice: EngineName = "auto",
        is_private: bool = False,
    ) -> None:
        self.precision = precision
        self.choice = choice
        self._model = model
        self._folder = folder
        self._is_private = is_private
        self._built_reason = self._why_not_built()
        self._why_pytorch = self._built_reason
        self._classes = Classes((), ())
        if isinstance(model, Model) and self._built_reason is None:
            self._classes = Classes.of(computed_parts(model, runs_encoder(model)).values())
        self._built: dict[str, torch.nn.Module] = {}
        self._built_kind: tuple[EncoderSizes, bool] | None = None
        self._library: LibraryModel | None = None
        self._abandoned: list[LibraryModel] = []
        self._unpackable: str | None = None
        self._fingerprint: list[int] = []
        self._process = os.getpid()
        self._lock = threading.Lock()
        if is_private:
            model.eval()
        self._check_choice(self._built_reason)

    @property
    def model(self) -> Model | Ensemble:
        """The model that is decoded. Whoever has it may change it, so that it is compared with itself at each call."""
        self._is_private = False
        return self._model

    def with_model(self, model: Model | Ensemble) -> Engine:
        """Return an engine of the same precision and choice for another model."""
        folder = None
        if isinstance(model, Model) and self._folder is not None:
            folder = replace(self._folder, model=model)
        return Engine(model, self.precision, folder, self.choice)

    def decode(
        self, requests: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule] = (SuppressTokens(),)
    ) -> list[list[Hypothesis]]:
        """Decode requests; return the hypotheses of each, best first, in their order. Threads of callers take turns."""
        with self._lock:
            if library := self._library_for(requests, settings, rules):
                return library.decode(requests, settings, torch.get_num_threads())
            return decode_requests(self._model, requests, settings, rules)

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
                steps = stream(self._model, request, settings, rules)
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
            source = self._model.encode(Batch.of([request.source], self._model.device))
            return trace_search(self._model, source, request.task, settings)

    def evaluate(self) -> None:
        """Put the model into evaluation mode, if a part of it is not; nobody can have changed that of a private one."""
        if not self._is_private and any(part.training for part in self._model.modules()):
            self._model.eval()

    def prepare(self) -> None:
        """Pack the weights now, so that the first sentence need not wait."""
        with self._lock:
            self._why_pytorch = self._why_not_now() or self._pack()

    def describe(self) -> str:
        """Name what decodes, or decoded the last requests, and its precision, for a person.

        Also why, if PyTorch does, and whether the weights are compared at each call.
        """
        if self._why_pytorch is not None:
            return f"PyTorch, {self.precision} ({self._why_pytorch})"
        checked = "" if self._is_private else " (all weights are compared at each call, since `model` was handed out)"
        return f"C library, {self.precision}{checked}"

    def _library_for(
        self, requests: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule]
    ) -> LibraryModel | None:
        """Return the library's model if it can decode these requests; None: PyTorch does.

        Raises UsageError if PyTorch would, and was asked for another precision than its own.
        """
        self._why_pytorch = self._why_not_now() or self._pack()
        if self._why_pytorch is None and self._library is not None:
            self._why_pytorch = self._library.why_not(requests, settings, rules)
        self._check_choice(self._why_pytorch)
        return None if self._why_pytorch else self._library

    def _check_choice(self, reason: str | None) -> None:
        """Raise UsageError if only PyTorch could decode, and the library or a precision of its own was asked for."""
        if reason is None:
            return
        if self.precision != "float32":
            raise UsageError(f"precision {self.precision} needs the C library, and {reason}; take `precision=float32`")
        if self.choice == "library":
            raise UsageError(f"`engine=library`: {reason}; take `engine=auto`, and PyTorch decodes")

    def _why_not_built(self) -> str | None:
        """Return why the library cannot decode a model that was built like this; None if it can."""
        if self.choice == "pytorch":
            return "`engine=pytorch` was asked for"
        if (reason := why_not_packed(self._model)) is not None:
            return reason
        return "the engine was given no tokenizer" if self._folder is None else None

    def _why_not_now(self) -> str | None:
        """Return why the library cannot decode the model as it is at this moment; None if it can."""
        if self._is_private and self._built_reason is not None:
            return self._built_reason
        if (reason := why_intercepted(self._model)) is not None:
            return reason
        if self._is_private and self._classes.are_as_defined():
            return None
        if (reason := self._why_not_built()) is not None:
            return reason
        return None if self._is_private else self._why_changed()

    def _why_changed(self) -> str | None:
        """Return in which way the model is not what its settings build; None if it is."""
        model, folder = self._packable()
        kind = (model.encoder.sizes, runs_encoder(model))
        if kind != self._built_kind:
            self._built = build_parts(folder, *kind)
            self._built_kind = kind
        return why_changed(model, self._built)

    def _packable(self) -> tuple[Model, ModelFolder]:
        """Return the model with its folder, as packing needs them."""
        assert isinstance(self._model, Model), "an ensemble is not packed"
        assert self._folder is not None, "without a tokenizer nothing is packed"
        return self._model, self._folder

    def _pack(self) -> str | None:
        """Pack the weights, again if they have changed since or this process is a fork; return why it cannot be done.

        A model from before the fork is kept, unused: it has threads that do not exist here, and freeing it would hang.
        """
        if self._process != os.getpid():
            self._abandoned += [self._library] if self._library else []
            self._library, self._process = None, os.getpid()
        if self._is_private and (self._library or self._unpackable):
            return self._unpackable
        model, folder = self._packable()
        checksums = [] if self._is_private else fingerprint(model, runs_encoder(model))
        is_new = self._library is None and self._unpackable is None
        if is_new or self._is_private or checksums != self._fingerprint:
            self._library, self._unpackable, self._fingerprint = None, None, checksums
            try:
                self._library = LibraryModel(folder, pack_model(model, self.precision))
            except ValueError as problem:  # a vocabulary that the library cannot hold
                self._unpackable = str(problem)
        return self._unpackable
