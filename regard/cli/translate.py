# ruff: noqa: ARG001 (some options are read from the context)
"""regard translate: translate a file or standard input line by line, streamed, resumed, or on a
cluster.

Of a runtime file, or the export of a model folder in the cache, nothing here imports PyTorch.
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
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO, cast

import typer

from regard.cli import options
from regard.cli.app import app, is_quiet, say, setup_process, warn
from regard.cli.progress import LineReporter
from regard.cli.search_options import search_command, search_options
from regard.common.errors import LineError, RegardError, UsageError
from regard.common.reading import is_runtime_file

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
SEARCH_NOT_STREAMED = ("mbr", "groups", "coverage_penalty")
"""The options that need the whole of a translation before anything is printed."""
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
"""The options, beside those of the search, that results depend on: another value cannot be resumed
with.
"""

LIMITS = ("max_line", "max_required", "max_forbidden")
"""Search settings that lines are checked against before any is translated."""

InputKind = Literal["text", "jsonl", "html", "xml"]
InputFormat = Annotated[
    Literal["auto", "text", "jsonl", "html", "xml"],
    typer.Option(
        help="Plain lines; one JSON object per line: text, prefix, terms, forbid; a page; auto: as "
        "FILE is."
    ),
]
Stream = Annotated[
    bool,
    typer.Option(
        "--stream", help="Print words as they are decoded; greedy, or with --sample."
    ),
]
ChunkSize = Annotated[
    int,
    typer.Option(
        min=1,
        max=1_000_000,
        help="Lines that are translated, and written to disk, together.",
    ),
]
WorkerCount = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        max=1024,
        help="Chunks that a --cluster translates at a time.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="Translate on a Ray cluster: its HOST:PORT, or local: one on this machine."
    ),
]
NoKeep = Annotated[
    bool,
    typer.Option(
        "--no-keep",
        help="Give placeholders and addresses to the model, as a line with a prefix or terms does.",
    ),
]
Column = Annotated[
    str | None,
    typer.Option(help="FILE is a table, or a folder of tables: translate this column."),
]


@app.command(cls=search_command())
def translate(
    context: typer.Context,
    run: options.TranslatorFile,
    file: Annotated[
        str, typer.Argument(help="Lines to translate; - is standard input.")
    ] = "-",
    nbest: options.NBest = 1,
    format: options.Format = "text",
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Add word links as source-target.")
    ] = False,
    prefix: options.Prefix = "",
    term: Annotated[
        list[str] | None, typer.Option(help="A word that must appear; may be repeated.")
    ] = None,
    forbid: options.Forbid = None,
    keep: options.Keep = None,
    no_keep: NoKeep = False,
    with_: options.With = None,
    input: InputFormat = "auto",
    stream: Stream = False,
    output: Annotated[
        Path | None, typer.Option(help="File to write instead of standard output.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue an --output that was interrupted."),
    ] = False,
    chunk: ChunkSize = 2000,
    workers: WorkerCount = None,
    cluster: Cluster = None,
    column: Column = None,
    precision: options.Precision = "float32",
    device: options.Device = "auto",
    threads: options.Threads = None,
    seed: options.Seed = None,
) -> None:
    """Translate a file or standard input, line by line; HTML and XML by sentences, with their tags
    kept.

    As text: one line per line; with --nbest the line number, score and text, tab-separated; with
    --alignments the links in a further column. Empty lines stay empty. Files may be of any length.
    """
    from regard.pipeline.bulk import ChunkTranslator, OutputFormat, chunks, remaining
    from regard.text.constraints import Constraints

    search = search_options(context, seed)
    runs = [run, *(with_ or ())]
    kept = list(options.kept_patterns(keep or (), no_keep)) or not no_keep
    options.check_output(output, "/dev/stdin" if file == "-" else file, *runs)
    model = _open_model(context, runs, device, precision, search)
    constraints = Constraints(prefix, tuple(term or ()), tuple(forbid or ()))
    lines, parser, kind = _input(context, model, constraints, search)
    total = lines.checked(parser)
    if stream:
        _stream(context, model, kind, lines, constraints, search)
        return
    form = lines if callable(lines) else OutputFormat(format == "jsonl", nbest)
    arguments = {
        "nbest": nbest,
        "alignments": alignments or form is lines,
        "keep": kept,
        **search,
    }
    translate_chunk = ChunkTranslator(lines.name, form, arguments, parser, lines.typed)
    conditions = {
        "device": model.device,
        **arguments,
        **_conditions(context),
        "input": kind,
    }
    with (
        _open_output(runs, output, resume, conditions) as sink,
        _chunk_results(context, translate_chunk, model, runs) as results,
        LineReporter(
            total,
            sink.mark.lines,
            hidden=lines.typed or (output is None and sys.stdout.isatty()),
        ) as report,
    ):
        size = 1 if lines.typed else sys.maxsize if form is lines else chunk
        for done, result in results(remaining(chunks(lines, size), sink, lines.name)):
            report.warn(*result.notes)
            sink.add(
                result.text,
                sink.mark.after(
                    done.end, done.digest, result.known, result.unknown, result.doubtful
                ),
            )
            report(done.end)
        _finish(sink, lines, run, report)
    model.keep_export()


def _conditions(context: typer.Context) -> dict[str, Any]:
    """Return the options, beside those of the search, that results depend on."""
    return {name: context.params[name] for name in CONDITIONS}


def _finish(
    sink: StreamedOutput | ResumableOutput,
    lines: Lines,
    run: Path,
    report: LineReporter,
) -> None:
    """Finish the output, unless nothing in it can be right: no line was in a script that the model
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
    """The model that translates: how it is loaded, its settings, and its folder, if it is not a
    file.
    """

    make: Callable[[], Translator]
    settings: Callable[[], SearchSettings]
    max_line: int
    device: str
    folder: Path | None  # None: a runtime file
    languages: Callable[[], Languages]
    # Of constraints; that of a folder is there before its model is.
    encoder: Callable[[], ConstraintEncoder]
    export_name: str = (
        # That it is kept by, to be opened without PyTorch the next time; empty: it is
        # not.
        ""
    )

    def keep_export(self) -> None:
        """Write the export into the cache, after the output has been handed out: it takes as long
        as some lines.
        """
        if self.export_name and self.folder:
            from regard.interchange.runtime import keep_export
            from regard.model_folder import ModelFolder

            sys.stdout.flush()
            translator = cast("FolderTranslator", self.make())
            model = ModelFolder(
                translator.settings,
                translator.tokenizer,
                cast("Model", translator.model),
            )
            keep_export(
                self.folder, self.export_name, model, translator.engine.precision
            )


