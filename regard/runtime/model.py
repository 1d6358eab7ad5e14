"""Open a runtime file, which is a trained translator in one file, and run it by the C library
(regard.h).
"""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import struct
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar, cast

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
from regard.text.quality import Quality, Trust
from regard.text.translation import TranslatedPart, group_by_word

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from regard.runtime.native import CType
    from regard.search.search_steps import Fate, SearchStep

    _Arrays = dict[str, npt.NDArray[np.float32]]

ROLES = ("encoder", "cross", "decoder")
EOS = 3
"""Id of the end of sentence, as in `regard.data.vocabulary`, whose import takes longer."""
NO_ATTENTION, CROSS_ATTENTION, ALL_ATTENTION = range(3)
"""Values of `Options.attention`: which layers' attention a search records."""
FATES: tuple[Fate, ...] = ("pruned", "kept", "ended")
_ERROR_SIZE = 1024
_ALIGNED = 64
_SHORT_LENGTH = 1_000
"""Largest total of characters or tokens in the sources of a short search."""
_SHORT_SOURCES = 8
"""Largest number of sources of a short search."""
_Result = TypeVar("_Result")
_Pointer = int | ctypes.c_void_p
"""Address of an object of the library."""


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
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
        """Return a copy of the options in a tenth of the time of `copy.copy`."""
        options = object.__new__(Options)
        options.__dict__.update(self.__dict__)
        return options


