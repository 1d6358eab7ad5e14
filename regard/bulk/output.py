"""Where results go: a stream, or a part file beside the output, with a journal that says how much of it counts.

After each chunk the part file is put on the disk, then the journal is replaced. Whatever happens in between, the
journal describes a beginning of the part file; what comes after it is cut off when the work goes on.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from io import FileIO
from pathlib import Path
from typing import IO, Any, TextIO

from regard.errors import DataError, UsageError

__all__ = ["OutputMark", "ResumableOutput", "StreamedOutput"]

_PIECE = 1 << 20


@dataclass(frozen=True)
class OutputMark:
    """How far the work has come."""

    chunks: int = 0
    lines: int = 0
    digest: str = ""  # SHA-256 of those lines
    written: int = 0  # bytes of results
    seal: str = ""  # SHA-256 of those bytes
    known: int = 0
    strange: int = 0

    def after(self, lines: int, digest: str, known: int, strange: int) -> OutputMark:
        """The next mark: one more chunk, up to this line."""
        return replace(
            self,
            chunks=self.chunks + 1,
            lines=lines,
            digest=digest,
            known=self.known + known,
            strange=self.strange + strange,
        )


class StreamedOutput:
    """Results flow on as they come; nothing can be resumed."""

    def __init__(self, file: TextIO) -> None:
        self._file, self.mark = file, OutputMark()

    def add(self, text: str, mark: OutputMark) -> None:
        """Write the results of one more chunk."""
        self._file.write(text)
        self._file.flush()
        self.mark = mark

    def finish(self) -> None:
        """All was written as it came."""

    def discard(self) -> None:
        """What has flowed on cannot be taken back."""


class ResumableOutput:
    """The beginning of a result, in `OUTPUT.part`; `OUTPUT` itself appears when all is done.

    `conditions` are tables of what the result depends on beside the lines; work that was begun under others is not gone
    on with. Use it in a `with` block: one that is left before `finish` keeps what is there, if that is a chunk or more.
    """

    def __init__(self, output: Path, conditions: Mapping[str, Mapping[str, Any]]) -> None:
        self.output, self.conditions = output, json.loads(json.dumps(conditions))
        self.path = output.with_name(output.name + ".part")
        self.journal = output.with_name(output.name + ".part.json")
        self.mark = OutputMark()
        self._seen = hashlib.sha256()
        self._file: FileIO | None = None

    def check(self, resume: bool) -> None:
        """Raise UsageError or DataError where work cannot begin, or cannot go on, before anything is loaded."""
        if not resume and self.journal.exists() and self.path.exists():
            with self.path.open("r+b") as file:
                self._lock(file)  # what is still being written must not be called stopped
            lines = _journal(self.journal)["mark"]["lines"]
            raise UsageError(
                f"`output={self.output}`: {self.path} holds lines 1 to {lines:,} of interrupted work; add "
                f"`resume=True` to continue it, or delete {self.path} to begin again"
            )
        if resume and self.journal.exists():
            self._compare(_journal(self.journal)["conditions"])

    def open(self, resume: bool) -> ResumableOutput:
        """Begin, or go on with what is there."""
        self.check(resume)
        try:
            if resume and self.journal.exists():
                self._again()
            else:
                if not self.path.exists():  # else it is that of another process
                    self.journal.unlink(missing_ok=True)
                self._file = self.path.open("a+b", buffering=0)
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
        """So many lines need not be translated again, whatever happens now."""
        there = self.journal.exists() and self.path.exists()
        return int(_journal(self.journal)["mark"]["lines"]) if there else 0

    def add(self, text: str, mark: OutputMark) -> None:
        """Write the results of one more chunk, so that not even a power cut can take them away."""
        assert self._file is not None, "a part is opened before it is added to"
        data = gzip.compress(text.encode(), mtime=0) if self.output.name.endswith(".gz") else text.encode()
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
            _to_disk(self._file)
            seen = self._seen.copy()
            seen.update(data)
            mark = replace(mark, written=self.mark.written + len(data), seal=seen.hexdigest())
            self._note(mark)
        except OSError as problem:
            with contextlib.suppress(OSError):
                self._file.truncate(self.mark.written)
            raise DataError(
                f"{self.path}: cannot be written ({problem.strerror}); make room on the disk, or see that the folder "
                "can be written"
            ) from None
        self.mark, self._seen = mark, seen

    def finish(self) -> None:
        """All is there: give it its name."""
        assert self._file is not None, "a part is opened before it is finished"
        _to_disk(self._file)
        self._close()
        os.replace(self.path, self.output)
        _folder_to_disk(self.output.parent)
        self.journal.unlink(missing_ok=True)

    def discard(self) -> None:
        """Leave nothing behind."""
        self.journal.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _again(self) -> None:
        """Open the part where the journal says that it ends."""
        mark = OutputMark(**_journal(self.journal)["mark"])
        if not self.path.exists() and self.output.is_file():  # stopped between the last two steps of `finish`
            beside = self.output.with_name(self.output.name + ".part.copy")
            shutil.copyfile(self.output, beside)
            os.replace(beside, self.path)
        self._file = self.path.open("a+b", buffering=0)
        self._lock(self._file)
        self._file.seek(0)
        left = mark.written
        while left and (data := self._file.read(min(left, _PIECE))):
            self._seen.update(data)
            left -= len(data)
        if left or self._seen.hexdigest() != mark.seal:
            raise DataError(
                f"{self.path}: damaged, or not what {self.journal.name} describes; delete both and begin again without "
                "`resume=True`"
            )
        self._file.truncate(mark.written)
        self.mark = mark

    def _compare(self, before: Mapping[str, Any]) -> None:
        changed = [
            f"{what} {key}: was {_said(before.get(what, {}).get(key))}, is {_said(now.get(key))}"
            for what, now in self.conditions.items()
            for key in {**before.get(what, {}), **now}
            if before.get(what, {}).get(key) != now.get(key)
        ]
        if changed:
            raise UsageError(
                *(f"`resume=True`: {each}" for each in changed),
                f"{self.path} was written with other options, models or files: give the same again, or another `output=`",
            )

    def _lock(self, part: IO[bytes]) -> None:
        """Keep other processes out; the system takes the lock away when this one closes the file, or ends."""
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.lockf(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._close()
            raise UsageError(
                f"`output={self.output}`: another process is writing it; wait for it, or choose another file"
            ) from None

    def _note(self, mark: OutputMark) -> None:
        values = {"regard": 1, "conditions": self.conditions, "mark": asdict(mark)}
        beside = self.journal.with_name(self.journal.name + ".new")
        try:
            with beside.open("wb") as file:
                file.write((json.dumps(values, ensure_ascii=False, indent=2) + "\n").encode())
                _to_disk(file)
            os.replace(beside, self.journal)
        finally:
            beside.unlink(missing_ok=True)

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _journal(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        OutputMark(**values["mark"])
        if isinstance(values["conditions"], dict):
            return dict(values)
    except (ValueError, KeyError, TypeError):
        pass
    raise DataError(f"{path}: damaged, not a journal; delete it and begin again without `resume=True`")


def _said(value: Any) -> str:
    return (
        "not given" if value is None else f"{value[:12]}…" if isinstance(value, str) and len(value) > 40 else f"{value}"
    )


def _to_disk(file: FileIO | IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _folder_to_disk(folder: Path) -> None:
    with contextlib.suppress(OSError):  # Windows does without
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
