"""Runtime models: a trained translator in one file, opened and run by the C library (regard.h)."""

from __future__ import annotations

import ctypes
import itertools
import os
import struct
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from regard.common.errors import (
    ConfigurationError,
    LineError,
    ModelFolderError,
    RegardError,
    UsageError,
)
from regard.common.reading import parse_json
from regard.common.stopping import PATIENCE, STOP_EVENT, check_stop
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.data.seen_token_pairs import SeenTokenPairs
from regard.runtime.native import declare, kernels, typed
from regard.text.translation import TranslatedPart

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from regard.search.search_steps import Fate, SearchStep

    _Arrays = dict[str, npt.NDArray[np.float32]]

ROLES = ("encoder", "cross", "decoder")
FATES: tuple[Fate, ...] = ("pruned", "kept", "ended")
_ERROR_SIZE = 1024
_ALIGNED = 64
_SHORT = 1_000
"""Characters or tokens of all sources whose search is soon over."""
_FEW = 8
"""Sources whose search is soon over."""
_Result = TypeVar("_Result")


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    affinity: Any = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


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
    trace: int
    split: int
    sample: int = 0
    temperature: float = 1.0
    top_p: float = 0.0
    seed: int = 0
    top_k: int = 0
    states: int = 0

    def copy(self) -> Options:
        """Return other options of the same values; `copy.copy` takes ten times as long."""
        options = object.__new__(Options)
        options.__dict__.update(self.__dict__)
        return options


_TYPES: dict[str, Any] = {
    "seed": ctypes.c_int64,
    "float": ctypes.c_double,
    "int": ctypes.c_int32,
}


class _Options(ctypes.Structure):
    _fields_ = tuple(
        (item.name, _TYPES.get(item.name, _TYPES[str(item.type)]))
        for item in fields(Options)
    )


_NAMES = tuple(item.name for item in fields(Options))
_Ids = ctypes.POINTER(ctypes.c_int32)
_Floats = ctypes.POINTER(ctypes.c_float)


class Term(ctypes.Structure):
    """Required term, as `RegardTerm` of regard.h."""

    _fields_ = (
        *typed(_Ids, "ids", "sizes"),
        *typed(ctypes.c_int32, "forms", "initial_forms"),
        *typed(ctypes.c_void_p, "may_follow"),
    )


class Completion(ctypes.Structure):
    """Token that would complete a forbidden phrase, as `RegardCompletion` of regard.h."""

    _fields_ = (
        ("before", ctypes.c_char_p),
        *typed(ctypes.c_int32, "size", "token", "at_boundary", "reserved"),
    )


class Constraints(ctypes.Structure):
    """Constraints on the target of one source, as `RegardConstraints` of regard.h."""

    _fields_ = (
        *(("prefix", _Ids), ("prefix_size", ctypes.c_size_t)),
        *(("terms", ctypes.POINTER(Term)), ("term_count", ctypes.c_size_t)),
        *(("banned", ctypes.POINTER(Completion)), ("banned_count", ctypes.c_size_t)),
        *(("max_steps", ctypes.c_int64), ("sampling_key", ctypes.c_uint64)),
    )

    @classmethod
    def of_prefix(cls, ids: Sequence[int]) -> Constraints:
        """Return what makes a target begin with these tokens."""
        return cls((ctypes.c_int32 * len(ids))(*ids), len(ids))


class _Layer(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("role", ctypes.c_int32),
        ("heads", ctypes.c_int32),
    )


class _Line(ctypes.Structure):
    _fields_ = (
        *(
            ("source", ctypes.c_void_p),
            ("note", ctypes.c_char_p),
            ("source_count", ctypes.c_size_t),
        ),
        *typed(ctypes.c_int32, "hypotheses", "parts"),
    )


class _Hypothesis(ctypes.Structure):
    _fields_ = (
        *(
            ("score", ctypes.c_double),
            *typed(ctypes.c_void_p, "text", "tokens", "log_probs", "links", "parts"),
        ),
        *typed(ctypes.c_size_t, "text_size", "token_count", "link_count"),
        *typed(ctypes.c_int32, "is_complete", "is_recorded"),
    )


class _Part(ctypes.Structure):
    _fields_ = (
        *(
            ("score", ctypes.c_double),
            *typed(ctypes.c_void_p, "source", "text"),
            ("repetition", ctypes.c_char_p),
        ),
        *(
            *typed(ctypes.c_size_t, "source_size", "text_size"),
            ("repetitions", ctypes.c_int32),
        ),
    )


