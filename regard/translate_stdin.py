"""Fast start of `regard translate`: translate standard input with few options.

The model is a runtime file, or a model folder whose export is in the cache. The results are those
of `regard.cli.translate` for the same command, but neither typer nor numpy is imported: their
import takes three times as long as the translation of a line.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.common.reading import is_runtime_file

CHUNK = 2000
"""Lines that are translated together, the same as the default of the command."""
_MAXIMA = {"--beam": 250, "--threads": 256}
"""The options that are supported here, with their largest values."""


@dataclass(frozen=True)
class PipeCall:
    """A call that can be handled here: the model and the values of `--beam` and `--threads`.

    `export`: if the model is a folder, its opened export.
    """

    file: str
    beam: int | None = None
    threads: int | None = None
    export: Any = None


def pipe_call(arguments: Sequence[str]) -> PipeCall | None:
    """Parse the arguments, or return None if the full command line is needed, for instance to
    report an error.
    """
    command, *command_arguments = arguments or [""]
    paths = list[str]()
    values = dict[str, int]()
    remaining = iter(command_arguments)
    for argument in remaining:
        name, has_value, value = argument.partition("=")
        if name in _MAXIMA and name not in values:
            with suppress(ValueError):
                values[name] = int(value if has_value else next(remaining, ""))
            if not 1 <= values.get(name, 0) <= _MAXIMA[name]:
                return None
        elif argument.startswith("-") and argument != "-":
            return None
        else:
            paths.append(argument)
    if command != "translate" or not paths or paths[1:] not in ([], ["-"]):
        return None

    call = PipeCall(paths[0], values.get("--beam"), values.get("--threads"))
    if os.path.isdir(call.file):
        from regard.pipeline.export_cache import find_export

        _, export = find_export(Path(call.file), threads=call.threads)
        call = replace(call, export=export)
    return call if call.export or is_runtime_file(call.file) else None


def translate_pipe(call: PipeCall) -> None:
    """Translate the lines of standard input; lines that a person types are translated one by one.

    Raises the errors of the command.
    """
    from regard.pipeline.bulk.chunk_translator import (
        ChunkTranslator,
        doubt_note,
        unknown_script_only,
    )
    from regard.pipeline.bulk.lines import Lines, chunks
    from regard.pipeline.bulk.output_format import OutputFormat
    from regard.pipeline.runtime_translator import RuntimeTranslator
    from regard.text.language_note import PIPE_LETTERS, SAMPLE, language_note

    translator = call.export or RuntimeTranslator(call.file, call.threads)
    options = translator.model.options()
    lines = Lines("-", options.max_line)
    if lines.typed:
        lines.greet(call.file, translator.language_pair)
    search = {} if call.beam is None else {"beam": call.beam}
    translate = ChunkTranslator(lines.name, OutputFormat(), search, typed=lines.typed)
    known = 0
    unknown = 0
    doubtful = 0
    count = 0
    is_calibrated = False
    sample = list[str]()
    for chunk in chunks(lines, 1 if lines.typed else CHUNK):
        result = translate(translator, chunk)
        _warn(result.notes)
        sys.stdout.write(result.text)
        sys.stdout.flush()
        known += result.known
        unknown += result.unknown
        doubtful += result.doubtful
        is_calibrated |= bool(result.qualities)
        count = chunk.end
        sample += chunk.lines[: SAMPLE - len(sample)]
    if lines.typed:  # the notes of each line have been printed
        return
    if unknown and not known:
        raise unknown_script_only(lines.name, Path(call.file))
    source, _ = translator.language_pair
    unexpected = language_note(
        sample, source, lambda: translator.language_id, PIPE_LETTERS
    )
    notes = [f"{lines.name}: {note}" for note in unexpected]
    _warn([*notes, *doubt_note(lines.name, doubtful, count, is_calibrated)])


def _warn(notes: Sequence[str]) -> None:
    if notes:
        from regard.cli.app import begin, warn

        begin(sys.argv[1:])
        warn(*notes)


def _open_streams() -> None:
    """Open /dev/null, read-only, in the place of closed standard streams.

    Otherwise the next files that are opened would get their descriptors.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        os.dup2(os.open(os.devnull, os.O_RDONLY), descriptor)
        # `regard serve` replaces its process, which must keep these streams.
        os.set_inheritable(descriptor, True)
        mode = "w" if descriptor else "r"
        stream = os.fdopen(descriptor, mode, encoding="utf-8", closefd=False)
        setattr(sys, name, stream)


def main() -> None:
    """Run `regard`: simple calls here, all others with the full command line.

    Exit status and messages are the same in both cases.
    """
    # Processes that libraries start must not import modules of the current folder.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    _open_streams()
    call = pipe_call(sys.argv[1:])
    if call is None:
        try:
            from regard.cli import main as run_command
        except KeyboardInterrupt:
            print("regard: stopped", file=sys.stderr)
            sys.exit(130)
        run_command()
    import signal

    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    warnings.simplefilter("default")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    try:
        translate_pipe(call)
    except (Exception, KeyboardInterrupt) as problem:
        from regard.cli.app import begin, end

        begin(sys.argv[1:])
        end(problem)
