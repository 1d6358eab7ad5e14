"""Levels of processors: each gives the numbers of the others, one can be forced, and a missing one
is refused.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cached import FolderCache
from engine.test_c_search import loaded, requests
from engine.test_kernels import KINDS, forced, pairs_of
from kernel_programs import Team

from regard.runtime import native
from regard.runtime.engine import pack_model
from regard.runtime.engine.c_search import LibraryModel
from regard.runtime.engine.program import BYTES, GROUP, PRECISIONS, Builder, address

pytestmark = pytest.mark.system  # compiles the library for each level
HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import build_library  # noqa: E402

REASON = native.why_unavailable()
if REASON is not None:
    pytest.skip(f"no native kernels on this machine: {REASON}", allow_module_level=True)
COMPILER = next(filter(None, map(shutil.which, native.COMPILERS)), None)
if COMPILER is None:
    pytest.skip("no C compiler, which levels are built with", allow_module_level=True)
X86 = native.machine() == "x86_64"
TRIED: dict[str, tuple[str, ...]] = {  # these too, on every processor of the kind
    "plain": ("-march=x86-64",),
    "emulated": ("-march=x86-64-v3", "-include", str(HERE / "avxvnni.h")),
}
LEVELS = {**build_library.host_levels(), **(TRIED if X86 else {})}
WORDS = {
    "level": "print(native.why_unavailable() or native.level(), native.is_ready_made())",
    "why": "print(native.why_unavailable())",
}


@pytest.fixture(scope="session")
def built(cached: FolderCache) -> Path:
    """A library of all levels, as the ready-made ones are, in its folder, and the driver that
    compares them.
    """

    def make_library(folder: Path) -> None:
        system = {"win32": "windows", "darwin": "macos"}.get(sys.platform, sys.platform)
        path = folder / "lib" / f"{system}-{native.machine()}" / "libregard.so"
        build_library.compile_library([COMPILER or "cc"], LEVELS, path)
        command = [
            COMPILER or "cc",
            "-O2",
            "-std=gnu11",
            f"-I{native.FOLDER_OF_SOURCES}",
            str(HERE / "levels_driver.c"),
        ]
        command += [str(path), f"-Wl,-rpath,{path.parent}", "-lm", "-o", str(folder / "driver")]
        subprocess.run(command, check=True)

    sources = (native.FOLDER_OF_SOURCES, HERE, ROOT / "tools")
    return cached("levels", make_library, *sources)


@pytest.fixture(scope="session")
def levelled(built: Path) -> ctypes.CDLL:
    (path,) = (built / "lib").glob("*/libregard.so")
    return native._with_signatures(ctypes.CDLL(str(path)))


def needs(levelled: ctypes.CDLL, level: str) -> None:
    """Skip unless this processor can run a level."""
    if level != "native" and not native.levels_of(levelled)[level]:
        pytest.skip(f"this processor lacks {level}")


@pytest.fixture
def use(levelled: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Return a function that takes the kernels of a level; `native`: those that are in use
    elsewhere.
    """
    loaded = native._load()

    def use_level(level: str) -> None:
        chosen = loaded if level == "native" else levelled
        if level != "native":
            assert levelled.regard_use_level(level.encode()) == 0
        monkeypatch.setattr(native, "_load", lambda: chosen)

    yield use_level
    levelled.regard_use_level(None)


