"""Base class of translators from raw text to translated text, whatever engine decodes."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from regard.common.arguments import FLAG, problems_of_types
from regard.common.errors import LineError, LineWarning, UsageError
from regard.common.stopping import STOP_EVENT, check_stop
from regard.text.casing import CaseReader
from regard.text.character_limit import check_limit, limited_path
from regard.text.constraints import NO_CONSTRAINTS, Constraints, constraints_of_each
from regard.text.doubtful_sentences import DoubtfulSentences
from regard.text.language_note import is_in_target_script, language_note
from regard.text.particles import Particles, are_both
from regard.text.quality import Trust
from regard.text.text_path import (
    ALL,
    BEST_TEXT,
    Keep,
    Path,
    PathRules,
    Request,
    Wanted,
    checked_keep,
    first_reading,
    joint_path,
    lines_path,
    marked,
    run_path,
)
from regard.text.translation import TranslatedPart, Translation, as_text, as_texts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from regard.data.language_id import LanguageId
    from regard.data.languages import Languages
    from regard.documents import Document, DocumentOptions, DocumentTranslation
    from regard.search.search_steps import SearchStep
    from regard.search.settings import SearchOptions, SearchSettings
    from regard.text.text_format import TextFormat, TranslatedText

_R = TypeVar("_R")
CHUNK = 64
"""Lines of a document that are translated at once; other calls take turns with them."""
_UNREAD = (
    "stays as it is: most of its characters were never seen in training, so a translation would "
    "mean nothing"
)
_OF_TARGET = (
    "stays as it is: its letters are those of the language of the translation, and none of the "
    "one that the model reads"
)


class Decoder(ABC):
    """Decoder of the lines of one call, whose options have been checked."""

    @property
    @abstractmethod
    def free(self) -> Sequence[bool]:
        """For each line of the call, True if it is without constraints."""

    @abstractmethod
    def __call__(self, request: Request) -> list[Translation]:
        """Decode lines without further processing.

        Raises LineError, with the numbers of lines in the request, for lines that are refused.
        """


@dataclass(frozen=True)
class TranslationCall(Generic[_R]):
    """A call that has begun: `path` yields the requests that `decoder` decodes."""

    path: Path[_R]
    decoder: Decoder

    def run(self, may_retry: Callable[[], bool] | None = None) -> _R:
        """Decode all requests, and return the translations.

        `may_retry` is called before each retry, and returns whether there is time for it; by
        default there is.
        """
        if may_retry is None:
            return run_path(self.path, self.decoder)

        def decode(request: Request) -> list[Translation] | None:
            if request.is_retry and not may_retry():
                return None
            return self.decoder(request)

        return run_path(self.path, decode)


class Translator(ABC):
    """Translates raw text: `regard.load(folder).translate("나는 집에 간다")`.

    A translator is loaded from a run folder, from several as an ensemble, or from a runtime file.
    Its capabilities depend on the engine that decodes, the C library or PyTorch. Several threads
    may call it at once. One of a folder is a `FolderTranslator`, which has `model`, a
    `regard.models.Model`, and `tokenizer`.
    """

    def __repr__(self) -> str:
        languages = " → ".join(filter(None, self.language_pair))
        return f"{type(self).__name__}({languages})"

    def translate(  # noqa: PLR0913 - all by keyword
        self,
        texts: str | Sequence[str],
        *,
        nbest: int = 1,
        alignments: bool = False,
        readings: bool = False,
        constraints: Constraints | Sequence[Constraints] = NO_CONSTRAINTS,
        keep: Keep = True,
        dialect: str = "auto",
        particles: Particles = "both",
        max_characters: int | None = None,
        **search: Unpack[SearchOptions],
    ) -> list[Translation]:
        """Translate a line or several: one translation for each line, in order. Empty lines stay
        empty.

        - `nbest`, `alignments`, `readings`: see `Translation`. Readings and alignments belong to
          the output of the search, whatever its settings.
        - `constraints` hold for all lines, or there is one for each.
        - `keep`: placeholders, addresses, code and emoji come back unchanged, as do the matches of
          given RE2 patterns in lines without constraints, and lines in capitals are read in letters
          that the model knows. If nbest, alignments or readings are asked for, this holds for at
          most two placeholders of a line, by the model's copy tokens.
        - `dialect`: of the strings, such as c, icu or html; auto: what each line speaks for. A
          translation that breaks the code of its line is `broken`, and the sentence stands as it
          was; if more than the best text is asked for, or `keep` is False, it is only marked.
        - `particles`: those of Korean directly after a placeholder, whose form depends on its
          value: both forms, as in {name}을(를), or as-is.
        - `max_characters`: the best hypothesis of the beam that has at most so many characters, and
          keeps what its line has; if there is none, the best translation stands and is `broken`.
        - `search` overrides the model's search settings.

        Warns of the `notes` of translations. Raises UsageError, with all causes, for options that
        contradict each other or the model, and LineError for lines that cannot be translated.
        """
        call = self.begin(
            texts,
            nbest=nbest,
            alignments=alignments,
            readings=readings,
            constraints=constraints,
            keep=keep,
            dialect=dialect,
            particles=particles,
            max_characters=max_characters,
            **search,
        )
        translations = call.run()
        self._warn(translations)
        return translations

    def begin(  # noqa: PLR0913 - those of `translate`
        self,
        texts: str | Sequence[str],
        *,
        nbest: int = 1,
        alignments: bool = False,
        readings: bool = False,
        constraints: Constraints | Sequence[Constraints] = NO_CONSTRAINTS,
        keep: Keep = True,
        dialect: str = "auto",
        particles: Particles = "both",
        max_characters: int | None = None,
        **search: Unpack[SearchOptions],
    ) -> TranslationCall[list[Translation]]:
        """Begin to translate lines as `translate` does, but without warnings of notes.

        Raises the same UsageError.
        """
        lines = as_texts(texts)
        UsageError.raise_all(
            problems_of_types(FLAG, {"alignments": alignments, "readings": readings})
        )
        wanted = Wanted(nbest, alignments, readings)
        decoded = wanted
        if max_characters is not None:
            check_limit(max_characters, wanted, search.get("sample"))
            decoded = Wanted(search.get("beam") or self.search.beam)
        decoder = self._decoder(len(lines), decoded, constraints, search)
        free = decoder.free
        keep = checked_keep(keep, wanted, free)
        rules = self._rules(wanted, keep, dialect, particles)
        path = lines_path(lines, rules, free)
        if max_characters is not None:
            path = limited_path(path, lines, rules, max_characters)
        return TranslationCall(path, decoder)

    def translate_document(  # noqa: PLR0913 - all by keyword
        self,
        document: str | FilePath | Document,
        output: str | FilePath | None = None,
        *,
        retranslate: bool = False,
        attributes: bool = False,
        column: str = "",
        constraints: Constraints = NO_CONSTRAINTS,
        keep: Keep = True,
        dialect: str = "auto",
        particles: Particles = "both",
        max_characters: int | None = None,
        code: str = "",
        **search: Unpack[SearchOptions],
    ) -> DocumentTranslation:
        """Translate a file, or a document that was opened, and write the same document with its
        texts translated to `output`, whole or not at all.

        - `retranslate`: texts that have a translation, in the file or in a file of strings that is
          at `output`, are translated again; else they stay.
        - `attributes`: attributes that people read are translated, such as `alt` and `title`.
        - `column`: that of a table, by its name, language or number.
        - `code`: that of the target language, if the model needs one.

        The other options are those of `translate`. Raises UsageError for a file of no known
        format, an output named like one of another, and for the options, and DataError for files
        that cannot be read or written.
        """
        # Imported late, since plain lines need no documents.
        from regard.documents import Document
        from regard.documents import document_translation as results
        from regard.documents.earlier_output import with_earlier_texts
        from regard.documents.formats import check_ending
        from regard.documents.formats import open as open_document

        if output is not None:
            results.check_output(FilePath(output))
        if not isinstance(document, Document):
            options = self.document_options(
                constraints == NO_CONSTRAINTS and keep is not False,
                retranslate=retranslate,
                attributes=attributes,
                column=column,
            )
            document = open_document(document, options=options)
        if output is not None and document.name:
            check_ending(FilePath(output), document.name, document.format)
        if output is not None and not retranslate:
            target = self.languages.target
            document = with_earlier_texts(document, FilePath(output), target)
        translations = list[Translation]()
        for start in range(0, len(document.lines), CHUNK):
            check_stop(STOP_EVENT.get())
            try:
                translations += self.translate_lines_of(
                    document,
                    slice(start, start + CHUNK),
                    constraints,
                    max_characters,
                    keep=keep,
                    dialect=dialect,
                    particles=particles,
                    code=code,
                    **search,
                )
            except LineError as problem:
                raise results.refused_lines(document, start, problem) from None
        unexpected = language_note(
            document.lines, self.language_pair[0], lambda: self.language_id
        )
        translated = results.translated_document(document, translations)
        translated = replace(translated, notes=(*unexpected, *translated.notes))
        if output is not None:
            results.write_output(FilePath(output), translated.data)
        return translated

    def document_options(
        self, may_retry: bool = True, **options: Any
    ) -> DocumentOptions:
        """Return the options for reading a document that is to be translated.

        `may_retry`: lines may be translated again; `options`: further fields.
        """
        # Imported late, since plain lines need no documents.
        from regard.documents import DocumentOptions

        return DocumentOptions(
            self.languages,
            sentences=self.search.splits_sentences,
            mark_spans=not may_retry,
            **options,
        )

    def translate_lines_of(
        self,
        document: Document,
        bounds: slice,
        constraints: Constraints = NO_CONSTRAINTS,
        max_characters: int | None = None,
        code: str = "",
        **options: Any,
    ) -> list[Translation]:
        """Translate lines of a document within some bounds, those that are too long for their texts
        once more.

        `max_characters`: a limit of all texts; `code`: that of the target language, if the model
        needs one; `options`: those of `translate`. Raises LineError, with indices within the
        bounds.
        """
        # Imported late, since plain lines need no documents.
        from regard.text.full_stops import closed_as

        translations = self.begin_document(
            document, constraints, bounds=bounds, code=code, **options
        ).run()
        for index, result in enumerate(translations, bounds.start):
            text = document.text_of_line(index)
            line = document.lines[index]
            limits = filter(None, (max_characters, text.limit_of(line)))
            limit = min(limits, default=None)
            is_kept = not {_UNREAD, _OF_TARGET}.isdisjoint(result.notes)
            if limit is None or len(result.text) <= limit or is_kept:
                continue
            (shortened,) = self.begin(
                f"{code} {line}" if code else line,
                constraints=constraints,
                max_characters=limit,
                **{**options, "dialect": text.dialect},
            ).run()
            translations[index - bounds.start] = closed_as(line, shortened)
        return translations

    def begin_document(  # noqa: PLR0913 - those of `translate`
        self,
        document: Document,
        constraints: Constraints = NO_CONSTRAINTS,
        keep: Keep = True,
        dialect: str = "auto",
        particles: Particles = "both",
        bounds: slice = ALL,
        code: str = "",
        **search: Unpack[SearchOptions],
    ) -> TranslationCall[list[Translation]]:
        """Begin to translate the lines of a document, or those within some bounds; the options are
        those of `translate`. `code`: that of the target language, if the model needs one.

        With constraints nothing is translated again.
        """
        is_free = constraints == NO_CONSTRAINTS
        keep = keep if is_free else False
        rules = self._rules(BEST_TEXT, keep, dialect, particles)
        rules = self._with_links(rules)
        paths = document.paths(rules, bounds, code)
        decoder = self._decoder(len(paths), rules.wanted, constraints, search)
        source, target = self.language_pair
        target = code.strip("<> ") or target
        lines = document.lines[bounds]
        unread = filter(self.doubts.is_unread, lines)
        kept = dict.fromkeys(unread, _UNREAD) | {
            line: _OF_TARGET
            for line in lines
            if is_in_target_script(line, source, target)
        }
        return TranslationCall(_with_kept(joint_path(paths), lines, kept), decoder)

    def begin_texts(
        self,
        texts: Sequence[str],
        form: TextFormat,
        wanted: Wanted = BEST_TEXT,
        keep: Keep = True,
        sentences: bool = False,
        code: str = "",
        **search: Unpack[SearchOptions],
    ) -> TranslationCall[list[TranslatedText]]:
        """Begin to translate entire texts; see `texts_path`."""
        # Imported late, since plain lines need no markup.
        from regard.text.text_format import texts_path

        is_wanted = self.has_attention and wanted.alignments
        wanted = wanted._replace(alignments=is_wanted)
        rules = self._rules(wanted, keep, particles=form.particles)
        if form.kind != "text":
            rules = self._with_links(rules)
        decoder = self._decoder(0, rules.wanted, NO_CONSTRAINTS, search)
        return TranslationCall(texts_path(texts, form, rules, sentences, code), decoder)

    def stream(
        self,
        text: str,
        constraints: Constraints = NO_CONSTRAINTS,
        keep: Keep = True,
        **search: Unpack[SearchOptions],
    ) -> Generator[str, None, Translation]:
        """Yield the translation of a line word by word as it is decoded, greedily or, with
        `sample=True`, by sampling.

        The yielded texts together are the translation with a beam of 1, except for the retries of
        `translate`, and for the mark of a mnemonic, which the model reads here. The generator
        returns the translation, without a score, and warns of its notes.
        """
        translation = yield from self.begin_stream(text, constraints, keep, **search)
        self._warn([translation])
        return translation

    def begin_stream(
        self,
        text: str,
        constraints: Constraints = NO_CONSTRAINTS,
        keep: Keep = True,
        **search: Unpack[SearchOptions],
    ) -> Generator[str, None, Translation]:
        """Yield the translation of a line as `stream` does, but without warnings of notes."""
        (line,) = as_texts([text])
        (checked,) = constraints_of_each(constraints, 1, "line")
        is_free = checked == NO_CONSTRAINTS
        keep = checked_keep(keep, BEST_TEXT, [is_free])
        rules = self._rules(BEST_TEXT, keep if is_free else False)
        model_line, restored = first_reading(line, rules)
        increments = self._stream(model_line, checked, search)
        raw = ""
        yielded = ""
        while True:
            try:
                raw += next(increments)
            except StopIteration as stop:
                notes: tuple[str, ...] = stop.value
                break
            text_so_far = restored(Translation(raw, (), 0.0)).text
            # If the text has changed, a letter or a space depends on the following words.
            if text_so_far.startswith(yielded):
                yield text_so_far[len(yielded) :]
                yielded = text_so_far

        result = restored(Translation(raw, (), 0.0, notes=notes))
        final_text = result.text
        if len(final_text) > len(yielded):
            yield final_text[len(yielded) :]
        parts = list[TranslatedPart]()
        if line.strip():
            parts.append(TranslatedPart(line.strip(), final_text, 0.0))
        translation = Translation(
            final_text, (), 0.0, parts=tuple(parts), notes=result.notes
        )
        translation = marked(line, translation, rules, may_change=False)
        return translation.with_doubts(self.doubts, Trust())

    def trace(
        self,
        text: str,
        constraints: Constraints = NO_CONSTRAINTS,
        **search: Unpack[SearchOptions],
    ) -> tuple[Translation, list[SearchStep]]:
        """Translate a line with its readings, and record every step of its search.

        The line is not processed before the search, so the steps show what the model reads. Raises
        UsageError for a line without letters, and for one that is split.
        """
        translation, steps = self._trace(as_text(text), constraints, search)
        self._warn([translation])
        return translation, steps

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Tokenise a source line; return its token ids, including the end of sentence."""

    @property
    @abstractmethod
    def search(self) -> SearchSettings:
        """The default search settings of the model."""

    @property
    @abstractmethod
    def languages(self) -> Languages:
        """The languages of source and target; empty if unknown."""

    @property
    @abstractmethod
    def copies(self) -> str:
        """The characters of the model's copy tokens; empty if it has none."""

    @property
    @abstractmethod
    def has_attention(self) -> bool:
        """True if target words attend to source words."""

    @property
    @abstractmethod
    def doubts(self) -> DoubtfulSentences:
        """Recogniser of sentences that the model has not learnt."""

    @property
    @abstractmethod
    def language_id(self) -> LanguageId | None:
        """Language identification of the model; None if there is none."""

    @cached_property
    def case_reader(self) -> CaseReader:
        """Converter of lines in capitals, by the case rules of the model's languages."""
        return CaseReader(self.language_pair, lambda text: self.encode(text)[:-1])

    @property
    def language_pair(self) -> tuple[str, str]:
        """The codes of source and target language; empty if unknown."""
        return self.languages.pair

    @staticmethod
    def _warn(translations: Sequence[Translation]) -> None:
        """Issue the notes as warnings, attributed to the caller of the public method."""
        for index, translation in enumerate(translations):
            for note in translation.notes:
                warnings.warn(LineWarning(index, note), stacklevel=3)

    def _rules(
        self,
        wanted: Wanted,
        keep: Keep,
        dialect: str = "auto",
        particles: Particles = "both",
    ) -> PathRules:
        if dialect != "auto":
            # Imported late, since most texts are no strings of programs.
            from regard.text.contracts import checked_dialect

            dialect = checked_dialect(dialect)
        return PathRules(
            self.case_reader,
            self.copies,
            keep,
            wanted,
            dialect,
            both_particles=are_both(particles),
        )

    def _with_links(self, rules: PathRules) -> PathRules:
        """Return the rules of markup, whose tags word links place if the model has attention."""
        if rules.may_retry:  # each try asks for links by itself
            return rules
        wanted = rules.wanted._replace(alignments=self.has_attention)
        return replace(rules, wanted=wanted)

    @abstractmethod
    def _decoder(
        self,
        count: int,
        wanted: Wanted,
        constraints: Constraints | Sequence[Constraints],
        search: SearchOptions,
    ) -> Decoder:
        """Check the options of a call of `count` lines, and return its decoder. Raises
        UsageError.
        """

    @abstractmethod
    def _stream(
        self, text: str, constraints: Constraints, search: SearchOptions
    ) -> Generator[str, None, tuple[str, ...]]:
        """Yield the translation of an unprocessed line as it grows; return the notes on it."""

    @abstractmethod
    def _trace(
        self, text: str, constraints: Constraints, search: SearchOptions
    ) -> tuple[Translation, list[SearchStep]]:
        """Translate an unprocessed line with its readings, and record every step of its search."""


def _with_kept(
    path: Path[list[Translation]], lines: Sequence[str], kept: Mapping[str, str]
) -> Path[list[Translation]]:
    """Translate lines by a path, but leave those that are kept as they are, with their notes."""
    translations = yield from path
    return [
        Translation(line, (), 0.0, notes=(kept[line],)) if line in kept else result
        for line, result in zip(lines, translations, strict=True)
    ]
