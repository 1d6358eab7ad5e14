"""A document: the texts to translate, and the document with translations in their place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, islice
from typing import Literal, NamedTuple

from regard.common.counting import counted
from regard.data.languages import Languages
from regard.data.sentences import check_count
from regard.documents.encoding import EncodedText
from regard.documents.text_layout import text_layout
from regard.text.markup.document import MarkupDocument
from regard.text.markup.elements import MarkupOptions
from regard.text.markup.tags import Bounds
from regard.text.text_format import (
    Layout,
    TranslatedText,
    joined_text,
    markup_layout,
)
from regard.text.text_path import ALL, AUTO, LinePath, PathRules
from regard.text.translation import Translation

MACHINE = "Machine translation"
"""Beginning of a note on a translation."""


@dataclass(frozen=True)
class DocumentOptions:
    """Options for reading a document.

    `languages`: those of the model. `sentences`: the sentences of marked-up text are its lines.
    `mark_spans`: placeholders and the like are not in the lines of marked-up text.
    `retranslate`: texts that have a translation are translated again. `attributes`: attributes
    that people read, such as `alt` and `title`, are translated, too. `column`: that of a table.
    `unpacked_bytes`: size up to which the text of a package is read.
    """

    languages: Languages = field(default_factory=Languages)
    sentences: bool = True
    mark_spans: bool = False
    retranslate: bool = False
    attributes: bool = False
    column: str = ""
    unpacked_bytes: int = 256_000_000

    @property
    def markup(self) -> MarkupOptions:
        """The options of marked-up text."""
        return MarkupOptions(
            sentences=self.sentences,
            mark_spans=self.mark_spans,
            language=self.languages.source,
        )


@dataclass(frozen=True)
class DocumentText:
    """A text of a document, as a reader sees it: without the escapes of the format.

    `name`: where it stands, such as "line 12". `dialect`: that of its code; `auto`: what it speaks
    for. `max_characters`: a limit that the document sets. `comment`: what the document says about
    it. `markup`: the text with its marks, if it has any that its words keep, such as tags.
    """

    text: str
    name: str
    dialect: str = AUTO
    max_characters: int | None = None
    comment: str = ""
    markup: MarkupDocument | None = None

    @cached_property
    def layout(self) -> Layout:
        """The lines of the text to translate."""
        if self.markup is not None:
            return markup_layout(self.markup)
        return text_layout(self.text, self.dialect)

    def limit_of(self, line: str) -> int | None:
        """Return the maximum number of characters of the translation of a line: its share of the
        limit of the text.
        """
        lines = self.layout.lines
        if self.max_characters is None:
            return None
        length = sum(map(len, lines))
        between = len(lines) - 1 if self.markup else len(self.text) - length
        return max(1, (self.max_characters - between) * len(line) // length)

    @cached_property
    def page(self) -> EncodedText:
        """The file of marked-up text that is a whole one."""
        return EncodedText(self.markup.source.text if self.markup else "")

    @cached_property
    def own_dialect(self) -> str:
        """The dialect, that of all lines together if the text has marks."""
        if self.markup is None or self.dialect != AUTO:
            return self.dialect
        # Imported late, since plain texts need no markup.
        from regard.text.sentence_path import dialect_of_sentences

        return dialect_of_sentences(self.markup)


class Document(ABC):
    """A document of a format.

    `texts` are in the order of the document. `notes` say what stays as it is, and why.
    `media_type` is that of the file, `name` its name if it was read from one, and `format` the name
    of its format. `is_foreign`: as a whole it declares another language than the model reads.
    """

    media_type = "text/plain"
    name = ""
    format = "text"
    is_foreign = False

    def __init__(
        self, texts: Iterable[DocumentText], notes: Iterable[str] = ()
    ) -> None:
        self.texts = tuple(texts)
        self.notes = tuple(notes)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines of all texts."""
        return tuple(line for text in self.texts for line in text.layout.lines)

    @cached_property
    def _ends(self) -> list[int]:
        """The number of lines up to the end of each text."""
        return [*accumulate(len(text.layout.lines) for text in self.texts)]

    def text_of_line(self, index: int) -> DocumentText:
        """Return the text that a line, counted from 0, is a part of."""
        return self.texts[bisect_right(self._ends, index)]

    def name_of_line(self, index: int) -> str:
        """Return where a line, counted from 0, stands in the document."""
        number = bisect_right(self._ends, index)
        text = self.texts[number]
        index += len(text.layout.lines) - self._ends[number]
        name = f"sentence {index + 1}"
        if text.name or text.markup is None:
            return text.name or name
        return f"line {text.page.line_of(text.markup.sentences[index].start)}, {name}"

    def paths(
        self, rules: PathRules, bounds: slice = ALL, code: str = ""
    ) -> list[LinePath]:
        """Return the paths of the lines within some bounds; the dialect of `rules`, unless it is
        `auto`, is that of all texts. `code`: that of the target language, if the model needs one.
        """
        rules = replace(rules, closes=True)
        start, stop, _ = bounds.indices(len(self.lines))
        paths = list[LinePath]()
        index = bisect_right(self._ends, start)
        while start < stop:
            text = self.texts[index]
            begin = self._ends[index] - len(text.layout.lines)
            own = replace(rules, dialect=text.own_dialect)
            within = slice(start - begin, stop - begin)
            paths += text.layout.paths(
                own if rules.dialect == AUTO else rules, within, code
            )
            start = self._ends[index]
            index += 1
        return paths

    def render(self, translations: Sequence[Translation]) -> bytes:
        """Return the document with the lines replaced by their translations.

        Raises UsageError unless each line has one.
        """
        return self.write(self.joined(translations))

    def joined(self, translations: Sequence[Translation]) -> list[TranslatedText]:
        """Return the translation of each text. Raises UsageError unless each line has one."""
        check_count(translations, self.lines)
        rest = iter(translations)
        return [
            joined_text(text.layout, tuple(islice(rest, len(text.layout.lines))))
            for text in self.texts
        ]

    @abstractmethod
    def write(self, translations: Sequence[TranslatedText]) -> bytes:
        """Return the document with its texts replaced by their translations, in order."""


