"""Calls that were open when a process died that answered them: after three deaths one is refused
for ten minutes.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from regard.common.errors import RegardError

MOST_DEATHS = 3
"""Deaths at which a call was open, without an answer between them, after which it is refused."""
REFUSED_SECONDS = 600.0
_SAME_DEATH_SECONDS = 1.0
"""Seconds in which all calls that were open at a death of another process have said so; it takes
longer to start.
"""
DIGEST_BYTES = 16
_ROWS = 4096
"""Calls that are noted at once; further ones are not."""
_ROW = struct.Struct(f"{DIGEST_BYTES}sIId")
"""A call, how often it is open, at how many deaths it was, and the time of the last one."""
_NOBODY = bytes(DIGEST_BYTES)


@dataclass
class _Call:
    row: int
    open: int = 0
    deaths: int = 0
    last_death: float = 0.0


class CallTable:
    """The digests of open calls, and of those that were open at deaths, in a mapped file that
    outlives the process.

    A row that was half written at a death matches no call, so it does no harm. The process that
    serves calls `begin` and `end`, in one thread; the supervisor calls `note_end` while there is no
    such process. The clock is that of the machine, not of a process.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        if not path.exists():
            path.write_bytes(bytes(_ROWS * _ROW.size))
        with path.open("r+b") as file:
            self._file = mmap.mmap(file.fileno(), 0)
        self._clock = clock
        self._read()

    def _read(self) -> None:
        self._free = list[int]()
        self._calls = dict[bytes, _Call]()
        for row, (digest, *state) in enumerate(_ROW.iter_unpack(self._file[:])):
            if digest == _NOBODY or digest in self._calls:
                self._free.append(row)
            else:
                self._calls[digest] = _Call(row, *state)

    def is_suspect(self, digest: bytes) -> bool:
        """Return whether a call will be refused if it is open at one death more."""
        return self._deaths(digest) == MOST_DEATHS - 1

    def begin(self, digest: bytes) -> None:
        """Note that a call is open. Raises RegardError if it is refused."""
        if self._deaths(digest) >= MOST_DEATHS:
            raise RegardError(
                f"the server ended {MOST_DEATHS} times while it answered this; send something else"
            )
        if digest not in self._calls and self._free:
            self._calls[digest] = _Call(self._free.pop())
        if call := self._calls.get(digest):
            call.open += 1
            self._write(digest, call)

    def end(self, digest: bytes, completed: bool) -> None:
        """Note that a call is open no longer; if it was `completed`, its deaths are forgotten."""
        if call := self._calls.get(digest):
            call.open -= 1
            call.deaths = 0 if completed else call.deaths
            self._write(digest, call)

    def blame(self, digest: bytes) -> None:
        """Count a death of another process for an open call, once for all equal calls that were
        open at it.
        """
        call = self._calls.get(digest)
        if call and self._clock() - call.last_death >= _SAME_DEATH_SECONDS:
            self._count(call)

    def note_end(self, is_death: bool) -> None:
        """Note that the process has ended, with all its calls; if it has died, count a death for
        each of these.
        """
        self._read()
        for digest, call in list(self._calls.items()):
            if is_death and call.open:
                self._count(call)
            call.open = 0
            self._write(digest, call)

    def _count(self, call: _Call) -> None:
        call.deaths += 1
        call.last_death = self._clock()

    def _deaths(self, digest: bytes) -> int:
        """Return the number of deaths at which a call was open, if the last was within ten
        minutes.
        """
        call = self._calls.get(digest)
        return (
            call.deaths
            if call and self._clock() - call.last_death < REFUSED_SECONDS
            else 0
        )

    def _write(self, digest: bytes, call: _Call) -> None:
        """Write the row of a call, or free it if there is nothing to be known of the call."""
        if not call.open and not self._deaths(digest):
            self._free.append(call.row)
            del self._calls[digest]
            digest = _NOBODY
        _ROW.pack_into(
            self._file,
            call.row * _ROW.size,
            digest,
            call.open,
            call.deaths,
            call.last_death,
        )