class EncodedSource(ctypes.Structure):
    """Output of an encoder for one source: outputs (S, D), embeddings (S, De) and summary (L·D),
    contiguous float32.
    """

    _fields_ = (
        *typed(ctypes.c_void_p, "outputs", "embedded", "summary"),
        *typed(
            ctypes.c_int64,
            "entries",
            "length",
            "output_size",
            "embedded_size",
            "summary_size",
        ),
    )

    def __init__(self, length: int, *arrays: npt.NDArray[np.float32]) -> None:
        """Refer to the arrays; `length`: in tokens, as `max_ratio` counts them."""
        assert all(
            array.dtype == "float32" and array.flags.c_contiguous for array in arrays
        ), "read as they lie"
        self._arrays = arrays
        sizes = (array.shape[-1] for array in arrays)
        super().__init__(
            *(array.ctypes.data for array in arrays), len(arrays[0]), length, *sizes
        )

    def __len__(self) -> int:
        # A negative length is refused by the library, in the words of all wrong sources.
        return max(int(self.length), 0)


Source = Sequence[int] | EncodedSource
"""Token ids, end of sentence last, or what an encoder made of them, or of an image."""
Sources = Sequence[str] | Sequence[Source]
"""Sources of one call, all of a kind."""


class _Attention(ctypes.Structure):
    _fields_ = (
        ("weights", _Floats),
        *typed(ctypes.c_int32, "heads", "rows", "columns"),
        ("scores", _Floats),
    )


class _States(ctypes.Structure):
    _sizes = (
        "source",
        "directions",
        "encoder_size",
        "target",
        "decoder_size",
        "attends_first",
    )
    _fields_ = (
        *typed(_Floats, "encoder", "decoder", "initial"),
        *typed(ctypes.c_int32, *_sizes),
    )


class _Candidate(ctypes.Structure):
    _fields_ = (
        *typed(ctypes.c_int32, "row", "token", "fate", "reserved"),
        *typed(ctypes.c_double, "log_prob", "total"),
    )


@dataclass(frozen=True)
class AttentionLayer:
    """A layer of attention: its name, its role (encoder, cross or decoder), and its number of
    heads.
    """

    name: str
    role: str
    heads: int


@dataclass(frozen=True, eq=False)
class RuntimeStates:
    """Hidden states of the highest layers: of a recurrent encoder (S, directions, N), and of the
    decoder (T, M).

    Those of a decoder that is not recurrent are its features. `initial` (M,): the state of a
    recurrent decoder before the first token. `attends_first`: it attends by the state before.
    """

    encoder: npt.NDArray[np.float32] | None
    decoder: npt.NDArray[np.float32]
    initial: npt.NDArray[np.float32] | None
    attends_first: bool


class RuntimeHypothesis(NamedTuple):
    """A translation of a line: text, score, token ids; links, attention (heads, T, S) and states if
    asked for.
    """

    text: str
    score: float
    ids: tuple[int, ...]
    log_probs: tuple[float, ...]  # of each token, after those before it
    links: tuple[tuple[int, int], ...] | None
    weights: _Arrays  # by layer, as the scores that softmax makes them of
    scores: _Arrays
    states: RuntimeStates | None
    # Of its parts: texts that are repeated over and over, and how often.
    repetitions: tuple[tuple[str, int], ...]
    is_complete: (
        # It holds all required terms, and the model has placed its copy tokens itself.
        bool
    )


class RuntimeLine(NamedTuple):
    """The result of a line: hypotheses, best first, the tokens of its source, its parts, notes on
    it, and the search.

    `steps` are there if they were asked for, and the line was neither empty nor split.
    """

    hypotheses: tuple[RuntimeHypothesis, ...]
    source: tuple[int, ...]
    parts: tuple[TranslatedPart, ...]
    notes: tuple[str, ...]
    steps: tuple[SearchStep, ...]


_CARD: dict[str, Any] = {
    **dict.fromkeys(("regard", "precision", "fingerprint", "readme"), ""),
    "languages": ["", ""],
    "language_codes": [],
    "warnings": [],
    "parameters": 0,
    "search": {},
    "familiar": {},
    "alignment": None,
}
"""Values of a card that lacks them; others are of the same types, `alignment` a table."""
_TEXTS = ("languages", "language_codes", "warnings")
_CARD_SIZE = 1 << 22
_ENTRIES = 2_000
_CHARACTERS = 1_000
_LARGEST = 1e15


def _read_card(path: Path, content: bytes) -> dict[str, Any]:
    """Parse and check the card of a file, which may come from anywhere. Raises ModelFolderError,
    with all causes.
    """
    try:
        if len(content) > _CARD_SIZE:
            raise ValueError(f"it has {len(content):,} bytes, more than {_CARD_SIZE:,}")
        card = {**_CARD, **parse_json(content)}
    except (ValueError, TypeError) as problem:
        raise ModelFolderError(
            f"{path}: its card is no table ({problem}); export the model again"
        ) from None
    flaws = [
        f"{path}: its card, {name[:50]}: {flaw}"
        for name, value in card.items()
        if (flaw := _flaw(name, value))
    ]
    flaws = flaws or [
        f"{path}: its card, {flaw}"
        for flaw in (*_search_flaws(card["search"]), *_familiar_flaws(card))
    ]
    ModelFolderError.raise_all(flaws[:20], f"{path}: export the model again")
    return card


