"""The C library as the search of a model in memory: the library that runs runtime files, given token ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.engine.continuous_batching import DecodeRequest
from regard.engine.packed_model import PackedModel
from regard.engine.runtime_file import position_counts, runtime_file
from regard.model_folder import ModelFolder
from regard.runtime.model import Options, RuntimeModel
from regard.runtime.search_steps import SearchStep
from regard.search import Hypothesis, Rule, SearchSettings, SuppressTokens
from regard.search.rules import LengthPenalty

_TOGETHER = 512
"""Requests of one call of the library, which Ctrl-C does not end: it goes on in its thread."""


class LibraryModel:
    """A packed model with its tokenizer, opened by the library from memory."""

    def __init__(self, folder: ModelFolder, packed: PackedModel) -> None:
        """Write the model as a runtime file into memory. Raises ValueError if PyTorch computes a part of it."""
        self._model = RuntimeModel.from_memory(runtime_file(folder, packed, None, {}, reads_text=False))
        self._max_source, self._max_steps = position_counts(folder.settings.search, packed.max_target)
        self._max_target, self._byte_tokens = packed.max_target, folder.tokenizer.target.byte_tokens

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
        has_room = length <= self._max_source and task.max_steps == most <= self._max_steps
        return has_room and task.byte_tokens is self._byte_tokens

    def decode(
        self, requests: Sequence[DecodeRequest], settings: SearchSettings, threads: int
    ) -> list[list[Hypothesis]]:
        """Search for the targets of requests; return the hypotheses of each, best first."""
        results, options = list[list[Hypothesis]](), _options(settings, threads)
        for start in range(0, len(requests), _TOGETHER):
            part = requests[start : start + _TOGETHER]
            prefixes = [request.task.prefix for request in part]
            targets, _ = self._model.search([request.source_ids for request in part], prefixes, options)
            results += [_hypotheses(ranked, settings) for ranked in targets]
        return results

    def stream(self, request: DecodeRequest, settings: SearchSettings, threads: int) -> Iterator[tuple[int, ...]]:
        """Yield the token ids of one target after each step, end of sentence not counted."""
        return self._model.stream_ids(request.source_ids, request.task.prefix, _options(settings, threads))

    def trace(
        self, request: DecodeRequest, settings: SearchSettings, threads: int
    ) -> tuple[list[Hypothesis], list[SearchStep]]:
        """Search for the target of one request; return its hypotheses, best first, and the steps of the search."""
        options = _options(settings, threads)
        options.trace = 1
        (ranked,), steps = self._model.search([request.source_ids], [request.task.prefix], options)
        return _hypotheses(ranked, settings), steps


def _hypotheses(ranked: Sequence[tuple[tuple[int, ...], float]], settings: SearchSettings) -> list[Hypothesis]:
    penalty = LengthPenalty(settings.length_penalty)
    return [Hypothesis(ids, score * penalty(len(ids) + 1), score) for ids, score in ranked]


def _options(settings: SearchSettings, threads: int) -> Options:
    s = settings
    lengths = (s.max_ratio, s.max_extra, s.min_length, s.max_length or -1)
    return Options(s.beam, s.beam, s.length_penalty, *lengths, s.no_repeat_ngram, 1, 1, threads, *(0,) * 4)
