"""Fixtures of the runtime: translators with their runtime files, and compiled C."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
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


Sanitised = Callable[..., Path]


@pytest.fixture(scope="session")
def sanitised(cached: FolderCache) -> Sanitised:
    """Return a function that compiles a driver with C sources and with sanitizers, until one of
    them changes.
    """
    if COMPILER is None:
        pytest.skip(NO_COMPILER)

    def program(
        driver: Path,
        sources: Sequence[Path],
        sanitizers: str = "address,undefined",
    ) -> Path:
        flags = ["-g", "-O0", "-march=native", "-pthread", f"-fsanitize={sanitizers}"]
        flags.append("-fno-sanitize-recover=all")

        def compile_driver(folder: Path) -> None:
            try:
                compile_c(folder / "program", [driver, *sources], *flags)
            except AssertionError as problem:
                if "sanitize" in str(problem) or "asan" in str(problem):
                    pytest.skip("the C compiler has no sanitizers")
                raise

        name = f"{driver.stem}-{sanitizers}"
        folder = cached(name, compile_driver, native.FOLDER_OF_SOURCES, driver)
        return folder / "program"

    return program