def _open_model(
    context: typer.Context,
    runs: list[Path],
    device: str,
    precision: options.Precision,
    search: dict[str, Any],
) -> _Model:
    """Return what translates: a runtime file, the export of a model folder in the cache, or model
    folders.
    """
    if (workers := context.params["workers"]) is not None and context.params[
        "cluster"
    ] is None:
        why = (
            "threads of one process translate a file; say how many with --threads, or translate on "
            "a --cluster"
        )
        raise UsageError(f"--workers {workers}: {why}")
    if is_runtime_file(runs[0]):
        return _runtime_file(context, runs, device, precision)
    from regard.pipeline.export_cache import find_export

    given = context.params
    name = ""
    export = None
    if _suits_library(context, search):
        name, export = find_export(runs[0], precision, device, given["threads"])
    if export is not None:
        # Settings that contradict each other are refused below.
        with suppress(RegardError):
            export.search.with_values(**search)
            return _library_model(export)
    if given["file"] == "-" and sys.stdin.isatty():
        say(f"opening {runs[0]} …")  # PyTorch takes some seconds
    setup_process(given["threads"], given["quiet"], given["debug"], given["seed"])
    model = _model_folders(context, runs, device, precision)
    return (
        replace(model, make=cache(model.make), export_name=name)
        if name and export is None
        else model
    )


def _suits_library(context: typer.Context, search: dict[str, Any]) -> bool:
    """Return whether a runtime file does what this call asks of a model folder; PyTorch does the
    rest.
    """
    from regard.pipeline.runtime_translator import UNSUPPORTED

    given = context.params
    others = any(given[name] for name in ("with_", "cluster", "stream"))
    if others or not search.keys().isdisjoint(UNSUPPORTED):
        return False
    with suppress(RegardError):  # raised again after what is wrong with the model
        kind = _find_input(context)
        # Alignments, which pages need, are read in float32 by PyTorch, whatever the precision of
        # the search.
        return given["precision"] == "float32" or not (
            given["alignments"] or kind in ("html", "xml")
        )
    return False


def _model_folders(
    context: typer.Context, runs: list[Path], device: str, precision: options.Precision
) -> _Model:
    """Return a model folder, or several as an ensemble."""
    from regard.model_folder import load_settings
    from regard.pipeline import load_translator

    is_cluster = context.params["cluster"] is not None
    if is_cluster and device not in ("auto", "cpu"):
        raise UsageError(
            f"--cluster and --device {device}: clusters translate on the CPU only; leave one out"
        )
    device = options.select_device("cpu" if is_cluster else device)
    make = partial(
        load_translator, runs if len(runs) > 1 else runs[0], device, precision
    )
    settings = load_settings(runs[0])
    search = settings.search
    return _Model(
        make,
        lambda: search,
        search.max_line,
        device,
        runs[0],
        lambda: settings.languages,
        partial(_folder_encoder, runs[0], settings),
    )


