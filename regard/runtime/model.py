"""Runtime models: a trained translator in one file, opened and run by the C library (regard.h)."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import LineError, ModelFolderError, UsageError
from regard.runtime.native import kernels

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAGIC = b"REGARD\r\n"
ROLES = ("encoder", "cross", "decoder")
_ERROR_SIZE = 1024


def is_runtime_file(path: str | Path) -> bool:
    """Return whether a path names a runtime file, by its first bytes."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


@dataclass
class Options:
    """Options of a search by the C library: the fields of `RegardOptions`, in order."""

    beam: int
    nbest: int
    length_penalty: float
    max_ratio: float
    max_extra: int
    min_length: int
    max_length: int
    no_repeat_ngram: int
    max_line: int
    max_whole: int
    threads: int
    attention: int
    alignments: int


class _Options(ctypes.Structure):
    _fields_ = tuple(
        (item.name, ctypes.c_double if item.type == "float" else ctypes.c_int32) for item in fields(Options)
    )


_NAMES = tuple(item.name for item in fields(Options))


class _Layer(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("role", ctypes.c_int32), ("heads", ctypes.c_int32))


class _Attention(ctypes.Structure):
    _fields_ = (
        ("weights", ctypes.POINTER(ctypes.c_float)),
        *((name, ctypes.c_int32) for name in ("heads", "rows", "columns")),
    )


