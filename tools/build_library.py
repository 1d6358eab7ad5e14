"""Build the C library ahead of time, each level of processors into one file: by zig for other
systems, or by `cc` here.

    pip install ziglang==0.17.1
    python tools/build_library.py                 # every system, into regard/runtime/lib/
    python tools/build_library.py linux-x86_64    # one of them
    python tools/build_library.py wasm            # the one for browsers, one of them too

zig builds its own C library once for each system, which takes a minute each; they are cached in
~/.cache/zig.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from regard.runtime import native  # noqa: E402

ZIG = "0.17.1"
"""Version of the package `ziglang`: another compiler makes other, untested code."""
WIDE = ("-mprefer-vector-width=512",)
V4 = ("-march=x86-64-v4", *WIDE)
# From the lowest to the best: flags of gcc and clang.
LEVELS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "baseline": ("-march=x86-64-v2",),
        "avx2": ("-march=x86-64-v3",),
        "avxvnni": ("-march=x86-64-v3", "-mavxvnni"),
        "avx512": V4,
        "avx512vnni": (*V4, "-mavx512vnni"),
        "avx512bf16": (*V4, "-mavx512vnni", "-mavx512bf16"),
    },
    "aarch64": {"neon": ("-march=armv8-a",), "dotprod": ("-march=armv8.2-a+dotprod",)},
    "wasm32": {"simd128": ()},
}
CPUS = {  # zig's names of the same
    "baseline": "x86_64_v2",
    "avx2": "x86_64_v3",
    "avxvnni": "x86_64_v3+avxvnni",
    "avx512": "x86_64_v4-prefer_256_bit",
    "avx512vnni": "x86_64_v4+avx512vnni-prefer_256_bit",
    "avx512bf16": "x86_64_v4+avx512vnni+avx512bf16-prefer_256_bit",
    "neon": "generic",
    "dotprod": "generic+dotprod",
    "simd128": "generic+simd128",
}
FLAGS = (*native.OPTIMISATION, "-fPIC")
SHARED = ("-shared", "-s")


@dataclass(frozen=True)
class Target:
    """System that a library is built for, by zig's name, and how it is linked there."""

    triple: str
    link: Sequence[str] = SHARED
    libraries: Sequence[str] = ("-lm", "-lpthread")
    file: str = "libregard.so"
    flags: Sequence[str] = field(default=FLAGS)

    @property
    def machine(self) -> str:
        return self.triple.split("-")[0]


TARGETS = {
    "linux-x86_64": Target("x86_64-linux-gnu.2.17"),
    "linux-aarch64": Target("aarch64-linux-gnu.2.17"),
    "macos-x86_64": Target("x86_64-macos", file="libregard.dylib"),
    "macos-aarch64": Target("aarch64-macos", file="libregard.dylib"),
    "windows-x86_64": Target(
        "x86_64-windows-gnu",
        libraries=("-lpthread",),
        file="regard.dll",
        flags=native.OPTIMISATION,
    ),
}
FUNCTION = re.compile(
    r"^(?!static|extern|typedef)\w[\w *]*?\b(regard_\w+)\(", re.MULTILINE
)


def exported(sources: Path = native.FOLDER_OF_SOURCES) -> list[str]:
    """Return the functions that a page calls: those of the sources that begin with `regard_`, and
    memory.

    There are no threads in WebAssembly, so it has no queue.
    """
    texts = [
        path.read_text(encoding="utf-8")
        for path in sorted(sources.glob("*.c"))
        if path.name != "queue.c"
    ]
    return [
        "malloc",
        "free",
        *sorted({name for text in texts for name in FUNCTION.findall(text)}),
    ]


WASM = Target(
    "wasm32-wasi-musl",
    link=(
        "-mexec-model=reactor",
        "-Wl,--no-entry",
        *(f"-Wl,--export={name}" for name in exported()),
        "-s",
    ),
    libraries=(),
    file="regard.wasm",
    flags=native.OPTIMISATION,
)


def compile_library(  # noqa: PLR0913 - keyword options of a compiler
    compiler: Sequence[str],
    levels: Mapping[str, Sequence[str]],
    output: Path,
    *,
    flags: Sequence[str] = FLAGS,
    link: Sequence[str] = SHARED,
    libraries: Sequence[str] = ("-lm", "-lpthread"),
    sources: Path = native.FOLDER_OF_SOURCES,
    more: Sequence[Path] = (),
) -> None:
    """Compile the kernels once for each level, the other sources for the lowest, and link them.

    `levels` are the flags of each, from the lowest to the best. Raises RuntimeError with the
    compiler's words.
    """
    lowest = next(iter(levels.values()))
    listed = " ".join(f"X({level})" for level in levels)
    defines = (
        f"-DLEVELS={listed}",
        f'-DSOURCES="{native.hash_of_sources(sources)}"',
        f"-I{sources}",
    )
    kernels = sources / "kernels.c"
    others = sorted(path for path in sources.glob("*.c") if path.name != "kernels.c")
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="regard-build-") as folder:
        objects = []
        for level, features in levels.items():
            objects.append(f"{folder}/kernels-{level}.o")
            _run(
                *compiler,
                *flags,
                *features,
                f"-DLEVEL={level}",
                "-c",
                str(kernels),
                "-o",
                objects[-1],
            )
        for path in (*others, *more):
            objects.append(f"{folder}/{path.stem}.o")
            _run(
                *compiler, *flags, *lowest, *defines, "-c", str(path), "-o", objects[-1]
            )
        linked = Path(folder, output.name)
        _run(*compiler, *link, *objects, *libraries, "-o", str(linked))
        shutil.copy(linked, output.with_name(f"{output.name}.new"))
    os.replace(output.with_name(f"{output.name}.new"), output)


def build(name: str, folder: Path) -> Path:
    """Build the library of a target by zig into a folder of its name."""
    target = WASM if name == "wasm" else TARGETS[name]
    output = folder / name / target.file
    compiler = [*zig(), "-target", target.triple]
    levels = {level: (f"-mcpu={CPUS[level]}",) for level in LEVELS[target.machine]}
    compile_library(
        compiler,
        levels,
        output,
        flags=target.flags,
        link=target.link,
        libraries=target.libraries,
    )
    return output


def host_levels() -> dict[str, tuple[str, ...]]:
    """Return the levels of this kind of processor, with their flags for this machine's own
    compiler.
    """
    return LEVELS.get(native.machine(), {"native": ("-march=native",)})


def zig() -> list[str]:
    """Return the command of zig's C compiler. Raises RuntimeError if the tested version is not
    installed.
    """
    try:
        version = importlib.metadata.version("ziglang")
    except importlib.metadata.PackageNotFoundError:
        version = "none"
    if version.split(".dev")[0] != ZIG:
        raise RuntimeError(
            f"ziglang {ZIG} is needed and {version} is installed: pip install ziglang=={ZIG}"
        )
    return [sys.executable, "-m", "ziglang", "cc"]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-4000:]}")


def main() -> None:
    """Build the targets that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "targets",
        nargs="*",
        choices=[*TARGETS, "wasm", []],
        help="all if none is named",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=native.FOLDER_OF_LIBRARIES,
        help="folder of the libraries",
    )
    arguments = parser.parse_args()
    for name in arguments.targets or (*TARGETS, "wasm"):
        path = build(name, arguments.output)
        print(f"{path} {path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
