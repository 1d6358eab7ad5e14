"""Runs single programs of the kernels, which the C library otherwise runs by itself: for tests and
benchmarks of products.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from helpers.text_table import items

from regard.runtime.engine.program import LANES, Program, address
from regard.runtime.native import kernels

CONTEXT = items("""
    rows offsets widths registers tokens positions starts sentences memories entries past stride
    lengths blocks k top_log_probs top_tokens eos_log_probs eos suppressed states partial copies
    copy_count copy_log_probs recorded recorded_stride
""")
"""The fields of `Context` in kernels.h, in order."""


class Context(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in CONTEXT]


class Team:
    """Threads that compute a program together, the caller among them."""

    def __init__(self, threads: int) -> None:
        library = kernels()
        pointer = ctypes.c_void_p
        library.regard_team_open.restype = pointer
        library.regard_team_open.argtypes = [ctypes.c_int]
        library.regard_team_close.restype = None
        library.regard_team_close.argtypes = [pointer]
        library.regard_team_run.restype = ctypes.c_int
        library.regard_team_run.argtypes = [pointer, pointer, ctypes.c_int64, pointer]
        self._library = library
        self._handle = library.regard_team_open(threads)

    def run(
        self, program: Program, x: np.ndarray, registers: np.ndarray | None = None
    ) -> tuple[Any, Any]:
        """Run a program whose register 0 holds the rows x; return the registers, and a function
        that reads one of them.
        """
        rows = len(x)
        widths = program.widths
        offsets = np.concatenate([[0], np.cumsum(widths)[:-1]]).astype(np.int64)
        if registers is None:
            registers = np.empty(rows * (int(widths.sum()) + LANES), np.float32)

        def register(number: int) -> np.ndarray:
            start = int(offsets[number]) * rows
            width = int(widths[number])
            return registers[start : start + rows * width].reshape(rows, width)

        register(0)[:] = x
        context = Context(
            rows=rows,
            offsets=address(offsets),
            widths=address(widths),
            registers=address(registers),
        )
        operations = program.operations
        first = ctypes.addressof(operations)
        call = (self._handle, first, len(operations), ctypes.addressof(context))
        if self._library.regard_team_run(*call):
            raise MemoryError(f"no memory for the kernels to compute {rows} rows")
        return registers, register

    def __del__(self) -> None:
        self._library.regard_team_close(self._handle)
