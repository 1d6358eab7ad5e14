"""The C tokenizer through ctypes, with the methods of `Vocabulary`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

C = Path(__file__).parents[2] / "regard" / "runtime" / "c"
SOURCES = [C / "unicode.c", C / "tokenizer.c"]
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-std=gnu11")
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
NO_COMPILER = "there is no C compiler"
NOT_UTF8 = -2


def compile_c(output: Path, sources: Sequence[Path], *options: str) -> None:
    """Compile C sources; any warning is an error."""
    assert COMPILER

    command = [
        COMPILER,
        *FLAGS,
        *options,
        f"-I{C}",
        "-o",
        str(output),
        *map(str, sources),
        "-lm",
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr


class TextBuffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
    )


class TokenBuffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.POINTER(ctypes.c_int32)),
        ("size", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
    )


def load(path: Path) -> ctypes.CDLL:
    """Load the library and declare its functions."""
    library = ctypes.CDLL(str(path))
    for name in ("tokenizer_open", "tokenizer_piece"):
        getattr(library, name).restype = ctypes.c_void_p
    library.unicode_version.restype = ctypes.c_char_p
    return library


class RefusedError(Exception):
    """A sentence of the library, or a status."""


def _sized(text: bytes) -> tuple[ctypes.c_char_p, ctypes.c_size_t]:
    return ctypes.c_char_p(text), ctypes.c_size_t(len(text))


def _array(ids: Sequence[int]) -> tuple[Any, ctypes.c_size_t]:
    return (ctypes.c_int32 * len(ids))(*ids), ctypes.c_size_t(len(ids))


def clean_bytes(library: ctypes.CDLL, text: bytes) -> bytes:
    out = TextBuffer()
    status = library.text_clean(*_sized(text), ctypes.byref(out))
    cleaned = ctypes.string_at(out.data, out.size) if out.data else b""
    library.text_free(ctypes.byref(out))
    if status:
        raise RefusedError(status)
    return cleaned


class CTokenizer:
    """A vocabulary's blob, opened by the library."""

    def __init__(self, library: ctypes.CDLL, blob: bytes) -> None:
        self._functions = library
        self._memory = ctypes.create_string_buffer(len(blob) + 8)
        start = -(-ctypes.addressof(self._memory) // 8) * 8
        ctypes.memmove(start, blob, len(blob))
        error = ctypes.create_string_buffer(200)
        given = (ctypes.c_void_p(start), ctypes.c_size_t(len(blob)))
        self._tokenizer = ctypes.c_void_p(
            library.tokenizer_open(*given, error, ctypes.c_size_t(len(error)))
        )
        if not self._tokenizer:
            raise RefusedError(error.value.decode())

    def __del__(self) -> None:
        if self._tokenizer:
            self._functions.tokenizer_close(self._tokenizer)

    def __len__(self) -> int:
        return int(self._functions.tokenizer_size(self._tokenizer))

    def encode(self, text: str | bytes) -> list[int]:
        line = text.encode() if isinstance(text, str) else text
        out = TokenBuffer()
        status = self._functions.tokenizer_encode(
            self._tokenizer,
            *_sized(line),
            ctypes.byref(out),
        )
        ids = out.data[: out.size] if out.size else []
        self._functions.tokens_free(ctypes.byref(out))
        if status:
            raise RefusedError(status)
        return list(ids)

    def decode(self, ids: Sequence[int]) -> str:
        out = TextBuffer()
        status = self._functions.tokenizer_decode(
            self._tokenizer,
            *_array(ids),
            ctypes.byref(out),
        )
        text = ctypes.string_at(out.data, out.size).decode() if out.data else ""
        self._functions.text_free(ctypes.byref(out))

        assert status == 0

        return text

    def token(self, index: int) -> str | None:
        size = ctypes.c_size_t()
        data = self._functions.tokenizer_piece(
            self._tokenizer,
            index,
            ctypes.byref(size),
        )
        return ctypes.string_at(data, size.value).decode() if data else None

    def word_indices(self, ids: Sequence[int]) -> list[int]:
        words, _ = _array(ids)
        status = self._functions.tokenizer_word_indices(
            self._tokenizer,
            *_array(ids),
            words,
        )

        assert status == 0

        return list(words)
