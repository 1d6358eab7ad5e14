"""A translator that is served: whole texts, streams, explanations and continuations, within the
limit of an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

import msgspec

from regard.pipeline.runtime_translator import LibraryDecoder, RuntimeTranslator
from regard.pipeline.translator import Translator
from regard.runtime.model import (
    ROLES,
    Constraints,
    Options,
    RuntimeHypothesis,
    RuntimeLine,
)
from regard.serving.answer_size import AnswerLimit
from regard.serving.results import WordIndices, served_text
from regard.serving.runtime_explanation import (
    MOST_NBEST,
    Explainer,
    likely_tokens,
    next_step_options,
)
from regard.serving.service import (
    Continuation,
    ExplanationRequest,
    SearchRequest,
    ServedText,
    TextRequest,
)
from regard.text.casing import CaseReader
from regard.text.text_format import lay_out, stream_text
from regard.text.text_path import Wanted

_PLAIN, _PACKED = 8.0, 8 / 3
"""Bytes of a weight, as a number and as Base64 of 16 bits."""
_GROWTH, _MORE = 1.25, 10
"""Tokens of a translation for each of the source, and on top; few have more."""
_ROLES: Mapping[str, Sequence[str]] = {"none": (), "cross": ("cross",), "all": ROLES}


class ServedTranslator:
    """A translator, over a runtime file or PyTorch.

    Any number of threads may call it. A call ends early once the stop event of its thread is set
    (`regard.common.stopping`).
    """

    def __init__(
        self,
        translator: Translator,
        heads: Mapping[str, int],
        most_bytes: int,
        languages: Sequence[str] = (),
    ) -> None:
        """Serve a translator. `heads`: how many its attention has of each role.

        `languages`: codes of source and target by whose rules capitals are read and written; none:
        its own.
        """
        if languages:
            translator.case_reader = CaseReader(
                (languages[0], languages[1]), translator.case_reader.encode
            )
        self.translator = translator
        self._limit = AnswerLimit(most_bytes, heads)

    def check(self) -> None:
        """Raise ModelFolderError if the model is no longer whole."""

    @property
    def _words(self) -> WordIndices | None:
        """Returns the word of each token; None: that is not known."""
        return None

    def translate(
        self, texts: Sequence[str], request: TextRequest, deadline: float
    ) -> list[ServedText]:
        """Translate texts. A line is tried again only within the first half of `deadline`, in
        seconds.

        Raises UsageError for options that the model cannot do, LineError, with the numbers of
        texts, and Stopped.
        """
        request = request.of_model(self.translator.search.splits_sentences)
        search = request.search
        reads = search.attention != "none"
        wanted = Wanted(search.nbest, search.alignments, reads)
        half = monotonic() + deadline / 2
        with self._limit.holding(self._size_of_texts(texts, search)):
            call = self.translator.begin_texts(
                texts,
                request.form,
                wanted,
                request.keep or True,
                request.sentences,
                request.code,
                **self._options(request),
            )
            if reads and isinstance(call.decoder, LibraryDecoder):
                call.decoder.read_each(encoder=search.attention == "all")
            translated = call.run(may_retry=lambda: monotonic() < half)
            return [served_text(text, search, self._words) for text in translated]

    def stream(
        self, text: str, request: TextRequest
    ) -> Generator[tuple[int, str] | ServedText, None, None]:
        """Yield what the translation of a text grows by, with the number of the line, greedily; at
        last the whole.
        """
        request = request.of_model(self.translator.search.splits_sentences)
        layout = lay_out(text, request.form, request.sentences)
        translated = yield from stream_text(
            layout,
            request.code,
            partial(self.translator.begin_stream, keep=request.keep or True),
        )
        yield served_text(translated, request.search)

    def _options(self, request: TextRequest) -> dict[str, Any]:
        options = request.search.given_options(self.translator.search.beam)
        if request.form.split == "0":
            options["split"] = "off"
        return options

    def _size_of_texts(self, texts: Sequence[str], search: SearchRequest) -> int:
        """Return about how many bytes an answer will have, 0 if no more than its texts."""
        if search.nbest == 1 and search.attention == "none":
            return 0
        lines = [line for text in texts for line in text.splitlines()]
        return self._limit.size(
            self._lengths(lines, search.max_length),
            search.nbest,
            _ROLES[search.attention],
        )

    def _lengths(
        self, lines: Sequence[str], max_length: int | None, more: int = 0
    ) -> list[tuple[int, int]]:
        """Return the tokens of sources and, about, of their targets; `more`: of a prefix."""
        settings = self.translator.search
        limit = settings.max_length if max_length is None else max_length
        lengths = []
        for source in (len(self.translator.encode(line)) for line in lines):
            target = min(
                _GROWTH * source + _MORE,
                settings.max_ratio * source + settings.max_extra,
            )
            target = target if limit is None else min(target, limit)
            lengths.append((source, int(target) + more))
        return lengths


class ServedFile(ServedTranslator):
    """A runtime file that is served; what its search records is explained, too."""

    def __init__(
        self,
        translator: RuntimeTranslator,
        most_bytes: int,
        languages: Sequence[str] = (),
    ) -> None:
        heads = Counter[str]()
        for layer in translator.model.layers:
            heads[layer.role] += layer.heads
        super().__init__(translator, heads, most_bytes, languages)
        self._model = translator.model
        self._threads = translator.threads

    def about(self) -> dict[str, Any]:
        """Return kind, card and attention of the model."""
        return {
            "kind": "translation",
            "engine": "runtime",
            "card": self._model.card,
            "has_attention": self._model.has_attention,
            "language_id": self._model.language_id.decode("utf-8", "replace"),
        }

    def check(self) -> None:
        self._model.check_unchanged()

    @property
    def _words(self) -> WordIndices:
        return partial(self._model.word_indices, is_target=True)

    def explain(self, text: str, options: ExplanationRequest) -> msgspec.Raw:
        """Return a translation with attention, alignments, log-probabilities and search, as
        js/regard.d.ts has it.
        """
        prefix = self._encoded(options.prefix)
        chosen = self._own_options()
        chosen.nbest = options.nbest or min(MOST_NBEST, chosen.beam)
        chosen.beam = max(chosen.beam, chosen.nbest)
        chosen.attention = 2
        chosen.alignments = int(self._model.has_attention)
        chosen.trace = int(options.trace)
        chosen.states = int(options.packed and self._model.recurrence & 1)
        weight = _PACKED if options.packed else _PLAIN
        size = self._size(text, chosen, len(prefix), weight)
        while size > self._limit.most and options.nbest is None and chosen.nbest > 1:
            chosen.nbest -= 1  # nobody said how many
            size = self._size(text, chosen, len(prefix), weight)
        with self._limit.holding(size):
            line = self._translate(text, chosen, [prefix])[0]
            weights = sum(
                w.size
                for hypothesis in line.hypotheses
                for w in hypothesis.weights.values()
            )
            self._limit.check(int(weights * weight))
            explainer = Explainer(self._model, self.translator.doubts, options.packed)
            return msgspec.Raw(msgspec.json.encode(explainer.explanation(line)))

    def continuations(
        self, text: str, prefix: str | Sequence[int], count: int
    ) -> list[Continuation]:
        """Return the tokens that may follow a prefix of the translation, likeliest first, and what
        each leads to.
        """
        ids = self._encoded(prefix)
        options = next_step_options(self._own_options(), ids)
        size = self._size(text, options, len(ids), _PLAIN)
        with self._limit.holding(size):
            likely = likely_tokens(self._translate(text, options, [ids])[0], ids, count)
        if not likely:
            return []
        options = self._own_options()
        options.nbest = 1
        options.attention = 0
        options.alignments = 0
        prefixes = [(*ids, candidate.token) for candidate in likely]
        lines = self._translate(text, options, prefixes)
        return [
            self._continuation(beginning, candidate.log_prob, line.hypotheses[0])
            for beginning, candidate, line in zip(prefixes, likely, lines, strict=True)
        ]

    def _encoded(self, prefix: str | Sequence[int]) -> tuple[int, ...]:
        return tuple(
            self._model.encode_target(prefix) if isinstance(prefix, str) else prefix
        )

    def _own_options(self) -> Options:
        options = self._model.options()
        options.threads = self._threads
        return options

    def _size(self, text: str, options: Options, prefix: int, weight: float) -> int:
        most = None if options.max_length < 0 else options.max_length
        roles = ROLES if options.attention else ()
        lengths = self._lengths([text], most, prefix)
        return self._limit.size(
            lengths, options.nbest, roles, weight, options.trace and options.beam
        )

    def _translate(
        self, text: str, options: Options, prefixes: Sequence[Sequence[int]]
    ) -> list[RuntimeLine]:
        """Translate a line after each of some prefixes."""
        constraints = [Constraints.of_prefix(prefix) for prefix in prefixes]
        return self._model.translate([text] * len(prefixes), options, constraints)

    def _continuation(
        self, prefix: tuple[int, ...], log_prob: float, hypothesis: RuntimeHypothesis
    ) -> Continuation:
        ids = hypothesis.ids
        return Continuation(
            prefix=prefix,
            log_prob=log_prob,
            text=hypothesis.text,
            score=hypothesis.score,
            tokens=self._model.tokens(ids, True),
            log_probs=hypothesis.log_probs,
            words=self._model.word_indices(ids, True) if ids else [],
        )
