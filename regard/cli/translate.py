# ruff: noqa: ARG001 (some options are read from the context)
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

    is_page = callable(lines)
    form = lines if callable(lines) else OutputFormat(format == "jsonl", nbest)
    arguments = {
        "nbest": nbest,
        "alignments": alignments or is_page,
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
    is_shown = output is None and sys.stdout.isatty()
    with (
        _open_output(runs, output, resume, conditions) as sink,
        _chunk_results(context, translate_chunk, model, runs) as results,
        LineReporter(total, sink.mark.lines, hidden=lines.typed or is_shown) as report,
    ):
        size = _chunk_size(lines, is_page, chunk)
        new_chunks = remaining(chunks(lines, size), sink, lines.name)
        for done, result in results(new_chunks):
            report.warn(*result.notes)
            mark = sink.mark.after(
                done.end, done.digest, result.known, result.unknown, result.doubtful
            )
            sink.add(result.text, mark)
            report(done.end)
        _finish(sink, lines, run, report)
    model.keep_export()


def _conditions(context: typer.Context) -> dict[str, Any]:
    """Return the options, besides those of the search, on which results depend."""
    return {name: context.params[name] for name in CONDITIONS}


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


def _open_model(
    context: typer.Context,
    runs: list[Path],
    device: str,
    precision: options.Precision,
    search: dict[str, Any],
) -> _Model:
    """Return the model: a runtime file, the cached export of a model folder, or model folders."""
    params = context.params
    workers = params["workers"]
    if workers is not None and params["cluster"] is None:
        why = (
            "threads of one process translate a file; say how many with --threads, or translate on "
            "a --cluster"
        )
        raise UsageError(f"--workers {workers}: {why}")
    if is_runtime_file(runs[0]):
        return _runtime_file(context, runs, device, precision)
    from regard.pipeline.export_cache import find_export

    name = ""
    export = None
    if _supports_export(context, search):
        name, export = find_export(runs[0], precision, device, params["threads"])
    if export is not None:
        # If settings contradict each other, the error is raised below.
        with suppress(RegardError):
            export.search.with_values(**search)
            return _library_model(export)
    if params["file"] == "-" and sys.stdin.isatty():
        say(f"opening {runs[0]} …")  # the import of PyTorch takes seconds
    setup_process(params["threads"], params["quiet"], params["debug"], params["seed"])
    model = _model_folders(context, runs, device, precision)
    if name and export is None:
        return replace(model, make=cache(model.make), export_name=name)
    return model


def _supports_export(context: typer.Context, search: dict[str, Any]) -> bool:
    """Return whether the export of a model folder supports all options of the call, so that PyTorch
    is not needed.
    """
    from regard.pipeline.runtime_translator import UNSUPPORTED

    params = context.params
    if any(params[name] for name in ("with_", "cluster", "stream")):
        return False
    if not search.keys().isdisjoint(UNSUPPORTED):
        return False
    # An error of the input is raised again later, after errors of the model.
    with suppress(RegardError):
        kind = _find_input(context)
        # PyTorch reads alignments in float32, whatever the precision of the search.
        needs_alignments = params["alignments"] or kind in ("html", "xml")
        return params["precision"] == "float32" or not needs_alignments
    return False


def _model_folders(
    context: typer.Context, runs: list[Path], device: str, precision: options.Precision
) -> _Model:
    """Return the model of a folder, or the ensemble of several."""
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
        make=make,
        settings=lambda: search,
        max_line=search.max_line,
        device=device,
        folder=runs[0],
        languages=lambda: settings.languages,
        encoder=partial(_folder_encoder, runs[0], settings),
    )


def _runtime_file(
    context: typer.Context, runs: list[Path], device: str, precision: options.Precision
) -> _Model:
    """Return the model of a runtime file.

    Raises UsageError for options that only model folders support.
    """
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


