"""Engine that decodes a model with the C library, or with PyTorch if the library cannot."""

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
"""Names of the engines; "auto" is the C library if it can decode the model, else PyTorch."""


class Engine:
    """Engine that decodes with the C library on a CPU, and with PyTorch what the library cannot do:
    GPUs, ensembles and some variants.

    Both find the same hypotheses, and each call decodes the model as it is at that moment. The
    library decodes a model only if it computes exactly what PyTorch would: the model has the
    classes and attributes that `build` gives it, no hooks or patches, and no recorder
    (`known_model`). If the model is private to the engine, its weights cannot change. Otherwise, or
    after `model` has been accessed, every call compares the checksums of all weights.

    `precision` is the precision of weights and products; PyTorch supports float32 only. `folder` is
    the model with its tokenizer and settings, which the library needs. `choice` names the engine to
    use. `is_private` states that nobody else has a reference to the model. The number of threads is
    torch.get_num_threads(). Raises UsageError if the machine or the model lacks what is asked for.
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
        # Held while the model is checked and packed, never while decoding.
        self._lock = threading.Lock()
        self._decoding_thread = DecodingThread(model)
        if is_private:
            model.eval()
        forget_threads_after_fork(self)
        self._check_choice(self._built_reason)

    @property
    def model(self) -> Model | Ensemble:
        """The model that is decoded.

        The caller may change it, so from now on its weights are compared at each call.
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
        """Decode requests; return the hypotheses of each request, best first, in the order of the
        requests.

        Any number of threads may decode, stream and trace at once; their requests are decoded
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
        """Yield the token ids of one target after each step; the last equal those of `decode`."""
        if library := self._library_for([request], settings, rules):
            yield from library.stream(request, settings, torch.get_num_threads())
        else:
            yield from self._run(
                DecodeCall([request], settings, rules, is_streamed=True)
            )

    def trace(
        self, request: DecodeRequest, settings: SearchSettings
    ) -> tuple[list[Hypothesis], list[SearchStep]]:
        """Decode one request, and record its search step by step.

        The hypotheses are equal to the result of `decode`.
        """
        if library := self._library_for([request], settings, (SuppressTokens(),)):
            return library.trace(request, settings, torch.get_num_threads())
        recorder = SearchRecorder(self._model)
        call = DecodeCall([request], settings, on_step=recorder)
        deque(self._run(call), maxlen=0)
        return call.results[0], recorder.steps

    def _run(self, call: DecodeCall) -> Iterator[tuple[int, ...]]:
        """Decode a call with PyTorch; yield its streamed prefixes.

        A recorder, a mode and autocast affect only the thread that entered them. A call under one
        of them is therefore decoded in its own thread, beside the calls of other threads. That is
        safe, since modules keep no state.
        """
        if why_intercepted(self._model) is not None or torch.is_autocast_enabled(
            self._model.device.type
        ):
            return Scheduler(self._model).run(call)
        return self._decoding_thread.run(call)

    def evaluate(self) -> None:
        """Put the model into evaluation mode if a part of it is not.

        The mode of a private model cannot have changed, so it is not checked.
        """
        if not self._is_private and any(
            part.training for part in self._model.modules()
        ):
            self._model.eval()

    def prepare(self) -> None:
        """Pack the weights now, so that the first sentence does not wait for it."""
        with self._lock:
            self._why_pytorch = self._why_not_now() or self._pack()

    def describe(self) -> str:
        """Describe for a user which engine decodes, or decoded the last requests, and its
        precision.

        The text also gives the reason if that is PyTorch, and says whether each call compares the
        weights.
        """
        if self._why_pytorch is not None:
            return f"PyTorch, {self.precision} ({self._why_pytorch})"
        if self._is_private:
            return f"C library, {self.precision}"
        return (
            f"C library, {self.precision} (all weights are compared at each call, since `model` "
            "was handed out)"
        )

    def forget_threads(self) -> None:
        """Forget the packed model in a forked process, so that it is packed anew.

        The old object is kept, unused: its threads do not exist in this process, and freeing it
        would wait for them for ever.
        """
        if self._library:
            self._abandoned.append(self._library)
        self._library = None
        self._lock = threading.Lock()

    def _library_for(
        self,
        requests: Sequence[DecodeRequest],
        settings: SearchSettings,
        rules: Sequence[Rule],
    ) -> LibraryModel | None:
        """Return the library's model if it can decode these requests; None if PyTorch has to.

        Raises UsageError if PyTorch has to, but the library or another precision than float32 was
        asked for.
        """
        with self._lock:
            self._why_pytorch = self._why_not_now() or self._pack()
            if self._why_pytorch is None and self._library is not None:
                self._why_pytorch = self._library.why_not(requests, settings, rules)
            self._check_choice(self._why_pytorch)
            return None if self._why_pytorch else self._library

    def _check_choice(self, reason: str | None) -> None:
        """Raise UsageError if only PyTorch can decode, but the library or one of its precisions is
        required.
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
        """Return why the library cannot decode a model of this architecture; None if it can."""
        if self.choice == "pytorch":
            return "`engine=pytorch` was asked for"
        if (reason := why_not_packed(self._model)) is not None:
            return reason
        if self._folder is None:
            return "the engine was given no tokenizer"
        return "; ".join(self._folder.settings.tokenizer.export_obstacles) or None

    def _why_not_now(self) -> str | None:
        """Return why the library cannot decode the model in its present state; None if it can."""
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
        """Return how the model differs from what its settings build; None if it does not."""
        model, folder = self._packable()
        kind = (model.encoder.sizes, runs_encoder(model))
        if kind != self._built_kind:
            self._built = build_parts(folder, *kind)
            self._built_kind = kind
        return why_changed(model, self._built)

    def _packable(self) -> tuple[Model, ModelFolder]:
        """Return the model and its folder, both of which packing needs."""
        assert isinstance(self._model, Model), "an ensemble is not packed"
        assert self._folder is not None, "without a tokenizer nothing is packed"
        return self._model, self._folder

    def _pack(self) -> str | None:
        """Pack the weights if they are new or have changed; return why that is impossible, or
        None.
        """
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
