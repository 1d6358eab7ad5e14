"""Resumable output: results go to a part file beside the output, and a journal records the
progress.

After each chunk, the part file is synced to disk, and then the journal is replaced. Whatever
happens in between, the journal describes a prefix of the part file; the remainder is truncated when
work resumes.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from io import FileIO
from pathlib import Path
from typing import IO, Any, TextIO

from pydantic import TypeAdapter

from regard.common.atomic import atomic_file, sync
from regard.common.errors import DataError, UsageError
from regard.common.reading import file_bytes, parse_json

_BLOCK = 1 << 20  # bytes


Render = Callable[[Iterable[str]], bytes]
"""Makes a document from the lines of its results."""


@dataclass(frozen=True)
class OutputMark:
    """Mark of progress: numbers of finished chunks and lines, and hashes that detect changes of
    them.
    """

    chunks: int = 0
    lines: int = 0
    digest: str = ""  # of the last chunk, which depends on all preceding lines
    written: int = 0  # bytes of results
    written_digest: str = ""  # SHA-256 of the results
    known: int = 0  # lines in a script seen in training
    unknown: int = 0  # lines in other scripts
    doubtful: int = 0  # lines whose translation is doubtful
    broken: int = 0  # lines whose translation is broken

    def after(
        self,
        lines: int,
        digest: str,
        known: int,
        unknown: int,
        doubtful: int = 0,
        broken: int = 0,
    ) -> OutputMark:
        """Return the mark after one more chunk, which ends at line `lines`."""
        return replace(
            self,
            chunks=self.chunks + 1,
            lines=lines,
            digest=digest,
            known=self.known + known,
            unknown=self.unknown + unknown,
            doubtful=self.doubtful + doubtful,
            broken=self.broken + broken,
        )


class StreamedOutput:
    """Output that writes results to a stream at once, and cannot be resumed.

    `render`: makes a document from all results, which is written at the end.
    """

    unit = "line"

    def __init__(self, file: TextIO, render: Render | None = None) -> None:
        self._file = file
        self._render = render
        self._lines = list[str]()
        self.mark = OutputMark()

    def add(self, text: str, mark: OutputMark) -> None:
        """Write the results of one more chunk, or keep those of a document."""
        if self._render is None:
            self._file.write(text)
            self._file.flush()
        else:
            self._lines += text.splitlines(keepends=True)
        self.mark = mark

    def finish(self) -> None:
        """Write the document, if it is one."""
        if self._render is not None:
            self._file.flush()
            self._file.buffer.write(self._render(self._lines))
            self._file.buffer.flush()

    def discard(self) -> None:
        """Do nothing: a stream cannot be taken back."""

    def take_back(self) -> None:
        """Do nothing: no work on a stream is resumed."""


class ResumableOutput:
    """Output that writes results to `OUTPUT.part`; `OUTPUT` itself appears when everything is done.

    `conditions` are tables of everything that the result depends on besides the lines; work that
    began under other conditions is not resumed. `render`: makes a document from all results, which
    is the output. Use the output in a `with` block: if it is left
    before `finish`, the part file is kept if it holds at least one chunk.
    """

    def __init__(
        self,
        output: Path,
        conditions: Mapping[str, Mapping[str, Any]],
        render: Render | None = None,
    ) -> None:
        self.output = output
        self._render = render
        self.unit = "sentence" if render else "line"
        self.conditions = json.loads(json.dumps(conditions))
        self.path = output.with_name(output.name + ".part")
        self.journal = output.with_name(output.name + ".part.json")
        self.mark = OutputMark()
        self._previous = OutputMark()  # the mark before the last chunk
        self._digest = hashlib.sha256()
        self._file: FileIO | None = None

    def check(self, resume: bool) -> None:
        """Raise UsageError or DataError if work cannot begin or resume, before any model is
        loaded.
        """
        if not resume and self.journal.exists() and self.path.exists():
            with open(self.path, "r+b", opener=_open) as file:
                # Raises UsageError if another process is still working on it.
                self._lock(file)
            lines = _read_journal(self.journal)["mark"]["lines"]
            raise UsageError(
                f"`output={self.output}`: {self.path} holds {self.unit}s 1 to {lines:,} of "
                f"interrupted work; add `resume=True` to continue it, or delete {self.path} to "
                "begin again"
            )
        if resume and self.journal.exists():
            self._compare(_read_journal(self.journal)["conditions"])

    def open(self, resume: bool) -> ResumableOutput:
        """Begin a new part file, or resume the one that is there."""
        self.check(resume)
        try:
            if resume and self.journal.exists():
                self._reopen()
            else:
                # If there is a part file, another process may be using the journal.
                if not self.path.exists():
                    self.journal.unlink(missing_ok=True)
                self._file = FileIO(self.path, "a+", opener=_open)
                self._lock(self._file)
                self._file.truncate(0)
        except BaseException as problem:
            self._close()
            if isinstance(problem, OSError):
                why = f"cannot be written ({problem.strerror}); choose a file in a writable folder"
                raise UsageError(f"`output={self.output}`: {why}") from None
            raise
        return self

    def __enter__(self) -> ResumableOutput:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None and not self.kept:
            self.discard()
        self._close()

    @property
    def kept(self) -> int:
        """Number of lines that are stored and need not be translated again."""
        has_part = self.journal.exists() and self.path.exists()
        return int(_read_journal(self.journal)["mark"]["lines"]) if has_part else 0

    def add(self, text: str, mark: OutputMark) -> None:
        """Write the results of one more chunk durably, so that they survive a power failure."""
        assert self._file is not None, "open the part file before adding to it"
        data = text.encode()
        if self.output.name.endswith(".gz"):
            data = gzip.compress(data, mtime=0)
        try:
            unwritten = memoryview(data)
            while unwritten:
                unwritten = unwritten[self._file.write(unwritten) :]
            os.fsync(self._file.fileno())
            digest = self._digest.copy()
            digest.update(data)
            mark = replace(
                mark,
                written=self.mark.written + len(data),
                written_digest=digest.hexdigest(),
            )
            self._write_journal(mark, self.mark)
        except OSError as problem:
            with contextlib.suppress(OSError):
                self._file.truncate(self.mark.written)
            raise DataError(
                f"{self.path}: cannot be written ({problem.strerror}); make room on the disk, or "
                "see that the folder can be written"
            ) from None
        self._previous = self.mark
        self.mark = mark
        self._digest = digest

    def take_back(self) -> None:
        """Remove the last chunk: restore the previous mark in the journal, then truncate the part
        file.
        """
        assert self._file is not None, "open the part file before taking a chunk back"
        self._write_journal(self._previous, self._previous)
        self._read(self._previous)

    def finish(self) -> None:
        """Rename the part file, which is complete, to the output, or write the document."""
        assert self._file is not None, "open the part file before finishing it"
        os.fsync(self._file.fileno())
        if self._render is not None:
            self._write_document(self._render)
            self.discard()
            self._close()
            return
        self._close()
        os.replace(self.path, self.output)
        with contextlib.suppress(OSError):  # Windows cannot sync folders
            sync(self.output.parent)
        self.journal.unlink(missing_ok=True)

    def _write_document(self, render: Render) -> None:
        """Write the document that is made from the lines of the part file."""
        is_packed = self.output.name.endswith(".gz")
        unpack = gzip.open if is_packed else open
        # Of JSON only a line feed ends a line.
        with unpack(self.path, "rt", encoding="utf-8", newline="\n") as part:
            data = render(part)
        with atomic_file(self.output, durable=True) as temporary:
            temporary.write_bytes(gzip.compress(data, mtime=0) if is_packed else data)

    def discard(self) -> None:
        """Remove the part file and its journal."""
        self.journal.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _reopen(self) -> None:
        """Open the part file and truncate it to the journal's mark. Raises DataError if it is
        damaged.
        """
        journal = _read_journal(self.journal)
        mark = OutputMark(**journal["mark"])
        self._previous = OutputMark(**journal["previous"])
        # The process may have stopped between the last two steps of `finish`.
        if not self.path.exists() and self.output.is_file():
            with atomic_file(self.path) as copy:
                shutil.copyfile(self.output, copy)
        self._file = FileIO(self.path, "a+", opener=_open)
        self._lock(self._file)
        self._read(mark)

    def _read(self, mark: OutputMark) -> None:
        """Read the part file up to `mark`, and truncate it there. Raises DataError if it is
        damaged.
        """
        assert self._file is not None, "open the part file before reading it"
        self._file.seek(0)
        self._digest = hashlib.sha256()
        unread = mark.written
        while unread and (data := self._file.read(min(unread, _BLOCK))):
            self._digest.update(data)
            unread -= len(data)
        if unread or (mark.chunks and self._digest.hexdigest() != mark.written_digest):
            raise DataError(
                f"{self.path}: damaged, or not what {self.journal.name} describes; delete both and "
                "begin again without `resume=True`"
            )
        self._file.truncate(mark.written)
        self.mark = mark

    def _compare(self, before: Mapping[str, Any]) -> None:
        """Raise UsageError, with all differences, if the work began under other conditions."""
        changed = list[str]()
        for kind, table in self.conditions.items():
            old_table = before.get(kind, {})
            for key in {**old_table, **table}:
                old = old_table.get(key)
                new = table.get(key)
                if old != new:
                    changed.append(
                        f"`resume=True`: {kind} {key}: was {_shown(old)}, is {_shown(new)}"
                    )
        UsageError.raise_all(
            changed,
            f"{self.path} was written with other options, models or files: give the same again, "
            "or another `output=`",
        )

    def _lock(self, part: IO[bytes]) -> None:
        """Lock the part file until it is closed. Raises UsageError if another process holds the
        lock.
        """
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.lockf(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._close()
            raise UsageError(
                f"`output={self.output}`: another process is writing it; wait for it, or choose "
                "another file"
            ) from None

    def _write_journal(self, mark: OutputMark, previous: OutputMark) -> None:
        values = {
            "format": 1,
            "conditions": self.conditions,
            "mark": asdict(mark),
            "previous": asdict(previous),
        }
        with atomic_file(self.journal, durable=True) as temporary:
            # The JSON is ASCII, since file names may not be UTF-8.
            temporary.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")

    def _close(self) -> None:
        file = self._file
        self._file = None
        if file is not None:
            file.close()


def _open(path: str, flags: int) -> int:
    """Open a part file without following a link, which could point to any file to be
    overwritten.
    """
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _read_journal(path: Path) -> dict[str, Any]:
    try:
        values = parse_json(file_bytes(path))
        mark = TypeAdapter(OutputMark).validate_python(values["mark"])
        if min(number for number in vars(mark).values() if type(number) is int) < 0:
            raise ValueError("a count is negative")
        OutputMark(**values["previous"])
        if values["format"] == 1 and isinstance(values["conditions"], dict):
            return {**values, "mark": asdict(mark)}
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise DataError(
        f"{path}: damaged, not a journal; delete it and begin again without `resume=True`"
    )


def _shown(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, str) and len(value) > 40:
        return f"{value[:12]}…"
    return f"{value}"
