"""Outputs that exist already: the translations that they have are not lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from pathlib import Path

from regard.common.counting import counted
from regard.common.errors import DataError, RegardError
from regard.common.lazy import lazy_pattern
from regard.data.languages import Languages
from regard.data.sentences import has_letters
from regard.data.text_kinds import HEAD_BYTES, kind_of
from regard.documents.document import (
    Document,
    DocumentOptions,
    EditedText,
    Slot,
    State,
    StringFile,
)
from regard.documents.formats import FORMATS, read_bytes, read_document

MARKED = ("po", "xliff", "ts")
"""Formats that mark their translations, and are brought up to date by other tools."""
_FORM = lazy_pattern(r"[._ ](?:zero|one|two|few|many|other)$| \[.*$")
"""End of the name of a text that is a form of a plural, or a variant."""
_NUMBER = lazy_pattern(r"\[\d+\]")
"""Place of a text in a list."""


def with_earlier_texts(document: Document, output: Path, target: str) -> Document:
    """Return a document whose texts stay as an earlier output has them, by their keys, if these are
    not those of the source. `target`: the language of the output.

    Raises DataError for an output of the format of the document that cannot be read, or has
    translations that would be lost.
    """
    earlier = _read_earlier(document, output, target)
    if document.format in MARKED:
        assert isinstance(document, StringFile), "only strings have marks"
        if isinstance(earlier, StringFile):
            notes = _unread_notes(document, earlier)
            document = copy(document)
            document.notes += tuple(notes)
    elif isinstance(document, EditedText) and isinstance(earlier, EditedText):
        return _merged(document, earlier)
    return document


def _read_earlier(document: Document, output: Path, target: str) -> Document | None:
    """Read the file that is at the path of the output; return None if it is no such document."""
    kind = document.format
    is_known = kind in FORMATS and (FORMATS[kind].has_keys or kind in MARKED)
    if not is_known or not output.is_file() or not output.stat().st_size:
        return None
    named = ""
    try:
        data = read_bytes(output)
        named = kind_of(output.name, data[:HEAD_BYTES])
        options = DocumentOptions(Languages(source=target))
        return read_document(data, str(output), kind, options)
    except RegardError as problem:
        if named not in ("", kind):
            return None
        raise DataError(
            *problem.causes,
            f"{output}: exists, and its translations stay if it can be read; mend it, or give "
            "`retranslate=True` to replace it",
        ) from None


def _unread_notes(document: StringFile, earlier: StringFile) -> list[str]:
    """Return a sentence on the translations that a person has not read, and that are replaced.

    Raises DataError if there are others, which the document lacks.
    """
    states = dict(document.states())
    texts: dict[State, list[str]] = {"untranslated": [], "unread": [], "read": []}
    for entry, state in earlier.states():
        if states.get(entry) == "untranslated" and has_letters(entry[1]):
            texts[state].append(repr(entry[1][:60]))
    if texts["read"]:
        number = counted(len(texts["read"]), "translation")
        raise DataError(
            f"{earlier.name}: has {number} that {document.name} lacks, such as that of "
            f"{texts['read'][0]}, which would be lost; bring it up to date (`msgmerge`, `lupdate` "
            "or the like) and translate the file itself, or give `retranslate=True` to replace it"
        )
    if not texts["unread"]:
        return []
    number = counted(
        len(texts["unread"]), "translation is replaced", "translations are replaced"
    )
    return [
        f"{number} that {earlier.name} had, and that nobody has marked as read, such as that of "
        f"{texts['unread'][0]}"
    ]


def _merged(document: EditedText, earlier: EditedText) -> Document:
    """Return a document with the texts of an earlier output."""
    slots = {slot.text.name: slot for slot in document.all_slots}
    older = {
        slot.text.name: slot for slot in earlier.all_slots if slot.text.text.strip()
    }
    gone = [name for name in older if name not in slots]
    _check_forms(document, earlier, slots, gone)
    sizes = _list_sizes(document)
    older_sizes = _list_sizes(earlier)
    texts = dict[str, tuple[str, str]]()
    anew = list[str]()
    for name, slot in older.items():
        raw = _raw(earlier, slot)
        if name not in slots or not _is_other(slot, raw, slots[name], document):
            continue
        list_name = _NUMBER.sub("[]", name)
        size = sizes[list_name]
        if size == older_sizes[list_name] and (size == 1 or list_name != name):
            texts[name] = (slot.text.text, raw)
        else:
            anew.append(name)
    return document.with_texts(texts, _notes(earlier.name, [*texts], anew, gone))


def _check_forms(
    document: EditedText,
    earlier: EditedText,
    slots: Iterable[str],
    gone: Iterable[str],
) -> None:
    """Raise DataError for forms of texts of the source that only the output has."""
    bases = {_FORM.sub("", name) for name in slots}
    forms = [name for name in gone if _FORM.sub("", name) in bases]
    if forms:
        number = counted(len(forms), "form")
        raise DataError(
            f"{earlier.name}: has {number} that {document.name} lacks, such as {forms[0]}, which "
            "would be lost; add them there, with any text, or take them out of the output, or give "
            "`retranslate=True` to replace it"
        )


def _list_sizes(document: EditedText) -> Counter[str]:
    """Return how many texts each list has, and each name."""
    return Counter(_NUMBER.sub("[]", slot.text.name) for slot in document.all_slots)


def _raw(document: EditedText, slot: Slot) -> str:
    """Return the text of a slot as its file has it."""
    return document.source.text[slice(*slot.bounds)]


def _is_other(slot: Slot, raw: str, source: Slot, document: EditedText) -> bool:
    """Return whether a text is another than that of the source, however they are escaped."""
    is_marked = slot.text.markup or source.text.markup
    is_equal = slot.text.text == source.text.text and not is_marked
    return not is_equal and raw != _raw(document, source)


def _notes(
    name: str, kept: list[str], anew: list[str], gone: list[str]
) -> Iterator[str]:
    """Yield sentences on the texts of an output."""
    if kept:
        texts = counted(len(kept), "text stays", "texts stay")
        yield f"{texts} as in {name}; `retranslate=True` translates all anew"
    if anew:
        texts = counted(len(anew), "text is", "texts are")
        yield (
            f"{texts} translated anew, such as {anew[0]}: a key stands more than once, or a list "
            f"has another length than in {name}"
        )
    if gone:
        texts = counted(len(gone), "text")
        yield f"{texts} of {name} without a source left out, such as {gone[0]}"