_TYPES: dict[str, CType] = {
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
        """Return the constraint that a target begins with these tokens."""
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
    """Output of an encoder for one source: outputs (S, D), embeddings (S, De) and summary (L·D).

    The arrays are contiguous float32.
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
        """Refer to the arrays; `length` is the source length in tokens, which `max_ratio` uses."""
        assert all(
            array.dtype == "float32" and array.flags.c_contiguous for array in arrays
        ), "the library reads contiguous float32"
        self._arrays = arrays
        sizes = (array.shape[-1] for array in arrays)
        super().__init__(
            *(array.ctypes.data for array in arrays), len(arrays[0]), length, *sizes
        )

    def __len__(self) -> int:
        # The library refuses a negative length, with the same error as for other wrong sources.
        return max(int(self.length), 0)


Source = Sequence[int] | EncodedSource
"""Token ids with the end of sentence, or the output of an encoder for a sentence or an image."""
Sources = Sequence[str] | Sequence[Source]
"""Sources of one call, which are all of one type."""


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
    """Hidden states of the top layers: of a recurrent encoder (S, directions, N), and of the
    decoder (T, M).

    The states of a decoder that is not recurrent are its features. `initial` (M,) is the state of a
    recurrent decoder before the first token. `attends_first` means that attention uses the state
    before the step.
    """

    encoder: npt.NDArray[np.float32] | None
    decoder: npt.NDArray[np.float32]
    initial: npt.NDArray[np.float32] | None
    attends_first: bool


class RuntimeHypothesis(NamedTuple):
    """A translation of a line: text, score and token ids, and on request links, attention (heads,
    T, S) and states.
    """

    text: str
    score: float
    ids: tuple[int, ...]
    log_probs: tuple[float, ...]  # of each token, given the preceding tokens
    links: tuple[tuple[int, int], ...] | None
    weights: _Arrays  # attention weights by layer
    scores: _Arrays  # attention scores before the softmax, by layer
    states: RuntimeStates | None
    # Texts that a part of the line keeps repeating, and how often.
    repetitions: tuple[tuple[str, int], ...]
    # All required terms are present, and the model has placed the copy tokens itself.
    is_complete: bool


class RuntimeLine(NamedTuple):
    """The result for a line: hypotheses, best first, source token ids, parts, notes, and search
    steps.

    `steps` are present if they were asked for and the line was neither empty nor split.
    """

    hypotheses: tuple[RuntimeHypothesis, ...]
    source: tuple[int, ...]
    parts: tuple[TranslatedPart, ...]
    notes: tuple[str, ...]
    steps: tuple[SearchStep, ...]


class Card(TypedDict, total=False):
    """The card of a runtime file: how and on what the model was trained, its licence, its scores.

    `familiar` has the fields of `SeenTokenPairs`, `quality` those of `Quality`, and `alignment`
    those of `AlignmentChoice`;
    `name` is that of an export in the cache. The other tables have settings.
    """

    regard: str
    format: int
    name: str
    precision: str
    fingerprint: str
    readme: str
    languages: list[str]
    language_codes: list[str]
    warnings: list[str]
    parameters: int
    model: dict[str, object]
    tokenizer: dict[str, object]
    search: dict[str, Any]
    familiar: dict[str, Any]
    quality: dict[str, Any]
    alignment: dict[str, object] | None


_CARD: Card = {
    "regard": "",
    "precision": "",
    "fingerprint": "",
    "readme": "",
    "languages": ["", ""],
    "language_codes": [],
    "warnings": [],
    "parameters": 0,
    "search": {},
    "familiar": {},
    "quality": {},
    "alignment": None,
}
"""Default values of a card, which also give the types of its values; `alignment` is a table."""
_TEXTS = ("languages", "language_codes", "warnings")
_CARD_SIZE = 1 << 22
_ENTRIES = 2_000
_CHARACTERS = 1_000
_LARGEST = 1e15


def _read_card(path: Path, content: bytes) -> Card:
    """Parse and check the card of a file from any source. Raises ModelFolderError with all
    causes.
    """
    try:
        if len(content) > _CARD_SIZE:
            raise ValueError(f"it has {len(content):,} bytes, more than {_CARD_SIZE:,}")
        given: Card = parse_json(content)
        card: Card = {**_CARD, **given}
    except (ValueError, TypeError) as problem:
        raise ModelFolderError(
            f"{path}: its card is no table ({problem}); export the model again"
        ) from None

    flaws = list[str]()
    for name, value in card.items():
        flaw = _flaw(name, value)
        if flaw:
            flaws.append(f"{name[:50]}: {flaw}")
    if not flaws:
        flaws = [
            *_search_flaws(card["search"]),
            *_familiar_flaws(card),
            *_quality_flaws(card),
        ]
    causes = [f"{path}: its card, {flaw}" for flaw in flaws[:20]]
    ModelFolderError.raise_all(causes, f"{path}: export the model again")
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
    "max_ratio": (math.ulp(0.0), 100),
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
_USUAL: dict[str, tuple[object, ...]] = {
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
"""Values of search settings that are valid whatever the other settings are.

Only other values are checked by `SearchSettings`.
"""


def _is_usual(name: str, value: object) -> bool:
    """Return whether a search setting of a card is valid whatever the others are."""
    if any(
        value == usual and isinstance(value, bool) == isinstance(usual, bool)
        for usual in _USUAL.get(name, ())
    ):
        return type(value) is not float or name in ("temperature", "coverage_penalty")
    low, high = _BOUNDS.get(name, (1, 0))
    types = (int, float) if name in _FRACTIONS else (int,)
    return (
        isinstance(value, types)
        and not isinstance(value, bool)
        and low <= value <= high
    )


def _search_flaws(search: dict[str, object]) -> tuple[str, ...]:
    """Return what is wrong with the search settings of a card.

    Usual settings are checked without pydantic, which takes long to load.
    """
    if all(_is_usual(name, value) for name, value in search.items()):
        return ()
    from regard.search.settings import SearchSettings

    try:
        SearchSettings.parse(search, "search")
    except ConfigurationError as problem:
        return tuple(cause.partition("; known are ")[0] for cause in problem.causes)
    return ()


def _familiar_flaws(card: Card) -> list[str]:
    """Return what is wrong with the token pairs of a card that were seen in training."""
    familiar = card["familiar"]
    if not familiar:
        return []
    if set(familiar) != {"pairs", "most"}:
        return [
            f"familiar: wanted `pairs` and `most`, got {', '.join(sorted(familiar))[:60]}"
        ]
    if type(familiar["pairs"]) is not str or type(familiar["most"]) is not int:
        return ["familiar: wanted `pairs` as a text and `most` as a whole number"]
    try:
        SeenTokenPairs(**familiar)
    except ValueError as problem:
        return [f"familiar: {problem}"]
    return []


def _quality_flaws(card: Card) -> list[str]:
    """Return what is wrong with the calibration of a card."""
    try:
        calibration(card["quality"])
    except (TypeError, ValueError) as problem:
        return [f"quality: {problem}"]
    return []


def trust_of(card: Card) -> Trust:
    """Return how far translations of the usual search of a model are trusted."""
    threshold = card["search"].get("score_threshold")
    return Trust(threshold, calibration(card["quality"]))


def calibration(values: dict[str, Any]) -> Quality | None:
    """Return the calibration of a card; None if it has none. Raises TypeError or ValueError for
    other values.
    """
    if not values:
        return None
    known = {
        field.name: values[field.name]
        for field in fields(Quality)
        if field.name in values
    }
    return Quality(**{**known, "good": tuple(map(float, known.get("good", ())))})


def _flaw(name: str, value: object) -> str:
    """Return what is wrong with a value of a card, its type or its size; empty if nothing is."""
    wanted = type(_CARD.get(name, value))
    if name == "alignment" and value is not None:
        wanted = dict
    if type(value) is not wanted:
        return f"wanted a {wanted.__name__}, got {repr(value)[:60]}"
    if isinstance(value, list):
        if name in _TEXTS and not all(isinstance(text, str) for text in value):
            return "wanted texts alone"
        if name == "languages" and len(value) != 2:
            return f"wanted two languages, got {len(value):,}"
    return _size_flaw(name if name in ("readme", "familiar") else [name, value])


def _size_flaw(value: object) -> str:
    """Return what is too large in a value of a card; empty if nothing is."""
    # The list grows while it is walked, so that nested values are checked too.
    parts = [value]
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
    """An open runtime file. Any number of threads may use it at once."""

    # The buffer of a model that was opened from memory.
    _content: ctypes.Array[ctypes.c_char] | None = None

    def __init__(self, path: str | Path) -> None:
        """Map the file into memory.

        Raises ModelFolderError if it is missing, damaged, of another version, or has an invalid
        card.
        """
        self._library = _declared(kernels())
        self.path = Path(path)
        self._open(self._library.regard_open, os.fsencode(path))
        size = ctypes.c_size_t()
        address = self._library.regard_card(self._model, ctypes.byref(size))
        self.card = _read_card(self.path, ctypes.string_at(address, size.value))
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

    def _open(self, function: Callable[..., int | None], *arguments: object) -> None:
        error = ctypes.create_string_buffer(_ERROR_SIZE)
        self._single_call = threading.Lock()
        self._queues = dict[int, RuntimeQueue]()  # by process id
        self._model = function(*arguments, error, _ERROR_SIZE)
        if not self._model:
            raise ModelFolderError(error.value.decode("utf-8", "surrogateescape"))

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            for queue in self._queues.values():
                queue.close()
            self._library.regard_close(self._model)

    def check_unchanged(self) -> None:
        """Raise ModelFolderError if the file was written to, or truncated, since it was opened."""
        if not self._library.regard_is_unchanged(self._model):
            raise ModelFolderError(
                f"{self.path}: changed while it was open, so translations would be wrong; write a "
                "new file beside it and rename that, and open this one again"
            )

    @cached_property
    def language_id(self) -> bytes:
        """Language identification for `LanguageId.parse`; empty if the file has none."""
        size = ctypes.c_size_t()
        address = self._library.regard_languages(self._model, ctypes.byref(size))
        return ctypes.string_at(address, size.value) if address else b""

    @cached_property
    def _tokens(self) -> tuple[dict[int, str], dict[int, str]]:
        """Caches of the tokens of source and target, by id."""
        return {}, {}

    @cached_property
    def copies(self) -> str:
        """The characters of the model's copy tokens; empty if it has none."""
        source_tokens = self.tokens(self.encode(COPY_CHARACTERS), False)
        target_tokens = self.tokens(self.encode_target(COPY_CHARACTERS), True)
        shared = {*source_tokens} & {*target_tokens}
        return "".join(
            character for character in COPY_CHARACTERS if character in shared
        )

    @cached_property
    def layers(self) -> tuple[AttentionLayer, ...]:
        """The layers of attention, lowest first."""
        layers = list[AttentionLayer]()
        for number in range(self._library.regard_layers(self._model)):
            layer = self._library.regard_layer(self._model, number)
            name = layer.name.decode("utf-8", "replace")
            layers.append(AttentionLayer(name, ROLES[layer.role], layer.heads))
        return tuple(layers)

    def options(self) -> Options:
        """Return the search options that the model was exported with."""
        options = _Options()
        self._library.regard_options(self._model, ctypes.byref(options))
        return Options(*(getattr(options, name) for name in _NAMES))

    def translate(
        self,
        sources: Sources,
        options: Options,
        constraints: Sequence[Constraints] | None = None,
    ) -> list[RuntimeLine]:
        """Translate lines, or search for the targets of token ids or encoder outputs.

        `constraints` has one element per source. Token ids and encoder outputs are not split into
        sentences, and their targets may be empty if `min_length` allows it.

        Calls that several threads make at the same time are searched together, with the results of
        separate calls. A queue for them starts with the `threads` of the first call that overlaps
        another, and ends with the model. A call that can be cancelled (`stopping`) is always
        searched by the queue.

        Raises LineError for a line that cannot be translated, UsageError for options out of range,
        and Stopped.
        """
        if STOP_EVENT.get() is not None or not self._single_call.acquire(
            blocking=False
        ):
            queue = self._shared_queue(options.threads)
            return queue.translate(sources, options, constraints)
        is_long = (
            len(sources) > _SHORT_SOURCES or sum(map(len, sources)) > _SHORT_LENGTH
        )
        try:
            return interruptible(
                lambda: self._translate(sources, options, constraints), is_long
            )
        finally:
            self._single_call.release()

    def _translate(
        self,
        sources: Sources,
        options: Options,
        constraints: Sequence[Constraints] | None,
    ) -> list[RuntimeLine]:
        suffix, arguments = _source_arguments(sources, constraints)
        function = getattr(self._library, f"regard_translate{suffix}")
        result = _succeed(
            function, self._model, *arguments, ctypes.byref(_structure(options))
        )
        return self._lines(result)

    def _shared_queue(self, threads: int) -> RuntimeQueue:
        """Return the queue of this process. The threads of its parent's queue do not exist after a
        fork.
        """
        process = os.getpid()
        if process not in self._queues:
            # If two threads open a queue at the same time, one of the queues is kept.
            self._queues.setdefault(process, RuntimeQueue(weakref.proxy(self), threads))
        return self._queues[process]

    def queue(self, threads: int) -> RuntimeQueue:
        """Start threads that translate calls by continuous batching as they arrive."""
        return RuntimeQueue(self, threads)

    def stream(
        self, line: str, options: Options, constraints: Constraints | None = None
    ) -> Generator[str, None, bool]:
        """Yield the greedy translation of a line, a few words at a time.

        Returns whether the translation contains all required terms.
        """
        encoded = line.encode("utf-8", "replace")
        stream = _succeed(
            self._library.regard_stream,
            self._model,
            encoded,
            len(encoded),
            constraints and ctypes.byref(constraints),
            ctypes.byref(_structure(options)),
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
        suffix, arguments = _source_arguments([source], [constraints])
        *source_arguments, _, constraint_array = arguments
        stream = _succeed(
            getattr(self._library, f"regard_stream{suffix}"),
            self._model,
            *source_arguments,
            constraint_array,
            ctypes.byref(_structure(options)),
        )
        count = ctypes.c_size_t()
        try:
            while ids := self._library.regard_next_tokens(stream, ctypes.byref(count)):
                yield tuple(ids[: count.value])
            if count.value:
                raise MemoryError("there is not enough memory to translate the line")
        finally:
            self._library.regard_stream_free(stream)

    def encode(self, line: str) -> list[int]:
        """Tokenise a source line; return its token ids, including the end of sentence."""
        return self._encode(self._library.regard_encode, line)

    def encode_target(self, text: str) -> list[int]:
        """Tokenise a text as the beginning of a target; return its token ids."""
        return self._encode(self._library.regard_encode_target, text)

    def _encode(self, function: Callable[..., int], line: str) -> list[int]:
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
        cache = self._tokens[is_target]
        size = ctypes.c_size_t()
        for index in {*ids}.difference(cache):
            address = self._library.regard_token(
                self._model, int(is_target), index, ctypes.byref(size)
            )
            cache[index] = _text(address, size.value)
        return [cache[index] for index in ids]

    def vocabulary(self, is_target: bool) -> tuple[str, ...]:
        """Return all tokens, in the order of their ids."""
        tokens = list[str]()
        size = ctypes.c_size_t()
        while address := self._library.regard_token(
            self._model, int(is_target), len(tokens), ctypes.byref(size)
        ):
            tokens.append(_text(address, size.value))
        return tuple(tokens)

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
        """Return the word index of each token; −1 for the end of sentence."""
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
        """Return the text of each word, decoded from its tokens; `words` is the result of
        `word_indices`.
        """
        ids_of_words = group_by_word(ids, words)
        return tuple(self.decode(word_ids, is_target) for word_ids in ids_of_words)

    @property
    def has_attention(self) -> bool:
        """True if target words attend to source words."""
        return any(layer.role == "cross" for layer in self.layers)

    @property
    def recurrence(self) -> int:
        """Bit mask of recurrence: 1 if the encoder is recurrent, plus 2 if the decoder is."""
        return int(self._library.regard_recurrence(self._model))

    def _lines(self, result: _Pointer) -> list[RuntimeLine]:
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
        self, result: _Pointer, index: int, steps: tuple[SearchStep, ...]
    ) -> RuntimeLine:
        line = self._library.regard_line(result, index).contents
        ranked = [
            self._library.regard_hypothesis(result, index, rank).contents
            for rank in range(line.hypotheses)
        ]
        parts = [(_Part * line.parts).from_address(item.parts) for item in ranked]
        hypotheses = tuple(
            self._hypothesis(result, index, rank, item, parts[rank])
            for rank, item in enumerate(ranked)
        )
        translated_parts = tuple(
            TranslatedPart(
                _text(part.source, part.source_size),
                _text(part.text, part.text_size),
                part.score,
            )
            for part in parts[0]
        )
        return RuntimeLine(
            hypotheses,
            _numbers("i", line.source_count, line.source),
            translated_parts,
            tuple(line.note.decode().split("\n")) if line.note else (),
            steps,
        )

    def _step(self, result: _Pointer, step: int) -> SearchStep:
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
        self,
        result: _Pointer,
        index: int,
        rank: int,
        item: _Hypothesis,
        parts: ctypes.Array[_Part],
    ) -> RuntimeHypothesis:
        links = None
        if item.links:
            words = _numbers("i", 2 * item.link_count, item.links)
            links = tuple(zip(words[::2], words[1::2], strict=True))
        weights: _Arrays = {}
        scores: _Arrays = {}
        states = None
        if item.is_recorded:
            weights, scores, states = self._recorded(result, index, rank)
        repetitions = tuple(
            (part.repetition.decode(), part.repetitions)
            for part in parts
            if part.repetitions
        )
        return RuntimeHypothesis(
            _text(item.text, item.text_size),
            item.score,
            _numbers("i", item.token_count, item.tokens),
            _numbers("f", item.token_count, item.log_probs),
            links,
            weights,
            scores,
            states,
            repetitions,
            bool(item.is_complete),
        )

    def _recorded(
        self, result: _Pointer, index: int, rank: int
    ) -> tuple[_Arrays, _Arrays, RuntimeStates | None]:
        """Read attention weights, attention scores, and states."""
        library = self._library
        weights: _Arrays = {}
        scores: _Arrays = {}
        for number, layer in enumerate(self.layers):
            attention = library.regard_attention(result, index, rank, number)
            if attention.weights:
                shape = (attention.heads, attention.rows, attention.columns)
                weights[layer.name] = _array(attention.weights, shape)
                scores[layer.name] = _array(attention.scores, shape)
        return weights, scores, _states(library.regard_states(result, index, rank))


