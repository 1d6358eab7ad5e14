"""Translator: raw text to translated text, whatever decodes it."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from regard.common.arguments import FLAG, problems_of_types
from regard.common.errors import LineWarning, UsageError
from regard.data.spans import spans_note
from regard.text.casing import CaseReader
from regard.text.constraints import NO_CONSTRAINTS, Constraints, constraints_of_each
from regard.text.doubtful_sentences import DoubtfulSentences
from regard.text.text_path import (
    BEST_TEXT,
    Keep,
    Path,
    PathRules,
    Request,
    Wanted,
    checked_keep,
    first_reading,
    lines_path,
    run_path,
)
from regard.text.translation import TranslatedPart, Translation, as_text, as_texts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from regard.data.languages import Languages
    from regard.search.search_steps import SearchStep
    from regard.search.settings import SearchOptions, SearchSettings
    from regard.text.text_format import TextFormat, TranslatedText

_R = TypeVar("_R")


class Decoder(ABC):
    """Decodes the lines of one call, whose options are checked."""

    @property
    @abstractmethod
    def free(self) -> Sequence[bool]:
        """For each line of the call, True if it is without constraints."""

    @abstractmethod
    def __call__(self, request: Request) -> list[Translation]:
        """Decode lines as they are. Raises LineError, by their numbers in the request, for those
        that are refused.
        """


@dataclass(frozen=True)
class TranslationCall(Generic[_R]):
    """A call that is begun: `path` says what is to be decoded, and `decoder` decodes it."""

    path: Path[_R]
    decoder: Decoder

    def run(self, may_retry: Callable[[], bool] = lambda: True) -> _R:
        """Decode all that is to be decoded, and return the translations. `may_retry`: asked before
        each further try.
        """
        return run_path(
            self.path,
            lambda request: (
                self.decoder(request) if not request.is_retry or may_retry() else None
            ),
        )


class Translator(ABC):
    """Translates raw text: `regard.load(folder).translate("나는 집에 간다")`.

    It stands on a run folder, several of them as an ensemble, or a runtime file. What it can do
    depends on what decodes: the C library or PyTorch. It may be called from several threads at
    once.
    """

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
        """Translate a line or several: one translation for each line, in order. Empty lines stay
        empty.

        `constraints` hold for all lines, or there is one for each. `search` overrides the model's
        search settings. `readings` and `alignments` are those of the token ids that were found,
        whatever the search was. `keep`: placeholders, addresses, code and emoji come back
        unchanged, and what a given list of RE2's patterns matches, in lines without constraints,
        and lines in capitals are read in the letters that the model knows; if nbest, alignments or
        readings are asked for, at most two placeholders of a line, by the model's copy tokens.
        Warns of what `Translation.notes` say. Raises UsageError, with all causes, for options that
        contradict each other or the model, and LineError for lines that cannot be translated.
        """
        wanted: Any = {"nbest": nbest, "alignments": alignments, "readings": readings}
        translations = self.begin(
            texts, **wanted, constraints=constraints, keep=keep, **search
        ).run()
        self._warn(translations)
        return translations

    def begin(
        self,
        texts: str | Sequence[str],
        *,
        nbest: int = 1,
        alignments: bool = False,
        readings: bool = False,
        constraints: Constraints | Sequence[Constraints] = NO_CONSTRAINTS,
        keep: Keep = True,
        **search: Unpack[SearchOptions],
    ) -> TranslationCall[list[Translation]]:
        """Begin to translate lines, as `translate` does; notes are no warnings. Raises UsageError
        as it does.
        """
        lines = as_texts(texts)
        UsageError.raise_all(
            problems_of_types(FLAG, {"alignments": alignments, "readings": readings})
        )
        wanted = Wanted(nbest, alignments, readings)
        decoder = self._decoder(len(lines), wanted, constraints, search)
        rules = self._rules(wanted, checked_keep(keep, wanted, decoder.free))
        return TranslationCall(lines_path(lines, rules, decoder.free), decoder)

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
        """Begin to translate whole texts: see `texts_path`. Markup needs links, where a model has
        any.
        """
        # Late: a line of a file needs no markup.
        from regard.text.text_format import texts_path

        wanted = wanted._replace(
            alignments=self.has_attention and (wanted.alignments or form.kind != "text")
        )
        decoder = self._decoder(0, wanted, NO_CONSTRAINTS, search)
        rules = self._rules(wanted, keep)
        return TranslationCall(texts_path(texts, form, rules, sentences, code), decoder)

    def stream(
        self,
        text: str,
        constraints: Constraints = NO_CONSTRAINTS,
        keep: Keep = True,
        **search: Unpack[SearchOptions],
    ) -> Generator[str, None, Translation]:
        """Yield the translation of a line as it is decoded, greedily or, with `sample=True`,
        sampled; word by word.

        Joined, the yielded texts are the translation with a beam of 1, but for what `translate`
        tries again and for the mark of a mnemonic, which the model reads. The generator returns the
        translation, whose score is not known, and warns of its notes.
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
        """Yield what the translation of a line grows by, as `stream` does; notes are no
        warnings.
        """
        (line,) = as_texts([text])
        (checked,) = constraints_of_each(constraints, 1, "line")
        is_free = checked == NO_CONSTRAINTS
        rules = self._rules(
            BEST_TEXT, checked_keep(keep, BEST_TEXT, [is_free]) and is_free and keep
        )
        read, restored = first_reading(line, rules)
        increments = self._stream(read, checked, search)
        raw = ""
        yielded = ""
        while True:
            try:
                raw += next(increments)
            except StopIteration as stop:
                notes: tuple[str, ...] = stop.value
                break
            whole = restored(Translation(raw, (), 0.0)).text
            # Else a letter or a space depends on what comes next.
            if whole.startswith(yielded):
                yield whole[len(yielded) :]
                yielded = whole
        result = restored(Translation(raw, (), 0.0, notes=notes))
        whole = result.text
        if rest := whole[len(yielded) :]:
            yield rest
        note = spans_note(line, whole, rules.user_patterns)
        part = TranslatedPart(line.strip(), whole, 0.0)
        translation = Translation(whole, (), 0.0, parts=(part,) if line.strip() else ())
        return replace(
            translation, notes=(*result.notes, *([note] if note else []))
        ).with_doubts(self.doubts, None)

    def trace(
        self,
        text: str,
        constraints: Constraints = NO_CONSTRAINTS,
        **search: Unpack[SearchOptions],
    ) -> tuple[Translation, list[SearchStep]]:
        """Translate a line with its readings, and record every step of its search.

        The line is read as it is: what is shown of the search is what the model reads. Raises
        UsageError for a line without letters, and for one that is split.
        """
        translation, steps = self._trace(as_text(text), constraints, search)
        self._warn([translation])
        return translation, steps

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Tokenise a line as the model reads it: token ids, end of sentence last."""

    @property
    @abstractmethod
    def search(self) -> SearchSettings:
        """The search settings that the model came with."""

    @property
    @abstractmethod
    def languages(self) -> Languages:
        """The languages of source and target; empty ones are unknown."""

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
        """Tells which sentences the model has not learnt."""

    @cached_property
    def case_reader(self) -> CaseReader:
        """Reads lines in capitals, by the rules of the model's languages."""
        return CaseReader(self.language_pair, lambda text: self.encode(text)[:-1])

    @property
    def language_pair(self) -> tuple[str, str]:
        """The codes of source and target; empty ones are unknown."""
        return self.languages.pair

    @staticmethod
    def _warn(translations: Sequence[Translation]) -> None:
        """Warn of what the notes say, at the caller of the method that calls this."""
        for index, translation in enumerate(translations):
            for note in translation.notes:
                warnings.warn(LineWarning(index, note), stacklevel=3)

    def _rules(self, wanted: Wanted, keep: Keep) -> PathRules:
        return PathRules(self.case_reader, self.copies, keep, wanted)

    @abstractmethod
    def _decoder(
        self,
        count: int,
        wanted: Wanted,
        constraints: Constraints | Sequence[Constraints],
        search: SearchOptions,
    ) -> Decoder:
        """Check the options of a call of `count` lines; return what decodes them. Raises
        UsageError.
        """

    @abstractmethod
    def _stream(
        self, text: str, constraints: Constraints, search: SearchOptions
    ) -> Generator[str, None, tuple[str, ...]]:
        """Yield what the translation of a line, read as it is, grows by; return the notes on it."""

    @abstractmethod
    def _trace(
        self, text: str, constraints: Constraints, search: SearchOptions
    ) -> tuple[Translation, list[SearchStep]]:
        """Translate a line, read as it is, with its readings, and record every step of its
        search.
        """