def packed_bytes(weight: np.ndarray, precision: str) -> list[bytes]:
    (V, K), group = weight.shape, GROUP[precision]
    columns = -(-V // 64) * 64
    inputs = -(-K // group) * group
    arrays = [
        np.zeros(columns * inputs * BYTES[precision], np.uint8),
        np.zeros(columns, np.float32),
        np.zeros(columns, np.int32),
    ]
    native.kernels().regard_pack(
        address(weight), V, K, PRECISIONS[precision], *map(address, arrays)
    )
    return [array.tobytes() for array in arrays]


def product(weight: np.ndarray, x: np.ndarray, precision: Any, threads: int = 1) -> np.ndarray:
    builder = Builder(precision)
    target = builder.linear(builder.register(weight.shape[1]), torch.from_numpy(weight))
    program = builder.build()
    _, register = Team(threads).run(program, x)
    return register(target).copy()  # type: ignore[no-any-return]


def integer_product(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Compute the product in int8 as it is defined: whole numbers, then the units of column and
    row.
    """

    def quantised(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size = np.abs(rows).max(1, keepdims=True)
        times = np.divide(np.float32(127), size, out=np.zeros_like(size), where=size > 0)
        return np.rint(rows * times).astype(np.int64), size / np.float32(127)

    (w, scales), (inputs, units) = quantised(weight), quantised(x)
    return (inputs @ w.T).astype(np.float32) * scales[:, 0] * units


@pytest.mark.parametrize(("K", "V"), [(128, 384), (130, 70), (7, 200), (1, 1), (512, 96)])
@pytest.mark.parametrize("level", [*LEVELS, "native"])
class TestProducts:
    def test_int8_equals_whole_numbers_to_the_bit(
        self, level: str, K: int, V: int, levelled: ctypes.CDLL, use: Callable[[str], None]
    ) -> None:
        needs(levelled, level)
        use(level)
        weight, x = (
            np.random.default_rng(n).normal(size=(n, K)).astype(np.float32) for n in (V, 13)
        )
        x[3] = 0
        x[4, ::3] = np.abs(x[4]).max()  # the largest whole numbers, with both signs
        x[5] = -np.abs(x[5]).max()
        weight[0] = np.abs(weight[0]).max()
        for rows in (1, 2, 3, 4, 5, 6, 13):
            assert np.array_equal(
                product(weight, x[:rows], "int8"), integer_product(weight, x[:rows])
            )
        assert np.array_equal(product(weight, x, "int8", threads=2), integer_product(weight, x))

    @pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("bfloat16", 1e-2)])
    def test_floats_equal_numpy(
        self,
        level: str,
        K: int,
        V: int,
        precision: str,
        tolerance: float,
        levelled: ctypes.CDLL,
        use: Callable[[str], None],
    ) -> None:
        needs(levelled, level)
        use(level)
        weight, x = (
            np.random.default_rng(n).normal(size=(n, K)).astype(np.float32) for n in (V, 13)
        )
        expected = x.astype(np.float64) @ weight.T
        sizes = np.abs(x) @ np.abs(weight.T)
        all_rows = product(weight, x, precision)
        assert (np.abs(all_rows - expected) <= tolerance * sizes).all()
        for row in range(13):
            assert np.array_equal(product(weight, x[row : row + 1], precision)[0], all_rows[row])

    def test_packed_weights_are_the_same_bytes(
        self, level: str, K: int, V: int, levelled: ctypes.CDLL, use: Callable[[str], None]
    ) -> None:
        needs(levelled, level)
        weight = np.random.default_rng(V).normal(size=(V, K)).astype(np.float32)
        use("native")
        expected = [packed_bytes(weight, precision) for precision in PRECISIONS]
        use(level)
        assert [packed_bytes(weight, precision) for precision in PRECISIONS] == expected


@pytest.mark.parametrize("settings", KINDS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_translates_as_the_native_one(
    level: str, precision: Any, settings: Any, levelled: ctypes.CDLL, use: Callable[[str], None]
) -> None:
    """Whole numbers that are rounded from activations with other last bits may differ, so int8 is
    close, not equal.
    """
    needs(levelled, level)
    folder = loaded(settings, {"beam": 3})
    scores = []
    results = []
    asked, (sources, targets) = requests(folder, False) * 4, pairs_of(folder)
    for name in ("native", level):
        use(name)
        library = LibraryModel(folder, pack_model(folder.model, precision))
        scores.append(forced(library, sources, targets))
        results.append(
            [ranked[0].ids for ranked in library.decode(asked, folder.settings.search, 1)]
        )
    tolerance = 1e-4 if precision == "float32" else 0.05
    np.testing.assert_allclose(*scores, rtol=tolerance, atol=tolerance)
    equal = sum(a == b for a, b in zip(*results, strict=True))
    assert equal == len(asked) if precision == "float32" else equal >= 0.9 * len(asked)


def test_the_driver_finds_every_level_equal_to_plain_loops(built: Path) -> None:
    done = subprocess.run([built / "driver"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("equal\n")


def test_the_best_level_that_runs_is_taken(levelled: ctypes.CDLL) -> None:
    levels = native.levels_of(levelled)
    assert list(levels) == list(LEVELS)
    assert levels[next(iter(LEVELS))], "the lowest level runs on every processor that tests run on"
    assert levelled.regard_use_level(None) == 0
    assert levelled.regard_level().decode() == [name for name, runs in levels.items() if runs][-1]
    for name, runs in levels.items():
        assert (levelled.regard_use_level(name.encode()) == 0) == runs
    assert levelled.regard_use_level(b"nonsense") == -1
    levelled.regard_use_level(None)


@pytest.mark.skipif(
    sys.platform != "linux" or not X86,
    reason="reads the flags of an x86 processor, as Linux has them",
)
def test_detected_features_are_those_of_the_system(levelled: ctypes.CDLL) -> None:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    flags = set(next(line for line in text.splitlines() if line.startswith("flags")).split())
    v3 = {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"}
    v4 = v3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
    needed = {
        "baseline": {"ssse3", "sse4_1", "sse4_2", "popcnt", "cx16"},
        "avx2": v3,
        "avxvnni": v3 | {"avx_vnni"},
        "avx512": v4,
        "avx512vnni": v4 | {"avx512_vnni"},
        "avx512bf16": v4 | {"avx512_vnni", "avx512_bf16"},
    }
    assert {name: runs for name, runs in native.levels_of(levelled).items() if name in needed} == {
        name: wanted <= flags for name, wanted in needed.items()
    }


def asked(folder: Path, words: str, **environment: str) -> str:
    """Return the output of a process whose ready-made libraries are in a folder."""
    command = (
        "import sys; from pathlib import Path; from regard.runtime import native; "
        f"native.FOLDER_OF_LIBRARIES = Path(sys.argv[1]); {WORDS[words]}"
    )
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in (native.SWITCH, native.LEVEL)
    } | environment
    done = subprocess.run(
        [sys.executable, "-c", command, folder], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.system
class TestChoice:
    def test_a_ready_made_library_is_preferred(self, built: Path, tmp_path: Path) -> None:
        cache = {"REGARD_CACHE": str(tmp_path), "PATH": "/nowhere"}
        assert asked(built / "lib", "level", **cache).endswith(" True")
        assert not list(tmp_path.iterdir()), "nothing was compiled"

    def test_the_switch_compiles_all_the_same(self, built: Path) -> None:
        assert asked(built / "lib", "level", REGARD_KERNELS="compile") == "native False"
        assert "switches them off" in asked(built / "lib", "why", REGARD_KERNELS="off")

    def test_a_lower_level_can_be_forced(self, built: Path, levelled: ctypes.CDLL) -> None:
        for name, runs in native.levels_of(levelled).items():
            answer = asked(built / "lib", "level" if runs else "why", REGARD_LEVEL=name)
            assert answer == f"{name} True" if runs else "this processor lacks it" in answer

    @pytest.mark.parametrize("level", ["nonsense", "AVX2", "avx2,baseline", "x" * 3000])
    def test_an_unknown_level_is_refused_in_a_sentence(self, built: Path, level: str) -> None:
        answer = asked(built / "lib", "why", REGARD_LEVEL=level)
        assert "REGARD_LEVEL" in answer
        assert "no such level" in answer
        assert next(iter(LEVELS)) in answer

    def test_a_library_of_other_sources_is_not_used(self, built: Path, tmp_path: Path) -> None:
        (path,) = (built / "lib").glob("*/libregard.so")
        other = tmp_path / path.parent.name / path.name
        other.parent.mkdir()
        content = path.read_bytes()
        assert content.count(native.hash_of_sources().encode()) == 1
        other.write_bytes(content.replace(native.hash_of_sources().encode(), b"0" * 32))
        assert asked(tmp_path, "level") == "native False"

    def test_a_file_that_is_no_library_is_not_used(self, built: Path, tmp_path: Path) -> None:
        (path,) = (built / "lib").glob("*/libregard.so")
        other = tmp_path / path.parent.name / path.name
        other.parent.mkdir()
        other.write_bytes(b"no library")
        assert asked(tmp_path, "level") == "native False"


def test_a_machine_without_memory_is_told(
    levelled: ctypes.CDLL, use: Callable[[str], None]
) -> None:
    """A team reports that memory is missing; it does not end the process."""
    builder = Builder("int8")
    builder.linear(builder.register(16), torch.zeros(16, 16))
    program = builder.build()
    program.widths[:] = 0
    rows = np.lib.stride_tricks.as_strided(np.zeros(0, np.float32), (1 << 46, 0))
    with pytest.raises(MemoryError, match="no memory for the kernels"):
        Team(2).run(program, rows, registers=np.zeros(64, np.float32))


def zig() -> list[str]:
    try:
        return build_library.zig()
    except RuntimeError as problem:
        pytest.skip(str(problem))


@pytest.mark.slow
class TestElsewhere:
    """Processors that are not here: by an emulator, or a WASM engine. zig builds its own libraries
    first, for minutes.
    """

    @pytest.fixture(scope="class")
    @staticmethod
    def drivers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
        folder = tmp_path_factory.mktemp("drivers")

        def build(triple: str) -> Path:
            path = folder / triple
            machine = triple.split("-")[0]
            if not path.exists():
                levels = {
                    level: (f"-mcpu={build_library.CPUS[level]}",)
                    for level in build_library.LEVELS[machine]
                }
                link = ("-s",) if machine == "wasm32" else ("-static", "-s")
                flags = native.OPTIMISATION
                more = [HERE / "levels_driver.c"]
                compiler = [*zig(), "-target", triple]
                build_library.compile_library(
                    compiler, levels, path, flags=flags, link=link, libraries=(), more=more
                )
            return path

        return build

    @pytest.mark.parametrize(
        ("triple", "processor", "best"),
        [
            ("aarch64-linux-musl", "max", "dotprod"),
            ("aarch64-linux-musl", "cortex-a53", "neon"),
            ("x86_64-linux-musl", "Nehalem", "baseline"),
            ("x86_64-linux-musl", "Haswell", "avx2"),
            ("x86_64-linux-musl", "core2duo", "(null)"),
        ],
    )
    def test_an_emulated_processor(
        self, triple: str, processor: str, best: str, drivers: Callable[[str], Path]
    ) -> None:
        emulator = shutil.which(f"qemu-{triple.split('-')[0]}")
        if emulator is None:
            pytest.skip("there is no qemu: apt install qemu-user")
        command = [emulator, "-cpu", processor, drivers(triple)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        assert f"best {best}," in done.stdout
        assert done.stdout.endswith("equal\n")

    def test_wasm(self, drivers: Callable[[str], Path]) -> None:
        node = shutil.which("node")
        if node is None:
            pytest.skip("there is no node")
        command = [node, "--no-warnings", HERE / "wasi.mjs", drivers("wasm32-wasi-musl")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        assert done.stdout.endswith("equal\n")


def test_a_missing_library_for_browsers_is_built_where_the_package_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the package in site-packages would not have it: the first command replaces the
    copy.
    """
    monkeypatch.setattr(native, "FOLDER_OF_LIBRARIES", tmp_path)
    commands = re.escape("`pip install -e '.[build]' && python tools/build_library.py wasm`")
    with pytest.raises(RuntimeError, match=f"in the folder of the source: {commands}"):
        native.wasm_file()
    (tmp_path / "wasm").mkdir()
    (tmp_path / "wasm" / "regard.wasm").write_bytes(b"")
    with pytest.raises(
        RuntimeError, match=f"from other sources of the library; build it again: {commands}"
    ):
        native.wasm_file()
