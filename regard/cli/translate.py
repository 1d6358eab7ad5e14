"""regard translate: translate a file or standard input line by line, streamed, resumed, or on a
cluster.

PyTorch is not imported for a runtime file, nor for a model folder whose export is in the cache.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast

import typer

from regard.cli import options
from regard.cli.app import app, is_quiet, say, setup_torch, warn
from regard.cli.progress import LineReporter
from regard.cli.request_options import given_flags
from regard.cli.search_options import search_command
from regard.common.errors import LineError, RegardError, UsageError
from regard.common.reading import is_runtime_file
from regard.requests.translate_request import TranslateCommand

if TYPE_CHECKING:
    from regard.data.languages import Languages
    from regard.model_folder import FolderSettings
    from regard.models import Model
    from regard.pipeline import (
        FolderTranslator,
        RuntimeTranslator,
        Translation,
        Translator,
    )
    from regard.pipeline.bulk import (
        Chunk,
        ChunkResult,
        ChunkTranslator,
        LineParser,
        Lines,
        ResumableOutput,
        StreamedOutput,
    )
    from regard.search import ConstraintEncoder, Constraints, SearchSettings

NOT_STREAMED = ("nbest", "alignments", "format", "keep", "output", "resume", "cluster")
"""Options that `--stream` does not support."""
NOT_FOR_PAGES = (
    "nbest",
    "alignments",
    "format",
    "keep",
    "resume",
    "cluster",
    "column",
    "stream",
)
"""Options that the translation of a page does not support."""
SEARCH_NOT_STREAMED = ("mbr", "groups", "coverage_penalty")
"""Search options that need whole translations, and so do not support `--stream`."""
CONDITIONS = (
    "prefix",
    "term",
    "forbid",
    "input",
    "column",
    "format",
    "chunk",
    "precision",
)
"""Options, besides those of the search, on which results depend; `--resume` requires the same
values.
"""

LIMITS = ("max_line", "max_required", "max_forbidden")
"""Search settings that limit the lines of the input, which are checked before the translation."""

InputKind = Literal["text", "jsonl", "html", "xml"]


@app.command(request=TranslateCommand, search=search_command())
def translate(command: TranslateCommand) -> None:
    """Translate a file or standard input, line by line; HTML and XML by sentences, with their tags
    kept.

    As text: one line per line; with --nbest the line number, score and text, tab-separated; with
    --alignments the links in a further column. Empty lines stay empty. Files may be of any length.
    """
    from regard.pipeline.bulk import ChunkTranslator, OutputFormat, chunks, remaining
    from regard.text.constraints import Constraints

    kept = list(options.kept_patterns(command.keep, command.no_keep))
    file = "/dev/stdin" if command.file == "-" else command.file
    options.check_output(command.output, file, *command.runs)

    model = _open_model(command)
    constraints = Constraints(command.prefix, command.term, command.forbid)
    lines, parser, kind = _input(command, model, constraints)
    total = lines.checked(parser)
    if command.stream:
        _stream(command, model, kind, lines, constraints)
        return

    is_page = callable(lines)
    output_format = OutputFormat(command.format == "jsonl", command.nbest)
    form = lines if callable(lines) else output_format
    arguments = {
        "nbest": command.nbest,
        "alignments": command.alignments or is_page,
        "keep": kept or not command.no_keep,
        **command.settings,
    }
    translate_chunk = ChunkTranslator(lines.name, form, arguments, parser, lines.typed)
    conditions = {
        "device": model.device,
        **arguments,
        **_conditions(command),
        "input": kind,
    }
    is_shown = command.output is None and sys.stdout.isatty()
    with (
        _open_output(command, conditions) as sink,
        _chunk_results(command, translate_chunk, model) as results,
        LineReporter(total, sink.mark.lines, hidden=lines.typed or is_shown) as report,
    ):
        size = _chunk_size(lines, is_page, command.chunk)
        new_chunks = remaining(chunks(lines, size), sink, lines.name)
        for done, result in results(new_chunks):
            report.warn(*result.notes)
            mark = sink.mark.after(
                done.end, done.digest, result.known, result.unknown, result.doubtful
            )
            sink.add(result.text, mark)
            report(done.end)
        _finish(sink, lines, command.run, report)
    model.keep_export()


def _conditions(command: TranslateCommand) -> dict[str, Any]:
    """Return the options, besides those of the search, on which results depend."""
    conditions = {name: getattr(command, name) for name in CONDITIONS}
    return {name: value or None for name, value in conditions.items()}


def _chunk_size(lines: Lines, is_page: bool, chunk: int) -> int:
    """Return the lines of a chunk: one if a person types them, all of a page, else `chunk`."""
    if lines.typed:
        return 1
    return sys.maxsize if is_page else chunk


def _finish(
    sink: StreamedOutput | ResumableOutput,
    lines: Lines,
    run: Path,
    report: LineReporter,
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
        report.warn(*doubt_note(lines.name, sink.mark.doubtful, sink.mark.lines))


@dataclass(frozen=True)
class _Model:
    """The model of the command: how it is loaded, and what is known of it before.

    `folder`: None for a runtime file; `encoder`: encodes constraints without loading the model of a
    folder; `export_name`: name under which the export is cached for later calls without PyTorch, or
    empty if it is not cached.
    """

    make: Callable[[], Translator]
    settings: Callable[[], SearchSettings]
    max_line: int
    device: str
    folder: Path | None
    languages: Callable[[], Languages]
    encoder: Callable[[], ConstraintEncoder]
    export_name: str = ""

    def keep_export(self) -> None:
        """Write the export to the cache; called after the output, because it takes some time."""
        if not (self.export_name and self.folder):
            return
        from regard.interchange.runtime import keep_export
        from regard.model_folder import ModelFolder

        sys.stdout.flush()
        translator = cast("FolderTranslator", self.make())
        model = ModelFolder(
            translator.settings,
            translator.tokenizer,
            cast("Model", translator.model),
        )
        keep_export(self.folder, self.export_name, model, translator.engine.precision)


def _open_model(command: TranslateCommand) -> _Model:
    """Return the model: a runtime file, the cached export of a model folder, or model folders."""
    runs = command.runs
    workers = command.workers
    if workers is not None and command.cluster is None:
        why = (
            "threads of one process translate a file; say how many with --threads, or translate on "
            "a --cluster"
        )
        raise UsageError(f"--workers {workers}: {why}")
    if is_runtime_file(runs[0]):
        return _runtime_file(command)
    from regard.pipeline.export_cache import find_export

    name = ""
    export = None
    if _supports_export(command):
        name, export = find_export(
            runs[0], command.decoding_precision, command.device, command.threads
        )
    if export is not None:
        # If settings contradict each other, the error is raised below.
        with suppress(RegardError):
            export.search.with_values(**command.settings)
            return _library_model(export)
    if command.file == "-" and sys.stdin.isatty():
        say(f"opening {runs[0]} …")  # the import of PyTorch takes seconds
    setup_torch(command.threads, command.seed)
    model = _model_folders(command)
    if name and export is None:
        return replace(model, make=cache(model.make), export_name=name)
    return model


def _supports_export(command: TranslateCommand) -> bool:
    """Return whether the export of a model folder supports all options of the call, so that PyTorch
    is not needed.
    """
    from regard.pipeline.runtime_translator import UNSUPPORTED

    if command.with_ or command.cluster or command.stream:
        return False
    if not command.settings.keys().isdisjoint(UNSUPPORTED):
        return False
    # An error of the input is raised again later, after errors of the model.
    with suppress(RegardError):
        kind = _find_input(command)
        # PyTorch reads alignments in float32, whatever the precision of the search.
        needs_alignments = command.alignments or kind in ("html", "xml")
        return command.decoding_precision == "float32" or not needs_alignments
    return False


def _model_folders(command: TranslateCommand) -> _Model:
    """Return the model of a folder, or the ensemble of several."""
    from regard.model_folder import load_settings
    from regard.pipeline import load_translator

    runs = command.runs
    is_cluster = command.cluster is not None
    if is_cluster and command.device not in ("auto", "cpu"):
        raise UsageError(
            f"--cluster and --device {command.device}: clusters translate on the CPU only; leave "
            "one out"
        )
    device = options.select_device("cpu" if is_cluster else command.device)
    make = partial(
        load_translator,
        runs if len(runs) > 1 else runs[0],
        device,
        command.decoding_precision,
    )
    settings = load_settings(runs[0])
    search = settings.search
    return _Model(
        make=make,
        settings=lambda: search,
        max_line=search.max_line,
        device=device,
        folder=runs[0],
        languages=lambda: settings.languages,
        encoder=partial(_folder_encoder, runs[0], settings),
    )


def _runtime_file(command: TranslateCommand) -> _Model:
    """Return the model of a runtime file.

    Raises UsageError for options that only model folders support.
    """
    from regard.pipeline import open_runtime

    if command.with_:
        raise UsageError(
            f"--with: {command.run} is a runtime file, which is no member of an ensemble; give "
            "model folders"
        )
    translator = open_runtime(
        command.run, command.device, command.precision, command.threads
    )
    return _library_model(translator)


def _library_model(translator: RuntimeTranslator) -> _Model:
    """Return the model of a translator that runs on the C library."""
    return _Model(
        make=lambda: translator,
        settings=lambda: translator.search,
        max_line=translator.model.options().max_line,
        device="cpu",
        folder=None,
        languages=lambda: translator.languages,
        encoder=lambda: translator.constraint_encoder,
    )


def _find_input(command: TranslateCommand) -> InputKind:
    """Return the kind of the input, with `auto` resolved.

    Raises UsageError if FILE is a text instead of a name, or if other options do not support the
    kind.
    """
    from regard.data.file_formats import input_kind
    from regard.data.text import data_path

    file = command.file
    is_stream = file == "-" or command.column is not None
    is_name = re.search(r"\.\w+$|://", file) is not None
    if not is_stream and not is_name and not os.path.exists(file):
        remedy = (
            f"to translate a text, pipe it: echo '…' | regard translate {command.run}"
        )
        raise UsageError(f"{file[:80]}: no such file; {remedy}")

    kind: str = command.input
    if kind == "auto":
        kind = "text" if is_stream else input_kind(data_path(file))
    if kind in ("html", "xml"):
        flags = given_flags(command, NOT_FOR_PAGES)
        if flags:
            why = f"{file} is {kind.upper()}, which is translated once, and as a whole"
            raise UsageError(
                f"{', '.join(flags)}: {why}; leave them out, or give --input text to translate "
                "every line as it stands"
            )
    return cast("InputKind", kind)


def _input(
    command: TranslateCommand, model: _Model, constraints: Constraints
) -> tuple[Lines, LineParser, InputKind]:
    """Return the lines of the input, their parser, and their kind.

    The parser checks the limits of the model, or those of the search options.
    """
    kind = _find_input(command)
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
    from regard.pipeline.bulk import LineParser, Lines

    limits = None
    if jsonl or model.folder is not None:
        changed_limits = {name: search[name] for name in LIMITS if name in search}
        limits = model.settings().with_values(**changed_limits)
    max_line = search.get("max_line", model.max_line)
    if jsonl:
        max_line = max(MAX_LINE, JSON_SIZE * max_line)

    if column is not None:
        from regard.serving.cluster.table_lines import TableLines

        lines: Lines = TableLines(file, column, max_line)
    elif kind in ("html", "xml"):
        from regard.cli.markup_file import Page

        settings = model.settings()
        if "split" in search:
            settings = settings.with_values(split=search["split"])
        lines = Page(file, kind, settings.splits_sentences)
    else:
        lines = Lines(file, max_line)
        if lines.typed and not (jsonl or is_quiet()):
            lines.greet(str(command.run), model.languages().pair)
    encoder = None
    if jsonl and limits:
        from regard.search import check_constraints

        encoder = model.encoder()
        check_constraints([constraints], encoder, limits)
    return lines, LineParser(constraints, jsonl, lines.name, encoder, limits), kind


def _warn_of_tabs(file: str) -> None:
    """Warn if the lines of a file look like pairs, or like rows of a table."""
    from regard.data.file_formats import holds_tabs
    from regard.data.text import data_path

    if holds_tabs(data_path(file)):
        warn(
            f"{file}: most lines hold tabs; of pairs or a table translate one column: `cut -f1`"
        )


def _folder_encoder(run: Path, settings: FolderSettings) -> ConstraintEncoder:
    """Load the encoder of constraints of a model folder."""
    from regard.data.letter_case import letter_case
    from regard.model_folder import load_tokenizer
    from regard.search import ConstraintEncoder

    vocabulary = load_tokenizer(run, settings).target
    return ConstraintEncoder(vocabulary, letter_case(settings.languages.target))


def _refuse_to_stream(command: TranslateCommand, kind: InputKind) -> None:
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
    model: _Model,
    kind: InputKind,
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
        is_unknown, note = unknown_script(translator, lines.name, [line], number)
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
        warn(*(f"{lines.name}, line {number}: {note}" for note in translation.notes))
    if unknown and not known:
        raise unknown_script_only(lines.name, command.run)


@contextmanager
def _chunk_results(
    command: TranslateCommand, translate_chunk: ChunkTranslator, model: _Model
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


@contextmanager
def _open_output(
    command: TranslateCommand, conditions: dict[str, Any]
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
        yield StreamedOutput(sys.stdout)
        return
    # To a pipe or a device, results are written as they come.
    if not is_regular:
        with _open_to_append(output) as file:
            yield StreamedOutput(file)
        return
    output = _link_target(output)
    files = fingerprints(command.run)
    for number, other in enumerate(command.with_, 2):
        for name, digest in fingerprints(other).items():
            files[f"{name} of model {number}"] = digest
    flags = {f"--{name.replace('_', '-')}": value for name, value in conditions.items()}
    with ResumableOutput(output, {"option": flags, "file": files}).open(
        command.resume
    ) as part:
        if command.resume and part.mark.lines:
            say(f"continuing after line {part.mark.lines:,}")
        elif command.resume:
            say("nothing to resume: starting at line 1")
        try:
            yield part
        except BaseException:
            if part.kept:
                say(
                    f"{part.path} holds lines 1 to {part.kept:,}; the same command with --resume "
                    "continues after them"
                )
            raise
