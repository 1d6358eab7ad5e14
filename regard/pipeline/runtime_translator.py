"""RuntimeTranslator: raw text in, raw text out, from a runtime file and the C library, without PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.common.arguments import PATH, THREADS, problems_of_types
from regard.common.errors import UsageError, repetition_note
from regard.data.familiar import Familiar
from regard.data.given_words import given_words
from regard.pipeline.translator import Decoder, Translator
from regard.runtime.model import Options, RuntimeHypothesis, RuntimeLine, RuntimeModel, available_cores
from regard.text.constraints import NO_CONSTRAINTS, Constraints, constraints_of_each
from regard.text.doubts import Doubts
from regard.text.text_path import Request, Wanted
from regard.text.translation import SPLIT, TranslatedPart, Translation, as_text, check_nbest

if TYPE_CHECKING:
    from regard.attention.alignment import Readings
    from regard.data.language_id import LanguageId
    from regard.data.languages import Languages
    from regard.search.search_steps import SearchStep
    from regard.search.settings import SearchOptions, SearchSettings

UNSUPPORTED = ("sample", "mbr", "coverage_penalty", "temperature", "top_k", "top_p", "groups")
"""Search settings that only a run folder, and PyTorch, can do."""
OF_TRAINING = ("longest_source", "line_clauses")
"""Search settings that the library keeps as they were when the file was written."""
_SHARED = (
    *("beam", "length_penalty", "max_ratio", "max_extra", "min_length", "max_length"),
    *("no_repeat_ngram", "max_line", "max_whole"),
)
"""Search settings that are options of the C library by the same name."""
_EOS = 3


class RuntimeTranslator(Translator):
    """A translator that stands on a runtime file, and the C library.

    It searches greedily or with a beam, and can be given a prefix; terms, forbidden words, sampling, diverse beams and
    MBR need the run folder.
    """

    def __init__(self, path: str | Path, threads: int | None = None) -> None:
        """Open a runtime file. `threads`: to translate with; one per core if not given."""
        causes = problems_of_types(PATH, {"path": path})
        causes += problems_of_types(THREADS, {"threads": threads}, optional=True)
        UsageError.raise_all(causes)
        self.model = RuntimeModel(path)
        self.threads = threads or available_cores()
        if ablations := self.model.card.get("warnings"):
            warnings.warn(f"{path}: trained for an experiment, not for use: {'; '.join(ablations)}", stacklevel=2)

    @cached_property
    def search(self) -> SearchSettings:
        from regard.search.settings import SearchSettings

        return SearchSettings.parse(self.model.card["search"], f"{self.model.path}, search")

    @property
    def languages(self) -> Languages:
        from regard.data.languages import Languages

        source, target = self.language_pair
        return Languages.parse({"source": source, "target": target}, f"{self.model.path}, languages")

    @property
    def language_pair(self) -> tuple[str, str]:
        source, target = self.model.card["languages"]
        return source, target

    @property
    def copies(self) -> str:
        return self.model.copies

    @property
    def has_attention(self) -> bool:
        return self.model.has_attention

    @cached_property
    def doubts(self) -> Doubts:
        model = self.model
        card = model.card["familiar"]
        familiar = Familiar(**card) if card else None
        return Doubts(lambda text: model.encode(text)[:-1], lambda ids: model.tokens(ids, False), familiar)

    @cached_property
    def language_id(self) -> LanguageId | None:
        """Language identification; None if the file has none or, with a warning, if it is damaged."""
        from regard.data.language_id import LanguageId

        try:
            return LanguageId.parse(self.model.language_id) if self.model.language_id else None
        except ValueError as problem:
            warnings.warn(f"{self.model.path}: its languages are damaged ({problem}) and not recognised", stacklevel=2)
            return None

    def encode(self, text: str) -> list[int]:
        return self.model.encode(as_text(text))

    def _decoder(
        self, count: int, wanted: Wanted, constraints: Constraints | Sequence[Constraints], search: SearchOptions
    ) -> LibraryDecoder:
        if wanted.alignments and not self.has_attention:
            raise UsageError("this model has no attention, so it has no alignments to extract; leave `alignments` out")
        options = self._options(wanted.nbest, search)
        threshold = search.get("score_threshold", self._threshold(options))
        return LibraryDecoder(self, count, options, self._prefixes(constraints, count, search), threshold, wanted)

    def _stream(
        self, text: str, constraints: Constraints, search: SearchOptions
    ) -> Generator[str, None, tuple[str, ...]]:
        if constraints != NO_CONSTRAINTS:
            raise UsageError("a runtime file streams without constraints; translate the line, or use the run folder")
        greedy: SearchOptions = {"beam": 1}
        yield from self.model.stream(text, self._options(1, {**search, **greedy}))
        return ()

    def _trace(
        self, text: str, constraints: Constraints, search: SearchOptions
    ) -> tuple[Translation, list[SearchStep]]:
        wanted = Wanted(readings=True)
        decoder = self._decoder(1, wanted, constraints, search)
        lines, options, prefixes = decoder.arguments(Request([text], [0]))
        options.trace = 1
        (line,) = self.model.translate(lines, options, prefixes)
        if len(line.parts) > 1:
            raise UsageError(SPLIT)
        if not line.source:
            raise UsageError("the line is empty, or has no letters; give a line of text")
        (translation,) = decoder.read(Request([text], [0]), [line])
        notes = [repetition_note(repetition) for repetition in line.hypotheses[0].repetitions]
        return replace(translation, notes=(*translation.notes, *notes)), list(line.steps)

    @cached_property
    def _own_options(self) -> Options:
        """The model's own options of a search."""
        return self.model.options()

    def _threshold(self, options: Options) -> float | None:
        """Return the score below which a translation is doubtful; None: unknown, or scores are of another kind."""
        if options.length_penalty != self._own_options.length_penalty:
            return None
        threshold: float | None = self.model.card["search"].get("score_threshold")
        return threshold

    def _prefixes(
        self, constraints: Constraints | Sequence[Constraints], count: int, search: SearchOptions
    ) -> list[list[int]] | None:
        """Return the tokens that the target of each line begins with; None: there are no constraints.

        Raises UsageError, with all causes, for other constraints and for prefixes that cannot be written.
        """
        if constraints is NO_CONSTRAINTS:
            return None
        each, encode = constraints_of_each(constraints, count, "line"), self.model.encode_target
        if any(item.terms or item.forbid for item in each):
            raise UsageError(
                "terms and forbidden words need the run folder; a runtime file has nothing that tokenises them, and "
                "takes a prefix"
            )
        from regard.search.constraint_text import problems_of

        case = self.case_reader.target

        limits = self.search.with_values(**{name: value for name, value in search.items() if value is not None})
        causes = (cause for item in dict.fromkeys(each) for cause in problems_of(item, encode, limits, "", case))
        UsageError.raise_all(dict.fromkeys(causes))
        return [encode(item.prefix) for item in each]

    def _options(self, nbest: int, search: SearchOptions) -> Options:
        """Return the options of the C library. Raises UsageError, with all causes, for what it cannot do."""
        options = self._own_options.copy()
        chosen: dict[str, Any] = {name: value for name, value in search.items() if value is not None}
        if not all(name in _SHARED and type(value) in (int, float) for name, value in chosen.items()):
            settings = self.search.with_values(**chosen)
            _refuse_unsupported(settings)
            fixed = [name for name in OF_TRAINING if name in chosen]
            UsageError.raise_all(f"`{name}` is of the training data, and fixed in a runtime file" for name in fixed)
            options.split = int(settings.splits_sentences)
            chosen = {name: getattr(settings, name) for name in _SHARED}
        for name, value in chosen.items():  # the library checks their bounds
            setattr(options, name, -1 if value is None else value)
        check_nbest(nbest, options.beam)
        options.nbest, options.threads = nbest, self.threads
        return options