class RuntimeQueue:
    """Queue of calls that a model translates together.

    Each call is submitted with a ticket, and its result is taken when it is done. The sentences of
    all calls share the steps of the search, whatever their options, and a long call does not delay
    others. Any number of threads may use the queue at once.
    """

    def __init__(self, model: RuntimeModel, threads: int) -> None:
        """Start the threads; see `RuntimeModel.queue`."""
        self._library = model._library
        self._model = model  # keeps the model open as long as the queue
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
        """Submit a call, with the arguments and errors of `RuntimeModel.translate`."""
        suffix, arguments = _source_arguments(sources, constraints)
        error = ctypes.create_string_buffer(_ERROR_SIZE)
        function = getattr(self._library, f"regard_queue_submit{suffix}")
        has_failed = function(
            self._queue,
            ticket,
            *arguments,
            ctypes.byref(_structure(options)),
            error,
            _ERROR_SIZE,
        )
        if has_failed:
            raise _problem(error.value.decode("utf-8", "replace"))

    def translate(
        self,
        sources: Sources,
        options: Options,
        constraints: Sequence[Constraints] | None = None,
    ) -> list[RuntimeLine]:
        """Submit a call and wait for it; Ctrl-C and `stopping` cancel it.

        Other threads may take only calls that they submitted.
        """
        stop = STOP_EVENT.get()
        # Checked here, since a series of short calls would never reach the check below.
        check_stop(stop)
        ticket = next(self._tickets)
        self.submit(ticket, sources, options, constraints)
        try:
            while (taken := self.take(PATIENCE, ticket)) is None:
                check_stop(stop)
        except BaseException:
            self.cancel(ticket)
            raise
        _, result = taken
        if isinstance(result, RegardError):
            raise result
        return result

    def cancel(self, ticket: int) -> None:
        """Cancel a call: it will have no result unless it is done already."""
        self._library.regard_queue_cancel(self._queue, ticket)

    def take(
        self, seconds: float, ticket: int | None = None
    ) -> tuple[int, list[RuntimeLine] | RegardError] | None:
        """Wait up to `seconds` for the call of a ticket, or for any call, to be done.

        Returns its ticket with its lines or error; None if no such call was done in time.
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
        """Stop the threads and cancel unfinished calls. No thread may be waiting for results."""
        queue = self._queue
        self._queue = None
        # After a fork, the threads of the queue do not exist and cannot be waited for.
        if queue and self._process == os.getpid():
            self._library.regard_queue_close(queue)

    def __del__(self) -> None:
        if getattr(self, "_queue", None):
            self.close()


def interruptible(call: Callable[[], _Result], is_long: bool = True) -> _Result:
    """Run a call of the library so that Ctrl-C can interrupt it.

    Python handles no signal during such a call, so a long one runs in a thread.
    """
    # Python delivers signals to the main thread only.
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
    """Read numbers of four bytes; `kind` is their format character of `struct`."""
    return struct.unpack(f"{count}{kind}", ctypes.string_at(address, 4 * count))


def _array(
    numbers: ctypes._Pointer[ctypes.c_float], shape: tuple[int, ...]
) -> npt.NDArray[np.float32]:
    """Copy an array of the library."""
    import numpy as np  # late, since translating a line does not need numpy

    return np.ctypeslib.as_array(numbers, shape).copy()


def _states(item: _States) -> RuntimeStates | None:
    if not item.decoder:
        return None
    sizes = item.source, item.directions, item.encoder_size
    encoder = _array(item.encoder, sizes) if item.encoder else None
    initial = _array(item.initial, (item.decoder_size,)) if item.initial else None
    decoder = _array(item.decoder, (item.target, item.decoder_size))
    return RuntimeStates(encoder, decoder, initial, bool(item.attends_first))


def _texts(lines: Sequence[str]) -> tuple[object, object, int]:
    """Return lines as arguments of the library: their addresses, sizes and number."""
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


def _source_arguments(
    sources: Sources, constraints: Sequence[Constraints] | None
) -> tuple[str, tuple[object, ...]]:
    """Return sources and constraints as arguments of the library.

    The first value is the suffix of the functions that accept sources of this type.
    """
    count = len(sources)
    constraint_array = None
    if constraints is not None:
        constraint_array = (Constraints * count)(*constraints)
    if not sources or isinstance(sources[0], str):
        return "", (*_texts(cast(Sequence[str], sources)), constraint_array)
    if isinstance(sources[0], EncodedSource):
        encoded = (EncodedSource * count)(*cast(Sequence[EncodedSource], sources))
        return "_encoded", (encoded, count, constraint_array)
    return "_ids", (
        *_arrays(cast(Sequence[Sequence[int]], sources)),
        count,
        constraint_array,
    )


def _arrays(rows: Sequence[Sequence[int]]) -> tuple[object, object]:
    """Return rows of token ids as arguments of the library: their addresses and lengths."""
    arrays = [ctypes.cast((ctypes.c_int32 * len(row))(*row), _Ids) for row in rows]
    return (_Ids * len(rows))(*arrays), (ctypes.c_size_t * len(rows))(*map(len, rows))


def _succeed(function: Callable[..., int | None], *arguments: object) -> int:
    """Call a library function, which returns 0 and writes a message on failure; raise its error."""
    error = ctypes.create_string_buffer(_ERROR_SIZE)
    result = function(*arguments, error, _ERROR_SIZE)
    if not result:
        raise _problem(error.value.decode("utf-8", "replace"))
    return int(result)


def _problem(message: str) -> Exception:
    """Return the error for a message of the library, a LineError with the line's index if it names
    one.
    """
    subject, _, cause = message.partition(": ")
    if subject.startswith("line "):
        return LineError((int(subject.removeprefix("line ")) - 1, cause))
    return MemoryError(message) if "memory" in message else UsageError(message)


_QUICK = (
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
    "hypothesis",
    "attention",
    "states",
    "recurrence",
    "steps",
    "open_hypotheses",
    "open_tokens",
    "candidates",
)
"""Functions that take microseconds, and are called without releasing the GIL.

After releasing it, the thread would have to wait for other Python threads.
"""


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declare argument and result types of the functions of regard.h."""
    pointer = ctypes.c_void_p
    size = ctypes.c_size_t
    integer = ctypes.c_int32
    text = ctypes.c_char_p
    counted = ctypes.POINTER(size)
    ids = ctypes.POINTER(integer)
    hypothesis: list[CType] = [pointer, size, integer]
    lines: list[CType] = [pointer, pointer, size]
    functions: dict[str, tuple[CType | None, list[CType]]] = {
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
    with_gil = ctypes.PyDLL(library._name, handle=library._handle)
    for name, (result, arguments) in functions.items():
        owner = with_gil if name in _QUICK else library
        function = declare(owner, name, result, *arguments)
        setattr(library, f"regard_{name}", function)
    return library
