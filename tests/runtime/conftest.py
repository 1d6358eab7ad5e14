"""The tokenizer's C library, compiled once for all tests."""

from __future__ import annotations

import ctypes

import pytest

from tests.runtime.c_tokenizer import COMPILER, NO_COMPILER, SOURCES, compile_c, load


@pytest.fixture(scope="session")
def tokenizer_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Compile the tokenizer with the compiler of this machine."""
    if COMPILER is None:
        pytest.skip(NO_COMPILER)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.so"
    compile_c(path, SOURCES, "-shared", "-fPIC")
    return load(path)
