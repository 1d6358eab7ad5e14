"""A model's arithmetic written down as a list of operations that the kernels carry out in one call."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from regard.engine.native import kernels

__all__ = ["Builder", "EncoderProgram", "Precision", "Program", "Team", "address", "check_layout", "padded"]

Precision = Literal["float32", "bfloat16", "int8"]
PRECISIONS: dict[str, int] = {"float32": 0, "bfloat16": 1, "int8": 2}
GROUP = {"float32": 1, "bfloat16": 2, "int8": 4}
BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}
ACTIVATIONS = {"none": 0, "relu": 1, "gelu": 2, "silu": 3, "tanh": 4}
KINDS = (
    "embed", "norm", "linear", "copy", "store", "memorise", "attend_sentence", "attend_source", "attend_past",
    "additive", "state", "gru", "lstm", "tanh", "recur", "unit", "glu", "mix", "near", "near_past", "gate", "best",
)  # fmt: skip
PANEL, LANES = 64, 16
FIRST_PLACES = 256
Array = NDArray[Any]
Places = Callable[[int], Array]
Layer = tuple[torch.Tensor, torch.Tensor]


class _Weight(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("precision", "inputs", "outputs", "padded")),
        *((name, ctypes.c_void_p) for name in ("panels", "scales", "sums", "bias")),
    )


class _Operation(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("kind", "source", "to", "extra", "at", "size", "heads", "bend")),
        ("place", ctypes.c_int64),
        ("scale", ctypes.c_float),
        ("entry", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("table", "second", "weight")),
    )


CONTEXT = (
    "rows", "offsets", "widths", "registers", "tokens", "positions", "starts", "sentences", "memories", "entries",
    "past", "stride", "lengths", "blocks", "block", "best", "likely", "pieces", "end", "end_piece", "never", "sharing",
)  # fmt: skip


class _Context(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in CONTEXT)


def address(array: Array) -> int:
    """Where the numbers of an array are."""
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


def padded(entries: Array) -> Array:
    """Entries of a memory as the kernels lay them out: in whole vectors."""
    return (entries + LANES - 1) // LANES * LANES


@dataclass
class Builder:
    """Writes a program. Registers are named by numbers, one row of each for each row of the input."""

    precision: Precision
    widths: list[int] = field(default_factory=list)
    operations: list[_Operation] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)
    places: tuple[int, Places] | None = None

    def register(self, width: int) -> int:
        """A new register."""
        self.widths.append(width)
        return len(self.widths) - 1

    def embed(self, table: torch.Tensor, scale: float, places: Places | None = None) -> int:
        """The vectors of the pieces, times a scale, plus those of their positions; `places(n)` gives the first n."""
        to = self.register(table.shape[1])
        if places is not None:
            self.places = (len(self.operations), places)
        self._add("embed", to=to, size=table.shape[1], scale=scale, table=self._numbers(table))
        return to

    def norm(self, source: int, layer: torch.nn.LayerNorm, to: int | None = None) -> int:
        """A register normalised."""
        to = self.register(self.widths[source]) if to is None else to
        weight, bias = self._numbers(layer.weight), self._numbers(layer.bias)
        self._add("norm", source, to, size=self.widths[source], scale=layer.eps, table=weight, second=bias)
        return to

    def linear(
        self,
        source: int,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        bend: str = "none",
        plus: int = -1,
        to: int | None = None,
        at: int = 0,
        place: int = 0,
    ) -> int:
        """Columns of `source` from `place` on, times a weight (V, K), bent, plus a register: into others from `at`."""
        to = self.register(weight.shape[0]) if to is None else to
        self._add(
            "linear",
            source,
            to,
            extra=plus,
            at=at,
            place=place,
            bend=ACTIVATIONS[bend],
            weight=self._weight(weight, bias),
        )
        return to

    def add(self, kind: str, source: int = -1, to: int = -1, **values: Any) -> None:
        """Any other operation; tensors among the values are kept."""
        given = {k: self._numbers(v) if isinstance(v, torch.Tensor) else v for k, v in values.items()}
        if isinstance(bend := given.get("bend"), str):
            given["bend"] = ACTIVATIONS[bend]
        self._add(kind, source, to, **given)

    def mix(self, one: int, other: int, scale: float, to: int | None = None) -> int:
        """The sum of two registers, times a scale."""
        to = self.register(self.widths[one]) if to is None else to
        self._add("mix", one, to, extra=other, size=self.widths[one], scale=scale)
        return to

    def recur(self, cell: str, source: int, hidden: Layer, *, to: int, cells: int, at: int, backwards: bool) -> None:
        """A recurrent network over whole sentences: hidden states into `to`, cells into `cells`, from `at`."""
        weight, size = self._weight(*hidden), hidden[0].shape[1]
        entry, back = KINDS.index(cell), int(backwards)
        self._add("recur", source, to, extra=cells, at=at, size=size, entry=entry, heads=back, weight=weight)

    def best(self, source: int, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        """The likeliest pieces."""
        self._add("best", source, weight=self._weight(weight, bias))

    def program(self) -> Program:
        """What was written."""
        return Program((_Operation * len(self.operations))(*self.operations), self.widths, self.kept, self.places)

    def _add(self, kind: str, source: int = -1, to: int = -1, extra: int = -1, **values: Any) -> None:
        self.operations.append(_Operation(kind=KINDS.index(kind), source=source, to=to, extra=extra, **values))

    def _numbers(self, values: torch.Tensor | Array) -> int:
        if isinstance(values, torch.Tensor):
            values = values.detach().float().cpu().numpy()
        array = np.ascontiguousarray(values, dtype=np.float32)
        self.kept.append(array)
        return address(array)

    def _weight(self, weight: torch.Tensor, bias: torch.Tensor | None) -> int:
        array = np.ascontiguousarray(weight.detach().float().cpu().numpy())
        V, K = array.shape
        columns, group = (V + PANEL - 1) // PANEL * PANEL, GROUP[self.precision]
        inputs = (K + group - 1) // group * group
        panels = np.zeros(columns * inputs * BYTES[self.precision], np.uint8)
        scales, sums, biases = np.zeros(columns, np.float32), np.zeros(columns, np.int32), np.zeros(columns, np.float32)
        if bias is not None:
            biases[:V] = bias.detach().float().cpu().numpy()
        kind = PRECISIONS[self.precision]
        kernels().regard_pack(address(array), V, K, kind, address(panels), address(scales), address(sums))
        parts = (address(panels), address(scales), address(sums), None if bias is None else address(biases))
        packed = _Weight(kind, K, V, inputs, *parts)
        self.kept += [panels, scales, sums, biases, packed]
        return ctypes.addressof(packed)


class Program:
    """Operations, and what they refer to. Many threads may run one program at a time; each has its own registers."""

    def __init__(
        self, operations: Any, widths: Sequence[int], kept: list[Any], places: tuple[int, Places] | None = None
    ) -> None:
        self._operations, self._count, self._kept = operations, len(operations), kept
        self._address, self._places, self._reach, self._lock = ctypes.addressof(operations), places, 0, threading.Lock()
        self._widths = np.array(widths, np.int64)
        self._offsets = np.concatenate([[0], np.cumsum(self._widths)[:-1]]).astype(np.int64)
        self._size, self._own = int(self._widths.sum()) + LANES, threading.local()

    def run(self, team: Team, rows: int, registers: Array | None = None, **values: int) -> Array:
        """Carry it out for `rows` rows; gives the registers, which last until this thread runs the program again."""
        if registers is None:
            registers = self.room(rows)
        context = self._context()
        for name, value in values.items():
            setattr(context, name, value)
        context.rows, context.registers = rows, address(registers)
        kernels().regard_run(team.handle, self._address, self._count, ctypes.addressof(context))
        return registers

    def reach(self, longest: int) -> None:
        """Make sure that there are vectors for so many positions."""
        if self._places is None or longest <= self._reach:
            return
        with self._lock:  # those that run meanwhile go on with the shorter table: it is kept
            if longest <= self._reach:  # another thread made a longer one while this one waited
                return
            number, places = self._places
            count = max(FIRST_PLACES, 2 * longest)
            table = np.ascontiguousarray(places(count), dtype=np.float32)
            self._kept.append(table)
            self._operations[number].second = address(table)
            self._reach = count

    def register(self, registers: Array, number: int, rows: int) -> Array:
        """One register as a matrix."""
        start, width = int(self._offsets[number]) * rows, int(self._widths[number])
        return registers[start : start + rows * width].reshape(rows, width)

    def room(self, rows: int) -> Array:
        """The registers of this thread."""
        room: Array | None = getattr(self._own, "room", None)
        if room is None or len(room) < rows * self._size:
            room = self._own.room = np.empty(rows * self._size, np.float32)
        return room

    def _context(self) -> _Context:
        context: _Context | None = getattr(self._own, "context", None)
        if context is None:
            context = self._own.context = _Context(offsets=address(self._offsets), widths=address(self._widths))
        return context


@dataclass(frozen=True)
class EncoderProgram:
    """What reads sentences: the registers of what it says of each piece, of what it begins with, and those whose ends
    make the summary.

    The summary's rows are the last states of the registers in `states`, whose columns come from a sentence
    in turn: `way` columns of its last piece, then of its first; without any, the mean of what is said.
    """

    program: Program
    told: int
    embedded: int
    states: tuple[int, ...] = ()
    way: int = 0

    def summary(self, registers: Array, starts: Array) -> Array:
        """(B, L, D) of the sentences that begin at `starts`, the last of which is where they all end."""
        rows, firsts, ends = int(starts[-1]), starts[:-1], starts[1:] - 1
        if not self.states:
            told = self.program.register(registers, self.told, rows)
            means: Array = np.add.reduceat(told, firsts, axis=0) / (starts[1:] - firsts)[:, None].astype(np.float32)
            return means[:, None]
        parts = []
        for state in self.states:
            said = self.program.register(registers, state, rows)
            parts.append(np.concatenate([said[ends, : self.way], said[firsts, self.way :]], 1))
        return np.stack(parts, 1)


class Team:
    """Threads that compute a program together, the caller among them; for one caller at a time."""

    def __init__(self, threads: int) -> None:
        self.handle = kernels().regard_open(threads)
        if not self.handle:
            raise MemoryError("no room for the threads of the kernels; ask for fewer with --threads")
        self.threads = int(kernels().regard_parts(self.handle))

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            kernels().regard_close(self.handle)


def check_layout() -> None:
    """Fail loudly when the structures here are not those of the kernels."""
    sizes = (ctypes.c_int64 * 5)()
    kernels().regard_sizes(ctypes.addressof(sizes))
    wanted = [ctypes.sizeof(_Weight), ctypes.sizeof(_Operation), ctypes.sizeof(_Context), PANEL, LANES]
    assert list(sizes) == wanted, f"kernels.c has structures of {list(sizes)} bytes, program.py of {wanted}"