class Edit(NamedTuple):
    """A replacement of what stands between two offsets of a source."""

    start: int
    end: int
    text: str


class Slot(NamedTuple):
    """A text of a document, and the edits by which its translation is written.

    `bounds`: offsets of the text as written in the source. `put`: makes the edits by which the
    text of another file of the format takes its place, given that text, and as written there; by
    default it is copied as written.
    """

    text: DocumentText
    edits: Callable[[TranslatedText], Iterable[Edit]]
    bounds: Bounds = (0, 0)
    put: Callable[[str, str], Iterable[Edit]] | None = None


class EditedText(Document):
    """A document that is one text file, of which only the slots change.

    `constant_edits` are made whatever the translations are, such as to name the language.
    `others`: slots of texts that are not translated.
    """

    def __init__(
        self,
        source: EncodedText,
        slots: Sequence[Slot],
        notes: Iterable[str] = (),
        constant_edits: Iterable[Edit] = (),
        others: Iterable[Slot] = (),
    ) -> None:
        super().__init__([slot.text for slot in slots], notes)
        self.source = source
        self.others = tuple(others)
        self._slots = slots
        self._constant_edits = tuple(constant_edits)

    @property
    def all_slots(self) -> tuple[Slot, ...]:
        """The slots of all texts, also those that are not translated."""
        return (*self._slots, *self.others)

    def with_texts(
        self, texts: Mapping[str, tuple[str, str]], notes: Iterable[str]
    ) -> EditedText:
        """Return the document with texts of another file of its format, which are not translated:
        by the names of their slots each text, and as written there.
        """
        edits = [*self._constant_edits]
        for slot in self.all_slots:
            if slot.text.name in texts:
                text, raw = texts[slot.text.name]
                edits += slot.put(text, raw) if slot.put else [Edit(*slot.bounds, raw)]
        slots = [slot for slot in self._slots if slot.text.name not in texts]
        document = EditedText(self.source, slots, [*self.notes, *notes], edits)
        document.media_type = self.media_type
        document.name = self.name
        document.format = self.format
        return document

    def write(self, translations: Sequence[TranslatedText]) -> bytes:
        """Return the file with the edits of all slots."""
        return self.source.encode(
            apply_edits(self.source.text, self.edits(translations))
        )

    def edits(self, translations: Sequence[TranslatedText]) -> list[Edit]:
        """Return the edits of all slots, and those that are made whatever the translations are."""
        edits = [*self._constant_edits]
        for slot, translation in zip(self._slots, translations, strict=True):
            edits += slot.edits(translation)
        return edits


