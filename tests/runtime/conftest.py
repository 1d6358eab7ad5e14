"""Fixtures of the runtime: translators with their runtime files, and compiled C."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.cached_folders import FolderCache

from regard.runtime import native
from tests.runtime.c_tokenizer import COMPILER, NO_COMPILER, SOURCES, compile_c, load
from tests.runtime.pairs import Maker, maker


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Return a function that makes a translator and its runtime file, each once."""
    return maker(lambda: tmp_path_factory.mktemp("model") / "run")


@pytest.fixture(scope="session")
def tokenizer_library(cached: FolderCache) -> ctypes.CDLL:
    """Compile the tokenizer with the compiler of this machine."""
    if COMPILER is None:
        pytest.skip(NO_COMPILER)

    def compile_tokenizer(folder: Path) -> None:
        compile_c(folder / "tokenizer.so", SOURCES, "-shared", "-fPIC")

    folder = cached("tokenizer", compile_tokenizer, native.FOLDER_OF_SOURCES)
    return load(folder / "tokenizer.so")


@pytest.fixture(scope="session")
def program_of_c(cached: FolderCache) -> list[str]:
    """Compile the library; return the command that links a program with it."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs gcc or clang")
    command = [
        compiler,
        "-O0",
        "-std=gnu11",
        "-march=native",
        f"-I{native.FOLDER_OF_SOURCES}",
    ]

    def compile_library(folder: Path) -> None:
        subprocess.run(
            [*command, "-c", *map(str, native.SOURCES)], cwd=folder, check=True
        )

    folder = cached("c_objects", compile_library, native.FOLDER_OF_SOURCES)
    objects = sorted(map(str, folder.glob("*.o")))
    return [*command, *objects, "-lm", "-lpthread"]
