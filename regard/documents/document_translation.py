"""Translated documents: the file, and what a person needs to know of it."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard.common.atomic import atomic_file
from regard.common.errors import DataError, LineError
from regard.documents.document import Document
from regard.text.translation import Translation


@dataclass(frozen=True)
class DocumentTranslation:
    """A translated document.

    `data` is the file, of `media_type`; `texts` and `characters` count what was translated, of
    a page its sentences. `notes` say what stays as it is, and what is wrong with a text, by its
    name. `broken` and `doubtful` are the names of texts that do not keep their code or numbers,
    and of those unlike the training data. `quality`: probability that the worst text is good;
    None if unknown.
    """

    data: bytes = field(repr=False)
    media_type: str
    texts: int
    characters: int
    notes: tuple[str, ...]
    broken: tuple[str, ...]
    doubtful: tuple[str, ...]
    quality: float | None


def translated_document(
    document: Document, translations: Sequence[Translation]
) -> DocumentTranslation:
    """Write a document with the translations of its lines."""
    texts = document.joined(translations)
    named = [
        (document.name_of_line(index), line)
        for index, line in enumerate(line for text in texts for line in text.lines)
    ]
    notes = [f"{name}: {note}" for name, line in named for note in line.notes]
    broken = dict.fromkeys(name for name, line in named if line.broken)
    doubtful = dict.fromkeys(name for name, line in named if line.doubtful)
    # A page is one text, of sentences that readers take for texts.
    counts = zip(texts, (not text.name for text in document.texts), strict=True)
    qualities = [line.quality for _, line in named if line.quality is not None]
    return DocumentTranslation(
        document.write(texts),
        document.media_type,
        sum(len(text.lines) if is_page else 1 for text, is_page in counts),
        sum(map(len, document.lines)),
        (*document.notes, *notes),
        tuple(broken),
        tuple(doubtful),
        min(qualities, default=None),
    )


def refused_lines(document: Document, start: int, problem: LineError) -> DataError:
    """Return the error of lines that a model refuses, by the names of their texts; `start`: index
    of the first of the lines that it was given.
    """
    causes = (
        f"{document.name_of_line(start + index)}: {cause}"
        for index, cause in problem.problems
    )
    return DataError(*causes)


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