_BOUNDS: dict[str, tuple[float, float]] = {
    "beam": (1, 250),
    "no_repeat_ngram": (0, 100_000),
    "max_extra": (1, 10_000),
    "min_length": (0, 10_000),
    **dict.fromkeys(
        ("max_line", "max_whole", "max_required", "max_forbidden", "longest_source"),
        (1, 10**9),
    ),
    "max_length": (1, 10**9),
    "seed": (0, 2**63 - 1),
    "length_penalty": (0, 10),
    "max_ratio": (0.01, 100),
    "diversity": (0, 1_000),
    "line_sentences": (0, 10**9),
    "line_clauses": (1, 5 * 10**8),
    "score_threshold": (-(10**9), 0),
}
_FRACTIONS = (
    "length_penalty",
    "max_ratio",
    "diversity",
    "line_sentences",
    "score_threshold",
)
_USUAL: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        ("longest_source", "line_sentences", "line_clauses", "score_threshold"), (None,)
    ),
    **dict.fromkeys(("max_length", "top_k", "top_p"), (None,)),
    "sample": (False,),
    "mbr": (False,),
    "groups": (1,),
    "temperature": (1,),
    "coverage_penalty": (0,),
    "split": ("auto", "on", "off"),
}
"""Search settings that are right whatever the others are; those with other values are asked of
`SearchSettings`.
"""


def _is_usual(name: str, value: Any) -> bool:
    """Return whether a search setting of a card is certainly right."""
    if any(
        value == usual and isinstance(value, bool) == isinstance(usual, bool)
        for usual in _USUAL.get(name, ())
    ):
        return type(value) is not float or name in ("temperature", "coverage_penalty")
    low, high = _BOUNDS.get(name, (1, 0))
    return (
        type(value) in ((int, float) if name in _FRACTIONS else (int,))
        and low <= value <= high
    )


def _search_flaws(search: dict[str, Any]) -> tuple[str, ...]:
    """Return what is wrong with the search settings of a card; usual ones do not load pydantic,
    which takes long.
    """
    if all(_is_usual(name, value) for name, value in search.items()):
        return ()
    from regard.search.settings import SearchSettings

    try:
        SearchSettings.parse(search, "search")
    except ConfigurationError as problem:
        return tuple(cause.partition("; known are ")[0] for cause in problem.causes)
    return ()


def _familiar_flaws(card: dict[str, Any]) -> list[str]:
    """Return what is wrong with the pairs of tokens that a card says are familiar."""
    familiar = card["familiar"]
    wrong = set(familiar) ^ {"pairs", "most"} if familiar else set()
    if wrong:
        return [
            f"familiar: wanted `pairs` and `most`, got {', '.join(sorted(familiar))[:60]}"
        ]
    if familiar and not (
        type(familiar["pairs"]) is str and type(familiar["most"]) is int
    ):
        return ["familiar: wanted `pairs` as a text and `most` as a whole number"]
    try:
        SeenTokenPairs(**familiar) if familiar else None
    except ValueError as problem:
        return [f"familiar: {problem}"]
    return []


def _flaw(name: str, value: Any) -> str:
    """Say what is wrong with a value of a card: its type, or anything in it that is too large;
    empty: nothing.
    """
    kind = (
        dict
        if name == "alignment" and value is not None
        else type(_CARD.get(name, value))
    )
    if type(value) is not kind:
        return f"wanted a {kind.__name__}, got {repr(value)[:60]}"
    if name in _TEXTS and not all(isinstance(text, str) for text in value):
        return "wanted texts alone"
    if name == "languages" and len(value) != 2:
        return f"wanted two languages, got {len(value):,}"
    parts = [name, *([] if name in ("readme", "familiar") else [value])]
    for part in parts:
        if isinstance(part, (list, dict)):
            if len(part) > _ENTRIES:
                return f"more than {_ENTRIES:,} entries"
            parts += [*part, *part.values()] if isinstance(part, dict) else part
        elif isinstance(part, str) and (
            len(part) > _CHARACTERS or not part.isprintable()
        ):
            return f"a text of more than {_CHARACTERS:,} characters, or with control characters"
        elif isinstance(part, (int, float)) and not abs(part) < _LARGEST:
            return "a number that is too large, or none"
    return ""


