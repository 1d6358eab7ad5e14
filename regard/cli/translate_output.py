"""Open the output of `regard translate`, which an interrupted call leaves in a part file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from regard.cli.app import say
from regard.common.errors import UsageError
from regard.requests.translate_request import TranslateCommand

if TYPE_CHECKING:
    from regard.pipeline.bulk import ResumableOutput, StreamedOutput


@contextmanager
def open_output(
    command: TranslateCommand, conditions: dict[str, object]
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