class LibraryDecoder(Decoder):
    """Decodes the lines of one call by the library, at once or by whoever hands over the arguments itself.

    `prefixes`: the tokens that the target of each line begins with; None: any.
    """

    def __init__(
        self,
        translator: RuntimeTranslator,
        count: int,
        options: Options,
        prefixes: list[list[int]] | None,
        threshold: float | None,
        wanted: Wanted,
    ) -> None:
        self._model = translator.model
        self._doubts = translator.doubts
        self._count = count
        self._options = options
        self._prefixes = prefixes
        self._threshold = threshold
        self._wanted = wanted
        self._reads_each = False
        options.attention = 2 if wanted.readings else 0

    def record(self, attention: int) -> None:
        """Record attention of each hypothesis: 0: none, 1: cross-attention, 2: every layer."""
        self._options.attention = attention
        self._reads_each = attention > 0

    @property
    def free(self) -> Sequence[bool]:
        return [True] * self._count if self._prefixes is None else [not prefix for prefix in self._prefixes]

    def __call__(self, request: Request) -> list[Translation]:
        return self.read(request, self._model.translate(*self.arguments(request)))

    def arguments(self, request: Request) -> tuple[Sequence[str], Options, list[list[int]] | None]:
        """Return lines, options and prefixes, as the library takes them."""
        options = self._options.copy()
        options.alignments = int(self._finds_links(request))
        prefixes = None if self._prefixes is None else [self._prefixes[owner] for owner in request.owners]
        return request.lines, options, prefixes

    def read(self, request: Request, lines: Sequence[RuntimeLine]) -> list[Translation]:
        """Return what the library has found as translations."""
        pairs = zip(request.lines, map(self._translation, lines), strict=True)
        if not self._finds_links(request):
            return [translation for _, translation in pairs]
        return [translation.with_given_words(given_words(line)) for line, translation in pairs]

    def _finds_links(self, request: Request) -> bool:
        return self._wanted.alignments or (request.links and self._model.has_attention)

    def _translation(self, line: RuntimeLine) -> Translation:
        best = line.hypotheses[0]
        parts = tuple(
            TranslatedPart(source, text, score, self._doubts.is_doubtful(source, score, self._threshold))
            for source, text, score, _ in line.parts
        )
        ranked: tuple[Translation, ...] = ()
        if self._wanted.nbest > 1 and line.parts:
            ranked = tuple(
                self._result(line, hypothesis, self._readings(line, hypothesis) if self._reads_each else None)
                for hypothesis in line.hypotheses
            )
        readings = self._readings(line, best) if self._wanted.readings else None
        doubtful = any(part.doubtful for part in parts)
        return self._result(line, best, readings, ranked, parts, doubtful, line.notes)

    def _result(
        self,
        line: RuntimeLine,
        hypothesis: RuntimeHypothesis,
        readings: Readings | None = None,
        nbest: tuple[Translation, ...] = (),
        parts: tuple[TranslatedPart, ...] = (),
        doubtful: bool = False,
        notes: tuple[str, ...] = (),
    ) -> Translation:
        return Translation(
            hypothesis.text,
            tuple(self._model.tokens(hypothesis.ids, True)),
            hypothesis.score,
            hypothesis.links,
            readings,
            nbest,
            next(iter(hypothesis.repetitions), None),
            parts,
            doubtful,
            hypothesis.is_complete,
            notes,
            hypothesis.ids,
            hypothesis.log_probs,
            tuple(self._model.tokens(line.source, False)),
        )

    def _readings(self, line: RuntimeLine, best: RuntimeHypothesis) -> Readings | None:
        """Return the attention weights of a hypothesis, with the tokens and words they belong to, if there are any."""
        if not line.source:
            return None
        model, sides = self._model, ((line.source, False), ((*best.ids, _EOS), True))
        tokens = [tuple(model.tokens(ids, is_target)) for ids, is_target in sides]
        words = [tuple(model.word_indices(ids, is_target)) for ids, is_target in sides]
        texts = [model.word_texts(ids, side, is_target) for (ids, is_target), side in zip(sides, words, strict=True)]
        roles = {layer.name: layer.role for layer in model.layers}
        from regard.attention.alignment import Readings

        weights, scores = best.weights, best.scores
        return Readings(tokens[0], tokens[1], words[0], words[1], weights, roles, texts[0], texts[1], scores=scores)


class _AllFree(Sequence[bool]):
    """Any number of lines, none of which has constraints."""


def _refuse_unsupported(settings: SearchSettings) -> None:
    """Raise UsageError, with all causes, for settings that a runtime file does without."""
    fields = type(settings).model_fields
    asked = [name for name in UNSUPPORTED if getattr(settings, name) != fields[name].default]
    UsageError.raise_all(f"`{name}` needs the run folder and PyTorch; a runtime file does without it" for name in asked)
