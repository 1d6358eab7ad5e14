"""Translators as the server calls them: texts, streams, explanations and continuations, within the
limits on answer size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

import msgspec

from regard.documents.document_translation import DocumentTranslation
from regard.documents.formats import read_document
from regard.pipeline.runtime_translator import LibraryDecoder, RuntimeTranslator
from regard.pipeline.translator import Translator
from regard.runtime.model import (
    ALL_ATTENTION,
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
    DocumentFile,
    ExplanationRequest,
    SearchRequest,
    ServedText,
    TextRequest,
)
from regard.text.casing import CaseReader
from regard.text.text_format import lay_out, stream_text
from regard.text.text_path import Wanted

_PLAIN_BYTES = 8.0
"""Bytes of an attention weight as a decimal number."""
_PACKED_BYTES = 8 / 3
"""Bytes of an attention weight as 16 bits in Base64."""
_LENGTH_RATIO = 1.25
"""Estimated tokens of a translation for each source token; few translations are longer."""
_EXTRA_TOKENS = 10
"""Estimated tokens of a translation in addition to `_LENGTH_RATIO`."""
_ROLES: Mapping[str, Sequence[str]] = {"none": (), "cross": ("cross",), "all": ROLES}


class ServedTranslator:
    """A translator with a runtime file or a PyTorch model.

    Several threads may call it at the same time. A call ends early once the stop event of its
    thread is set (`regard.common.stopping`).
    """

    def __init__(
        self,
        translator: Translator,
        heads: Mapping[str, int],
        most_bytes: int,
        languages: Sequence[str] = (),
    ) -> None:
        """Serve a translator.

        `heads`: number of its attention heads of each role; `most_bytes`: limit on the bytes of an
        answer; `languages`: codes of source and target, whose casing rules apply; by default its
        own.
        """
        if languages:
            translator.case_reader = CaseReader(
                (languages[0], languages[1]), translator.case_reader.encode
            )
        self.translator = translator
        self._limit = AnswerLimit(most_bytes, heads)

    def check(self) -> None:
        """Raise ModelFolderError if the file of the model was damaged after it had been opened."""

    @property
    def _words(self) -> WordIndices | None:
        """Function that maps target tokens to words, or None if the model has none."""
        return None

    def translate(
        self, texts: Sequence[str], request: TextRequest, deadline: float
    ) -> list[ServedText]:
        """Translate texts.

        `deadline`: seconds from now; a line is retried only within the first half of them. Raises
        UsageError for options that the model does not support, LineError with the indices of texts,
        and Stopped.
        """
        request = request.of_model(self.translator.search.splits_sentences)
        search = request.search
        needs_attention = search.attention != "none"
        wanted = Wanted(search.nbest, search.alignments, needs_attention)
        last_retry = monotonic() + deadline / 2
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
            if needs_attention and isinstance(call.decoder, LibraryDecoder):
                call.decoder.read_each(encoder=search.attention == "all")
            translated = call.run(may_retry=lambda: monotonic() < last_retry)
            return [served_text(text, search, self._words) for text in translated]

    def translate_document(
        self, file: DocumentFile, request: TextRequest
    ) -> DocumentTranslation:
        """Translate a document. Raises UsageError and DataError for a file that cannot be read, and
        Stopped.
        """
        options = self.translator.document_options(column=file.column)
        document = read_document(file.data, file.name, options=options)
        return self.translator.translate_document(
            document, keep=request.keep or True, code=request.code
        )

    def stream(
        self, text: str, request: TextRequest
    ) -> Generator[tuple[int, str] | ServedText, None, None]:
        """Yield increments of a greedy translation with the index of their line, and finally the
        whole text.
        """
        request = request.of_model(self.translator.search.splits_sentences)
        layout = lay_out(text, request.form, request.sentences)
        begin_stream = partial(self.translator.begin_stream, keep=request.keep or True)
        translated = yield from stream_text(layout, request.code, begin_stream)
        yield served_text(translated, request.search)

    def _options(self, request: TextRequest) -> dict[str, Any]:
        options = request.search.given_options(self.translator.search.beam)
        if request.form.split == "0":
            options["split"] = "off"
        return options

    def _size_of_texts(self, texts: Sequence[str], search: SearchRequest) -> int:
        """Estimate the bytes of an answer, or return 0 if it has only the translated texts."""
        if search.nbest == 1 and search.attention == "none":
            return 0
        lines = [line for text in texts for line in text.splitlines()]
        lengths = self._lengths(lines, search.max_length)
        return self._limit.size(lengths, search.nbest, _ROLES[search.attention])

    def _lengths(
        self, lines: Sequence[str], max_length: int | None, prefix: int = 0
    ) -> list[tuple[int, int]]:
        """Return the source tokens of each line, and an estimate of its target tokens.

        `prefix`: tokens of a prefix, which are added to those of each target.
        """
        settings = self.translator.search
        limit = settings.max_length if max_length is None else max_length
        lengths = []
        for line in lines:
            source = len(self.translator.encode(line))
            target = min(
                _LENGTH_RATIO * source + _EXTRA_TOKENS,
                settings.max_ratio * source + settings.max_extra,
            )
            if limit is not None:
                target = min(target, limit)
            lengths.append((source, int(target) + prefix))
        return lengths


class ServedFile(ServedTranslator):
    """A served runtime file, which also offers explanations and continuations."""

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
        """Return the description of the model."""
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

    def explain(self, text: str, request: ExplanationRequest) -> msgspec.Raw:
        """Return a translation with attention, alignments, log-probabilities and search trace, in
        the format of js/regard.d.ts.
        """
        prefix = self._encoded(request.prefix)
        options = self._model_options()
        options.nbest = request.nbest or min(MOST_NBEST, options.beam)
        options.beam = max(options.beam, options.nbest)
        options.attention = ALL_ATTENTION
        options.alignments = int(self._model.has_attention)
        options.trace = int(request.trace)
        options.states = int(request.packed and self._model.recurrence & 1)

        # Unless the request says how many hypotheses it needs, return as many as fit.
        weight_bytes = _PACKED_BYTES if request.packed else _PLAIN_BYTES
        size = self._size(text, options, len(prefix), weight_bytes)
        while (
            size > self._limit.max_bytes and request.nbest is None and options.nbest > 1
        ):
            options.nbest -= 1
            size = self._size(text, options, len(prefix), weight_bytes)

        with self._limit.holding(size):
            line = self._translate(text, options, [prefix])[0]
            weight_count = sum(
                weights.size
                for hypothesis in line.hypotheses
                for weights in hypothesis.weights.values()
            )
            self._limit.check(int(weight_count * weight_bytes))
            explainer = Explainer(self._model, self.translator.doubts, request.packed)
            return msgspec.Raw(msgspec.json.encode(explainer.explanation(line)))

    def continuations(
        self, text: str, prefix: str | Sequence[int], count: int
    ) -> list[Continuation]:
        """Return the likeliest next tokens after a prefix of the translation, best first, each with
        the translation that it leads to.
        """
        ids = self._encoded(prefix)
        options = next_step_options(self._model_options(), ids)
        size = self._size(text, options, len(ids), _PLAIN_BYTES)
        with self._limit.holding(size):
            line = self._translate(text, options, [ids])[0]
            likely = likely_tokens(line, ids, count)
        if not likely:
            return []

        prefixes = [(*ids, candidate.token) for candidate in likely]
        lines = self._translate(text, self._model_options(), prefixes)
        return [
            self._continuation(beginning, candidate.log_prob, line.hypotheses[0])
            for beginning, candidate, line in zip(prefixes, likely, lines, strict=True)
        ]

    def _encoded(self, prefix: str | Sequence[int]) -> tuple[int, ...]:
        if isinstance(prefix, str):
            prefix = self._model.encode_target(prefix)
        return tuple(prefix)

    def _model_options(self) -> Options:
        """Return options of the best translation alone, by the model's own settings."""
        options = self._model.options()
        options.threads = self._threads
        return options

    def _size(
        self, text: str, options: Options, prefix: int, weight_bytes: float
    ) -> int:
        """Estimate the bytes of an explanation; `prefix`: tokens of the prefix."""
        max_length = None if options.max_length < 0 else options.max_length
        lengths = self._lengths([text], max_length, prefix)
        roles = ROLES if options.attention else ()
        traced = options.beam if options.trace else 0
        return self._limit.size(lengths, options.nbest, roles, weight_bytes, traced)

    def _translate(
        self, text: str, options: Options, prefixes: Sequence[Sequence[int]]
    ) -> list[RuntimeLine]:
        """Translate a line once for each prefix of the translation."""
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
