"""The C library as the search of a model in memory: whatever it can do, by the program that runs runtime files."""

from __future__ import annotations

from collections.abc import Sequence

from regard.engine.continuous_batching import DecodeRequest
from regard.engine.packed_model import PackedModel
from regard.engine.runtime_file import position_counts, runtime_file
from regard.model_folder import ModelFolder
from regard.runtime.model import Options, RuntimeModel
from regard.search import Hypothesis, Rule, SearchSettings, SuppressTokens
from regard.search.rules import LengthPenalty

_TOGETHER = 512
"""Requests of one call of the library; Ctrl-C is heard between two."""


class LibraryModel:
    """A packed model with its tokenizer, opened by the library from memory."""

    def __init__(self, folder: ModelFolder, packed: PackedModel) -> None:
        """Write the model as a runtime file into memory. Raises ValueError if PyTorch computes a part of it."""
        self._model = RuntimeModel.from_memory(runtime_file(folder, packed, None, {}, reads_text=False))
        self._max_source, self._max_steps = position_counts(folder.settings.search, packed.max_target)
        self._max_target, self._byte_tokens = packed.max_target, folder.tokenizer.target.byte_tokens

    def can(self, requests: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule]) -> bool:
        """Return whether the library searches as these settings, rules and tasks say: by a beam, without terms."""
        is_plain = not settings.sample and settings.groups == 1 and tuple(rules) == (SuppressTokens(),)
        return is_plain and all(self._can(request, settings) for request in requests)

    def _can(self, request: DecodeRequest, settings: SearchSettings) -> bool:
        task, length = request.task, request.source_length
        most = settings.max_steps(length, self._max_target, len(task.prefix))
        return (
            not task.terms
            and not task.banned
            and task.byte_tokens is self._byte_tokens
            and length <= self._max_source
            and task.max_steps == most <= self._max_steps
        )

    def decode(
        self, requests: Sequence[DecodeRequest], settings: SearchSettings, threads: int
    ) -> list[list[Hypothesis]]:
        """Search for the targets of requests; return the hypotheses of each, best first."""
        s, penalty = settings, LengthPenalty(settings.length_penalty)
        lengths = (s.max_ratio, s.max_extra, s.min_length, s.max_length or -1)
        options = Options(s.beam, s.beam, s.length_penalty, *lengths, s.no_repeat_ngram, 1, 1, threads, *(0,) * 4)
        results = list[list[Hypothesis]]()
        for start in range(0, len(requests), _TOGETHER):
            part = requests[start : start + _TOGETHER]
            prefixes = [request.task.prefix for request in part]
            for hypotheses in self._model.search([request.source_ids for request in part], prefixes, options):
                scored = ((ids, score * penalty(len(ids) + 1), score) for ids, score in hypotheses)
                results.append([Hypothesis(*item) for item in scored])
        return results