class RuntimeModel:
    """A runtime file, opened. Any number of threads may use it at once."""

    _content: Any = None  # of one that was opened from memory, where it lies

    def __init__(self, path: str | Path) -> None:
        """Map the file into memory. Raises ModelFolderError if it is missing, damaged, of another
        version or card.
        """
        self._library = _declared(kernels())
        self.path = Path(path)
        self._open(self._library.regard_open, os.fsencode(path))
        size = ctypes.c_size_t()
        address = self._library.regard_card(self._model, ctypes.byref(size))
        self.card = _read_card(self.path, ctypes.string_at(address, size.value))
        """Card of the model: how and on what it was trained, its licence, its scores."""
        self.check_unchanged()

    @classmethod
    def from_memory(cls, content: bytes) -> RuntimeModel:
        """Open the content of a runtime file. Raises ModelFolderError as for a file."""
        model = cls.__new__(cls)
        model._library = _declared(kernels())
        model.path = Path("<memory>")
        buffer = (ctypes.c_char * (len(content) + _ALIGNED))()
        start = ctypes.addressof(buffer) + -ctypes.addressof(buffer) % _ALIGNED
        ctypes.memmove(start, content, len(content))
        model._content = buffer
        model._open(model._library.regard_open_memory, start, len(content))
        return model

    def _open(self, function: Any, *arguments: Any) -> None:
        error = ctypes.create_string_buffer(_ERROR_SIZE)
        # By process.
        self._alone, self._queues = threading.Lock(), dict[int, RuntimeQueue]()
        self._model = function(*arguments, error, _ERROR_SIZE)
        if not self._model:
            raise ModelFolderError(error.value.decode("utf-8", "surrogateescape"))

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            for queue in self._queues.values():
                queue.close()
            self._library.regard_close(self._model)

    def check_unchanged(self) -> None:
        """Raise ModelFolderError if somebody has written into the file, or cut it short, since it
        was opened.
        """
        if not self._library.regard_is_unchanged(self._model):
            raise ModelFolderError(
                f"{self.path}: changed while it was open, so translations would be wrong; write a "
                "new file beside it and rename that, and open this one again"
            )

    @cached_property
    def language_id(self) -> bytes:
        """Language identification as `LanguageId.parse` reads it; empty: the file has none."""
        size = ctypes.c_size_t()
        address = self._library.regard_languages(self._model, ctypes.byref(size))
        return ctypes.string_at(address, size.value) if address else b""

    @cached_property
    def _tokens(self) -> tuple[dict[int, str], dict[int, str]]:
        """The tokens of source and target that were read already, by their ids."""
        return {}, {}

    @cached_property
    def copies(self) -> str:
        """The characters of the model's copy tokens; empty if it has none."""
        sides = (
            self.encode(COPY_CHARACTERS),
            False,
            self.encode_target(COPY_CHARACTERS),
            True,
        )
        known = {*self.tokens(*sides[:2])} & {*self.tokens(*sides[2:])}
        return "".join(character for character in COPY_CHARACTERS if character in known)

    @cached_property
    def layers(self) -> tuple[AttentionLayer, ...]:
        """The layers of attention, lowest first."""
        count = self._library.regard_layers(self._model)
        layers = (
            self._library.regard_layer(self._model, number) for number in range(count)
        )
        return tuple(
            AttentionLayer(
                layer.name.decode("utf-8", "replace"), ROLES[layer.role], layer.heads
            )
            for layer in layers
        )

    def options(self) -> Options:
        """Return the model's own search options."""
        options = _Options()
        self._library.regard_options(self._model, ctypes.byref(options))
        return Options(*(getattr(options, name) for name in _NAMES))

    def translate(
        self,
        sources: Sources,
        options: Options,
        constraints: Sequence[Constraints] | None = None,
    ) -> list[RuntimeLine]:
        """Translate lines, or search for the targets of token ids or of what an encoder made.

        `constraints`: of each source. Token ids and what an encoder made are searched whole, and
        their targets may be empty if `min_length` lets them.

        Calls of several threads at once are searched together, as alone. The second that is open
        starts a queue with its `threads` (later ones share these), which ends with the model; none
        is started as long as calls are alone. A call that may be given up (`stopping`) is always
        searched by the queue.

        Raises LineError for a line that cannot be translated, UsageError for options out of range,
        Stopped.
        """
        if STOP_EVENT.get() is not None or not self._alone.acquire(blocking=False):
            return self._shared_queue(options.threads).translate(
                sources, options, constraints
            )
        is_long = len(sources) > _FEW or sum(map(len, sources)) > _SHORT
        try:
            return interruptible(
                lambda: self._translate(sources, options, constraints), is_long
            )
        finally:
            self._alone.release()

    def _translate(
        self,
        sources: Sources,
        options: Options,
        constraints: Sequence[Constraints] | None,
    ) -> list[RuntimeLine]:
        kind, given = _given(sources, constraints)
        call = getattr(self._library, f"regard_translate{kind}")
        return self._lines(
            _succeed(call, self._model, *given, ctypes.byref(_structure(options)))
        )

    def _shared_queue(self, threads: int) -> RuntimeQueue:
        """Return the queue of this process; that of the one which it was forked from has no threads
        here.
        """
        process = os.getpid()
        if process not in self._queues:
            # Of queues that two threads open at once one is kept.
            self._queues.setdefault(process, RuntimeQueue(weakref.proxy(self), threads))
        return self._queues[process]

    def queue(self, threads: int) -> RuntimeQueue:
        """Start threads that translate calls which arrive at any time, with continuous batching."""
        return RuntimeQueue(self, threads)

    def stream(
        self, line: str, options: Options, constraints: Constraints | None = None
    ) -> Generator[str, None, bool]:
        """Yield what the greedy translation of a line grows by, word by word; return whether it
        holds all terms.
        """
        encoded = line.encode("utf-8", "replace")
        chosen = (
            constraints and ctypes.byref(constraints),
            ctypes.byref(_structure(options)),
        )
        stream = _succeed(
            self._library.regard_stream, self._model, encoded, len(encoded), *chosen
        )
        try:
            size = ctypes.c_size_t()
            while address := self._library.regard_next(stream, ctypes.byref(size)):
                words = ctypes.string_at(address, size.value).decode()
                self.check_unchanged()
                yield words
            self.check_unchanged()
            if size.value:
                raise MemoryError("there is not enough memory to translate the line")
            return bool(self._library.regard_stream_is_complete(stream))
        finally:
            self._library.regard_stream_free(stream)

    def stream_ids(
        self, source: Source, constraints: Constraints, options: Options
    ) -> Iterator[tuple[int, ...]]:
        """Yield the token ids of the target of one source after each step of a greedy search."""
        (kind, (*given, _, own)), count = (
            _given([source], [constraints]),
            ctypes.c_size_t(),
        )
        rest = (own, ctypes.byref(_structure(options)))
        stream = _succeed(
            getattr(self._library, f"regard_stream{kind}"), self._model, *given, *rest
        )
        try:
            while ids := self._library.regard_next_tokens(stream, ctypes.byref(count)):
                yield tuple(ids[: count.value])
            if count.value:
                raise MemoryError("there is not enough memory to translate the line")
        finally:
            self._library.regard_stream_free(stream)

    def encode(self, line: str) -> list[int]:
        """Tokenise a line as the model reads it: token ids, end of sentence last."""
        return self._encode(self._library.regard_encode, line)

    def encode_target(self, text: str) -> list[int]:
        """Tokenise a text as the beginning of a target."""
        return self._encode(self._library.regard_encode_target, text)

    def _encode(self, function: Any, line: str) -> list[int]:
        encoded = line.encode("utf-8", "replace")
        ids = (ctypes.c_int32 * (len(encoded) + 8))()
        count = function(self._model, encoded, len(encoded), ids, len(ids))
        if count > len(ids):
            ids = (ctypes.c_int32 * count)()
            count = function(self._model, encoded, len(encoded), ids, len(ids))
        assert count >= 0, "a line that was encoded is UTF-8"
        return list(ids[:count])

    def tokens(self, ids: Sequence[int], is_target: bool) -> list[str]:
        """Return the token of each id."""
        known = self._tokens[is_target]
        size = ctypes.c_size_t()
        for index in {*ids}.difference(known):
            address = self._library.regard_token(
                self._model, int(is_target), index, ctypes.byref(size)
            )
            known[index] = _text(address, size.value)
        return [known[index] for index in ids]

    def vocabulary(self, is_target: bool) -> tuple[str, ...]:
        """Return all tokens, by their ids."""
        size = ctypes.c_size_t()
        addresses = (
            self._library.regard_token(
                self._model, int(is_target), index, ctypes.byref(size)
            )
            for index in itertools.count()
        )
        return tuple(
            _text(address, size.value)
            for address in itertools.takewhile(bool, addresses)
        )

    def decode(self, ids: Sequence[int], is_target: bool) -> str:
        """Return the text of tokens."""
        array = (ctypes.c_int32 * len(ids))(*ids)
        size = ctypes.c_size_t()
        address = self._library.regard_decode(
            self._model, int(is_target), array, len(ids), ctypes.byref(size)
        )
        if not address:
            raise UsageError(
                f"token ids: wanted those of the vocabulary, got {list(ids)[:10]}"
            )
        text = ctypes.string_at(address, size.value).decode()
        self._library.regard_free_text(address)
        return text

    def word_indices(self, ids: Sequence[int], is_target: bool) -> list[int]:
        """Return the word that each token belongs to; −1: end of sentence."""
        array = (ctypes.c_int32 * len(ids))(*ids)
        words = (ctypes.c_int32 * len(ids))()
        if self._library.regard_words(
            self._model, int(is_target), array, len(ids), words
        ):
            raise UsageError(
                f"token ids: wanted those of the vocabulary, got {list(ids)[:10]}"
            )
        return list(words)

    def word_texts(
        self, ids: Sequence[int], words: Sequence[int], is_target: bool
    ) -> tuple[str, ...]:
        """Return the text of each word, decoded from its tokens; `words`: those that `word_indices`
        returns.
        """
        tokens: list[list[int]] = [[] for _ in range(max(words, default=-1) + 1)]
        for token, word in zip(ids, words, strict=True):
            if word >= 0:
                tokens[word].append(token)
        return tuple(self.decode(word, is_target) for word in tokens)

    @property
    def has_attention(self) -> bool:
        """True if target words attend to source words."""
        return any(layer.role == "cross" for layer in self.layers)

    @property
    def recurrence(self) -> int:
        """Sum of 1 if the encoder is recurrent, and 2 if the decoder is."""
        return int(self._library.regard_recurrence(self._model))

    def _lines(self, result: Any) -> list[RuntimeLine]:
        """Read a result, and free it."""
        library = self._library
        try:
            self.check_unchanged()
            steps = tuple(
                self._step(result, step) for step in range(library.regard_steps(result))
            )
            return [
                self._line(result, index, steps)
                for index in range(library.regard_count(result))
            ]
        finally:
            library.regard_free(result)

    def _line(
        self, result: Any, index: int, steps: tuple[SearchStep, ...]
    ) -> RuntimeLine:
        line = self._library.regard_line(result, index).contents
        ranked = [
            self._library.regard_hypothesis(result, index, rank).contents
            for rank in range(line.hypotheses)
        ]
        parts = [(_Part * line.parts).from_address(item.parts) for item in ranked]
        return RuntimeLine(
            tuple(
                self._hypothesis(result, index, rank, *own)
                for rank, own in enumerate(zip(ranked, parts, strict=True))
            ),
            _numbers("i", line.source_count, line.source),
            tuple(
                TranslatedPart(
                    _text(part.source, part.source_size),
                    _text(part.text, part.text_size),
                    part.score,
                )
                for part in parts[0]
            ),
            tuple(line.note.decode().split("\n")) if line.note else (),
            steps,
        )

    def _step(self, result: Any, step: int) -> SearchStep:
        from regard.search.search_steps import Candidate, SearchStep

        library = self._library
        count = ctypes.c_size_t()
        ids = (ctypes.c_int32 * step)()
        prefixes = []
        for row in range(library.regard_open_hypotheses(result, step)):
            library.regard_open_tokens(result, step, row, ids)
            prefixes.append(tuple(ids))
        listed = library.regard_candidates(result, step, ctypes.byref(count))
        candidates = (
            Candidate(c.row, c.token, c.log_prob, c.total, FATES[c.fate])
            for c in listed[: count.value]
        )
        return SearchStep(tuple(prefixes), tuple(candidates))

    def _hypothesis(
        self, result: Any, index: int, rank: int, item: _Hypothesis, parts: Any
    ) -> RuntimeHypothesis:
        links = None
        if item.links:
            words = _numbers("i", 2 * item.link_count, item.links)
            links = tuple(zip(words[::2], words[1::2], strict=True))
        return RuntimeHypothesis(
            _text(item.text, item.text_size),
            item.score,
            _numbers("i", item.token_count, item.tokens),
            _numbers("f", item.token_count, item.log_probs),
            links,
            *(
                self._recorded(result, index, rank)
                if item.is_recorded
                else ({}, {}, None)
            ),
            tuple(
                (part.repetition.decode(), part.repetitions)
                for part in parts
                if part.repetitions
            ),
            bool(item.is_complete),
        )

    def _recorded(
        self, result: Any, index: int, rank: int
    ) -> tuple[_Arrays, _Arrays, RuntimeStates | None]:
        """Read attention weights, what softmax makes them of, and states."""
        library = self._library
        layers = [
            (each.name, library.regard_attention(result, index, rank, n))
            for n, each in enumerate(self.layers)
        ]
        recorded = [
            (name, item, (item.heads, item.rows, item.columns))
            for name, item in layers
            if item.weights
        ]
        weights = {name: _array(item.weights, shape) for name, item, shape in recorded}
        scores = {name: _array(item.scores, shape) for name, item, shape in recorded}
        return weights, scores, _states(library.regard_states(result, index, rank))


