"""Base class of FolderTranslator and Captioner: search options, constraints, decoding,
reranking.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.attention import Attention
from regard.attention.alignment_choice import AlignmentChoice
from regard.common.arguments import describe
from regard.common.errors import UsageError
from regard.data.letter_case import letter_case
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import Vocabulary
from regard.model_folder import FolderSettings, ModelFolder
from regard.models import Ensemble, Model, SourceInput, source_length
from regard.runtime.engine import DecodeRequest, Engine
from regard.search import (
    ConstraintEncoder,
    Constraints,
    Hypothesis,
    SearchOptions,
    SearchSettings,
    Task,
    check_constraints,
    check_required,
    coverage,
    find_repetition,
    mbr_utility,
    required_tokens,
)
from regard.search.forced_decoding import force_decode
from regard.text.constraints import constraints_of_each
from regard.text.translation import check_nbest


class BasePipeline:
    """A model with its tokenizer, its settings and the engine that decodes it.

    `choice` is the attention head that shows alignments; None: the mean of the last layer's heads.
    """

    def __init__(
        self,
        model: Model | Ensemble,
        tokenizer: Tokenizer,
        settings: FolderSettings,
        choice: AlignmentChoice | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._model = model
        self.tokenizer = tokenizer
        self.settings = settings
        self.choice = choice
        folder = (
            ModelFolder(settings, tokenizer, model)
            if isinstance(model, Model)
            else None
        )
        self.engine = engine or Engine(model, folder=folder)
        self._constraint_encoder = ConstraintEncoder(
            tokenizer.target, letter_case(settings.languages.target)
        )

    @property
    def model(self) -> Model | Ensemble:
        """The model, which may be changed: what decodes is the model as it is at each call
        (`Engine.describe`).
        """
        return self.engine.model

    @model.setter
    def model(self, model: Model | Ensemble) -> None:
        if not all(
            hasattr(model, name)
            for name in (
                "encode",
                "begin",
                "step",
                "project",
                "top_tokens",
                "max_target",
            )
        ):
            wrapped = "; give its `.module`" if hasattr(model, "module") else ""
            raise UsageError(
                "`model`: wanted an encoder-decoder model of Regard, got "
                f"{describe(model)}{wrapped}"
            )
        self.engine = self.engine.with_model(model)  # which may refuse it
        self._model = model

    @property
    def max_target(self) -> int | None:
        """Longest target in tokens, or None if there is no limit."""
        return self._model.max_target

    def attention_heads(self) -> Counter[str]:
        """Return how many heads the attention of each role ("encoder", "decoder", "cross") has in
        all.
        """
        heads = Counter[str]()
        for module in self._model.modules():
            if isinstance(module, Attention):
                heads[module.role] += module.heads
        return heads

    def cross_attention(self) -> list[str]:
        """Return the names of the cross-attention modules; none for a model without attention."""
        modules = self._model.named_modules()
        return [
            name
            for name, module in modules
            if isinstance(module, Attention) and module.role == "cross"
        ]

    def _search_settings(self, nbest: int, options: SearchOptions) -> SearchSettings:
        """Override the folder's search settings. If sampling without a beam is asked for, draw
        `nbest` samples.

        No output is empty: a model may learn that from few lines, and training data without an
        empty side never say so.
        """
        chosen: dict[str, Any] = {
            name: value for name, value in options.items() if value is not None
        }
        own = self.settings.search
        given = SearchSettings.parse({**own.model_dump(), **chosen}, "search")
        chosen["min_length"] = max(1, given.min_length)
        if chosen.get("sample") and not chosen.get("mbr") and "beam" not in chosen:
            chosen["beam"] = nbest
        if any(
            getattr(given, name) != getattr(own, name)
            for name in ("length_penalty", "sample")
        ):
            # It was learnt from scores of another kind.
            chosen.setdefault("score_threshold", None)
        settings = SearchSettings.parse({**own.model_dump(), **chosen}, "search")
        if settings.coverage_penalty and not self.cross_attention():
            raise UsageError(
                "coverage_penalty: this model has no attention over its source; leave it at 0"
            )
        check_nbest(nbest, settings.beam)
        return settings

    def _per_source(
        self,
        constraints: Constraints | Sequence[Constraints],
        count: int,
        settings: SearchSettings,
        unit: str,
    ) -> list[Constraints]:
        """Return the constraints of each of `count` sources (`unit`: line or image).

        Raises UsageError, with all causes, for constraints that contradict themselves or the search
        settings.
        """
        per_source = constraints_of_each(constraints, count, unit)
        check_constraints(per_source, self._constraint_encoder, settings)
        return per_source

    def _request(
        self,
        index: int,
        source: SourceInput,
        key: int,
        constraints: Constraints,
        settings: SearchSettings,
    ) -> DecodeRequest:
        """Build the decode request number `index` of a call; what is sampled for it depends on
        `key` and the seed.
        """
        encoder = self._constraint_encoder
        prefix = encoder.encode_prefix(constraints.prefix)
        terms = encoder.encode_terms(constraints.terms)
        required = len(prefix) + required_tokens(terms)
        max_steps = settings.max_steps(
            source_length(source), self._model.max_target, required
        )
        check_required(constraints, required, max_steps)
        forbidden = encoder.encode_forbidden(constraints.forbid)
        target = self.tokenizer.target
        copies = self.tokenizer.copies_of(source) if isinstance(source, list) else ()
        rest = target.byte_tokens, copies, target.copy_tokens
        return DecodeRequest(
            source, Task(index, max_steps, prefix, terms, forbidden, key, *rest)
        )

    def _decode(
        self, requests: Sequence[DecodeRequest], settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """Decode, and rerank the hypotheses of each request."""
        decoded = self.engine.decode(requests, settings)
        pairs = zip(requests, decoded, strict=True)
        return [
            self._rerank(request.source, hypotheses, settings)
            for request, hypotheses in pairs
        ]

    def _rerank(
        self,
        source: SourceInput,
        hypotheses: list[Hypothesis],
        settings: SearchSettings,
    ) -> list[Hypothesis]:
        """Rerank by minimum Bayes risk or with the coverage penalty, if the settings ask for one of
        them.
        """
        if settings.mbr:
            texts = [self.tokenizer.target.decode(h.ids) for h in hypotheses]
            # Samples occur as often as they are likely; hypotheses of a beam are weighted by their
            # probability.
            best = max(h.log_prob for h in hypotheses)
            weights = [
                1.0 if settings.sample else math.exp(h.log_prob - best)
                for h in hypotheses
            ]
            utilities = mbr_utility(texts, weights)
        elif settings.coverage_penalty:
            coverages = self._coverages(source, hypotheses)
            utilities = [
                h.score + settings.coverage_penalty * c
                for h, c in zip(hypotheses, coverages, strict=True)
            ]
        else:
            return hypotheses
        order = sorted(
            range(len(hypotheses)),
            key=lambda i: (not hypotheses[i].complete, -utilities[i]),
        )
        return [hypotheses[i] for i in order]

    def _coverages(
        self, source: SourceInput, hypotheses: list[Hypothesis]
    ) -> list[float]:
        """Return the coverage of the source by each hypothesis, from the mean of all
        cross-attention weights.
        """
        forced = force_decode(
            self._model, [source] * len(hypotheses), [h.ids for h in hypotheses]
        )
        names = self.cross_attention()
        means = [
            np.stack([item.weights[name].mean(0) for name in names]).mean(0)
            for item in forced
        ]
        # The end of a sentence is no part of its text; an image has none.
        return [
            coverage(m[:, :-1] if item.grid is None else m)
            for m, item in zip(means, forced, strict=True)
        ]

    def _repetition(
        self, ids: Sequence[int], source: Sequence[int] = ()
    ) -> tuple[str, int] | None:
        """Return the text that a target repeats over and over, and how often, unless its source
        does too.
        """
        repetition = find_repetition(ids, source)
        return (
            None
            if repetition is None
            else (self.tokenizer.target.decode(repetition.ids), repetition.times)
        )


def read_side(
    vocabulary: Vocabulary, ids: Sequence[int]
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """Return what readings say of one side: its tokens, the word index of each, and the text of
    each word.
    """
    tokens = vocabulary.tokens(ids)
    words = vocabulary.word_indices(tokens)
    of_word: list[list[int]] = [[] for _ in range(max(words, default=-1) + 1)]
    for token, word in zip(ids, words, strict=True):
        if word >= 0:
            of_word[word].append(token)
    return tuple(tokens), tuple(words), tuple(map(vocabulary.decode, of_word))
