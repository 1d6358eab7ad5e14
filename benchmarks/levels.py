"""Time matrix products at each level of processors and precision, interleaved; prints a table of
microseconds.

    python benchmarks/levels.py [--rounds 15] [--levels avx2,avx512bf16] [--sources FOLDER]...
    [--ready-made FILE]...

Levels that this processor lacks are left out. With several folders of sources or libraries,
products take turns.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "tests")]

import build_library  # noqa: E402
from helpers.kernel_programs import Context  # noqa: E402
from regard.runtime import native  # noqa: E402
from regard.runtime.engine.program import Weight, _Operation, address  # noqa: E402

SHAPES = (
    (128, 256),
    (128, 384),
    (128, 8000),
    (512, 1536),
    (512, 2048),
    (2048, 512),
    (512, 8000),
)
ROWS = (1, 5, 96)
PRECISIONS = ("float32", "bfloat16", "int8")
LINEAR = 2
LANES = 16
PANEL = 64


class Kernels(ctypes.Structure):
    """Table of the kernels of a level, as kernels.h declares it."""

    _fields_ = (
        ("level", ctypes.c_char_p),
        ("open", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)),
        ("close", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("parts", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
        (
            "run",
            ctypes.CFUNCTYPE(
                ctypes.c_int,
                ctypes.c_void_p,
                ctypes.c_void_p,
                ctypes.c_int64,
                ctypes.c_void_p,
            ),
        ),
        (
            "pack",
            ctypes.CFUNCTYPE(
                None,
                ctypes.c_void_p,
                *[ctypes.c_int64] * 2,
                ctypes.c_int,
                *[ctypes.c_void_p] * 3,
            ),
        ),
    )


def levels_of(path: Path) -> dict[str, Kernels]:
    """Return the kernels of each level of a library that this processor can run."""
    loaded = ctypes.CDLL(str(path))
    loaded.regard_kernels.restype = ctypes.POINTER(Kernels)
    loaded.regard_level_at.restype = ctypes.c_char_p
    found = {}
    runs = ctypes.c_int()
    number = 0
    while (name := loaded.regard_level_at(number, ctypes.byref(runs))) is not None:
        if runs.value:
            found[name.decode()] = loaded.regard_kernels(name).contents
        number += 1
    return found


class Product:
    """A linear layer (K, V) in one precision, packed and run by the kernels of one level."""

    def __init__(self, kernels: Kernels, K: int, V: int, precision: int) -> None:
        self.kernels = kernels
        self.K = K
        self.V = V
        group = (1, 2, 4)[precision]
        columns = -(-V // PANEL) * PANEL
        self.padded = -(-K // group) * group
        weight = np.random.default_rng(0).normal(size=(V, K)).astype(np.float32)
        self.panels = np.zeros(
            columns * self.padded * (4, 2, 1)[precision] + 64, np.uint8
        )
        self.panels = self.panels[-self.panels.ctypes.data % 64 :]
        self.scales = np.zeros(columns, np.float32)
        self.sums = np.zeros(columns, np.int32)
        places = [address(array) for array in (self.panels, self.scales, self.sums)]
        kernels.pack(address(weight), V, K, precision, *places)
        self.weight = Weight(precision, K, V, self.padded, *places, None)
        self.operation = _Operation(
            kind=LINEAR,
            source=0,
            target=1,
            extra=-1,
            weight=ctypes.addressof(self.weight),
        )
        self.team = kernels.open(1)
        self.widths = np.array([K, V], np.int64)
        self.offsets = np.array([0, K], np.int64)

    def runner(self, rows: int) -> Callable[[int], None]:
        """Return a function that computes the product of this many rows several times."""
        registers = (
            np.random.default_rng(1)
            .normal(size=rows * (self.K + self.V) + LANES)
            .astype(np.float32)
        )
        context = Context(
            rows=rows,
            offsets=address(self.offsets),
            widths=address(self.widths),
            registers=address(registers),
        )
        run = self.kernels.run
        arguments = (
            self.team,
            ctypes.addressof(self.operation),
            1,
            ctypes.addressof(context),
        )

        def repeat(times: int, _keep: object = (registers, context)) -> None:
            for _ in range(times):
                run(*arguments)

        return repeat


def measure(products: dict[str, Product], rows: int, rounds: int) -> dict[str, float]:
    """Return the microseconds of one run of each: the least processor time of rounds in which they
    take turns.
    """
    runners = {name: product.runner(rows) for name, product in products.items()}
    times: dict[str, list[float]] = {name: [] for name in runners}
    counts = {}
    for name, run in runners.items():
        start = time.perf_counter()
        run(3)
        counts[name] = max(1, int(0.002 / ((time.perf_counter() - start) / 3)))
    for _ in range(rounds):
        for name, run in runners.items():
            start = time.thread_time()
            run(counts[name])
            times[name].append((time.thread_time() - start) / counts[name] * 1e6)
    return {name: min(values) for name, values in times.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--levels", help="only these, with commas")
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--compiler", default="cc")
    parser.add_argument(
        "--sources",
        type=Path,
        action="append",
        help="folder of C sources; default: those of the package",
    )
    parser.add_argument(
        "--ready-made",
        type=Path,
        action="append",
        default=[],
        help="library that is already built",
    )
    arguments = parser.parse_args()
    wanted = arguments.levels.split(",") if arguments.levels else None
    sources = arguments.sources or (
        [] if arguments.ready_made else [native.FOLDER_OF_SOURCES]
    )
    flags = {
        k: v
        for k, v in build_library.host_levels().items()
        if wanted is None or k in wanted
    }
    with tempfile.TemporaryDirectory() as folder:
        built = {}
        for path in sources:
            built[path.name] = Path(folder) / f"{len(built)}.so"
            build_library.compile_library(
                arguments.compiler.split(), flags, built[path.name], sources=path
            )
        built |= {path.stem: path for path in arguments.ready_made}
        kernels = {
            (f"{name}:" if len(built) > 1 else "") + level: table
            for name, path in built.items()
            for level, table in levels_of(path).items()
            if wanted is None or level in wanted
        }
    names = [
        f"{precision} {level}"
        for precision in arguments.precisions.split(",")
        for level in kernels
    ]
    print("| K, V | rows | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names), flush=True)
    for K, V in SHAPES:
        products = {
            f"{precision} {level}": Product(table, K, V, PRECISIONS.index(precision))
            for precision in arguments.precisions.split(",")
            for level, table in kernels.items()
        }
        for rows in map(int, arguments.rows.split(",")):
            times = measure(products, rows, arguments.rounds)
            print(
                f"| {K}, {V} | {rows} | "
                + " | ".join(f"{times[name]:.1f}" for name in names)
                + " |",
                flush=True,
            )


if __name__ == "__main__":
    main()
