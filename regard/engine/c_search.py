"""The C library as the search of a model in memory, given token ids, or the outputs of an encoder that PyTorch runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from regard.engine.continuous_batching import DecodeRequest
from regard.engine.packed_model import PackedModel
from regard.engine.runtime_file import position_counts, runtime_file
from regard.model_folder import ModelFolder
from regard.models import Batch
from regard.runtime.model import EncodedSource, Options, RuntimeModel, Source
from regard.runtime.search_steps import SearchStep
from regard.search import Hypothesis, Rule, SearchSettings, SuppressTokens
from regard.search.rules import LengthPenalty

_TOGETHER = 512
"""Requests of one call of the library, which Ctrl-C does not end: it goes on in its thread."""
_CALL_LENGTH, _BATCH_LENGTH = 16_384, 2_048
"""About the most that the sources of one call are long, and those that PyTorch encodes together, in tokens."""


class LibraryModel:
    """A packed model with its tokenizer, opened by the library from memory."""

    def __init__(self, folder: ModelFolder, packed: PackedModel) -> None:
        """Write the model as a runtime file into memory. Raises ValueError if it cannot hold the tokens."""
        self._model = RuntimeModel.from_memory(runtime_file(folder, packed, None, {}, reads_text=False))
        self._max_source, self._max_steps = position_counts(folder.settings.search, packed.max_target)
        self._max_target, self._is_bfloat16 = packed.max_target, packed.precision == "bfloat16"
        self._byte_tokens = folder.tokenizer.target.byte_tokens
        self._encoder: Any = None if packed.programs.encoder else packed.model.encoder  # that PyTorch runs

    def why_not(self, requests: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule]) -> str | None:
        """Return why the library cannot search as these settings, rules and tasks say; None if it can."""
        causes = {
            "samples": settings.sample,
            "groups of beams": settings.groups > 1,
            "rules of its own": tuple(rules) != (SuppressTokens(),),
            "required terms": any(request.task.terms for request in requests),
            "forbidden words": any(request.task.banned for request in requests),
            "limits of its own": not all(self._has_usual_limits(request, settings) for request in requests),
        }
        return next((f"the last search had {cause}" for cause, is_there in causes.items() if is_there), None)

    def _has_usual_limits(self, request: DecodeRequest, settings: SearchSettings) -> bool:
        """Return whether the target may be as long as the settings say, within the positions of the library's model."""
        task, length = request.task, request.source_length
        most = settings.max_steps(length, self._max_target, len(task.prefix))
        fits = self._encoder is not None or length <= self._max_source
        has_room = fits and task.max_steps == most <= self._max_steps
        return has_room and task.byte_tokens is self._byte_tokens

    def decode(
        self, requests: Sequence[DecodeRequest], settings: SearchSettings, threads: int
    ) -> list[list[Hypothesis]]:
        """Search for the targets of requests; return the hypotheses of each, best first."""
        results, options = list[list[Hypothesis]](), _options(settings, threads)
        order = sorted(range(len(requests)), key=lambda index: -requests[index].source_length)
        for part in _cut([requests[index] for index in order], _CALL_LENGTH):
            prefixes = [request.task.prefix for request in part]
            targets, _ = self._model.search(self._sources(part), prefixes, options)
            results += [_hypotheses(ranked, settings) for ranked in targets]
        return [hypotheses for _, hypotheses in sorted(zip(order, results, strict=True))]

    def stream(self, request: DecodeRequest, settings: SearchSettings, threads: int) -> Iterator[tuple[int, ...]]:
        """Yield the token ids of one target after each step, end of sentence not counted."""
        return self._model.stream_ids(self._sources([request])[0], request.task.prefix, _options(settings, threads))

    def trace(
        self, request: DecodeRequest, settings: SearchSettings, threads: int
    ) -> tuple[list[Hypothesis], list[SearchStep]]:
        """Search for the target of one request; return its hypotheses, best first, and the steps of the search."""
        options = _options(settings, threads)
        options.trace = 1
        (ranked,), steps = self._model.search(self._sources([request]), [request.task.prefix], options)
        return _hypotheses(ranked, settings), steps

    def _sources(self, requests: Sequence[DecodeRequest]) -> list[Source]:
        """Return sources as the library takes them."""
        if self._encoder is None:
            return [request.source_ids for request in requests]
        return [source for batch in _cut(requests, _BATCH_LENGTH) for source in self._encode(batch)]

    @torch.inference_mode()
    def _encode(self, batch: Sequence[DecodeRequest]) -> list[EncodedSource]:
        """Encode with PyTorch, all at once; of the lower precisions it supports bfloat16."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self._is_bfloat16):
            encoded = self._encoder(Batch.of([request.source for request in batch]))
        outputs, embedded, summary = encoded.outputs.float(), encoded.embedded.float(), encoded.summary.float()
        keep = torch.ones_like(outputs[..., 0], dtype=torch.bool) if encoded.keep is None else encoded.keep
        rows = zip(batch, keep, outputs, embedded, summary.flatten(1), strict=True)
        return [EncodedSource(r.source_length, o[k].numpy(), e[k].numpy(), s.numpy()) for r, k, o, e, s in rows]


def _cut(requests: Sequence[DecodeRequest], length: int) -> Iterator[Sequence[DecodeRequest]]:
    """Cut requests, longest first, into parts that are, padded, about this long in all, of at most _TOGETHER."""
    while requests:
        count = max(1, min(_TOGETHER, length // requests[0].source_length))
        yield requests[:count]
        requests = requests[count:]


def _hypotheses(ranked: Sequence[tuple[tuple[int, ...], float]], settings: SearchSettings) -> list[Hypothesis]:
    penalty = LengthPenalty(settings.length_penalty)
    return [Hypothesis(ids, score * penalty(len(ids) + 1), score) for ids, score in ranked]


def _options(settings: SearchSettings, threads: int) -> Options:
    s = settings
    lengths = (s.max_ratio, s.max_extra, s.min_length, s.max_length or -1)
    return Options(s.beam, s.beam, s.length_penalty, *lengths, s.no_repeat_ngram, 1, 1, threads, *(0,) * 4)