@dataclass(frozen=True)
class Layer:
    """A layer of attention: its name, its role (encoder, cross or decoder), and its number of heads."""

    name: str
    role: str
    heads: int


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A translation of a line: text, score and token ids; links and attention weights (heads, T, S) if asked for."""

    text: str
    score: float
    ids: tuple[int, ...]
    links: tuple[tuple[int, int], ...] | None
    weights: dict[str, npt.NDArray[np.float32]]
    repetitions: tuple[tuple[str, int], ...]  # of its parts: texts that are repeated over and over, and how often


@dataclass(frozen=True, eq=False)
class Line:
    """The result of a line: hypotheses, best first, the tokens of its source, its parts, and notes on it."""

    hypotheses: tuple[Hypothesis, ...]
    source: tuple[int, ...]
    parts: int
    notes: tuple[str, ...]


class RuntimeModel:
    """A runtime file, opened. Any number of threads may use it at once."""

    def __init__(self, path: str | Path) -> None:
        """Map the file into memory. Raises ModelFolderError if it is missing, damaged, or of another version."""
        self._library = _declared(kernels())
        error = ctypes.create_string_buffer(_ERROR_SIZE)
        self._model = self._library.regard_open(str(path).encode(), error, _ERROR_SIZE)
        if not self._model:
            raise ModelFolderError(error.value.decode("utf-8", "replace"))
        self.path = Path(path)

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            self._library.regard_close(self._model)

    @cached_property
    def card(self) -> dict[str, Any]:
        """Card of the model: how and on what it was trained, its licence, its scores."""
        size = ctypes.c_size_t()
        address = self._library.regard_card(self._model, ctypes.byref(size))
        values: dict[str, Any] = json.loads(ctypes.string_at(address, size.value))
        return values

    @cached_property
    def language_id(self) -> bytes:
        """Language identification as `LanguageId.parse` reads it; empty: the file has none."""
        size = ctypes.c_size_t()
        address = self._library.regard_languages(self._model, ctypes.byref(size))
        return ctypes.string_at(address, size.value) if address else b""

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of attention, lowest first."""
        count = self._library.regard_layers(self._model)
        layers = (self._library.regard_layer(self._model, number) for number in range(count))
        return tuple(Layer(layer.name.decode(), ROLES[layer.role], layer.heads) for layer in layers)

    def options(self) -> Options:
        """Return the model's own search options."""
        options = _Options()
        self._library.regard_options(self._model, ctypes.byref(options))
        return Options(*(getattr(options, name) for name in _NAMES))

    def translate(self, lines: Sequence[str], options: Options) -> list[Line]:
        """Translate lines. Raises LineError for a line that cannot be, UsageError for options out of range."""
        encoded = [line.encode("utf-8", "replace") for line in lines]
        count = len(encoded)
        texts, sizes = (ctypes.c_char_p * count)(*encoded), (ctypes.c_size_t * count)(*map(len, encoded))
        error = ctypes.create_string_buffer(_ERROR_SIZE)
        result = self._library.regard_translate(
            self._model, texts, sizes, count, ctypes.byref(_structure(options)), error, _ERROR_SIZE
        )
        if not result:
            raise _problem(error.value.decode("utf-8", "replace"))
        try:
            return [self._line(result, index) for index in range(count)]
        finally:
            self._library.regard_free(result)

    def stream(self, line: str, options: Options) -> Iterator[str]:
        """Yield what the greedy translation of a line grows by, word by word."""
        encoded, error = line.encode("utf-8", "replace"), ctypes.create_string_buffer(_ERROR_SIZE)
        stream = self._library.regard_stream(
            self._model, encoded, len(encoded), ctypes.byref(_structure(options)), error, _ERROR_SIZE
        )
        if not stream:
            raise _problem(error.value.decode("utf-8", "replace"))
        try:
            size = ctypes.c_size_t()
            while address := self._library.regard_next(stream, ctypes.byref(size)):
                yield ctypes.string_at(address, size.value).decode()
            if size.value:
                raise MemoryError("there is not enough memory to translate the line")
        finally:
            self._library.regard_stream_free(stream)

    def encode(self, line: str) -> list[int]:
        """Tokenise a line as the model reads it: token ids, end of sentence last."""
        encoded = line.encode("utf-8", "replace")
        ids = (ctypes.c_int32 * (len(encoded) + 8))()
        count = self._library.regard_encode(self._model, encoded, len(encoded), ids, len(ids))
        if count > len(ids):
            ids = (ctypes.c_int32 * count)()
            count = self._library.regard_encode(self._model, encoded, len(encoded), ids, len(ids))
        assert count >= 0, "a line that was encoded is UTF-8"
        return list(ids[:count])

    def tokens(self, ids: Sequence[int], is_target: bool) -> list[str]:
        """Return the token of each id."""
        size, texts = ctypes.c_size_t(), []
        for index in ids:
            address = self._library.regard_token(self._model, int(is_target), index, ctypes.byref(size))
            texts.append(ctypes.string_at(address, size.value).decode())
        return texts

    def decode(self, ids: Sequence[int], is_target: bool) -> str:
        """Return the text of tokens."""
        array, size = (ctypes.c_int32 * len(ids))(*ids), ctypes.c_size_t()
        address = self._library.regard_decode(self._model, int(is_target), array, len(ids), ctypes.byref(size))
        if not address:
            raise UsageError(f"token ids: wanted those of the vocabulary, got {list(ids)[:10]}")
        text = ctypes.string_at(address, size.value).decode()
        self._library.regard_free_text(address)
        return text

    def word_indices(self, ids: Sequence[int], is_target: bool) -> list[int]:
        """Return the word that each token belongs to; −1: end of sentence."""
        array, words = (ctypes.c_int32 * len(ids))(*ids), (ctypes.c_int32 * len(ids))()
        if self._library.regard_words(self._model, int(is_target), array, len(ids), words):
            raise UsageError(f"token ids: wanted those of the vocabulary, got {list(ids)[:10]}")
        return list(words)

    def _line(self, result: Any, index: int) -> Line:
        library, count = self._library, ctypes.c_size_t()
        ranks = range(library.regard_hypotheses(result, index))
        source = library.regard_source(result, index, ctypes.byref(count))
        note = library.regard_note(result, index)
        return Line(
            tuple(self._hypothesis(result, index, rank) for rank in ranks),
            tuple(source[: count.value]),
            library.regard_parts(result, index),
            tuple(note.decode().split("\n")) if note else (),
        )

    def _hypothesis(self, result: Any, index: int, rank: int) -> Hypothesis:
        library, count, times = self._library, ctypes.c_size_t(), ctypes.c_int32()
        text = ctypes.string_at(library.regard_text(result, index, rank, ctypes.byref(count)), count.value).decode()
        tokens = library.regard_tokens(result, index, rank, ctypes.byref(count))
        ids = tuple(tokens[: count.value])
        repetitions = []
        for part in range(library.regard_parts(result, index)):
            if (repeated := library.regard_repetition(result, index, rank, part, ctypes.byref(times))) is not None:
                repetitions.append((repeated.decode(), times.value))
        links = library.regard_alignment(result, index, rank, ctypes.byref(count))
        pairs = tuple((links[2 * i], links[2 * i + 1]) for i in range(count.value)) if links else None
        weights = self._weights(result, index, rank)
        return Hypothesis(text, library.regard_score(result, index, rank), ids, pairs, weights, tuple(repetitions))

    def _weights(self, result: Any, index: int, rank: int) -> dict[str, npt.NDArray[np.float32]]:
        weights = {}
        for number, layer in enumerate(self.layers):
            item = self._library.regard_attention(result, index, rank, number)
            if item.weights:
                import numpy as np  # late: a line is translated before numpy is imported

                shape = (item.heads, item.rows, item.columns)
                weights[layer.name] = np.ctypeslib.as_array(item.weights, shape).copy()
        return weights


