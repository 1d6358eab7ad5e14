"""Base class of FolderTranslator and Captioner: search options, constraints, decoding and
reranking.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

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
from regard.text.translation import check_nbest, group_by_word

_MODEL_INTERFACE = ("encode", "begin", "step", "project", "top_tokens", "max_target")
"""Attributes that every encoder-decoder model has."""


class BasePipeline:
    """A model with its tokenizer, its settings and the engine that decodes it.

    `choice` is the attention head that shows alignments; if None, the default choice.
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
        if engine is None:
            folder = None
            if isinstance(model, Model):
                folder = ModelFolder(settings, tokenizer, model)
            engine = Engine(model, folder=folder)
        self.engine = engine
        self._constraint_encoder = ConstraintEncoder(
            tokenizer.target, letter_case(settings.languages.target)
        )

    @property
    def model(self) -> Model | Ensemble:
        """The model. It may be changed: each call decodes it as it is then (`Engine.describe`)."""
        return self.engine.model

    @model.setter
    def model(self, model: Model | Ensemble) -> None:
        if not all(hasattr(model, name) for name in _MODEL_INTERFACE):
            wrapped = "; give its `.module`" if hasattr(model, "module") else ""
            raise UsageError(
                "`model`: wanted an encoder-decoder model of Regard, got "
                f"{describe(model)}{wrapped}"
            )
        self.engine = self.engine.with_model(model)  # may raise UsageError
        self._model = model

    @property
    def max_target(self) -> int | None:
        """Longest target in tokens, or None if there is no limit."""
        return self._model.max_target

    def attention_heads(self) -> Counter[str]:
        """Return the total number of attention heads by role ("encoder", "decoder", "cross")."""
        heads = Counter[str]()
        for module in self._model.modules():
            if isinstance(module, Attention):
                heads[module.role] += module.heads
        return heads

    def cross_attention(self) -> list[str]:
        """Return the names of the cross-attention modules; empty for a model without attention."""
        modules = self._model.named_modules()
        return [
            name
            for name, module in modules
            if isinstance(module, Attention) and module.role == "cross"
        ]

    def _search_settings(self, nbest: int, options: SearchOptions) -> SearchSettings:
        """Override the folder's search settings. For sampling without a beam, draw `nbest` samples.

        The minimum length is at least 1, since a model trained on few lines may prefer an empty
        output.
        """
        folder_settings = self.settings.search
        defaults = folder_settings.model_dump()
        overrides: dict[str, object] = {
            name: value for name, value in options.items() if value is not None
        }
        # Values of wrong types are refused below.
        samples = overrides.get("sample") is True and overrides.get("mbr") is not True
        if samples and "beam" not in overrides:
            overrides["beam"] = nbest
        settings = SearchSettings.parse({**defaults, **overrides}, "search")
        corrections: dict[str, object] = {"min_length": max(1, settings.min_length)}
        if "score_threshold" not in overrides and not settings.scores_as(
            folder_settings
        ):
            # The threshold was learnt from scores that are not comparable with these.
            corrections["score_threshold"] = None
        settings = settings.model_copy(update=corrections)
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
        """Return the constraints of each of `count` sources; `unit` is "line" or "image".

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
        """Build the decode request number `index` of a call.

        Its samples depend on `key` and the seed alone.
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
        task = Task(
            index,
            max_steps,
            prefix,
            terms,
            forbidden,
            key,
            target.byte_tokens,
            copies,
            target.copy_tokens,
        )
        return DecodeRequest(source, task)

    def _decode(
        self, requests: Sequence[DecodeRequest], settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """Decode requests, and rerank the hypotheses of each."""
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
        """Rerank hypotheses by minimum Bayes risk or with the coverage penalty, if the settings ask
        for it.
        """
        if settings.mbr:
            texts = [self.tokenizer.target.decode(h.ids) for h in hypotheses]
            # The frequency of a sample reflects its probability already; hypotheses of a beam are
            # weighted by theirs.
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
        """Return how much of the source each hypothesis covers, by the mean cross-attention."""
        forced = force_decode(
            self._model, [source] * len(hypotheses), [h.ids for h in hypotheses]
        )
        names = self.cross_attention()
        coverages = list[float]()
        for decoded in forced:
            layer_means = [decoded.weights[name].mean(0) for name in names]
            weights = np.stack(layer_means).mean(0)  # (T, S)
            if decoded.grid is None:
                weights = weights[:, :-1]  # without the end-of-sentence token
            coverages.append(coverage(weights))
        return coverages

    def _repetition(
        self, ids: Sequence[int], source: Sequence[int] = ()
    ) -> tuple[str, int] | None:
        """Return the text that a target keeps repeating, and how often; None if its source does,
        too.
        """
        repetition = find_repetition(ids, source)
        if repetition is None:
            return None
        return self.tokenizer.target.decode(repetition.ids), repetition.times


def read_side(
    vocabulary: Vocabulary, ids: Sequence[int]
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """Return the tokens of one side, the word index of each token, and the text of each word."""
    tokens = vocabulary.tokens(ids)
    word_indices = vocabulary.word_indices(tokens)
    words = tuple(map(vocabulary.decode, group_by_word(ids, word_indices)))
    return tuple(tokens), tuple(word_indices), words
