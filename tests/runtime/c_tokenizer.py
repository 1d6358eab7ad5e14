"""The C tokenizer through ctypes, with the methods of `Vocabulary`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

C = Path(__file__).parents[2] / "regard" / "runtime" / "c"
SOURCES = [C / "unicode.c", C / "tokenizer.c"]
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-std=gnu11")
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
NO_COMPILER = "there is no C compiler"
NOT_UTF8 = -2


def compile_c(output: Path, sources: Sequence[Path], *options: str) -> None:
    """Compile C sources; any warning is an error."""
    assert COMPILER
    command = [COMPILER, *FLAGS, *options, f"-I{C}", "-o", str(output), *map(str, sources), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


class TextBuffer(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("capacity", ctypes.c_size_t))


class TokenBuffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.POINTER(ctypes.c_int32)),
        ("size", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
    )


def load(path: Path) -> ctypes.CDLL:
    """Load the library and declare its functions."""
    library = ctypes.CDLL(str(path))
    pointer = ctypes.c_void_p
    size = ctypes.c_size_t
    text = ctypes.c_char_p
    number = ctypes.c_int32
    ids = ctypes.POINTER(number)
    for name, result, arguments in (
        ("tokenizer_open", pointer, [pointer, size, text, size]),
        ("tokenizer_close", None, [pointer]),
        ("tokenizer_size", number, [pointer]),
        ("tokenizer_piece", pointer, [pointer, number, ctypes.POINTER(size)]),
        ("text_clean", ctypes.c_int, [text, size, ctypes.POINTER(TextBuffer)]),
        ("tokenizer_encode", ctypes.c_int, [pointer, text, size, ctypes.POINTER(TokenBuffer)]),
        ("tokenizer_decode", ctypes.c_int, [pointer, ids, size, ctypes.POINTER(TextBuffer)]),
        ("tokenizer_language_code", size, [pointer, text, size]),
        ("tokenizer_word_indices", ctypes.c_int, [pointer, ids, size, ids]),
        ("unicode_version", text, []),
        ("text_free", None, [ctypes.POINTER(TextBuffer)]),
        ("tokens_free", None, [ctypes.POINTER(TokenBuffer)]),
    ):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


class RefusedError(Exception):
    """A sentence of the library, or a status."""


def clean_bytes(library: ctypes.CDLL, text: bytes) -> bytes:
    out = TextBuffer()
    status = library.text_clean(text, len(text), ctypes.byref(out))
    cleaned = ctypes.string_at(out.data, out.size) if out.data else b""
    assert not out.data or ctypes.string_at(out.data, out.size + 1)[-1] == 0
    library.text_free(ctypes.byref(out))
    if status:
        raise RefusedError(status)
    return cleaned


class CTokenizer:
    """A vocabulary's blob, opened by the library."""

    def __init__(self, library: ctypes.CDLL, blob: bytes) -> None:
        self._functions = library
        self._memory = ctypes.create_string_buffer(len(blob) + 8)
        address = -(-ctypes.addressof(self._memory) // 8) * 8
        ctypes.memmove(address, blob, len(blob))
        error = ctypes.create_string_buffer(200)
        self._tokenizer = library.tokenizer_open(address, len(blob), error, len(error))
        if not self._tokenizer:
            raise RefusedError(error.value.decode())

    def __del__(self) -> None:
        if getattr(self, "_tokenizer", None):
            self._functions.tokenizer_close(self._tokenizer)

    def __len__(self) -> int:
        return int(self._functions.tokenizer_size(self._tokenizer))

    def encode(self, text: str | bytes) -> list[int]:
        line = text.encode() if isinstance(text, str) else text
        out = TokenBuffer()
        status = self._functions.tokenizer_encode(
            self._tokenizer, line, len(line), ctypes.byref(out)
        )
        ids = out.data[: out.size] if out.size else []
        self._functions.tokens_free(ctypes.byref(out))
        if status:
            raise RefusedError(status)
        return list(ids)

    def decode(self, ids: Sequence[int]) -> str:
        out = TextBuffer()
        status = self._functions.tokenizer_decode(
            self._tokenizer, (ctypes.c_int32 * len(ids))(*ids), len(ids), ctypes.byref(out)
        )
        text = ctypes.string_at(out.data, out.size).decode() if out.data else ""
        self._functions.text_free(ctypes.byref(out))
        assert status == 0
        return text

    def token(self, index: int) -> str | None:
        size = ctypes.c_size_t()
        data = self._functions.tokenizer_piece(self._tokenizer, index, ctypes.byref(size))
        return ctypes.string_at(data, size.value).decode() if data else None

    def language_code(self, clean_text: str) -> str:
        line = clean_text.encode()
        return line[
            : self._functions.tokenizer_language_code(self._tokenizer, line, len(line))
        ].decode()

    def word_indices(self, ids: Sequence[int]) -> list[int]:
        words = (ctypes.c_int32 * len(ids))()
        assert not self._functions.tokenizer_word_indices(
            self._tokenizer, (ctypes.c_int32 * len(ids))(*ids), len(ids), words
        )
        return list(words)