def _structure(options: Options) -> _Options:
    values = {name: getattr(options, name) for name in _NAMES}
    try:
        return _Options(**values)
    except TypeError:
        raise UsageError(
            f"options of the search: wanted whole numbers, and fractions for penalties, got {values}"
        ) from None


def _problem(message: str) -> Exception:
    """Return the error of a message of the library: of a line, with its index, or of options."""
    start, _, rest = message.partition(": ")
    if start.startswith("line "):
        return LineError((int(start.removeprefix("line ")) - 1, rest))
    return MemoryError(message) if "memory" in message else UsageError(message)


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declare argument and result types of the functions of regard.h."""
    pointer, size, integer, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_char_p
    counted, ids = ctypes.POINTER(size), ctypes.POINTER(integer)
    hypothesis = [pointer, size, integer]
    functions: dict[str, tuple[Any, list[Any]]] = {
        "open": (pointer, [text, text, size]),
        "close": (None, [pointer]),
        "card": (pointer, [pointer, counted]),
        "languages": (pointer, [pointer, counted]),
        "options": (None, [pointer, pointer]),
        "layers": (integer, [pointer]),
        "layer": (_Layer, [pointer, integer]),
        "encode": (ctypes.c_int64, [pointer, text, size, ids, size]),
        "words": (ctypes.c_int, [pointer, ctypes.c_int, ids, size, ids]),
        "decode": (pointer, [pointer, ctypes.c_int, ids, size, counted]),
        "free_text": (None, [pointer]),
        "token": (pointer, [pointer, ctypes.c_int, integer, counted]),
        "translate": (pointer, [pointer, pointer, pointer, size, pointer, text, size]),
        "free": (None, [pointer]),
        "hypotheses": (integer, [pointer, size]),
        "text": (pointer, [*hypothesis, counted]),
        "score": (ctypes.c_double, hypothesis),
        "tokens": (ids, [*hypothesis, counted]),
        "alignment": (ids, [*hypothesis, counted]),
        "attention": (_Attention, [*hypothesis, integer]),
        "repetition": (text, [*hypothesis, integer, ids]),
        "source": (ids, [pointer, size, counted]),
        "parts": (integer, [pointer, size]),
        "note": (text, [pointer, size]),
        "stream": (pointer, [pointer, text, size, pointer, text, size]),
        "next": (pointer, [pointer, counted]),
        "stream_free": (None, [pointer]),
    }
    for name, (result, arguments) in functions.items():
        function = getattr(library, f"regard_{name}")
        function.restype, function.argtypes = result, arguments
    return library
