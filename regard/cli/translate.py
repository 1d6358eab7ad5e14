"""regard translate: translate a file or standard input line by line, streamed, resumed, or on a
cluster.

PyTorch is not imported for a runtime file, nor for a model folder whose export is in the cache.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from regard.cli import options
from regard.cli.app import app, say, warn
from regard.cli.progress import LineReporter
from regard.cli.request_options import given_flags
from regard.cli.search_options import search_command
from regard.cli.translate_input import find_input, read_input
from regard.cli.translate_model import TranslateModel, open_model
from regard.common.counting import counted
from regard.common.errors import DataError, LineError, UsageError
from regard.requests.translate_request import TranslateCommand

if TYPE_CHECKING:
    from regard.pipeline import Translation
    from regard.pipeline.bulk import (
        Chunk,
        ChunkResult,
        ChunkTranslator,
        Lines,
        ResumableOutput,
        StreamedOutput,
    )
    from regard.pipeline.bulk.quality_report import QualityReport
    from regard.pipeline.bulk.resumable_output import Render
    from regard.search import Constraints

NOT_STREAMED = (
    "nbest",
    "alignments",
    "format",
    "keep",
    "dialect",
    "particles",
    "max_characters",
    "output",
    "resume",
    "cluster",
)
"""Options that `--stream` does not support."""
SEARCH_NOT_STREAMED = ("mbr", "groups", "coverage_penalty")
"""Search options that need whole translations, and so do not support `--stream`."""
CONDITIONS = (
    "refuse_below",
    "retranslate",
    "attributes",
    "prefix",
    "term",
    "forbid",
    "input",
    "column",
    "format",
    "chunk",
    "precision",
    "particles",
)
"""Options, besides those of the search, on which results depend; `--resume` requires the same
values.
"""


@app.command(request=TranslateCommand, search=search_command())
def translate(command: TranslateCommand) -> None:
    """Translate lines of a file or standard input, or a document (HTML, Markdown, Word, strings of
    programs, subtitles, a table …), which stays the same but for its texts.

    As text: one line per line; with --nbest the line number, score and text, tab-separated; with
    --alignments the links in a further column. Empty lines stay empty. Files may be of any length.
    """
    from regard.data.file_formats import table_path
    from regard.pipeline.bulk import (
        ChunkTranslator,
        DocumentLines,
        OutputFormat,
        chunks,
        remaining,
    )
    from regard.pipeline.bulk.quality_report import QualityReport
    from regard.text.constraints import Constraints

    kept = list(options.kept_patterns(command.keep, command.no_keep))
    file = "/dev/stdin" if command.file == "-" else table_path(command.file)
    options.check_output(command.output, file, *command.runs)

    find_kind = cache(partial(find_input, command))
    model = open_model(command, find_kind)
    constraints = Constraints(command.prefix, command.term, command.forbid)
    kind = find_kind()
    lines, parser = read_input(command, kind, model, constraints)
    total = lines.checked(parser)
    if command.stream:
        _stream(command, model, kind, lines, constraints)
        return

    is_document = isinstance(lines, DocumentLines)
    arguments = _arguments(command, kept, is_document)
    output_format = OutputFormat(command.format == "jsonl", command.nbest)
    translate_chunk = ChunkTranslator(
        lines.name,
        lines if isinstance(lines, DocumentLines) else output_format,
        arguments,
        parser,
        lines.typed,
        lines.numbering,
        lines.document,
        command.refuse_below,
    )
    conditions = {
        "device": model.device,
        **arguments,
        **_conditions(command),
        "input": kind,
    }
    render = lines.render if isinstance(lines, DocumentLines) else None
    is_shown = command.output is None and sys.stdout.isatty()
    qualities = QualityReport()

    mistaken = [*_foreign_notes(lines)]

    def first_notes(chunk: Chunk) -> Sequence[str]:
        if lines.typed:
            return []
        notes = _language_notes(lines.name, model, parser(chunk)[0])
        mistaken.extend(notes)
        return notes

    with (
        _open_output(command, conditions, render) as sink,
        _chunk_results(command, translate_chunk, model) as results,
        LineReporter(total, sink.mark.lines, hidden=lines.typed or is_shown) as report,
    ):
        # A person waits for each line that is typed.
        size = 1 if lines.typed else command.chunk
        new_chunks = remaining(chunks(lines, size), sink, lines.name)
        fault = _add_results(results(new_chunks), sink, report, qualities, first_notes)
        _finish(sink, lines, command.run, report, qualities.is_known)
    model.keep_export()
    if command.report:
        say(*qualities.lines(lines.numbering.label))
    _raise_if_strict(command, sink.mark.broken, fault, mistaken)


def _arguments(
    command: TranslateCommand, kept: Sequence[str], is_document: bool
) -> dict[str, object]:
    """Return the arguments of the translation of each chunk."""
    of_lines = {"nbest": command.nbest, "alignments": command.alignments}
    return {
        **({} if is_document else of_lines),
        "max_characters": command.max_characters,
        "keep": kept or not command.no_keep,
        "dialect": command.dialect,
        "particles": command.particles,
        **command.settings,
    }


def _add_results(
    results: Iterable[tuple[Chunk, ChunkResult]],
    sink: StreamedOutput | ResumableOutput,
    report: LineReporter,
    qualities: QualityReport,
    first_notes: Callable[[Chunk], Sequence[str]],
) -> str:
    """Write the results of chunks as they come, with their warnings, after those of the first
    chunk; return the first fault of a broken string, empty if there is none.
    """
    fault = ""
    for number, (chunk, result) in enumerate(results):
        report.warn(*result.notes)
        fault = fault or result.fault
        if number == 0:
            report.warn(*first_notes(chunk))
        qualities.add(result.qualities)
        mark = sink.mark.after(
            chunk.end,
            chunk.digest,
            result.known,
            result.unknown,
            result.doubtful,
            result.broken,
        )
        sink.add(result.text, mark)
        report(chunk.end)
    return fault


def _foreign_notes(lines: Lines) -> Iterator[str]:
    """Yield a sentence about a document that declares another language than the model reads."""
    if lines.document is not None and lines.document.is_foreign:
        yield (
            f"{lines.name}: declares another language than the model reads; correct its `lang`, or "
            "choose another model"
        )


def _language_notes(
    name: str, model: TranslateModel, lines: Sequence[str]
) -> list[str]:
    """Return a warning if the first lines of a file are in another language than the model
    reads.
    """
    from regard.text.language_note import language_note

    notes = language_note(lines, model.languages().source, model.language_id)
    return [f"{name}: {note}" for note in notes]


def _raise_if_strict(
    command: TranslateCommand, broken: int, fault: str, mistaken: Sequence[str]
) -> None:
    """End with an error if strings are broken, or the text is in another language than the model
    reads, and that is one. `fault`: that of the first string; `mistaken`: sentences on the
    language.
    """
    if not command.strict:
        return
    causes = [*mistaken]
    if broken:
        strings = counted(broken, "string is", "strings are")
        # Before a --resume there were other faults.
        first = f", such as {fault}" if fault else ""
        causes.append(f"{strings} broken, too long or refused{first}")
    DataError.raise_all(causes)


def _conditions(command: TranslateCommand) -> dict[str, object]:
    """Return the options, besides those of the search, on which results depend."""
    conditions = {name: getattr(command, name) for name in CONDITIONS}
    return {name: value or None for name, value in conditions.items()}


def _finish(
    sink: StreamedOutput | ResumableOutput,
    lines: Lines,
    run: Path,
    report: LineReporter,
    is_calibrated: bool,
) -> None:
    """Finish the output.

    Raises an error instead, and discards the output, if no line was in a script that the model
    knows.
    """
    from regard.pipeline.bulk.chunk_translator import doubt_note, unknown_script_only

    if sink.mark.unknown and not (sink.mark.known or lines.typed):
        sink.discard()
        raise unknown_script_only(lines.name, run)
    sink.finish()
    if not lines.typed:
        mark = sink.mark
        is_document = lines.document is not None
        counts = (mark.doubtful, mark.lines)
        report.warn(*doubt_note(lines.name, *counts, is_calibrated, is_document))


def _refuse_to_stream(command: TranslateCommand, kind: str) -> None:
    """Raise UsageError for options that need whole translations."""
    search = command.settings
    flags = given_flags(command, NOT_STREAMED)
    if kind != "text":
        flags.append("--input")
    flags += [
        f"--{name.replace('_', '-')}" for name in SEARCH_NOT_STREAMED if name in search
    ]
    if search.get("beam", 1) != 1:
        flags.append("--beam")
    if flags:
        raise UsageError(
            f"--stream and {', '.join(flags)}: text already printed cannot be changed; leave one "
            "out"
        )


def _stream(
    command: TranslateCommand,
    model: TranslateModel,
    kind: str,
    lines: Lines,
    constraints: Constraints,
) -> None:
    """Print each translation while it is decoded."""
    from regard.pipeline.bulk.chunk_translator import (
        unknown_script,
        unknown_script_only,
    )

    _refuse_to_stream(command, kind)
    translator = model.make()
    known = 0
    unknown = 0
    for number, line in enumerate(lines, 1):
        is_unknown, note = unknown_script(
            translator, lines.name, [line], number, lines.numbering
        )
        if is_unknown:
            unknown += 1
        elif line.strip():
            known += 1
        warn(note)
        increments = translator.begin_stream(line, constraints, **command.settings)
        while True:
            try:
                typer.echo(next(increments), nl=False)
                sys.stdout.flush()
            except StopIteration as stop:
                translation: Translation = stop.value
                break
            except LineError as problem:
                raise problem.in_file(lines.name, number) from None
        typer.echo()
        where = f"{lines.name}, {lines.numbering.name(number)}"
        warn(*(f"{where}: {note}" for note in translation.notes))
    if unknown and not known:
        raise unknown_script_only(lines.name, command.run)


@contextmanager
def _chunk_results(
    command: TranslateCommand, translate_chunk: ChunkTranslator, model: TranslateModel
) -> Iterator[Callable[[Iterable[Chunk]], Iterator[tuple[Chunk, ChunkResult]]]]:
    """Load the model in this process or on a cluster; yield a function that returns chunks with
    their results, in order.
    """
    if command.cluster is None:
        translator = model.make()
        yield lambda chunks: (
            (chunk, translate_chunk(translator, chunk)) for chunk in chunks
        )
        return
    from regard.serving.cluster.cluster_workers import translate_on_cluster

    with translate_on_cluster(
        command.cluster,
        translate_chunk,
        command.runs,
        command.workers,
        precision=command.decoding_precision,
        threads=command.threads or 1,
    ) as results:
        yield results


@contextmanager
def _open_output(
    command: TranslateCommand,
    conditions: dict[str, object],
    render: Render | None = None,
) -> Iterator[StreamedOutput | ResumableOutput]:
    """Open the output.

    A regular file is written to a part file, which is renamed at the end and kept after an
    interruption.
    """
    from regard.common.atomic import replaceable
    from regard.common.checksums import fingerprints
    from regard.pipeline.bulk import ResumableOutput, StreamedOutput

    output = command.output
    is_regular = output is not None and replaceable(output)
    if command.resume and not is_regular:
        raise UsageError(
            "--resume: only an --output that is a regular file can be continued; give it as before"
        )
    if output is None:
        yield StreamedOutput(sys.stdout, render)
        return
    # To a pipe or a device, results are written as they come.
    if not is_regular:
        with _open_to_append(output) as file:
            yield StreamedOutput(file, render)
        return
    output = _link_target(output)
    files = fingerprints(command.run)
    for number, other in enumerate(command.with_, 2):
        for name, digest in fingerprints(other).items():
            files[f"{name} of model {number}"] = digest
    flags = {f"--{name.replace('_', '-')}": value for name, value in conditions.items()}
    sink = ResumableOutput(output, {"option": flags, "file": files}, render)
    with sink.open(command.resume) as part:
        if command.resume and part.mark.lines:
            say(f"continuing after {part.unit} {part.mark.lines:,}")
        elif command.resume:
            say(f"nothing to resume: starting at {part.unit} 1")
        try:
            yield part
        except BaseException as problem:
            _say_kept(part, command.chunk, problem)
            raise


def _say_kept(part: ResumableOutput, chunk: int, problem: BaseException) -> None:
    """Say what an interruption leaves, and how to go on."""
    if part.kept:
        say(
            f"{part.path} holds {part.unit}s 1 to {part.kept:,}; the same command with --resume "
            "continues after them"
        )
    elif isinstance(problem, KeyboardInterrupt):
        say(
            f"nothing is kept, as that is done after each {chunk:,} {part.unit}s: begin again; "
            "with a smaller --chunk more is kept, and --resume continues after it"
        )


def _open_to_append(output: Path) -> TextIO:
    try:
        return output.open("a", encoding="utf-8", newline="\n")
    except OSError as problem:
        raise UsageError(
            f"--output {output}: cannot be written ({problem.strerror}); choose a file in a "
            "writable folder"
        ) from None


def _link_target(output: Path) -> Path:
    """Return the file that a symbolic link leads to, so that the link itself is not replaced.

    Raises UsageError for a link that leads to itself.
    """
    # Before Python 3.13, `resolve` raises an error for a link that leads to itself.
    with suppress(OSError, RuntimeError):
        output = output.resolve() if output.is_symlink() else output
    if output.is_symlink():
        raise UsageError(f"`output={output}`: a link that leads to itself; remove it")
    return output
