"""The C library as the search of a model in memory, given token ids, or the outputs of an encoder
that PyTorch runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from regard.model_folder import ModelFolder
from regard.models import Batch
from regard.runtime import model as runtime
from regard.runtime.encoded_constraints import library_constraints
from regard.runtime.engine.continuous_batching import DecodeRequest
from regard.runtime.engine.packed_model import PackedModel
from regard.runtime.engine.runtime_file import position_counts, runtime_file
from regard.search import Hypothesis, Rule, SearchSettings, SuppressTokens, Task
from regard.search.logits_processors import LengthPenalty
from regard.search.search_steps import SearchStep

_TOGETHER = 512
"""Requests of one call of the library, which Ctrl-C does not end: the call continues in its
thread.
"""
_CALL_LENGTH, _BATCH_LENGTH = 16_384, 2_048
"""About the most that the sources of one call are long, and those that PyTorch encodes together, in
tokens.
"""


class LibraryModel:
    """A packed model with its tokenizer, opened by the library from memory."""

    def __init__(self, folder: ModelFolder, packed: PackedModel) -> None:
        """Write the model as a runtime file into memory. Raises ValueError if it cannot hold the
        tokens.
        """
        self._model = runtime.RuntimeModel.from_memory(
            runtime_file(folder, packed, None, {}, reads_text=False)
        )
        self._max_source, self._max_steps = position_counts(
            folder.settings.search, packed.max_target
        )
        self._vocabulary = folder.tokenizer.target
        self._is_bfloat16 = packed.precision == "bfloat16"
        # That PyTorch runs, as it is.
        self._encoder: Any = None if packed.programs.encoder else packed.model.encoder

    def why_not(
        self,
        requests: Sequence[DecodeRequest],
        settings: SearchSettings,
        rules: Sequence[Rule],
    ) -> str | None:
        """Return why the library cannot search as these settings, rules and tasks say; None if it
        can.
        """
        causes = {
            "groups of beams": settings.groups > 1,
            "rules of its own": tuple(rules) != (SuppressTokens(),),
            "samples with required terms": settings.sample
            and any(request.task.terms for request in requests),
            "copy tokens of a source that PyTorch encodes": self._encoder is not None
            and any(request.task.copies for request in requests),
            "limits of its own": not all(map(self._fits, requests)),
        }
        return next(
            (
                f"the last search had {cause}"
                for cause, is_there in causes.items()
                if is_there
            ),
            None,
        )

    def _fits(self, request: DecodeRequest) -> bool:
        """Return whether source and target have positions in the library's model, and the
        vocabulary is its own.
        """
        task = request.task
        vocabulary = self._vocabulary
        has_room = (
            self._encoder is not None or request.source_length <= self._max_source
        )
        has_room = has_room and len(task.prefix) < task.max_steps <= self._max_steps
        has_own = all(
            phrase.surfaces is vocabulary.surface_bytes for phrase in task.banned
        )
        has_own = (
            has_own
            and task.byte_tokens is vocabulary.byte_tokens
            and task.copy_tokens is vocabulary.copy_tokens
        )
        return has_room and has_own and len(task.banned) <= 1

    def decode(
        self, requests: Sequence[DecodeRequest], settings: SearchSettings, threads: int
    ) -> list[list[Hypothesis]]:
        """Search for the targets of requests; return the hypotheses of each, best first.

        Any number of threads may call it at once; `RuntimeModel.translate` says what they share.
        """
        results = list[list[Hypothesis]]()
        options = _options(settings, threads)
        order = sorted(
            range(len(requests)), key=lambda index: -requests[index].source_length
        )
        for part in _cut([requests[index] for index in order], _CALL_LENGTH):
            constraints = [_constraints(request.task) for request in part]
            lines = self._model.translate(self._sources(part), options, constraints)
            results += [_hypotheses(line, settings) for line in lines]
        return [
            hypotheses for _, hypotheses in sorted(zip(order, results, strict=True))
        ]

    def stream(
        self, request: DecodeRequest, settings: SearchSettings, threads: int
    ) -> Iterator[tuple[int, ...]]:
        """Yield the token ids of one target after each step, end of sentence not counted."""
        constraints, (source,) = _constraints(request.task), self._sources([request])
        return self._model.stream_ids(source, constraints, _options(settings, threads))

    def trace(
        self, request: DecodeRequest, settings: SearchSettings, threads: int
    ) -> tuple[list[Hypothesis], list[SearchStep]]:
        """Search for the target of one request; return its hypotheses, best first, and the steps of
        the search.
        """
        options = _options(settings, threads)
        options.trace = 1
        (line,) = self._model.translate(
            self._sources([request]), options, [_constraints(request.task)]
        )
        return _hypotheses(line, settings), list(line.steps)

    def _sources(self, requests: Sequence[DecodeRequest]) -> list[runtime.Source]:
        """Return sources as the library takes them."""
        if self._encoder is None:
            return [request.source_ids for request in requests]
        return [
            source
            for batch in _cut(requests, _BATCH_LENGTH)
            for source in self._encode(batch)
        ]

    @torch.inference_mode()
    def _encode(self, batch: Sequence[DecodeRequest]) -> list[runtime.EncodedSource]:
        """Encode with PyTorch, all at once; bfloat16 is its only lower precision."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self._is_bfloat16):
            encoded = self._encoder(Batch.of([request.source for request in batch]))
        outputs = encoded.outputs.float()
        embedded = encoded.embedded.float()
        summary = encoded.summary.float()
        keep = (
            torch.ones_like(outputs[..., 0], dtype=torch.bool)
            if encoded.keep is None
            else encoded.keep
        )
        rows = zip(batch, keep, outputs, embedded, summary.flatten(1), strict=True)
        return [
            runtime.EncodedSource(
                r.source_length, o[k].numpy(), e[k].numpy(), s.numpy()
            )
            for r, k, o, e, s in rows
        ]


def _cut(
    requests: Sequence[DecodeRequest], length: int
) -> Iterator[Sequence[DecodeRequest]]:
    """Cut requests, longest first, into parts that are, padded, about this long in all, of at most
    _TOGETHER.
    """
    while requests:
        count = max(1, min(_TOGETHER, length // requests[0].source_length))
        yield requests[:count]
        requests = requests[count:]


def _hypotheses(
    line: runtime.RuntimeLine, settings: SearchSettings
) -> list[Hypothesis]:
    penalty = LengthPenalty(settings.length_penalty)
    return [
        Hypothesis(h.ids, h.score * penalty(len(h.ids) + 1), h.score, h.is_complete)
        for h in line.hypotheses
    ]


def _options(settings: SearchSettings, threads: int) -> runtime.Options:
    s = settings
    lengths = (s.max_ratio, s.max_extra, s.min_length, s.max_length or -1)
    return runtime.Options(
        *(
            s.beam,
            s.beam,
            s.length_penalty,
            *lengths,
            s.no_repeat_ngram,
            1,
            1,
            threads,
            0,
            0,
            0,
            0,
            int(s.sample),
        ),
        *(s.temperature, s.top_p or 0.0, s.seed, s.top_k or 0),
    )


def _constraints(task: Task) -> runtime.Constraints:
    return library_constraints(
        task.prefix, task.terms, task.banned, task.max_steps, task.sampling_key
    )
