"""Checks of options that several commands share: --keep, --device and --output."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from regard.common.errors import UsageError
from regard.data.spans import own_pattern
from regard.data.text import did_you_mean, read_file

_PATH = re.compile(r"[\w .,@~/-]*/[\w .,@~-]+")
_FILE_NAME = re.compile(
    r"(?:~|\.{1,2})?/[\w .,@~/-]*\w"
    r"|[\w .,@~/-]*\w\.(?:txt|text|list|lst|[ct]sv|jsonl?|md|re2?|regex|patterns?|keep|conf|cfg"
    r"|ini|toml|ya?ml|dat|gz)",
    re.IGNORECASE,
)
"""Values of --keep that look like files: absolute or relative paths, and names with the extension
of a text file.
"""


def kept_patterns(given: Sequence[str], no_keep: bool = False) -> tuple[str, ...]:
    """Return the patterns that the values of --keep give, each a pattern or a file of patterns.

    Raises UsageError for invalid patterns, for folders, for names of missing files, and if
    --no-keep is given too. Raises DataError for a pipe without a writer, and for a file that is not
    text.
    """
    if given and no_keep:
        raise UsageError("--keep does not go with --no-keep: leave one of them out")
    causes = map(_file_problem, given)
    UsageError.raise_all(cause for cause in causes if cause)

    patterns = list[str]()
    for value in given:
        lines = read_file(value).lines if os.path.exists(value) else [value]
        patterns += [pattern for pattern in lines if pattern]
    own_pattern(tuple(patterns))  # raises UsageError for an invalid one
    return tuple(patterns)


def _file_problem(value: str) -> str:
    """Return the problem with a value of --keep that is a folder or looks like a missing file, else
    an empty string.
    """
    if os.path.isdir(value):
        return (
            f"--keep {value}: is a folder; give a file of patterns, or write '(?:{value})' for a "
            "pattern"
        )
    is_name = _FILE_NAME.fullmatch(value) or (
        _PATH.fullmatch(value) and os.path.isdir(os.path.dirname(value))
    )
    if not is_name or os.path.exists(value):
        return ""
    pattern = value.replace(".", r"\.") if "." in value else f"(?:{value})"
    hint = did_you_mean(Path(value))
    return f"--keep {value}: no such file{hint}; for a pattern write '{pattern}'"


def select_device(name: str) -> str:
    """Return the device to compute on. Raises UsageError if it is unknown or not available."""
    from regard.models import select_device

    return select_device(name)


def check_output(
    output: Path | None, *inputs: str | Path | None, option: str = "--output"
) -> None:
    """Raise UsageError if an output, or its part file, is the same file as one of the inputs."""
    final = os.path.realpath(output or os.devnull)
    sources = [
        os.fspath(path) for path in inputs if path is not None and os.path.isfile(path)
    ]
    for path, source in product((final, f"{final}.part"), sources):
        if os.path.isfile(path) and os.path.samefile(path, source):
            raise UsageError(
                f"{option} {output}: would overwrite {source}, which is read; give another name"
            )
