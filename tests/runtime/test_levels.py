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
from engine.test_c_search import loaded, requests
from engine.test_kernels import KINDS, forced, pairs_of
from helpers.cached_folders import FolderCache
from helpers.kernel_programs import Team
from laws.models import in_turn

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
COMPILER = next(filter(None, map(shutil.which, native.COMPILERS)), "")
if not COMPILER:
    pytest.skip("no C compiler, which levels are built with", allow_module_level=True)
X86 = native.machine() == "x86_64"
LEVELS = build_library.host_levels()
DAILY = ("avx2", "avx512bf16") if X86 else tuple(LEVELS)
"""Levels of the default tests: the best one, and one that most processors have."""
if X86:  # these too, on every processor of the kind
    LEVELS["plain"] = ("-march=x86-64",)
    LEVELS["emulated"] = ("-march=x86-64-v3", "-include", str(HERE / "avxvnni.h"))
OTHERS = [name for name in LEVELS if name not in DAILY]
run_program: Any = subprocess.run


def slow(*values: Any) -> Any:
    """Return a case of the slow tests."""
    return pytest.param(*values, marks=pytest.mark.slow)


KINDS_OF_OTHERS = [slow(*KINDS[0].values, level) for level in OTHERS]


@pytest.fixture(scope="session")
def levels(pytestconfig: pytest.Config) -> dict[str, tuple[str, ...]]:
    """Return the levels that are built with their flags: with the slow tests all of them, as well
    optimised as those of the package.
    """
    if "not slow" not in pytestconfig.option.markexpr:
        return LEVELS
    return {name: (*LEVELS[name], "-O1") for name in DAILY}


@pytest.fixture(scope="session")
def built(cached: FolderCache, levels: dict[str, tuple[str, ...]]) -> Path:
    """Build a library of several levels, as the ready-made ones are, in its folder, and the driver
    that compares them.
    """
    driver = HERE / "levels_driver.c"

    def build(folder: Path) -> None:
        system = {"win32": "windows", "darwin": "macos"}.get(sys.platform, sys.platform)
        path = folder / "lib" / f"{system}-{native.machine()}" / "libregard.so"
        build_library.compile_library([COMPILER], levels, path)
        command = [COMPILER, "-O1", "-std=gnu11", f"-I{native.FOLDER_OF_SOURCES}"]
        command += [driver, path, f"-Wl,-rpath,{path.parent}", "-lm"]
        run_program([*command, "-o", folder / "driver"], check=True)

    sources = [native.FOLDER_OF_SOURCES, driver, HERE / "avxvnni.h", ROOT / "tools"]
    return cached(f"levels-{len(levels)}", build, *sources)


@pytest.fixture(scope="session")
def library_file(built: Path) -> Path:
    (path,) = (built / "lib").glob("*/libregard.so")
    return path


@pytest.fixture(scope="session")
def levelled(library_file: Path) -> ctypes.CDLL:
    return native._with_signatures(ctypes.CDLL(str(library_file)))


Use = Callable[[str], None]


