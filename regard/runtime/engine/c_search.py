"""Search with the C library for a model in memory.

Its sources are token ids, or the outputs of an encoder that PyTorch runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from regard.model_folder import ModelFolder
from regard.models import Batch, Encoder
from regard.runtime import model as runtime
from regard.runtime.encoded_constraints import library_constraints
from regard.runtime.engine.continuous_batching import DecodeRequest
from regard.runtime.engine.packed_model import PackedModel
from regard.runtime.engine.runtime_file import position_counts, runtime_file
from regard.search import Hypothesis, Rule, SearchSettings, SuppressTokens, Task
from regard.search.logits_processors import LengthPenalty
from regard.search.search_steps import SearchStep

_CALL_REQUESTS = 512
"""Maximum number of requests in one call of the library. Ctrl-C does not interrupt such a call,
which continues in its thread.
"""
_CALL_LENGTH, _BATCH_LENGTH = 16_384, 2_048
"""Approximate limits, in tokens, of the sources in one call and of those that PyTorch encodes
together.
"""


class LibraryModel:
    """A packed model with its tokenizer, opened by the library from memory."""

    def __init__(self, folder: ModelFolder, packed: PackedModel) -> None:
        """Write the model as a runtime file in memory, and open it.

        Raises ValueError if the file format cannot hold the vocabulary.
        """
        self._model = runtime.RuntimeModel.from_memory(
            runtime_file(folder, packed, None, {}, reads_text=False)
        )
        self._max_source, self._max_steps = position_counts(
            folder.settings.search, packed.max_target
        )
        self._vocabulary = folder.tokenizer.target
        self._is_bfloat16 = packed.precision == "bfloat16"
        # The encoder, if PyTorch has to run it.
        self._encoder: Encoder | None = (
            None if packed.programs.encoder else packed.model.encoder
        )

    def why_not(
        self,
        requests: Sequence[DecodeRequest],
        settings: SearchSettings,
        rules: Sequence[Rule],
    ) -> str | None:
        """Return why the library cannot search with these settings, rules and tasks; None if it
        can.
        """
        has_terms = any(request.task.terms for request in requests)
        has_copies = any(request.task.copies for request in requests)
        causes = {
            "groups of beams": settings.groups > 1,
            "rules of its own": tuple(rules) != (SuppressTokens(),),
            "samples with required terms": settings.sample and has_terms,
            "copy tokens of a source that PyTorch encodes": (
                self._encoder is not None and has_copies
            ),
            "limits of its own": not all(map(self._fits, requests)),
        }
        for cause, is_present in causes.items():
            if is_present:
                return f"the last search had {cause}"
        return None

    def _fits(self, request: DecodeRequest) -> bool:
        """Return whether the library has enough positions for source and target, and the task uses
        the tables of this vocabulary.
        """
        task = request.task
        vocabulary = self._vocabulary
        source_fits = (
            self._encoder is not None or request.source_length <= self._max_source
        )
        target_fits = len(task.prefix) < task.max_steps <= self._max_steps
        uses_tables = (
            len(task.banned) <= 1
            and all(
                phrase.surfaces is vocabulary.surface_bytes for phrase in task.banned
            )
            and task.byte_tokens is vocabulary.byte_tokens
            and task.copy_tokens is vocabulary.copy_tokens
        )
        return source_fits and target_fits and uses_tables

    def decode(
        self, requests: Sequence[DecodeRequest], settings: SearchSettings, threads: int
    ) -> list[list[Hypothesis]]:
        """Search for the targets of requests; return the hypotheses of each, best first.

        Any number of threads may call this at once (see `RuntimeModel.translate`).
        """
        results = list[list[Hypothesis]]()
        options = _options(settings, threads)
        order = sorted(
            range(len(requests)), key=lambda index: -requests[index].source_length
        )
        longest_first = [requests[index] for index in order]
        for part in _cut(longest_first, _CALL_LENGTH):
            constraints = [_constraints(request.task) for request in part]
            lines = self._model.translate(self._sources(part), options, constraints)
            results += [_hypotheses(line, settings) for line in lines]
        return [
            hypotheses for _, hypotheses in sorted(zip(order, results, strict=True))
        ]

    def stream(
        self, request: DecodeRequest, settings: SearchSettings, threads: int
    ) -> Iterator[tuple[int, ...]]:
        """Yield the token ids of one target after each step, without the end of sentence."""
        constraints = _constraints(request.task)
        (source,) = self._sources([request])
        return self._model.stream_ids(source, constraints, _options(settings, threads))

    def trace(
        self, request: DecodeRequest, settings: SearchSettings, threads: int
    ) -> tuple[list[Hypothesis], list[SearchStep]]:
        """Search for the target of one request; return its hypotheses and the steps of the
        search.
        """
        options = _options(settings, threads)
        options.trace = 1
        (line,) = self._model.translate(
            self._sources([request]), options, [_constraints(request.task)]
        )
        return _hypotheses(line, settings), list(line.steps)

    def _sources(self, requests: Sequence[DecodeRequest]) -> list[runtime.Source]:
        """Return the sources of requests as input of the library."""
        if self._encoder is None:
            return [request.source_ids for request in requests]
        return [
            source
            for batch in _cut(requests, _BATCH_LENGTH)
            for source in self._encode(self._encoder, batch)
        ]

    @torch.inference_mode()
    def _encode(
        self, encoder: Encoder, batch: Sequence[DecodeRequest]
    ) -> list[runtime.EncodedSource]:
        """Encode a batch with PyTorch, which supports bfloat16 as the only lower precision."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self._is_bfloat16):
            encoded = encoder(Batch.of([request.source for request in batch]))
        outputs = encoded.outputs.float()
        embedded = encoded.embedded.float()
        summary = encoded.summary.float()
        keep = encoded.keep
        if keep is None:
            keep = torch.ones_like(outputs[..., 0], dtype=torch.bool)
        sources = list[runtime.EncodedSource]()
        for row, request in enumerate(batch):
            is_token = keep[row]
            source = runtime.EncodedSource(
                request.source_length,
                outputs[row][is_token].numpy(),
                embedded[row][is_token].numpy(),
                summary[row].flatten().numpy(),
            )
            sources.append(source)
        return sources


