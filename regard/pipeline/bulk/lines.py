"""Read lines in chunks at fixed line numbers.

No batch crosses the border of a chunk, so work can resume at any of these borders.
"""

from __future__ import annotations

import hashlib
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from regard.common.errors import DataError
from regard.data.text import READ_LINE, LineReader

if TYPE_CHECKING:
    from regard.documents import Document
    from regard.pipeline.bulk.resumable_output import ResumableOutput, StreamedOutput


NAMED = 5
"""Maximum number of lines that a warning names."""


def rest(lines: Sequence[int]) -> str:
    """Say how many of several lines are not named."""
    return f" and {len(lines) - NAMED} more" if len(lines) > NAMED else ""


@dataclass
class Numbering:
    """The numbers by which warnings name lines: their own, or those of the rows of a table.

    Of a table only the lines before which rows are left out are kept, with how many those are.
    """

    unit: str = "line"
    offsets: list[tuple[int, int]] = field(default_factory=lambda: [(1, 0)])

    def add(self, line: int, row: int) -> None:
        """Note the row of a line; lines come in their order."""
        if line == 1:
            self.offsets = [(1, row - 1)]
        elif row - line != self.offsets[-1][1]:
            self.offsets.append((line, row - line))

    def number(self, line: int) -> int:
        """Return the number by which a line is named."""
        index = bisect_right(self.offsets, line, key=itemgetter(0))
        return line + self.offsets[index - 1][1]

    def label(self, line: int) -> str:
        """Return the shortest name of a line among others, its number."""
        return str(self.number(line))

    def name(self, line: int) -> str:
        """Return the name of a line, such as "row 4"."""
        return f"{self.unit} {self.number(line)}"

    def names(self, lines: Sequence[int]) -> str:
        """Return the names of the first of several lines, such as "rows 4, 7 and 3 more"."""
        numbers = ", ".join(f"{self.number(line)}" for line in lines[:NAMED])
        return f"{self.unit}{'s' if len(lines) > 1 else ''} {numbers}{rest(lines)}"


@dataclass(frozen=True)
class Chunk:
    """Consecutive lines that are translated together."""

    number: int  # counted from 0
    start: int  # the number of its first line, counted from 1
    lines: tuple[str, ...]
    # SHA-256 of the preceding chunk's digest and these lines. A changed file is noticed by it when
    # work resumes.
    digest: str

    @property
    def end(self) -> int:
        """The number of its last line."""
        return self.start + len(self.lines) - 1


def chunks(lines: Iterable[str], size: int) -> Iterator[Chunk]:
    """Group lines into chunks of `size`; the last may be shorter."""
    stream = iter(lines)
    digest = ""
    number = 0
    while group := tuple(islice(stream, size)):
        digest = _extend(digest, group)
        yield Chunk(number, number * size + 1, group, digest)
        number += 1


def _extend(digest: str, lines: Iterable[str]) -> str:
    text = digest + "".join("\n" + line for line in lines)
    return hashlib.sha256(text.encode()).hexdigest()


def remaining(
    all_chunks: Iterable[Chunk], output: StreamedOutput | ResumableOutput, name: str
) -> Iterator[Chunk]:
    """Skip the chunks that are done. Raises DataError if they were made from other lines.

    If the file has grown since, its last chunk may have been shorter than it is now. Results must
    not depend on where the file ended before, so this chunk is taken back from the output and
    yielded again.
    """
    mark = output.mark
    stream = iter(all_chunks)
    if not mark.chunks:
        return stream
    before = ""
    last = None
    for last in islice(stream, mark.chunks):
        before = last.digest if last.number < mark.chunks - 1 else before
    is_same = False
    if last is not None:
        done_lines = last.lines[: mark.lines - last.start + 1]
        is_same = _extend(before, done_lines) == mark.digest
    if last is None or not is_same:
        raise DataError(
            f"{name}: {output.unit}s 1 to {mark.lines:,} are translated already, and have changed "
            "since; give the file as it was, or translate into another file"
        )
    if last.end == mark.lines:
        return stream
    output.take_back()
    return chain([last], stream)


EXAMPLES = {"ko": "나는 집에 간다", "en": "I go home"}
"""Example sentences for a person at a terminal, by language."""


class Lines:
    """The lines of a text file, or of standard input if its name is -; never all in memory at once.

    A line has at most `max_line` characters, and is yielded as soon as it is complete. `document`:
    the one whose lines these are.
    """

    document: Document | None = None

    def __init__(
        self, file: str, max_line: int = READ_LINE, keep_ends: bool = False
    ) -> None:
        self.file = file
        self.max_line = max_line
        self.keep_ends = keep_ends
        self.name = "standard input" if file == "-" else file
        # A person at a terminal waits for the answer to each line.
        self.typed = file == "-" and sys.stdin.isatty()
        self.numbering = Numbering()
        self._prompt = ""

    def greet(self, model: str, languages: Sequence[str]) -> None:
        """Show a person at a terminal what the model translates, and prompt for each line from then
        on.
        """
        if not sys.stderr.isatty():
            return
        from regard.data.languages import english_name

        names = [english_name(code) for code in languages if code]
        example = (
            f", such as {EXAMPLES[languages[0]]}," if languages[0] in EXAMPLES else ""
        )
        direction = f" translates {' to '.join(names)}" if len(names) > 1 else ""
        self._show(
            f"{model}{direction}. Type a sentence{example} and press Enter; Ctrl-D ends.\n"
        )
        self._prompt = "regard> "

    def _show(self, text: str) -> None:
        with suppress(OSError):  # the terminal is closed
            print(text, end="", file=sys.stderr, flush=True)

    def checked(self, check: Callable[[Chunk], object] = lambda _: None) -> int | None:
        """Read all lines once and count them, so that an error is reported before hours of work.

        Returns None for an input that can be read only once. Raises DataError, and the errors of
        `check`, which is called with each chunk.
        """
        path = Path(self.file)
        if self.file == "-" or path.is_fifo() or path.is_char_device():
            return None
        total = 0
        for chunk in chunks(self, 1000):
            check(chunk)
            total = chunk.end
        return total

    def __iter__(self) -> Iterator[str]:
        return self._read()

    def _read(self) -> Iterator[str]:
        reader = LineReader(
            self.name, self.max_line, keep_ends=self.keep_ends, takes_pipes=True
        )
        if self._prompt:
            self._show(self._prompt)
            try:
                for line in reader.lines_of(sys.stdin.buffer, is_stream=True):
                    yield line
                    self._show(self._prompt)
            finally:
                self._show("\n")
        elif self.file == "-":
            yield from reader.lines_of(sys.stdin.buffer, is_stream=True)
        else:
            yield from reader
        DataError.raise_all(reader.causes)