Entry = tuple[str, str]
"""Context and source text of an entry, by which it is known."""
State = Literal["untranslated", "unread", "read"]
"""State of an entry: a translation is `read` if no mark says that a person has to read it."""
States = Iterator[tuple[Entry, State]]


class StringFile(EditedText):
    """A file of the strings of a program, some of which may be translated already.

    `kept`: texts that have a translation; `locked`: those that are not to be translated, with the
    sentences on one and on several; `invented`: plurals with more forms than the source, which get
    the translation of its `last_form`; `wordless`: slots of texts without words.
    """

    kept = 0
    locked = 0
    locked_notes = ("", "")
    invented = 0
    last_form = "its last one"

    def __init__(self, source: EncodedText, options: DocumentOptions) -> None:
        self.source = source
        self.options = options
        self.wordless = list[Slot]()
        slots = [*self.slots()]
        edits = self.language_edits() if slots else ()
        super().__init__(source, slots, self._notes(), edits, self.wordless)

    @abstractmethod
    def slots(self) -> Iterator[Slot]:
        """Yield the texts that are translated."""

    def language_edits(self) -> Iterable[Edit]:
        """Return edits that name the language, if the format can."""
        return ()

    def states(self) -> States:
        """Yield the entries of a format that marks its translations, and how far each is."""
        return iter(())

    def _notes(self) -> Iterator[str]:
        if self.kept and not self.options.retranslate:
            texts = counted(
                self.kept, "text has a translation", "texts have a translation"
            )
            yield f"{texts}, which stays; `retranslate=True` translates all anew"
        if self.locked:
            yield counted(self.locked, *self.locked_notes)
        if self.invented:
            plurals = counted(self.invented, "plural has", "plurals have")
            yield (
                f"{plurals} more forms than the source: these have the translation of "
                f"{self.last_form}; check them"
            )


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits, which do not overlap; those at one offset keep their order."""
    parts = list[str]()
    end = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        assert edit.start >= end, "edits do not overlap"
        parts += [text[end : edit.start], edit.text]
        end = edit.end
    return "".join([*parts, text[end:]])


def value_slot(
    start: int,
    end: int,
    text: DocumentText,
    escape: Callable[[str], str] = str,
    may_be_empty: bool = False,
) -> Slot:
    """Return the slot of a value between two offsets of the source. An unchanged translation leaves
    it as it is, and so does an empty one unless the value `may_be_empty`.
    """

    def edits(translation: TranslatedText) -> Iterator[Edit]:
        has_text = may_be_empty or translation.text.strip()
        if has_text and translation.text != text.text:
            yield Edit(start, end, escape(translation.text))

    return Slot(text, edits, (start, end))


def is_blank(translation: TranslatedText) -> bool:
    """Return whether nothing came of a text, so that its document keeps what it has."""
    return bool(translation.lines) and not any(
        line.text.strip() for line in translation.lines
    )


def verdict(translation: TranslatedText) -> str:
    """Return what is known of the quality of a translation, as documents note it; empty if nothing
    is.
    """
    if translation.broken:
        faults = dict.fromkeys(line.fault for line in translation.lines if line.fault)
        return " ".join(f"{MACHINE}: broken: {'; '.join(faults)}".split()).rstrip(": ")
    if translation.quality is None:
        return ""
    return f"{MACHINE}: quality {translation.quality:.2f}"