def _cut(
    requests: Sequence[DecodeRequest], length: int
) -> Iterator[Sequence[DecodeRequest]]:
    """Divide requests, longest first, into parts of at most _CALL_REQUESTS requests, each of about
    `length` tokens including padding.
    """
    while requests:
        count = max(1, min(_CALL_REQUESTS, length // requests[0].source_length))
        yield requests[:count]
        requests = requests[count:]


def _hypotheses(
    line: runtime.RuntimeLine, settings: SearchSettings
) -> list[Hypothesis]:
    penalty = LengthPenalty(settings.length_penalty)
    hypotheses = list[Hypothesis]()
    for item in line.hypotheses:
        log_prob = item.score * penalty(len(item.ids) + 1)
        hypotheses.append(Hypothesis(item.ids, log_prob, item.score, item.is_complete))
    return hypotheses


def _options(settings: SearchSettings, threads: int) -> runtime.Options:
    return runtime.Options(
        beam=settings.beam,
        nbest=settings.beam,
        length_penalty=settings.length_penalty,
        max_ratio=settings.max_ratio,
        max_extra=settings.max_extra,
        min_length=settings.min_length,
        max_length=settings.max_length or -1,
        no_repeat_ngram=settings.no_repeat_ngram,
        max_line=1,
        max_whole=1,
        threads=threads,
        attention=runtime.NO_ATTENTION,
        alignments=0,
        trace=0,
        split=0,
        sample=int(settings.sample),
        temperature=settings.temperature,
        top_p=settings.top_p or 0.0,
        seed=settings.seed,
        top_k=settings.top_k or 0,
    )


def _constraints(task: Task) -> runtime.Constraints:
    return library_constraints(
        task.prefix, task.terms, task.banned, task.max_steps, task.sampling_key
    )