def _find_input(context: typer.Context) -> InputKind:
    """Return the kind of the input, with `auto` resolved.

    Raises UsageError if FILE is a text instead of a name, or if other options do not support the
    kind.
    """
    from regard.data.file_kinds import input_kind
    from regard.data.text import data_path

    file = context.params["file"]
    is_stream = file == "-" or context.params["column"] is not None
    is_name = re.search(r"\.\w+$|://", file) is not None
    if not is_stream and not is_name and not os.path.exists(file):
        remedy = (
            "to translate a text, pipe it: echo '…' | regard translate "
            f"{context.params['run']}"
        )
        raise UsageError(f"{file[:80]}: no such file; {remedy}")

    kind = context.params["input"]
    if kind == "auto":
        kind = "text" if is_stream else input_kind(data_path(file))
    if kind in ("html", "xml"):
        flags = options.given_flags(context, NOT_FOR_PAGES)
        if flags:
            why = f"{file} is {kind.upper()}, which is translated once, and as a whole"
            raise UsageError(
                f"{', '.join(flags)}: {why}; leave them out, or give --input text to translate "
                "every line as it stands"
            )
    return cast("InputKind", kind)


def _input(
    context: typer.Context,
    model: _Model,
    constraints: Constraints,
    search: dict[str, Any],
) -> tuple[Lines, LineParser, InputKind]:
    """Return the lines of the input, their parser, and their kind.

    The parser checks the limits of the model, or those of `search`.
    """
    kind = _find_input(context)
    file = context.params["file"]
    column = context.params["column"]
    jsonl = kind == "jsonl"
    is_file = file != "-" and Path(file).is_file()
    is_detected_text = kind == "text" and context.params["input"] == "auto"
    if file != "-" and column is None and is_detected_text:
        _warn_of_tabs(file)
    if context.params["cluster"] is not None and column is None and not is_file:
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
    """Load the encoder of constraints of a model folder."""
    from regard.data.letter_case import letter_case
    from regard.model_folder import load_tokenizer
    from regard.search import ConstraintEncoder

    vocabulary = load_tokenizer(run, settings).target
    return ConstraintEncoder(vocabulary, letter_case(settings.languages.target))


def _refuse_to_stream(
    context: typer.Context, kind: InputKind, search: dict[str, Any]
) -> None:
    """Raise UsageError for options that need whole translations."""
    flags = options.given_flags(context, NOT_STREAMED)
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
    context: typer.Context,
    model: _Model,
    kind: InputKind,
    lines: Lines,
    constraints: Constraints,
    search: dict[str, Any],
) -> None:
    """Print each translation while it is decoded."""
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
        if is_unknown:
            unknown += 1
        elif line.strip():
            known += 1
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
    """Load the model in this process or on a cluster; yield a function that returns chunks with
    their results, in order.
    """
    params = context.params
    if params["cluster"] is None:
        translator = model.make()
        yield lambda chunks: (
            (chunk, translate_chunk(translator, chunk)) for chunk in chunks
        )
        return
    from regard.serving.cluster.cluster_workers import translate_on_cluster

    with translate_on_cluster(
        params["cluster"],
        translate_chunk,
        runs,
        params["workers"],
        precision=params["precision"],
        threads=params["threads"] or 1,
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
    runs: list[Path], output: Path | None, resume: bool, conditions: dict[str, Any]
) -> Iterator[StreamedOutput | ResumableOutput]:
    """Open the output.

    A regular file is written to a part file, which is renamed at the end and kept after an
    interruption.
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
    # To a pipe or a device, results are written as they come.
    if not is_regular:
        with _open_to_append(output) as file:
            yield StreamedOutput(file)
        return
    output = _link_target(output)
    files = fingerprints(runs[0])
    for number, other in enumerate(runs[1:], 2):
        for name, digest in fingerprints(other).items():
            files[f"{name} of model {number}"] = digest
    flags = {f"--{name.replace('_', '-')}": value for name, value in conditions.items()}
    with ResumableOutput(output, {"option": flags, "file": files}).open(resume) as part:
        if resume and part.mark.lines:
            say(f"continuing after line {part.mark.lines:,}")
        elif resume:
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
