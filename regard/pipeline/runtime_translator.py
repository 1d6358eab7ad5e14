"""Translator that runs a runtime file with the C library, without PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from regard.common.arguments import PATH, THREADS, problems_of_types
from regard.common.errors import UsageError, repetition_note
from regard.data.given_words import given_words
from regard.data.seen_token_pairs import SeenTokenPairs
from regard.pipeline.translator import Decoder, Translator
from regard.runtime.model import (
    ALL_ATTENTION,
    CROSS_ATTENTION,
    EOS,
    NO_ATTENTION,
    Options,
    RuntimeHypothesis,
    RuntimeLine,
    RuntimeModel,
    available_cores,
    trust_of,
)
from regard.runtime.model import Constraints as LibraryConstraints
from regard.text.casing import CaseReader
from regard.text.constraints import (
    NO_CONSTRAINTS,
    Constraints,
    constraints_of_each,
    missing_terms,
)
from regard.text.doubtful_sentences import DoubtfulSentences
from regard.text.quality import Trust
from regard.text.text_path import Request, Wanted
from regard.text.translation import (
    SPLIT,
    TranslatedPart,
    Translation,
    as_text,
    check_nbest,
)

if TYPE_CHECKING:
    from regard.attention.alignment import Readings
    from regard.data.language_id import LanguageId
    from regard.data.languages import Languages
    from regard.search.constraint_text import ConstraintEncoder
    from regard.search.search_steps import SearchStep
    from regard.search.settings import SearchOptions, SearchSettings

_LineConstraints = tuple[Constraints, LibraryConstraints]
"""Constraints of a line as text, and as the structure of the library."""
UNSUPPORTED = ("mbr", "coverage_penalty", "groups")
"""Search settings that need the run folder and PyTorch."""
OF_TRAINING = ("longest_source", "line_clauses")
"""Search settings that describe the training data, and are fixed in a runtime file."""
_SHARED = (
    "beam",
    "length_penalty",
    "max_ratio",
    "max_extra",
    "min_length",
    "max_length",
    "no_repeat_ngram",
    "max_line",
    "max_whole",
)
"""Search settings that are options of the C library with the same name, and are checked by it."""
_SAMPLING = ("sample", "temperature", "top_k", "top_p", "seed")
"""Search settings that are options of the C library, which ignores them unless it samples."""
_ABSENT = {"max_length": -1, "top_k": 0, "top_p": 0.0}
"""Values of library options that stand for a setting of None."""


class RuntimeTranslator(Translator):
    """A translator that decodes a runtime file with the C library.

    It searches greedily or with a beam, or samples, under any constraints. Diverse beams, MBR and
    the coverage penalty need the run folder.
    """

    def __init__(self, path: str | Path, threads: int | None = None) -> None:
        """Open a runtime file. `threads`: number of threads, by default one per core."""
        causes = problems_of_types(PATH, {"path": path})
        causes += problems_of_types(THREADS, {"threads": threads}, optional=True)
        UsageError.raise_all(causes)
        self.model = RuntimeModel(path)
        self.threads = threads or available_cores()
        ablations = self.model.card.get("warnings")
        if ablations:
            warnings.warn(
                f"{path}: trained for an experiment, not for use: {'; '.join(ablations)}",
                stacklevel=2,
            )

    @cached_property
    def search(self) -> SearchSettings:
        from regard.search.settings import SearchSettings

        return SearchSettings.parse(
            self.model.card["search"], f"{self.model.path}, search"
        )

    @property
    def languages(self) -> Languages:
        from regard.data.languages import Languages

        source, target = self.language_pair
        return Languages.parse(
            {"source": source, "target": target}, f"{self.model.path}, languages"
        )

    @property
    def language_pair(self) -> tuple[str, str]:
        source, target = self.model.card["languages"]
        return source, target

    @cached_property
    def case_reader(self) -> CaseReader:
        # The lambda refers to the model only: a cycle with this translator would keep the file
        # mapped after its last use.
        model = self.model
        return CaseReader(self.language_pair, lambda text: model.encode(text)[:-1])

    @property
    def copies(self) -> str:
        return self.model.copies

    @property
    def has_attention(self) -> bool:
        return self.model.has_attention

    @cached_property
    def doubts(self) -> DoubtfulSentences:
        model = self.model
        card = model.card["familiar"]
        familiar = SeenTokenPairs(**card) if card else None
        return DoubtfulSentences(
            lambda text: model.encode(text)[:-1],
            lambda ids: model.tokens(ids, False),
            familiar,
        )

    @cached_property
    def language_id(self) -> LanguageId | None:
        """Language identification; None if the file has none or, with a warning, if it is
        damaged.
        """
        from regard.data.language_id import LanguageId

        if not self.model.language_id:
            return None
        try:
            return LanguageId.parse(self.model.language_id)
        except ValueError as problem:
            warnings.warn(
                f"{self.model.path}: its languages are damaged ({problem}) and not recognised",
                stacklevel=2,
            )
            return None

    def encode(self, text: str) -> list[int]:
        return self.model.encode(as_text(text))

    def _decoder(
        self,
        count: int,
        wanted: Wanted,
        constraints: Constraints | Sequence[Constraints],
        search: SearchOptions,
    ) -> LibraryDecoder:
        if wanted.alignments and not self.has_attention:
            raise UsageError(
                "this model has no attention, so it has no alignments to extract; leave "
                "`alignments` out"
            )
        options = self._options(wanted.nbest, search)
        trust = self._trust(options)
        if "score_threshold" in search:
            trust = trust._replace(threshold=search["score_threshold"])
        per_line = None
        if constraints is not NO_CONSTRAINTS:
            of_each = constraints_of_each(constraints, count, "line")
            if any(item != NO_CONSTRAINTS for item in of_each):
                per_line = self._encoded(of_each, search)
        return LibraryDecoder(self, count, options, per_line, trust, wanted)

    def _stream(
        self, text: str, constraints: Constraints, search: SearchOptions
    ) -> Generator[str, None, tuple[str, ...]]:
        greedy: SearchOptions = {"beam": 1}
        options = self._options(1, {**search, **greedy})
        if constraints == NO_CONSTRAINTS:
            yield from self.model.stream(text, options)
            return ()
        ((_, encoded),) = self._encoded([constraints], search)
        is_complete = yield from self.model.stream(text, options, encoded)
        return missing_terms(is_complete, constraints, "translation")

    def _trace(
        self, text: str, constraints: Constraints, search: SearchOptions
    ) -> tuple[Translation, list[SearchStep]]:
        wanted = Wanted(readings=True)
        decoder = self._decoder(1, wanted, constraints, search)
        lines, options, encoded = decoder.arguments(Request([text], [0]))
        options.trace = 1
        (line,) = self.model.translate(lines, options, encoded)
        if len(line.parts) > 1:
            raise UsageError(SPLIT)
        if not line.source:
            raise UsageError(
                "the line is empty, or has no letters; give a line of text"
            )
        (translation,) = decoder.read(Request([text], [0]), [line])
        notes = [
            repetition_note(repetition) for repetition in line.hypotheses[0].repetitions
        ]
        translation = replace(translation, notes=(*translation.notes, *notes))
        return translation, list(line.steps)

    @cached_property
    def _default_options(self) -> Options:
        """The search options that the file came with."""
        options = self.model.options()
        settings = self.model.card["search"]
        sampling = {name: settings[name] for name in _SAMPLING if name in settings}
        _set_options(options, sampling)
        return options

    def _trust(self, options: Options) -> Trust:
        """Return how far translations of this search are trusted."""
        defaults = self._default_options
        if (
            options.length_penalty != defaults.length_penalty
            or options.sample != defaults.sample
        ):
            return Trust()
        return self._usual_trust

    @cached_property
    def _usual_trust(self) -> Trust:
        """Trust in the translations of the usual search."""
        return trust_of(self.model.card)

    @cached_property
    def constraint_encoder(self) -> ConstraintEncoder:
        """Encoder of constraints by the model's vocabulary."""
        from regard.runtime.encoded_constraints import RuntimeVocabulary
        from regard.search.constraint_text import ConstraintEncoder

        return ConstraintEncoder(RuntimeVocabulary(self.model), self.case_reader.target)

    def _encoded(
        self, per_line: list[Constraints], search: SearchOptions
    ) -> list[_LineConstraints]:
        """Return the constraints of each line, as text and as structures of the library.

        Raises UsageError, with all causes, for constraints that contradict themselves or the search
        settings.
        """
        from regard.runtime.encoded_constraints import library_constraints
        from regard.search.constraint_text import check_constraints, check_required
        from regard.search.constraints import required_tokens

        encoder = self.constraint_encoder
        settings = self.search.with_values(
            **{name: value for name, value in search.items() if value is not None}
        )
        check_constraints(per_line, encoder, settings)
        encoded = dict[Constraints, LibraryConstraints]()
        for item in dict.fromkeys(per_line):
            prefix = encoder.encode_prefix(item.prefix)
            terms = encoder.encode_terms(item.terms)
            # The library checks the limit of the model itself.
            if settings.max_length is not None:
                required = len(prefix) + required_tokens(terms)
                check_required(item, required, settings.max_length + 1)
            forbidden = encoder.encode_forbidden(item.forbid)
            encoded[item] = library_constraints(prefix, terms, forbidden)
        return [(item, encoded[item]) for item in per_line]

    def _options(self, nbest: int, search: SearchOptions) -> Options:
        """Return the options of the C library. Raises UsageError, with all causes, for unsupported
        settings.
        """
        options = self._default_options.copy()
        chosen: dict[str, object] = {
            name: value for name, value in search.items() if value is not None
        }
        # Usual numbers are left to the library, since SearchSettings takes long to load.
        are_usual = all(
            name in _SHARED and type(value) in (int, float)
            for name, value in chosen.items()
        )
        if not are_usual:
            settings = self.search.with_values(**chosen)
            _refuse_unsupported(settings)
            fixed = [name for name in OF_TRAINING if name in chosen]
            UsageError.raise_all(
                f"`{name}` is of the training data, and fixed in a runtime file"
                for name in fixed
            )
            options.split = int(settings.splits_sentences)
            if chosen.get("sample") and "beam" not in chosen:
                settings = settings.with_values(beam=nbest)
            chosen = {name: getattr(settings, name) for name in (*_SHARED, *_SAMPLING)}
        _set_options(options, chosen)
        check_nbest(nbest, options.beam)
        options.nbest = nbest
        options.threads = self.threads
        return options


