"""Pairs that a program gives: any iterable of them becomes a file, which is then read as usual."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path
from typing import Any

from regard.common.atomic import atomic_file
from regard.common.counting import counted
from regard.common.errors import DataError

MOST = 10_000_000
"""Most pairs of an iterable, which might never end."""


def write_pairs(pairs: Iterable[Any], path: Path, argument: str) -> None:
    """Write pairs of texts as JSON lines; `argument` names them in messages.

    Raises DataError, and writes nothing, for what is no pair, and for an iterable that fails, is
    empty, ends before its length, or has more than `MOST` pairs.
    """
    with (
        atomic_file(path) as temporary,
        temporary.open("w", encoding="utf-8") as file,
    ):
        for source, target in _checked(pairs, argument):
            json.dump({"source": source, "target": target}, file)
            file.write("\n")


def _checked(pairs: Iterable[Any], argument: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of an iterable. Raises DataError."""
    count = 0
    iterator = iter(pairs)
    while True:
        try:
            pair = next(iterator)
        except StopIteration:
            break
        except Exception as problem:
            raise DataError(
                f"{argument}: failed after {counted(count, 'pair')} with "
                f"{type(problem).__name__}: {problem}; nothing was written, so mend it and begin "
                "anew"
            ) from problem
        count += 1
        if count > MOST:
            raise DataError(
                f"{argument}: does not end after {MOST:,} pairs; end it (itertools.islice), or "
                "give a file"
            )
        texts = [*pair] if isinstance(pair, (tuple, list)) else []
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise DataError(
                f"{argument}: pair {count:,}: wanted a source and a target, two texts, got "
                f"{pair!r:.60}"
            )
        yield texts[0], texts[1]
    expected = len(pairs) if isinstance(pairs, Sized) else count
    if count < expected:
        raise DataError(
            f"{argument}: ended after {counted(count, 'pair')} of {expected:,}; mend its length or "
            "its iteration"
        )
    if not count:
        raise DataError(
            f"{argument}: has no pairs; give some, or a new iterator if this one was used before"
        )
