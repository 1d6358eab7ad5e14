"""Table of the calls that were open when their process died.

A call that was open at three deaths is refused for ten minutes, so that a request that crashes the
process cannot do so for ever.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from regard.common.errors import RegardError

MAX_DEATHS = 3
"""A call is refused after it was open at this many deaths without an answer in between."""
REFUSED_SECONDS = 600.0
_SAME_DEATH_SECONDS = 1.0
"""Reports of a death of another process within this time count as one.

A process takes longer than this to start again.
"""
DIGEST_BYTES = 16
_ROWS = 4096
"""Maximum number of calls in the table; further ones are not recorded."""
_ROW = struct.Struct(f"{DIGEST_BYTES}sIId")
"""Digest of a call, number of its open requests, number of deaths, and time of the last death."""
_EMPTY = bytes(DIGEST_BYTES)
"""Digest in the rows that are free."""


@dataclass
class _Call:
    row: int
    open: int = 0
    deaths: int = 0
    last_death: float = 0.0


class CallTable:
    """The digests of open calls, and of calls that were open at deaths, in a memory-mapped file
    that outlives the process.

    A row that was half written at a death matches no call, so it does no harm. The serving process
    uses `begin` and `end` in one thread, and the supervisor uses `note_end` while there is no
    serving process. `clock` must be the same for all processes of the machine.
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
            if digest == _EMPTY or digest in self._calls:
                self._free.append(row)
            else:
                self._calls[digest] = _Call(row, *state)

    def is_suspect(self, digest: bytes) -> bool:
        """Return whether one more death would make a call refused."""
        return self._deaths(digest) == MAX_DEATHS - 1

    def begin(self, digest: bytes) -> None:
        """Record that a call is open. Raises RegardError if it is refused."""
        if self._deaths(digest) >= MAX_DEATHS:
            raise RegardError(
                f"the server ended {MAX_DEATHS} times while it answered this; send something else"
            )
        if digest not in self._calls and self._free:
            self._calls[digest] = _Call(self._free.pop())
        if call := self._calls.get(digest):
            call.open += 1
            self._write(digest, call)

    def end(self, digest: bytes, completed: bool) -> None:
        """Record that a call has ended; if it was `completed`, its deaths are forgotten."""
        if call := self._calls.get(digest):
            call.open -= 1
            call.deaths = 0 if completed else call.deaths
            self._write(digest, call)

    def blame(self, digest: bytes) -> None:
        """Count the death of another process against an open call, once for all equal calls."""
        call = self._calls.get(digest)
        if call and self._clock() - call.last_death >= _SAME_DEATH_SECONDS:
            self._count(call)

    def note_end(self, is_death: bool) -> None:
        """Record that the serving process has ended; if it died, count a death against each open
        call.
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
        """Return the number of deaths at which a call was open, or 0 if the last one is more than
        ten minutes ago.
        """
        call = self._calls.get(digest)
        if call is None or self._clock() - call.last_death >= REFUSED_SECONDS:
            return 0
        return call.deaths

    def _write(self, digest: bytes, call: _Call) -> None:
        """Write the row of a call, or free it if the call is not open and has no recent deaths."""
        if not call.open and not self._deaths(digest):
            self._free.append(call.row)
            del self._calls[digest]
            digest = _EMPTY
        _ROW.pack_into(
            self._file,
            call.row * _ROW.size,
            digest,
            call.open,
            call.deaths,
            call.last_death,
        )