class RuntimeQueue:
    """Calls of a model that are translated together: each is submitted under a ticket, and taken
    when it is done.

    Sentences of all calls share the steps of the search, whatever their options, and a long call
    does not keep others waiting. Any number of threads may use it at once.
    """

    def __init__(self, model: RuntimeModel, threads: int) -> None:
        """Start the threads; see `RuntimeModel.queue`."""
        # A model is not closed before its queue.
        self._library, self._model = model._library, model
        self._process = os.getpid()
        self._tickets = itertools.count()
        self._queue: int | None = _succeed(
            self._library.regard_queue_open, model._model, threads
        )

    def submit(
        self,
        ticket: int,
        sources: Sources,
        options: Options,
        constraints: Sequence[Constraints] | None = None,
    ) -> None:
        """Hand over what `RuntimeModel.translate` takes. Raises LineError or UsageError as it
        does.
        """
        kind, given = _given(sources, constraints)
        error = ctypes.create_string_buffer(_ERROR_SIZE)
        call = getattr(self._library, f"regard_queue_submit{kind}")
        if call(
            self._queue,
            ticket,
            *given,
            ctypes.byref(_structure(options)),
            error,
            _ERROR_SIZE,
        ):
            raise _problem(error.value.decode("utf-8", "replace"))

    def translate(
        self,
        sources: Sources,
        options: Options,
        constraints: Sequence[Constraints] | None = None,
    ) -> list[RuntimeLine]:
        """Submit a call and wait for it; Ctrl-C and `stopping` cancel it.

        No other thread may take calls that it did not submit.
        """
        stop = STOP_EVENT.get()
        check_stop(stop)  # of many calls that are soon done none would be waited for
        ticket = next(self._tickets)
        self.submit(ticket, sources, options, constraints)
        try:
            while (taken := self.take(PATIENCE, ticket)) is None:
                check_stop(stop)
        except BaseException:
            self.cancel(ticket)
            raise
        if isinstance(taken[1], RegardError):
            raise taken[1]
        return taken[1]

    def cancel(self, ticket: int) -> None:
        """Give up a call: there will be no result unless there is one already."""
        self._library.regard_queue_cancel(self._queue, ticket)

    def take(
        self, seconds: float, ticket: int | None = None
    ) -> tuple[int, list[RuntimeLine] | RegardError] | None:
        """Wait for the next call that is done, or for that of a ticket, and return its ticket with
        its lines or error.

        None: none was done.
        """
        done = ctypes.c_uint64(ticket or 0)
        result = ctypes.c_void_p()
        if ticket is None:
            is_done = self._library.regard_queue_take(
                self._queue, seconds, ctypes.byref(done), ctypes.byref(result)
            )
        else:
            is_done = self._library.regard_queue_take_one(
                self._queue, seconds, ticket, ctypes.byref(result)
            )
        if not is_done:
            return None
        if not result.value:
            return done.value, RegardError(
                "there is not enough memory for this call; send less text"
            )
        try:
            return done.value, self._model._lines(result)
        except ModelFolderError as problem:
            return done.value, problem

    def close(self) -> None:
        """Stop the threads and give up unfinished calls. No thread may wait for results then."""
        queue = self._queue
        self._queue = None
        if queue and self._process == os.getpid():  # a fork has no threads to wait for
            self._library.regard_queue_close(queue)

    def __del__(self) -> None:
        if getattr(self, "_queue", None):
            self.close()


