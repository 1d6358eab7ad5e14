"""Options that several commands declare alike: device, threads, seed, precision, constraints,
output format.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.common.errors import UsageError
from regard.data.spans import own_pattern
from regard.data.text import did_you_mean, read_file

Run = Annotated[Path, typer.Argument(help="A model folder or run folder.")]
TranslatorFile = Annotated[
    Path, typer.Argument(help="A model folder, run folder or runtime file.")
]
Device = Annotated[
    str, typer.Option(help="Device to compute on: auto, cpu, cuda or mps.")
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, max=1024, help="CPU threads; one per core if left out."),
]
Precision = Annotated[
    Literal["float32", "bfloat16", "int8"],
    typer.Option(
        help="Precision of the weights in decoding; int8 is the fastest for text on a CPU."
    ),
]
Format = Annotated[
    Literal["text", "jsonl"],
    typer.Option(help="Output: plain lines, or one JSON object per line."),
]
NBest = Annotated[
    int,
    typer.Option(min=1, max=1000, help="Number of hypotheses to print for each input."),
]
Prefix = Annotated[str, typer.Option(help="Text that every output begins with.")]
Forbid = Annotated[
    list[str] | None, typer.Option(help="A word that must not appear; may be repeated.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="A pattern (RE2), or a file of patterns: keep what it matches, too; may be repeated."
    ),
]
With = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        help="Another model with the same vocabulary, for an ensemble; may be repeated.",
    ),
]
Seed = Annotated[
    int | None, typer.Option(min=0, max=2**63 - 1, help="Seed of all random numbers.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only results and errors.")]
_PATH = re.compile(r"[\w .,@~/-]*/[\w .,@~-]+")
_FILE_NAME = re.compile(
    r"(?:~|\.{1,2})?/[\w .,@~/-]*\w"
    r"|[\w .,@~/-]*\w\.(?:txt|text|list|lst|[ct]sv|jsonl?|md|re2?|regex|patterns?|keep|conf|cfg"
    r"|ini|toml|ya?ml|dat|gz)",
    re.IGNORECASE,
)
"""A --keep that is meant as a file: a path that begins with its folder, or a name with the ending
of a text file.
"""
Debug = Annotated[
    bool, typer.Option("--debug", help="Print the traceback of an error.")
]


def given_flags(
    context: typer.Context, names: Iterable[str], **usual: str
) -> list[str]:
    """Return those of some options, as flags, that have another value than by default, or than the
    `usual` one.
    """
    options = {param.name: param for param in context.command.params}
    values = {name: context.params[name] for name in names}
    return [
        options[name].opts[0]
        for name, value in values.items()
        if value not in (usual.get(name, options[name].default), None, ())
    ]


def kept_patterns(given: Sequence[str], no_keep: bool = False) -> tuple[str, ...]:
    """Return the patterns of --keep, those of files among them.

    Raises UsageError for bad ones, for folders and what looks like the name of a missing file, and
    with --no-keep; DataError for a pipe that nobody has opened, and a file that is no text.
    """
    if given and no_keep:
        raise UsageError("--keep does not go with --no-keep: leave one of them out")
    UsageError.raise_all(cause for each in given if (cause := _why_no_file(each)))
    read = [read_file(each).lines if os.path.exists(each) else [each] for each in given]
    patterns = tuple(pattern for lines in read for pattern in lines if pattern)
    own_pattern(patterns)
    return patterns


def _why_no_file(given: str) -> str:
    """Return what is wrong with a --keep that is a folder, or looks like the name of a file that is
    missing.
    """
    if os.path.isdir(given):
        return (
            f"--keep {given}: is a folder; give a file of patterns, or write '(?:{given})' for a "
            "pattern"
        )
    is_name = _FILE_NAME.fullmatch(given) or (
        _PATH.fullmatch(given) and os.path.isdir(os.path.dirname(given))
    )
    if not is_name or os.path.exists(given):
        return ""
    pattern = given.replace(".", r"\.") if "." in given else f"(?:{given})"
    hint = did_you_mean(Path(given))
    return f"--keep {given}: no such file{hint}; for a pattern write '{pattern}'"


def select_device(name: str) -> str:
    """Return the device to compute on. Raises UsageError if it is unknown or not available."""
    from regard.models import select_device

    return select_device(name)


def check_output(output: Path | None, *inputs: str | Path | None) -> None:
    """Raise UsageError if an output, or a file that is written beside it first, is one of the
    inputs, by any name.
    """
    final = os.path.realpath(output or os.devnull)
    read = [
        os.fspath(path) for path in inputs if path is not None and os.path.isfile(path)
    ]
    for path, source in product((final, f"{final}.part"), read):
        if os.path.isfile(path) and os.path.samefile(path, source):
            raise UsageError(
                f"--output {output}: would overwrite {source}, which is read; give another name"
            )