def _runtime_file(
    context: typer.Context, runs: list[Path], device: str, precision: options.Precision
) -> _Model:
    """Return a runtime file. Raises UsageError for options that only model folders have."""
    from regard.pipeline import open_runtime

    if len(runs) > 1:
        raise UsageError(
            f"--with: {runs[0]} is a runtime file, which is no member of an ensemble; give model "
            "folders"
        )
    source = context.get_parameter_source("precision")
    wanted = precision if source is not None and source.name == "COMMANDLINE" else None
    translator = open_runtime(runs[0], device, wanted, context.params["threads"])
    return _library_model(translator)


def _library_model(translator: RuntimeTranslator) -> _Model:
    """Return what stands on the C library."""
    return _Model(
        lambda: translator,
        lambda: translator.search,
        translator.model.options().max_line,
        "cpu",
        None,
        lambda: translator.languages,
        lambda: translator.constraint_encoder,
    )


def _find_input(context: typer.Context) -> InputKind:
    """Return what the input is, `auto` resolved. Raises UsageError if FILE is a text, or other
    options do not fit.
    """
    from regard.data.file_kinds import input_kind
    from regard.data.text import data_path

    file = context.params["file"]
    is_stream = file == "-" or context.params["column"] is not None
    if (
        not is_stream
        and not os.path.exists(file)
        and not re.search(r"\.\w+$|://", file)
    ):
        how = f"to translate a text, pipe it: echo '…' | regard translate {context.params['run']}"
        raise UsageError(f"{file[:80]}: no such file; {how}")
    kind = context.params["input"]
    if kind == "auto":
        kind = "text" if is_stream else input_kind(data_path(file))
    if kind in ("html", "xml") and (
        others := options.given_flags(context, NOT_FOR_PAGES)
    ):
        why = f"{file} is {kind.upper()}, which is translated once, and as a whole"
        raise UsageError(
            f"{', '.join(others)}: {why}; leave them out, or give --input text to translate every "
            "line as it stands"
        )
    return cast("InputKind", kind)


def _input(
    context: typer.Context,
    model: _Model,
    constraints: Constraints,
    search: dict[str, Any],
) -> tuple[Lines, LineParser, InputKind]:
    """Return the lines of a file, what parses them, with the limits of the model or of `search`,
    and their kind.
    """
    kind = _find_input(context)
    file = context.params["file"]
    column = context.params["column"]
    jsonl = kind == "jsonl"
    is_file = file != "-" and Path(file).is_file()
    if (
        file != "-"
        and column is None
        and kind == "text"
        and context.params["input"] == "auto"
    ):
        _warn_of_tabs(file)
    if context.params["cluster"] is not None and column is None and not is_file:
        raise UsageError(
            f"--cluster: {file} can be read only once, or is no file; give the name of a file"
        )
    from regard.data.text import JSON_SIZE, MAX_LINE
    from regard.pipeline.bulk import LineParser, Lines

    limits = None
    max_line = search.get("max_line", model.max_line)
    if jsonl or model.folder is not None:
        limits = model.settings().with_values(
            **{name: search[name] for name in LIMITS if name in search}
        )
    read_line = max(MAX_LINE, JSON_SIZE * max_line) if jsonl else max_line
    if column is not None:
        from regard.serving.cluster.table_lines import TableLines

        lines: Lines = TableLines(file, column, read_line)
    elif kind in ("html", "xml"):
        from regard.cli.markup_file import Page

        split = {name: search[name] for name in ("split",) if name in search}
        lines = Page(file, kind, model.settings().with_values(**split).splits_sentences)
    else:
        lines = Lines(file, read_line)
        if lines.typed and not (jsonl or is_quiet()):
            lines.greet(str(context.params["run"]), model.languages().pair)
    encoder = None
    if jsonl and limits:
        from regard.search import check_constraints

        encoder = model.encoder()
        check_constraints([constraints], encoder, limits)
    return lines, LineParser(constraints, jsonl, lines.name, encoder, limits), kind


def _warn_of_tabs(file: str) -> None:
    """Warn if the lines of a file look like pairs, or like rows of a table."""
    from regard.data.file_kinds import holds_tabs
    from regard.data.text import data_path

    if holds_tabs(data_path(file)):
        warn(
            f"{file}: most lines hold tabs; of pairs or a table translate one column: `cut -f1`"
        )


def _folder_encoder(run: Path, settings: FolderSettings) -> ConstraintEncoder:
    """Load what tokenises the constraints of a model folder."""
    from regard.data.letter_case import letter_case
    from regard.model_folder import load_tokenizer
    from regard.search import ConstraintEncoder

    return ConstraintEncoder(
        load_tokenizer(run, settings).target, letter_case(settings.languages.target)
    )


