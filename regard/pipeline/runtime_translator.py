"""RuntimeTranslator: raw text in, raw text out, from a runtime file and the C library, without PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.common.arguments import FLAG, PATH, THREADS, problems_of_types
from regard.common.errors import LineError, LineWarning, UsageError, repetition_note
from regard.data.casing import CaseReader
from regard.data.familiar import Familiar
from regard.data.given_words import given_words
from regard.pipeline.around_spans import Keep, checked_keep, translate_around_spans
from regard.pipeline.doubts import Doubts
from regard.pipeline.translation import SPLIT, Translation, as_text, as_texts, check_nbest
from regard.runtime.model import Options, RuntimeHypothesis, RuntimeLine, RuntimeModel, available_cores
from regard.search.line_constraints import NO_CONSTRAINTS, Constraints, constraints_of_each

if TYPE_CHECKING:
    from typing_extensions import Unpack

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


class RuntimeTranslator:
    """Translates raw text as `Translator` does: `regard.load("translator.regard").translate("나는 집에 간다")`.

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
        """The search settings that the model came with."""
        from regard.search.settings import SearchSettings

        return SearchSettings.parse(self.model.card["search"], f"{self.model.path}, search")

    @property
    def languages(self) -> Languages:
        """The languages of source and target; empty ones are unknown."""
        from regard.data.languages import Languages

        source, target = self.model.card["languages"]
        return Languages.parse({"source": source, "target": target}, f"{self.model.path}, languages")

    @cached_property
    def case_reader(self) -> CaseReader:
        """Reads lines in capitals, by the rules of the model's languages."""
        model = self.model
        return CaseReader(model.card["languages"], lambda text: model.encode(text)[:-1])

    @cached_property
    def doubts(self) -> Doubts:
        """Tells which sentences the model has not learnt."""
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

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        nbest: int = 1,
        alignments: bool = False,
        readings: bool = False,
        constraints: Constraints | Sequence[Constraints] = NO_CONSTRAINTS,
        keep: Keep = True,
        **search: Unpack[SearchOptions],
    ) -> list[Translation]:
        """Translate a line or several, as `Translator.translate` does: the same tokens, the same scores.

        `readings` are those of the kernels, in the precision of the file. Raises UsageError for options that need the
        run folder, LineError for lines that cannot be translated.
        """
        lines = as_texts(texts)
        UsageError.raise_all(problems_of_types(FLAG, {"alignments": alignments, "readings": readings}))
        if alignments and not self.model.has_attention:
            raise UsageError("this model has no attention, so it has no alignments to extract; leave `alignments` out")
        options = self._options(nbest, search)
        prefixes = self._prefixes(constraints, len(lines), search)
        threshold = search.get("score_threshold", self.model.score_threshold(options))

        def translate(chosen: Sequence[str], owners: Sequence[int], links: bool) -> list[Translation]:
            wants_links = alignments or (links and self.model.has_attention)
            options.attention, options.alignments = 2 * readings, int(wants_links)
            own = None if prefixes is None else [prefixes[owner] for owner in owners]
            try:
                results = self.model.translate(chosen, options, own)
            except LineError as problem:
                raise LineError(*((owners[index], text) for index, text in problem.problems)) from None
            _warn(results, owners)
            translations = list[Translation]()
            for text, line in zip(chosen, results, strict=True):
                translation = self._translation(line, nbest, readings).with_doubts(self.doubts, threshold)
                translations.append(translation.with_given_words(given_words(text)) if wants_links else translation)
            return translations

        free = [not (prefixes and prefixes[n]) for n in range(len(lines))]
        keep = checked_keep(keep, nbest == 1 and not (alignments or readings), free)
        return translate_around_spans(lines, translate, keep, free, self.model.copies, self.case_reader)

    def stream(
        self, text: str, constraints: Constraints = NO_CONSTRAINTS, **search: Unpack[SearchOptions]
    ) -> Iterator[str]:
        """Yield the translation of a line as it is decoded, greedily, word by word."""
        (checked,) = constraints_of_each(constraints, 1, "line")
        if checked != NO_CONSTRAINTS:
            raise UsageError("a runtime file streams without constraints; translate the line, or use the run folder")
        greedy: SearchOptions = {"beam": 1}
        yield from self.model.stream(as_text(text), self._options(1, {**search, **greedy}))

    def trace(
        self, text: str, constraints: Constraints = NO_CONSTRAINTS, **search: Unpack[SearchOptions]
    ) -> tuple[Translation, list[SearchStep]]:
        """Translate a line with its readings, and record every step of its search, as `Translator.trace` does.

        Raises UsageError for a line without letters, and for one that is split.
        """
        options = self._options(1, search)
        options.attention, options.trace = 2, 1
        (line,) = self.model.translate([as_text(text)], options, self._prefixes(constraints, 1, search))
        if len(line.parts) > 1:
            raise UsageError(SPLIT)
        if not line.source:
            raise UsageError("the line is empty, or has no letters; give a line of text")
        _warn([line], [0])
        for repetition in line.hypotheses[0].repetitions:
            warnings.warn(LineWarning(0, repetition_note(repetition)), stacklevel=2)
        threshold = search.get("score_threshold", self.model.score_threshold(options))
        return self._translation(line, 1, True).with_doubts(self.doubts, threshold), list(line.steps)

    def encode(self, text: str) -> list[int]:
        """Tokenise a line as the model reads it: token ids, end of sentence last."""
        return self.model.encode(as_text(text))

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
        options = self.model.options()
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

    def _translation(self, line: RuntimeLine, nbest: int, readings: bool) -> Translation:
        ranked = [self._result(hypothesis) for hypothesis in line.hypotheses]
        best = line.hypotheses[0]
        shown = self._readings(line, best) if readings and line.source else None
        others = tuple(ranked) if nbest > 1 and line.parts else ()
        return replace(ranked[0], readings=shown, nbest=others, parts=line.parts)

    def _result(self, hypothesis: RuntimeHypothesis) -> Translation:
        tokens = tuple(self.model.tokens(hypothesis.ids, True))
        repetition = next(iter(hypothesis.repetitions), None)
        rest: dict[str, Any] = {"repetition": repetition, "is_complete": hypothesis.is_complete}
        return Translation(hypothesis.text, tokens, hypothesis.score, hypothesis.links, **rest)

    def _readings(self, line: RuntimeLine, best: RuntimeHypothesis) -> Readings:
        """Return the attention weights of the best hypothesis, with the tokens and words they belong to."""
        model, sides = self.model, ((line.source, False), ((*best.ids, _EOS), True))
        tokens = [tuple(model.tokens(ids, is_target)) for ids, is_target in sides]
        words = [tuple(model.word_indices(ids, is_target)) for ids, is_target in sides]
        texts = [model.word_texts(ids, side, is_target) for (ids, is_target), side in zip(sides, words, strict=True)]
        roles = {layer.name: layer.role for layer in model.layers}
        from regard.attention.alignment import Readings

        weights, scores = best.weights, best.scores
        return Readings(tokens[0], tokens[1], words[0], words[1], weights, roles, texts[0], texts[1], scores=scores)


def _refuse_unsupported(settings: SearchSettings) -> None:
    """Raise UsageError, with all causes, for settings that a runtime file does without."""
    fields = type(settings).model_fields
    asked = [name for name in UNSUPPORTED if getattr(settings, name) != fields[name].default]
    UsageError.raise_all(f"`{name}` needs the run folder and PyTorch; a runtime file does without it" for name in asked)


def _warn(lines: Sequence[RuntimeLine], owners: Sequence[int]) -> None:
    """Warn of lines that were split, as `Translator` does."""
    for index, line in zip(owners, lines, strict=True):
        for note in line.notes:
            warnings.warn(LineWarning(index, note), stacklevel=4)
