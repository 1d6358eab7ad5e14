"""Calls that were open when the serving process died: one that was at three deaths is refused for ten minutes."""

from __future__ import annotations

import mmap
import struct
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from regard.common.errors import RegardError

MOST_DEATHS = 3
"""Deaths at which a call was open, after which it is refused."""
REFUSED_SECONDS = 600.0
DIGEST_BYTES = 16
_ROWS = 4096
"""Calls that are noted at once, and calls whose deaths are remembered."""
_SUSPECT = struct.Struct(f"{DIGEST_BYTES}sdQ")
"""A call, the time of the last death at which it was open, and the number of such deaths."""
_SUSPECTS = _ROWS * DIGEST_BYTES  # where they begin, behind the open calls
_NOTHING = bytes(DIGEST_BYTES)


class CallTable:
    """The digests of open calls, and of those that were open at deaths, in a mapped file that outlives the process.

    A digest that a death has cut in two is that of no call, so it does no harm. The process that serves calls `begin`
    and `end`, in one thread; the supervisor calls `note_end` while there is no such process. The clock is that of the
    machine, not of a process.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        size = _SUSPECTS + _ROWS * _SUSPECT.size
        if not path.exists():
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._file = mmap.mmap(file.fileno(), size)
        self._clock = clock
        self._free, self._rows = [*range(_ROWS)], dict[bytes, int]()
        self._open = Counter[bytes]()
        self._suspects = self._read_suspects()

    def begin(self, digest: bytes) -> None:
        """Note that a call is open. Raises RegardError if it is refused."""
        if (deaths := self.deaths(digest)) >= MOST_DEATHS:
            raise RegardError(f"the server ended {deaths} times while it answered this; send something else")
        self._open[digest] += 1
        if digest not in self._rows and self._free:
            self._rows[digest] = self._free.pop()
            self._write(self._rows[digest], digest)

    def end(self, digest: bytes, completed: bool) -> None:
        """Note that a call is open no longer; if it was `completed`, its deaths are forgotten."""
        self._open[digest] -= 1
        if not self._open[digest]:
            del self._open[digest]
            if digest in self._rows:
                self._free.append(self._rows.pop(digest))
                self._write(self._free[-1], _NOTHING)
        if completed and digest in self._suspects:
            row, *_ = self._suspects.pop(digest)
            self._write_suspect(row, _NOTHING, 0.0, 0)

    def note_end(self, is_death: bool) -> None:
        """Forget what was open in a process that has ended; if it has died, count a death for each of these calls."""
        starts = range(0, _SUSPECTS, DIGEST_BYTES) if is_death else ()
        digests = {self._file[start : start + DIGEST_BYTES] for start in starts}
        self._file[:_SUSPECTS] = bytes(_SUSPECTS)
        self._suspects = self._read_suspects()
        deaths = {digest: (at, count) for digest, (_, at, count) in self._suspects.items()}
        deaths |= {digest: (self._clock(), self.deaths(digest) + 1) for digest in digests - {_NOTHING}}
        worst = sorted(deaths.items(), key=lambda item: item[1][::-1])[-_ROWS:]
        self._file[_SUSPECTS:] = bytes(len(self._file) - _SUSPECTS)
        for row, (digest, (at, count)) in enumerate(worst):
            self._write_suspect(row, digest, at, count)

    def deaths(self, digest: bytes) -> int:
        """Return the number of deaths at which a call was open, if the last was within ten minutes."""
        _, at, count = self._suspects.get(digest, (0, 0.0, 0))
        return count if self._clock() - at < REFUSED_SECONDS else 0

    def _read_suspects(self) -> dict[bytes, tuple[int, float, int]]:
        """Return the row of each call that was open at a death, the time of the last one, and their number."""
        rows = enumerate(_SUSPECT.iter_unpack(self._file[_SUSPECTS:]))
        return {digest: (row, at, count) for row, (digest, at, count) in rows if digest != _NOTHING}

    def _write(self, row: int, digest: bytes) -> None:
        self._file[row * DIGEST_BYTES : (row + 1) * DIGEST_BYTES] = digest

    def _write_suspect(self, row: int, digest: bytes, at: float, count: int) -> None:
        _SUSPECT.pack_into(self._file, _SUSPECTS + row * _SUSPECT.size, digest, at, count)
