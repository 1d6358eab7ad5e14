"""Read the input of `regard translate`: lines, JSON lines, a column of a table, or a page."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.app import is_quiet, warn
from regard.cli.request_options import given_flags
from regard.common.errors import UsageError
from regard.requests.translate_request import TranslateCommand

if TYPE_CHECKING:
    from regard.cli.translate_model import TranslateModel
    from regard.pipeline.bulk import DocumentLines, LineParser, Lines
    from regard.search import Constraints

NOT_FOR_DOCUMENTS = ("nbest", "alignments", "format", "cluster", "stream")
"""Options that the translation of a document does not support."""
NOT_TEXT = (".xlsx", ".xls", ".ods", ".docx", ".odt")
"""Ends of the names of files that are read by office programs, and are no text."""
LIMITS = ("max_line", "max_required", "max_forbidden")
"""Search settings that limit the lines of the input, which are checked before the translation."""


def find_input(command: TranslateCommand) -> str:
    """Return the kind of the input, with `auto` resolved.

    Raises UsageError if FILE is a text instead of a name, or if other options do not support the
    kind.
    """
    from regard.data.text import data_path
    from regard.data.text_kinds import LINES, input_kind, kind_of

    file = command.file
    is_stream = file == "-" or command.column is not None
    is_name = re.search(r"\.\w+$|://", file) is not None
    if not is_stream and not is_name and not os.path.exists(file):
        remedy = (
            f"to translate a text, pipe it: echo '…' | regard translate {command.run}"
        )
        raise UsageError(f"{file[:80]}: no such file; {remedy}")

    kind: str = command.input
    if command.column is not None and kind == "auto":
        _check_columns(command)
    if kind == "auto" and is_stream:
        names = (file, command.output.name if command.output else "")
        is_table = "://" not in file and {kind_of(name, b"") for name in names} == {
            "table"
        }
        kind = "table" if is_table else "text"
    elif kind == "auto":
        from regard.documents import FORMATS

        kind = input_kind(data_path(file), (*LINES, *FORMATS))
    if kind in LINES:
        _check_output_of_lines(command)
    else:
        _check_output_of_document(command, kind)
        flags = given_flags(command, NOT_FOR_DOCUMENTS)
        if flags:
            why = f"{file} is {kind.upper()}, which is translated once, and as a whole"
            as_lines = ", or give --input text to translate every line as it stands"
            raise UsageError(
                f"{', '.join(flags)}: {why}; leave {'it' if len(flags) == 1 else 'them'} out"
                f"{as_lines * (not FORMATS[kind].is_binary)}"
            )
    return kind


def _check_columns(command: TranslateCommand) -> None:
    """Raise UsageError for a document that has no columns."""
    from regard.data.text_kinds import KINDS, file_head, kind_of
    from regard.documents import FORMATS

    path = Path(command.file)
    kind = kind_of(path.name, file_head(path))
    if kind in FORMATS and kind != "table":
        raise UsageError(
            f"--column {command.column}: {command.file} is {KINDS[kind].description}, which has no "
            "columns; leave --column out"
        )


def _check_output_of_lines(command: TranslateCommand) -> None:
    """Raise UsageError for an output that is named like a file of an office program, or like a
    document although the input is no such one.
    """
    from regard.data.text_kinds import KINDS, kind_of
    from regard.documents import FORMATS

    output = command.output
    if output is None:
        return
    if output.suffix.lower() in NOT_TEXT:
        raise UsageError(
            f"--output {output}: translations are written as text, a line for each, and a "
            f"{output.suffix} is none; write .txt or .csv"
        )
    named = kind_of(output.name, b"")
    is_lines = named == "table" or (named == "json" and command.format == "jsonl")
    if command.input == "auto" and named in FORMATS and not is_lines:
        name = "standard input" if command.file == "-" else command.file
        raise UsageError(
            f"--output {output}: its name is that of {KINDS[named].description}, and {name} is "
            f"read as lines of text; give --input {named} if it is one, or a name in .txt"
        )


def _check_output_of_document(command: TranslateCommand, kind: str) -> None:
    """Raise UsageError for a document that is no text without a file to write, and for one that
    would be named like another kind.
    """
    from regard.documents import FORMATS
    from regard.documents.formats import check_ending

    output = command.output
    if output is not None:
        check_ending(output, command.file, kind)
    elif FORMATS[kind].is_binary:
        raise UsageError(
            f"{command.file}: the document is no text to print; give --output NAME"
            f"{Path(command.file).suffix}"
        )


def read_input(
    command: TranslateCommand,
    kind: str,
    model: TranslateModel,
    constraints: Constraints,
) -> tuple[Lines, LineParser]:
    """Return the lines of the input, and their parser.

    The parser checks the limits of the model, or those of the search options.
    """
    file = command.file
    column = command.column
    search = command.settings
    jsonl = kind == "jsonl"
    is_file = file != "-" and Path(file).is_file()
    is_detected_text = kind == "text" and command.input == "auto"
    if file != "-" and column is None and is_detected_text:
        _warn_of_tabs(file)
    if command.cluster is not None and column is None and not is_file:
        raise UsageError(
            f"--cluster: {file} can be read only once, or is no file; give the name of a file"
        )
    from regard.data.text import JSON_SIZE, MAX_LINE
    from regard.data.text_kinds import LINES
    from regard.pipeline.bulk import LineParser, Lines

    limits = None
    if jsonl or model.folder is not None:
        changed_limits = {name: search[name] for name in LIMITS if name in search}
        limits = model.settings().with_values(**changed_limits)
    max_line = search.get("max_line", model.max_line)
    if jsonl:
        max_line = max(MAX_LINE, JSON_SIZE * max_line)

    if column is not None and kind in LINES:
        lines: Lines = _column_lines(file, column, max_line)
    elif kind not in LINES:
        lines = _document_lines(command, kind, model, constraints)
    else:
        lines = Lines(file, max_line)
        if lines.typed and not (jsonl or is_quiet()):
            lines.greet(str(command.run), model.languages().pair)
    encoder = None
    if jsonl and limits:
        from regard.search import check_constraints

        encoder = model.encoder()
        check_constraints([constraints], encoder, limits)
    return lines, LineParser(constraints, jsonl, lines.name, encoder, limits)


def _document_lines(
    command: TranslateCommand,
    kind: str,
    model: TranslateModel,
    constraints: Constraints,
) -> DocumentLines:
    """Return the lines of a document."""
    from regard.documents import DocumentOptions
    from regard.documents.earlier_output import with_earlier_texts
    from regard.documents.formats import read_bytes, read_document
    from regard.pipeline.bulk import DocumentLines
    from regard.text.constraints import NO_CONSTRAINTS

    settings = model.settings()
    if "split" in command.settings:
        settings = settings.with_values(split=command.settings["split"])
    may_retry = constraints == NO_CONSTRAINTS and not command.no_keep
    document_options = DocumentOptions(
        model.languages(),
        sentences=settings.splits_sentences,
        mark_spans=not may_retry,
        retranslate=command.retranslate,
        attributes=command.attributes,
        column=command.column or "",
    )
    file = command.file
    data = sys.stdin.buffer.read() if file == "-" else read_bytes(file)
    name = "standard input" if file == "-" else file
    document = read_document(data, name, kind, document_options)
    if command.output and not command.retranslate:
        target = model.languages().target
        document = with_earlier_texts(document, command.output, target)
    warn(*(f"{name}: {note}" for note in document.notes))
    return DocumentLines(file, document)


def _column_lines(file: str, column: str, max_line: int) -> Lines:
    """Return the lines of a column; folders, addresses and binary tables are read by pyarrow."""
    from regard.pipeline.bulk.column_lines import ColumnLines

    if ColumnLines.reads(file):
        return ColumnLines(file, column, max_line)
    from regard.serving.cluster.table_lines import TableLines

    return TableLines(file, column, max_line)


def _warn_of_tabs(file: str) -> None:
    """Warn if the lines of a file look like pairs, or like rows of a table."""
    from regard.data.file_formats import holds_tabs
    from regard.data.text import data_path

    if holds_tabs(data_path(file)):
        warn(
            f"{file}: most lines hold tabs; of pairs or a table translate one column: `cut -f1`"
        )