class LibraryDecoder(Decoder):
    """Decoder of the lines of one call by the library.

    A caller may also run the library itself, with `arguments` and `read`. `constraints` has one
    element per line, or is None if there are none.
    """

    def __init__(
        self,
        translator: RuntimeTranslator,
        count: int,
        options: Options,
        constraints: list[_LineConstraints] | None,
        trust: Trust,
        wanted: Wanted,
    ) -> None:
        self._model = translator.model
        self._doubts = translator.doubts
        self._count = count
        self._options = options
        self._constraints = constraints
        self._trust = trust
        self._wanted = wanted
        self._reads_each = False
        options.attention = ALL_ATTENTION if wanted.readings else NO_ATTENTION

    def read_each(self, encoder: bool) -> None:
        """Read the attention of every hypothesis, and with `encoder` also all self-attention."""
        self._options.attention = ALL_ATTENTION if encoder else CROSS_ATTENTION
        self._reads_each = True

    @property
    def free(self) -> Sequence[bool]:
        if self._constraints is None:
            return [True] * self._count
        return [item == NO_CONSTRAINTS for item, _ in self._constraints]

    def __call__(self, request: Request) -> list[Translation]:
        return self.read(request, self._model.translate(*self.arguments(request)))

    def arguments(
        self, request: Request
    ) -> tuple[Sequence[str], Options, list[LibraryConstraints] | None]:
        """Return lines, options and constraints as arguments of the library."""
        options = self._options.copy()
        options.alignments = int(self._finds_links(request))
        encoded = None
        if self._constraints is not None:
            encoded = [self._constraints[owner][1] for owner in request.owners]
        return request.lines, options, encoded

    def read(self, request: Request, lines: Sequence[RuntimeLine]) -> list[Translation]:
        """Return the results of the library as translations."""
        constraints = [NO_CONSTRAINTS] * len(lines)
        if self._constraints is not None:
            constraints = [self._constraints[owner][0] for owner in request.owners]
        translations = list(map(self._translation, lines, constraints))
        if not self._finds_links(request):
            return translations
        return [
            translation.with_given_words(given_words(line))
            for line, translation in zip(request.lines, translations, strict=True)
        ]

    def _finds_links(self, request: Request) -> bool:
        return self._wanted.alignments or (request.links and self._model.has_attention)

    def _translation(self, line: RuntimeLine, constraints: Constraints) -> Translation:
        best = line.hypotheses[0]
        parts = tuple(
            TranslatedPart(*part[:3], *self._doubts.judge(*part[:3], self._trust))
            for part in line.parts
        )
        ranked = list[Translation]()
        if self._wanted.nbest > 1 and line.parts:
            for hypothesis in line.hypotheses:
                readings = None
                if self._reads_each:
                    readings = self._readings(line, hypothesis)
                notes = _notes(hypothesis, constraints)
                ranked.append(
                    self._result(
                        line,
                        hypothesis,
                        readings,
                        notes,
                        parts=self._only_part(line, hypothesis),
                    )
                )
        readings = self._readings(line, best) if self._wanted.readings else None
        notes = line.notes
        if constraints.terms:
            notes = (*notes, *_notes(best, constraints))
        return self._result(line, best, readings, notes, tuple(ranked), parts)

    def _only_part(
        self, line: RuntimeLine, hypothesis: RuntimeHypothesis
    ) -> tuple[TranslatedPart, ...]:
        """Return the part of a hypothesis of a line that was not split; else none."""
        if len(line.parts) > 1:
            return ()
        part = (line.parts[0][0], hypothesis.text, hypothesis.score)
        return (TranslatedPart(*part, *self._doubts.judge(*part, self._trust)),)

    def _result(
        self,
        line: RuntimeLine,
        hypothesis: RuntimeHypothesis,
        readings: Readings | None,
        notes: tuple[str, ...],
        nbest: tuple[Translation, ...] = (),
        parts: tuple[TranslatedPart, ...] = (),
    ) -> Translation:
        doubtful = any(part.doubtful for part in parts)
        return Translation(
            hypothesis.text,
            tuple(self._model.tokens(hypothesis.ids, True)),
            hypothesis.score,
            hypothesis.links,
            readings,
            nbest,
            hypothesis.repetitions[0] if hypothesis.repetitions else None,
            parts,
            doubtful,
            hypothesis.is_complete,
            notes,
            hypothesis.ids,
            hypothesis.log_probs,
            tuple(self._model.tokens(line.source, False)),
        )

    def _readings(self, line: RuntimeLine, best: RuntimeHypothesis) -> Readings | None:
        """Return the attention weights of a hypothesis, with tokens and words; None for an empty
        source.
        """
        if not line.source:
            return None
        from regard.attention.alignment import Readings

        model = self._model
        target = (*best.ids, EOS)
        source_words = tuple(model.word_indices(line.source, False))
        target_words = tuple(model.word_indices(target, True))
        return Readings(
            tuple(model.tokens(line.source, False)),
            tuple(model.tokens(target, True)),
            source_words,
            target_words,
            best.weights,
            {layer.name: layer.role for layer in model.layers},
            model.word_texts(line.source, source_words, False),
            model.word_texts(target, target_words, True),
            scores=best.scores,
        )


def _set_options(options: Options, values: Mapping[str, object]) -> None:
    for name, value in values.items():
        setattr(options, name, _ABSENT[name] if value is None else value)


def _refuse_unsupported(settings: SearchSettings) -> None:
    """Raise UsageError, with all causes, for settings that a runtime file does not support."""
    fields = type(settings).model_fields
    UsageError.raise_all(
        f"`{name}` needs the run folder and PyTorch; a runtime file does without it"
        for name in UNSUPPORTED
        if getattr(settings, name) != fields[name].default
    )


def _notes(hypothesis: RuntimeHypothesis, constraints: Constraints) -> tuple[str, ...]:
    """Return a note if terms are missing."""
    return missing_terms(hypothesis.is_complete, constraints, "translation")