@pytest.fixture
def use(levelled: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Iterator[Use]:
    """Return a function that takes the kernels of a level; `native`: those that are in use
    elsewhere.
    """
    kernels = native._load()

    def use_level(level: str) -> None:
        if level != "native" and not native.levels_of(levelled)[level]:
            pytest.skip(f"this processor lacks {level}")
        chosen = kernels if level == "native" else levelled
        if level != "native":
            assert levelled.regard_use_level(level.encode()) == 0
        monkeypatch.setattr(native, "_load", lambda: chosen)

    yield use_level
    levelled.regard_use_level(None)


def packed_bytes(weight: np.ndarray, precision: str) -> list[bytes]:
    """Return the weights of a layer as the kernels read them: panels, scales and sums."""
    V, K = weight.shape
    columns = -(-V // 64) * 64
    inputs = -(-K // GROUP[precision]) * GROUP[precision]
    panels = np.zeros(columns * inputs * BYTES[precision], np.uint8)
    scales = np.zeros(columns, np.float32)
    sums = np.zeros(columns, np.int32)
    arrays = [panels, scales, sums]
    size = (V, K, PRECISIONS[precision])
    native.kernels().regard_pack(address(weight), *size, *map(address, arrays))
    return [array.tobytes() for array in arrays]


def product(
    weight: np.ndarray,
    x: np.ndarray,
    precision: Any,
    threads: int = 1,
) -> np.ndarray:
    builder = Builder(precision)
    target = builder.linear(builder.register(weight.shape[1]), torch.from_numpy(weight))
    _, register = Team(threads).run(builder.build(), x)
    return register(target).copy()  # type: ignore[no-any-return]


def integer_product(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Compute the product in int8 as it is defined: whole numbers, then the units of column and
    row.
    """

    def quantised(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size = np.abs(rows).max(1, keepdims=True)
        zeros = np.zeros_like(size)
        times = np.divide(np.float32(127), size, out=zeros, where=size > 0)
        return np.rint(rows * times).astype(np.int64), size / np.float32(127)

    w, scales = quantised(weight)
    inputs, units = quantised(x)
    return (inputs @ w.T).astype(np.float32) * scales[:, 0] * units


@pytest.mark.parametrize(("K", "V"), [(130, 70), (7, 200), (512, 96)])
@pytest.mark.parametrize("level", [*DAILY, "native", *map(slow, OTHERS)])
def test_products_are_those_of_whole_numbers_and_of_each_row_alone(
    level: str,
    K: int,
    V: int,
    use: Use,
) -> None:
    """The driver compares floats with plain loops; here int8 is equal to the last bit, at its
    largest numbers too, and a row does not depend on those beside it.
    """
    draw = np.random.default_rng(V)
    weight = draw.normal(size=(V, K)).astype(np.float32)
    x = draw.normal(size=(13, K)).astype(np.float32)
    x[3] = 0
    x[4, ::3] = np.abs(x[4]).max()  # the largest whole numbers, with both signs
    x[5] = -np.abs(x[5]).max()
    weight[0] = np.abs(weight[0]).max()
    use("native")
    packed = [packed_bytes(weight, precision) for precision in PRECISIONS]
    use(level)

    assert [packed_bytes(weight, precision) for precision in PRECISIONS] == packed

    expected = integer_product(weight, x)
    for rows in (1, 2, 3, 4, 5, 6, 13):
        assert np.array_equal(product(weight, x[:rows], "int8"), expected[:rows])

    assert np.array_equal(product(weight, x, "int8", threads=2), expected)

    for precision in ("float32", "bfloat16"):
        together = product(weight, x, precision)
        alone = [product(weight, x[row : row + 1], precision)[0] for row in range(13)]
        assert np.array_equal(together, alone)


def test_the_driver_finds_every_level_equal_to_plain_loops(built: Path) -> None:
    done = run_program(
        [built / "driver"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("equal\n")


@pytest.mark.parametrize(
    ("settings", "level"), [*in_turn(KINDS, DAILY), *KINDS_OF_OTHERS]
)
def test_every_level_translates_as_the_native_one(
    settings: Any,
    level: str,
    use: Use,
) -> None:
    """In float32; the precisions differ in the products alone."""
    folder = loaded(settings, {"beam": 3})
    asked = requests(folder, False)
    scores = []
    targets = []
    for name in ("native", level):
        use(name)
        library = LibraryModel(folder, pack_model(folder.model, "float32"))
        scores.append(forced(library, *pairs_of(folder)))
        results = library.decode(asked, folder.settings.search, 1)
        targets.append([ranked[0].ids for ranked in results])

    np.testing.assert_allclose(*scores, rtol=1e-4, atol=1e-4)

    assert targets[0] == targets[1]


def test_the_best_level_that_runs_is_taken(
    levelled: ctypes.CDLL,
    levels: dict[str, tuple[str, ...]],
) -> None:
    runs_here = native.levels_of(levelled)

    assert list(runs_here) == list(levels)
    assert levelled.regard_use_level(None) == 0

    best = [name for name, runs in runs_here.items() if runs][-1]

    assert levelled.regard_level().decode() == best

    for name, runs in runs_here.items():
        assert (levelled.regard_use_level(name.encode()) == 0) == runs

    assert levelled.regard_use_level(b"nonsense") == -1

    levelled.regard_use_level(None)


@pytest.mark.skipif(
    sys.platform != "linux" or not X86,
    reason="reads the flags of an x86 processor, as Linux has them",
)
def test_detected_features_are_those_of_the_system(levelled: ctypes.CDLL) -> None:
    (flags,) = re.findall(
        "(?m)^flags.*$", Path("/proc/cpuinfo").read_text("utf-8").split("\n\n")[0]
    )
    v3 = "avx2 fma bmi1 bmi2 f16c movbe abm"
    v4 = f"{v3} avx512f avx512bw avx512cd avx512dq avx512vl"
    needed = {
        "baseline": "ssse3 sse4_1 sse4_2 popcnt cx16",
        "avx2": v3,
        "avxvnni": f"{v3} avx_vnni",
        "avx512": v4,
        "avx512vnni": f"{v4} avx512_vnni",
        "avx512bf16": f"{v4} avx512_vnni avx512_bf16",
    }
    for level, runs in native.levels_of(levelled).items():
        if level in needed:
            wanted = {*needed[level].split()}
            assert runs == wanted.issubset(flags.split()), level


# --- the choice of a library and of a level


TELL = """
import sys
from pathlib import Path
from regard.runtime import native
native.FOLDER_OF_LIBRARIES = Path(sys.argv[1])
print(native.why_unavailable() or f'{native.level()} {native.is_ready_made()}')
"""


def told(folder: Path, **environment: str) -> str:
    """Return what a process tells of its kernels whose ready-made libraries are in a folder."""
    env = {**os.environ, **environment}
    for name in {native.SWITCH, native.LEVEL}.difference(environment):
        env.pop(name, None)
    command = [sys.executable, "-c", TELL, folder]
    done = run_program(
        command,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return str(done.stdout.strip())


def test_a_ready_made_library_is_preferred(
    library_file: Path,
    levelled: ctypes.CDLL,
    tmp_path: Path,
) -> None:
    folder = library_file.parents[1]
    cache = tmp_path / "cache"

    assert told(folder, REGARD_CACHE=str(cache), PATH="/nowhere").endswith(" True")
    assert not cache.exists(), "nothing was compiled"
    assert "switches them off" in told(folder, REGARD_KERNELS="off")
    assert told(folder, REGARD_KERNELS="compile") == "native False"

    runs_here = native.levels_of(levelled)
    lowest, *_ = runs_here

    assert told(folder, REGARD_LEVEL=lowest) == f"{lowest} True"

    for level, runs in runs_here.items():
        if not runs:
            assert "this processor lacks it" in told(folder, REGARD_LEVEL=level)
    answer = told(folder, REGARD_LEVEL="AVX2")

    assert "asks for 'AVX2', and this library has no such level" in answer
    assert lowest in answer


@pytest.mark.parametrize("is_library", [True, False])
def test_a_library_of_other_sources_or_none_is_not_used(
    library_file: Path,
    tmp_path: Path,
    is_library: bool,
) -> None:
    other = tmp_path / library_file.parent.name / library_file.name
    other.parent.mkdir()
    content = library_file.read_bytes()
    sources = native.hash_of_sources().encode()

    assert content.count(sources) == 1

    other.write_bytes(
        content.replace(sources, b"0" * 32) if is_library else b"no library"
    )

    assert told(tmp_path) == "native False"


def test_a_machine_without_memory_is_told() -> None:
    """A team reports that memory is missing; it does not end the process."""
    builder = Builder("int8")
    builder.linear(builder.register(16), torch.zeros(16, 16))
    program = builder.build()
    program.widths[:] = 0
    rows = np.lib.stride_tricks.as_strided(np.zeros(0, np.float32), (1 << 46, 0))

    with pytest.raises(MemoryError, match="no memory for the kernels"):
        Team(2).run(program, rows, registers=np.zeros(64, np.float32))


# --- processors that are not here: by an emulator, or a WASM engine


@pytest.mark.slow
@pytest.mark.parametrize(
    ("triple", "command", "message"),
    [
        ("aarch64-linux-musl", "qemu-aarch64 -cpu max", "best dotprod,"),
        ("aarch64-linux-musl", "qemu-aarch64 -cpu cortex-a53", "best neon,"),
        ("x86_64-linux-musl", "qemu-x86_64 -cpu Haswell", "best avx2,"),
        ("x86_64-linux-musl", "qemu-x86_64 -cpu core2duo", "best (null),"),
        ("wasm32-wasi-musl", f"node --no-warnings {HERE / 'wasi.mjs'}", "best"),
    ],
)
def test_another_processor(
    triple: str,
    command: str,
    message: str,
    tmp_path: Path,
) -> None:
    """zig, which compiles for them, builds its own libraries first, for minutes."""
    program, *options = command.split()
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")
    try:
        compiler = [*build_library.zig(), "-target", triple]
    except RuntimeError as problem:
        pytest.skip(str(problem))

    machine, *_ = triple.split("-")
    levels = {}
    for name in build_library.LEVELS[machine]:
        levels[name] = (f"-mcpu={build_library.CPUS[name]}",)
    build_library.compile_library(
        compiler,
        levels,
        tmp_path / "driver",
        flags=native.OPTIMISATION,
        link=("-s",) if machine == "wasm32" else ("-static", "-s"),
        libraries=(),
        more=[HERE / "levels_driver.c"],
    )
    done = run_program(
        [program, *options, tmp_path / "driver"],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout
    assert message in done.stdout
    assert done.stdout.endswith("equal\n")
