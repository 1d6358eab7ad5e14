"""Lines in chunks, cut at fixed line numbers: no batch crosses a cut, so work can begin again at any of them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.bulk.output import OutputMark
from regard.data.text import CR_ALONE, LineReader, has_cr_alone
from regard.errors import DataError

__all__ = ["Chunk", "Lines", "chunks", "remaining"]


@dataclass(frozen=True)
class Chunk:
    """Neighbouring lines that are translated together."""

    number: int  # counted from 0
    start: int  # the number of its first line, counted from 1
    lines: tuple[str, ...]
    digest: str  # SHA-256 of all lines up to its last, so that a changed file is known when work goes on

    @property
    def end(self) -> int:
        """The number of its last line."""
        return self.start + len(self.lines) - 1


def chunks(lines: Iterable[str], size: int) -> Iterator[Chunk]:
    """All lines, `size` at a time; the last chunk may be shorter."""
    stream, seen, number = iter(lines), hashlib.sha256(), 0
    while some := tuple(islice(stream, size)):
        seen.update("".join(line + "\n" for line in some).encode())
        yield Chunk(number, number * size + 1, some, seen.hexdigest())
        number += 1


def remaining(all_chunks: Iterable[Chunk], mark: OutputMark, name: str) -> Iterator[Chunk]:
    """The chunks after those that are done. Raises DataError where these were made from other lines."""
    if not mark.chunks:
        return iter(all_chunks)
    stream = iter(all_chunks)
    last = next(islice(stream, mark.chunks - 1, None), None)
    if last is None or (last.end, last.digest) != (mark.lines, mark.digest):
        raise DataError(
            f"{name}: lines 1 to {mark.lines:,}, which are translated already, are not what they were; give the "
            "file as it was, or translate into another file"
        )
    return stream


class Lines:
    """The lines of a text file, or of standard input where it is called -; they are never all in memory."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.name = "standard input" if file == "-" else file
        self.typed = file == "-" and sys.stdin.isatty()  # by a person, who waits for an answer to each line

    def checked(self, check: Callable[[Chunk], object] = lambda _: None) -> int | None:
        """How many there are, known by reading them all once, so that what is wrong with line 900,000 is told before
        hours of work; None for what can be read only once. Raises DataError, and what `check` raises of some lines.
        """
        if self.file == "-" or Path(self.file).is_fifo() or Path(self.file).is_char_device():
            return None
        total = 0
        for chunk in chunks(self, 1000):
            check(chunk)
            total = chunk.end
        return total

    def __iter__(self) -> Iterator[str]:
        return _typed() if self.file == "-" else self._read()

    def _read(self) -> Iterator[str]:
        reader = LineReader(self.file)
        yield from reader
        if reader.causes:
            raise DataError(*reader.causes)


def _typed() -> Iterator[str]:
    """Lines of standard input, each as soon as it is there."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as problem:
            raise DataError(
                f"standard input: line {number} is not UTF-8 (byte 0x{line[problem.start]:02X}, the line's byte number "
                f"{problem.start + 1}); convert it to UTF-8"
            ) from None
        if number == 1 and has_cr_alone(line):
            raise DataError(f"standard input: {CR_ALONE}")
        if "\0" in text:
            raise DataError(f"standard input: line {number} holds a NUL character; remove it")
        yield text.removesuffix("\n").removesuffix("\r")