def interruptible(call: Callable[[], _Result], is_long: bool = True) -> _Result:
    """Run a call of the library, where Python handles no signal, in a thread if it is long: Ctrl-C
    need not wait.
    """
    # Where no signal comes.
    if not is_long or threading.current_thread() is not threading.main_thread():
        return call()
    results = list[_Result]()
    problems = list[BaseException]()

    def run() -> None:
        try:
            results.append(call())
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, name="regard", daemon=True)
    thread.start()
    thread.join()
    for problem in problems:
        raise problem
    return results[0]


def _text(address: int, size: int) -> str:
    return ctypes.string_at(address, size).decode()


def _numbers(kind: str, count: int, address: int) -> tuple[Any, ...]:
    """Read numbers of four bytes; the kind is that of `struct`."""
    return struct.unpack(f"{count}{kind}", ctypes.string_at(address, 4 * count))


def _array(numbers: Any, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Copy an array of the library."""
    import numpy as np  # late: a line is translated before numpy is imported

    return np.ctypeslib.as_array(numbers, shape).copy()


def _states(item: _States) -> RuntimeStates | None:
    if not item.decoder:
        return None
    sizes = item.source, item.directions, item.encoder_size
    encoder = _array(item.encoder, sizes) if item.encoder else None
    initial = _array(item.initial, (item.decoder_size,)) if item.initial else None
    decoder = _array(item.decoder, (item.target, item.decoder_size))
    return RuntimeStates(encoder, decoder, initial, bool(item.attends_first))


def _texts(lines: Sequence[str]) -> tuple[Any, Any, int]:
    """Return lines as the library takes them: their addresses, their sizes, their number."""
    encoded = [line.encode("utf-8", "replace") for line in lines]
    count = len(encoded)
    return (
        (ctypes.c_char_p * count)(*encoded),
        (ctypes.c_size_t * count)(*map(len, encoded)),
        count,
    )


def _structure(options: Options) -> _Options:
    values = vars(options)
    try:
        return _Options(**values)
    except TypeError:
        raise UsageError(
            "options of the search: wanted whole numbers, and fractions for penalties, got "
            f"{values}"
        ) from None


def _given(
    sources: Sources, constraints: Sequence[Constraints] | None
) -> tuple[str, tuple[Any, ...]]:
    """Return what names the functions of the library that take such sources, and these as the
    functions take them.
    """
    count = len(sources)
    own = None if constraints is None else (Constraints * count)(*constraints)
    if not sources or isinstance(sources[0], str):
        return "", (*_texts(cast(Sequence[str], sources)), own)
    if isinstance(sources[0], EncodedSource):
        return "_encoded", ((EncodedSource * count)(*cast(Any, sources)), count, own)
    return "_ids", (*_arrays(cast(Any, sources)), count, own)


def _arrays(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """Return rows of token ids as the library takes them: their addresses, and their lengths."""
    arrays = [ctypes.cast((ctypes.c_int32 * len(row))(*row), _Ids) for row in rows]
    return (_Ids * len(rows))(*arrays), (ctypes.c_size_t * len(rows))(*map(len, rows))


def _succeed(function: Any, *arguments: Any) -> int:
    """Call a function that returns 0 if it fails, and writes why. Raises that error."""
    error = ctypes.create_string_buffer(_ERROR_SIZE)
    if not (result := function(*arguments, error, _ERROR_SIZE)):
        raise _problem(error.value.decode("utf-8", "replace"))
    return int(result)


def _problem(message: str) -> Exception:
    """Return the error of a message of the library: that of a line, with its index, or that of
    options.
    """
    start, _, rest = message.partition(": ")
    if start.startswith("line "):
        return LineError((int(start.removeprefix("line ")) - 1, rest))
    return MemoryError(message) if "memory" in message else UsageError(message)


_QUICK = (
    *(
        "card",
        "languages",
        "options",
        "layers",
        "layer",
        "token",
        "words",
        "decode",
        "free_text",
        "count",
        "line",
    ),
    *(
        "hypothesis",
        "attention",
        "states",
        "recurrence",
        "steps",
        "open_hypotheses",
        "open_tokens",
        "candidates",
    ),
)
"""Functions that take microseconds: releasing Python's lock for one would wait for each thread that
computes.
"""


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declare argument and result types of the functions of regard.h."""
    pointer = ctypes.c_void_p
    size = ctypes.c_size_t
    integer = ctypes.c_int32
    text = ctypes.c_char_p
    counted = ctypes.POINTER(size)
    ids = ctypes.POINTER(integer)
    hypothesis = [pointer, size, integer]
    lines = [pointer, pointer, size]
    functions: dict[str, tuple[Any, list[Any]]] = {
        "open": (pointer, [text, text, size]),
        **dict.fromkeys(
            ("close", "free", "free_text", "queue_close", "stream_free"),
            (None, [pointer]),
        ),
        **dict.fromkeys(
            ("is_unchanged", "layers", "recurrence", "stream_is_complete"),
            (integer, [pointer]),
        ),
        **dict.fromkeys(("card", "languages", "next"), (pointer, [pointer, counted])),
        "options": (None, [pointer, pointer]),
        "layer": (_Layer, [pointer, integer]),
        **dict.fromkeys(
            ("encode", "encode_target"),
            (ctypes.c_int64, [pointer, text, size, ids, size]),
        ),
        "words": (ctypes.c_int, [pointer, ctypes.c_int, ids, size, ids]),
        "decode": (pointer, [pointer, ctypes.c_int, ids, size, counted]),
        "token": (pointer, [pointer, ctypes.c_int, integer, counted]),
        **dict.fromkeys(
            ("translate", "translate_ids"),
            (pointer, [pointer, *lines, pointer, pointer, text, size]),
        ),
        "translate_encoded": (
            pointer,
            [pointer, pointer, size, pointer, pointer, text, size],
        ),
        "open_memory": (pointer, [pointer, size, text, size]),
        **dict.fromkeys(("count", "steps"), (size, [pointer])),
        "queue_open": (pointer, [pointer, integer, text, size]),
        **dict.fromkeys(
            ("queue_submit", "queue_submit_ids"),
            (
                ctypes.c_int,
                [pointer, ctypes.c_uint64, *lines, pointer, pointer, text, size],
            ),
        ),
        "queue_submit_encoded": (
            ctypes.c_int,
            [pointer, ctypes.c_uint64, pointer, size, pointer, pointer, text, size],
        ),
        "queue_cancel": (None, [pointer, ctypes.c_uint64]),
        "queue_take": (ctypes.c_int, [pointer, ctypes.c_double, pointer, pointer]),
        "queue_take_one": (
            ctypes.c_int,
            [pointer, ctypes.c_double, ctypes.c_uint64, pointer],
        ),
        "line": (ctypes.POINTER(_Line), [pointer, size]),
        "hypothesis": (ctypes.POINTER(_Hypothesis), hypothesis),
        "attention": (_Attention, [*hypothesis, integer]),
        "states": (_States, hypothesis),
        "open_hypotheses": (size, [pointer, size]),
        "open_tokens": (None, [pointer, size, size, ids]),
        "candidates": (ctypes.POINTER(_Candidate), [pointer, size, counted]),
        "stream": (pointer, [pointer, text, size, pointer, pointer, text, size]),
        "stream_ids": (
            pointer,
            [pointer, pointer, pointer, pointer, pointer, text, size],
        ),
        "stream_encoded": (pointer, [pointer, pointer, pointer, pointer, text, size]),
        "next_tokens": (ids, [pointer, counted]),
    }
    held = ctypes.PyDLL(library._name, handle=library._handle)
    for name, (result, arguments) in functions.items():
        setattr(
            library,
            f"regard_{name}",
            declare(held if name in _QUICK else library, name, result, *arguments),
        )
    return library
