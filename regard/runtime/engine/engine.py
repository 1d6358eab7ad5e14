"""Engine that decodes a model: the C library, or PyTorch for what the library cannot do."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import torch

from regard.common.errors import UsageError
from regard.common.processes import forget_threads_after_fork
from regard.model_folder import ModelFolder
from regard.models import EncoderSizes, Ensemble, Model
from regard.runtime.engine.c_search import LibraryModel
from regard.runtime.engine.continuous_batching import (
    DecodeCall,
    DecodeRequest,
    Scheduler,
)
from regard.runtime.engine.decoding_thread import DecodingThread
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
from regard.search.search_trace import SearchRecorder

EngineName = Literal["auto", "library", "pytorch"]
"""Names of the engines; auto: the C library if it can, else PyTorch."""


class Engine:
    """Decodes with the C library on a CPU; what that cannot do (GPUs, ensembles, some variants)
    with PyTorch.

    Both find the same hypotheses, and what decodes is the model as it is at each call. The library
    computes only what it knows to be the same: the classes and attributes that `build` gives a
    model, without hooks or patches, while nothing records it (`known_model`). Weights that only the
    engine has cannot change. Once `model` was asked for, or if the model came from elsewhere, all
    weights are compared by their checksum at each call.

    `precision` is that of weights and products; PyTorch's is float32. `folder`: the model with its
    tokenizer and settings, which the library needs. `choice`: the engine to use. `is_private`:
    nobody else has the model. Threads are torch.get_num_threads(). Raises UsageError for what
    machine or model lacks.
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
            self._classes = Classes.of(
                computed_parts(model, runs_encoder(model)).values()
            )
        self._built: dict[str, torch.nn.Module] = {}
        self._built_kind: tuple[EncoderSizes, bool] | None = None
        self._library: LibraryModel | None = None
        self._abandoned: list[LibraryModel] = []
        self._unpackable: str | None = None
        self._fingerprint: list[int] = []
        # Of checking and packing; nobody holds it while decoding.
        self._lock = threading.Lock()
        self._decoding_thread = DecodingThread(model)
        if is_private:
            model.eval()
        forget_threads_after_fork(self)
        self._check_choice(self._built_reason)

    @property
    def model(self) -> Model | Ensemble:
        """The model that is decoded. Whoever has it may change it, so that it is compared with
        itself at each call.
        """
        self._is_private = False
        return self._model

    def with_model(self, model: Model | Ensemble) -> Engine:
        """Return an engine of the same precision and choice for another model."""
        folder = None
        if isinstance(model, Model) and self._folder is not None:
            folder = replace(self._folder, model=model)
        return Engine(model, self.precision, folder, self.choice)

    def decode(
        self,
        requests: Sequence[DecodeRequest],
        settings: SearchSettings,
        rules: Sequence[Rule] = (SuppressTokens(),),
    ) -> list[list[Hypothesis]]:
        """Decode requests; return the hypotheses of each, best first, in their order.

        Any number of threads may call, and stream and trace, at once; what they ask for is decoded
        together.
        """
        if library := self._library_for(requests, settings, rules):
            return library.decode(requests, settings, torch.get_num_threads())
        call = DecodeCall(requests, settings, rules)
        deque(self._run(call), maxlen=0)
        return call.results

    def stream(
        self,
        request: DecodeRequest,
        settings: SearchSettings,
        rules: Sequence[Rule] = (SuppressTokens(),),
    ) -> Iterator[tuple[int, ...]]:
        """Yield the token ids of one target after each step: the last are those of `decode`."""
        if library := self._library_for([request], settings, rules):
            yield from library.stream(request, settings, torch.get_num_threads())
        else:
            yield from self._run(
                DecodeCall([request], settings, rules, is_streamed=True)
            )

    def trace(
        self, request: DecodeRequest, settings: SearchSettings
    ) -> tuple[list[Hypothesis], list[SearchStep]]:
        """Decode one request and record its search step by step; the hypotheses are those that
        `decode` returns.
        """
        if library := self._library_for([request], settings, (SuppressTokens(),)):
            return library.trace(request, settings, torch.get_num_threads())
        recorder = SearchRecorder(self._model)
        call = DecodeCall([request], settings, on_step=recorder)
        deque(self._run(call), maxlen=0)
        return call.results[0], recorder.steps

    def _run(self, call: DecodeCall) -> Iterator[tuple[int, ...]]:
        """Decode a call with PyTorch; yield what it streams.

        A recorder, a mode and autocast belong to the thread that entered them, and would neither
        see nor change what another thread computes: such a call is decoded by its own thread,
        beside those of others. That is safe, since modules keep no state.
        """
        is_bound = why_intercepted(
            self._model
        ) is not None or torch.is_autocast_enabled(self._model.device.type)
        return (Scheduler(self._model) if is_bound else self._decoding_thread).run(call)

    def evaluate(self) -> None:
        """Put the model into evaluation mode, if a part of it is not; nobody can have changed that
        of a private one.
        """
        if not self._is_private and any(
            part.training for part in self._model.modules()
        ):
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
        checked = (
            ""
            if self._is_private
            else " (all weights are compared at each call, since `model` was handed out)"
        )
        return f"C library, {self.precision}{checked}"

    def forget_threads(self) -> None:
        """Pack the model anew in a process that was forked.

        That from before the fork is kept, unused: it has threads that do not exist here, and
        freeing it would hang.
        """
        self._abandoned += [self._library] if self._library else []
        self._library = None
        self._lock = threading.Lock()

    def _library_for(
        self,
        requests: Sequence[DecodeRequest],
        settings: SearchSettings,
        rules: Sequence[Rule],
    ) -> LibraryModel | None:
        """Return the library's model if it can decode these requests; None: PyTorch does.

        Raises UsageError if PyTorch would, and was asked for another precision than its own.
        """
        with self._lock:
            self._why_pytorch = self._why_not_now() or self._pack()
            if self._why_pytorch is None and self._library is not None:
                self._why_pytorch = self._library.why_not(requests, settings, rules)
            self._check_choice(self._why_pytorch)
            return None if self._why_pytorch else self._library

    def _check_choice(self, reason: str | None) -> None:
        """Raise UsageError if only PyTorch could decode, and the library or a precision of its own
        was asked for.
        """
        if reason is None:
            return
        if self.precision != "float32":
            raise UsageError(
                f"precision {self.precision} needs the C library, and {reason}; take "
                "`precision=float32`"
            )
        if self.choice == "library":
            raise UsageError(
                f"`engine=library`: {reason}; take `engine=auto`, and PyTorch decodes"
            )

    def _why_not_built(self) -> str | None:
        """Return why the library cannot decode a model that was built like this; None if it can."""
        if self.choice == "pytorch":
            return "`engine=pytorch` was asked for"
        if (reason := why_not_packed(self._model)) is not None:
            return reason
        return "the engine was given no tokenizer" if self._folder is None else None

    def _why_not_now(self) -> str | None:
        """Return why the library cannot decode the model as it is at this moment; None if it
        can.
        """
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
        """Pack the weights, again if they have changed since; return why it cannot be done."""
        if self._is_private and (self._library or self._unpackable):
            return self._unpackable
        model, folder = self._packable()
        checksums = [] if self._is_private else fingerprint(model, runs_encoder(model))
        is_new = self._library is None and self._unpackable is None
        if is_new or self._is_private or checksums != self._fingerprint:
            self._library = None
            self._unpackable = None
            self._fingerprint = checksums
            try:
                self._library = LibraryModel(folder, pack_model(model, self.precision))
            except ValueError as problem:  # a vocabulary that the library cannot hold
                self._unpackable = str(problem)
        return self._unpackable
