"""Translate standard input by a runtime file: `regard translate FILE` with the plainest options,
which starts at once.

So does `regard translate RUN` if an export of this model folder is in the cache.

It does what `regard.cli.translate` does for the same command, and loads neither the options of all
commands nor numpy: a line is translated in a third of the time that these take to load.
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
"""Lines that are translated together, as by default of the command."""
_LARGEST = {"--beam": 250, "--threads": 256}


@dataclass(frozen=True)
class PipeCall:
    """A call that can be answered here: the model, the values of `--beam` and `--threads`, if
    given, and of a model folder its export, opened.
    """

    file: str
    beam: int | None = None
    threads: int | None = None
    export: Any = None


def pipe_call(arguments: Sequence[str]) -> PipeCall | None:
    """Read the arguments of the command line; None if the command line itself is needed, be it to
    explain an error.
    """
    command, *rest = arguments or [""]
    paths = list[str]()
    values = dict[str, int]()
    options = iter(rest)
    for argument in options:
        name, has_value, value = argument.partition("=")
        if name in _LARGEST and name not in values:
            with suppress(ValueError):
                values[name] = int(value if has_value else next(options, ""))
            if not 1 <= values.get(name, 0) <= _LARGEST[name]:
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

        call = replace(
            call, export=find_export(Path(call.file), threads=call.threads)[1]
        )
    return call if call.export or is_runtime_file(call.file) else None


def translate_pipe(call: PipeCall) -> None:
    """Translate the lines of standard input; each at once if a person types them. Raises what the
    command raises.
    """
    from regard.pipeline.bulk.chunk_translator import (
        ChunkTranslator,
        doubt_note,
        unknown_script_only,
    )
    from regard.pipeline.bulk.lines import Lines, chunks
    from regard.pipeline.bulk.output_format import OutputFormat
    from regard.pipeline.runtime_translator import RuntimeTranslator

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
    for chunk in chunks(lines, 1 if lines.typed else CHUNK):
        result = translate(translator, chunk)
        _warn(result.notes)
        sys.stdout.write(result.text)
        sys.stdout.flush()
        known = known + result.known
        unknown = unknown + result.unknown
        doubtful = doubtful + result.doubtful
        count = chunk.end
    if lines.typed:  # of each line has been said what is to be said
        return
    if unknown and not known:
        raise unknown_script_only(lines.name, Path(call.file))
    _warn(doubt_note(lines.name, doubtful, count))


def _warn(notes: Sequence[str]) -> None:
    if notes:
        from regard.cli.app import begin, warn

        begin(sys.argv[1:])
        warn(*notes)


def _open_streams() -> None:
    """Put /dev/null in the place of closed standard streams, before files get their numbers;
    writing to it fails.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDONLY), number)
            # The program that `regard serve` becomes has it, too.
            os.set_inheritable(number, True)
            setattr(
                sys,
                name,
                os.fdopen(
                    number, "w" if number else "r", encoding="utf-8", closefd=False
                ),
            )


def main() -> None:
    """Run `regard`: here if that is enough, else by the command line. Status and messages are the
    command's own.
    """
    # No process that libraries start imports from the current folder.
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
