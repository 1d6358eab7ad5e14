"""Whole documents in memory: translated in chunks, and written with what a person needs to know."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.common.atomic import atomic_file
from regard.common.errors import DataError, LineError
from regard.common.stopping import STOP_EVENT, check_stop
from regard.text.constraints import NO_CONSTRAINTS, Constraints
from regard.text.translation import Translation

if TYPE_CHECKING:
    from regard.documents import Document, DocumentOptions
    from regard.pipeline.translator import Translator

CHUNK = 64
"""Lines that are translated at once; other calls take turns with chunks."""


@dataclass(frozen=True)
class DocumentTranslation:
    """A translated document.

    `data` is the file, of `media_type`; `texts` and `characters` count what was translated. `notes`
    say what stays as it is, and what is wrong with a text, by its name. `broken` and `doubtful` are
    the names of texts that do not keep their code or numbers, and of those unlike the training
    data. `quality`: probability that the worst text is good; None if unknown.
    """

    data: bytes = field(repr=False)
    media_type: str
    texts: int
    characters: int
    notes: tuple[str, ...]
    broken: tuple[str, ...]
    doubtful: tuple[str, ...]
    quality: float | None


def reading_options(
    translator: Translator, may_retry: bool = True, **options: Any
) -> DocumentOptions:
    """Return the options for reading a document that a translator is to translate.

    `may_retry`: lines may be translated again; `options`: further fields.
    """
    # Imported late, since plain lines need no documents.
    from regard.documents import DocumentOptions

    return DocumentOptions(
        translator.languages,
        sentences=translator.search.splits_sentences,
        mark_spans=not may_retry,
        **options,
    )


def translate_document(
    translator: Translator, document: Document, **options: Any
) -> DocumentTranslation:
    """Translate a document with the options of `translate_lines`.

    Raises UsageError, DataError for texts that the model refuses, and Stopped.
    """
    translations = list[Translation]()
    for start in range(0, len(document.lines), CHUNK):
        check_stop(STOP_EVENT.get())
        bounds = slice(start, start + CHUNK)
        try:
            translations += translate_lines(translator, document, bounds, **options)
        except LineError as problem:
            raise DataError(
                *(
                    f"{_name(document, start + index)}: {cause}"
                    for index, cause in problem.problems
                )
            ) from None
    return translated_document(document, translations)


def translate_lines(
    translator: Translator,
    document: Document,
    bounds: slice,
    constraints: Constraints = NO_CONSTRAINTS,
    max_characters: int | None = None,
    code: str = "",
    **options: Any,
) -> list[Translation]:
    """Translate lines of a document within some bounds, those that are too long for their texts
    once more.

    `max_characters`: a limit of all texts; `code`: that of the target language, if the model needs
    one; `options`: those of `Translator.translate`. Raises LineError, with indices within the
    bounds.
    """
    translations = translator.begin_document(
        document, constraints, bounds=bounds, code=code, **options
    ).run()
    for index, result in enumerate(translations, bounds.start):
        text = document.text_of_line(index)
        limits = filter(None, (max_characters, text.max_characters))
        limit = min(limits, default=None)
        if limit is None or len(result.text) <= limit:
            continue
        line = document.lines[index]
        (translations[index - bounds.start],) = translator.begin(
            f"{code} {line}" if code else line,
            constraints=constraints,
            max_characters=limit,
            **{**options, "dialect": text.dialect},
        ).run()
    return translations


def translated_document(
    document: Document, translations: Sequence[Translation]
) -> DocumentTranslation:
    """Write a document with the translations of its lines."""
    texts = document.joined(translations)
    named = [
        (_name(document, index), line)
        for index, line in enumerate(line for text in texts for line in text.lines)
    ]
    notes = [f"{name}: {note}" for name, line in named for note in line.notes]
    broken = dict.fromkeys(name for name, line in named if line.broken)
    doubtful = dict.fromkeys(name for name, line in named if line.doubtful)
    qualities = [line.quality for _, line in named if line.quality is not None]
    return DocumentTranslation(
        document.write(texts),
        document.media_type,
        len(texts),
        sum(map(len, document.lines)),
        (*document.notes, *notes),
        tuple(broken),
        tuple(doubtful),
        min(qualities, default=None),
    )


def _name(document: Document, index: int) -> str:
    return document.text_of_line(index).name or f"sentence {index + 1}"


def check_output(output: Path) -> None:
    """Raise DataError for a file that cannot be written, before the work for it begins."""
    if output.is_dir() or not output.parent.is_dir():
        what = "is a folder" if output.is_dir() else "is in no folder"
        raise DataError(f"{output}: {what}; name a file in a folder that exists")


def write_output(output: Path, data: bytes) -> None:
    """Write a file whole or not at all, packed if its name ends in .gz. Raises DataError."""
    try:
        with atomic_file(output, durable=True) as temporary:
            is_packed = output.name.endswith(".gz")
            temporary.write_bytes(gzip.compress(data, mtime=0) if is_packed else data)
    except OSError as problem:
        raise DataError(
            f"{output}: cannot be written ({problem.strerror}); choose another path"
        ) from None