def _refuse_to_stream(
    context: typer.Context, kind: InputKind, search: dict[str, Any]
) -> None:
    """Raise UsageError for options that need the whole of a translation."""
    flags = options.given_flags(context, NOT_STREAMED)
    flags += ["--input"] if kind != "text" else []
    flags += [
        f"--{name.replace('_', '-')}" for name in SEARCH_NOT_STREAMED if name in search
    ]
    flags += ["--beam"] if search.get("beam", 1) != 1 else []
    if flags:
        raise UsageError(
            f"--stream and {', '.join(flags)}: text already printed cannot be changed; leave one "
            "out"
        )


def _stream(
    context: typer.Context,
    model: _Model,
    kind: InputKind,
    lines: Lines,
    constraints: Constraints,
    search: dict[str, Any],
) -> None:
    """Print each translation while it is being decoded."""
    from regard.pipeline.bulk.chunk_translator import (
        unknown_script,
        unknown_script_only,
    )

    _refuse_to_stream(context, kind, search)
    translator = model.make()
    known = 0
    unknown = 0
    for number, line in enumerate(lines, 1):
        is_unknown, note = unknown_script(translator, lines.name, [line], number)
        unknown = unknown + is_unknown
        known = known + (bool(line.strip()) and not is_unknown)
        warn(note)
        increments = translator.begin_stream(line, constraints, **search)
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
        raise unknown_script_only(lines.name, context.params["run"])


@contextmanager
def _chunk_results(
    context: typer.Context,
    translate_chunk: ChunkTranslator,
    model: _Model,
    runs: list[Path],
) -> Iterator[Callable[[Iterable[Chunk]], Iterator[tuple[Chunk, ChunkResult]]]]:
    """Load the model here or on a cluster; yield a function that returns chunks with their results,
    in order.
    """
    given = context.params
    if given["cluster"] is None:
        translator = model.make()
        yield lambda chunks: (
            (chunk, translate_chunk(translator, chunk)) for chunk in chunks
        )
        return
    from regard.serving.cluster.cluster_workers import translate_on_cluster

    model_options = {"precision": given["precision"], "threads": given["threads"] or 1}
    with translate_on_cluster(
        given["cluster"], translate_chunk, runs, given["workers"], **model_options
    ) as results:
        yield results


def _opened_to_append(output: Path) -> TextIO:
    try:
        return output.open("a", encoding="utf-8", newline="\n")
    except OSError as problem:
        raise UsageError(
            f"--output {output}: cannot be written ({problem.strerror}); choose a file in a "
            "writable folder"
        ) from None


def _link_target(output: Path) -> Path:
    """Return the file that a link leads to, which is written: the link stays. Raises UsageError for
    a link that leads to itself.
    """
    # Of a link that leads to itself, before Python 3.13.
    with suppress(OSError, RuntimeError):
        output = output.resolve() if output.is_symlink() else output
    if output.is_symlink():
        raise UsageError(f"`output={output}`: a link that leads to itself; remove it")
    return output


@contextmanager
def _open_output(
    runs: list[Path], output: Path | None, resume: bool, conditions: dict[str, Any]
) -> Iterator[StreamedOutput | ResumableOutput]:
    """Open the output. A regular file appears complete at the end; an interrupted one is kept as
    its part file.
    """
    from regard.common.atomic import replaceable
    from regard.common.checksums import fingerprints
    from regard.pipeline.bulk import ResumableOutput, StreamedOutput

    is_regular = output is not None and replaceable(output)
    if resume and not is_regular:
        raise UsageError(
            "--resume: only an --output that is a regular file can be continued; give it as before"
        )
    if output is None:
        yield StreamedOutput(sys.stdout)
        return
    # Such as a pipe or /dev/stdout: results are written as they come.
    if not is_regular:
        with _opened_to_append(output) as file:
            yield StreamedOutput(file)
        return
    output = _link_target(output)
    files = fingerprints(runs[0])
    for number, other in enumerate(runs[1:], 2):
        files |= {
            f"{name} of model {number}": digest
            for name, digest in fingerprints(other).items()
        }
    flags = {f"--{name.replace('_', '-')}": value for name, value in conditions.items()}
    with ResumableOutput(output, {"option": flags, "file": files}).open(resume) as part:
        if resume:
            done = part.mark.lines
            say(
                f"continuing after line {done:,}"
                if done
                else "nothing to resume: starting at line 1"
            )
        try:
            yield part
        except BaseException:
            if part.kept:
                say(
                    f"{part.path} holds lines 1 to {part.kept:,}; the same command with --resume "
                    "continues after them"
                )
            raise
