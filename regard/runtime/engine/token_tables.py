"""Tables of a vocabulary for the C tokenizer (regard/runtime/c/tokenizer.c): one blob, used where
it lies.

Strings are found in double-array tries, in the format of the charsmaps inside SentencePiece models
(darts-clone): unit i leads with byte b to unit i ^ offset ^ b, whose label is b; a unit whose top
bit is set is a leaf with a value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from regard.data.copy_tokens import COPY_CHARACTERS
from regard.data.marian_vocab import SPECIAL
from regard.data.text import COMPATIBILITY
from regard.data.vocabulary import (
    BOS,
    EOS,
    PAD,
    SPACE,
    UNK,
    TableVocabulary,
    Vocabulary,
    WhitespaceVocabulary,
)

_MAGIC = 0x4B4F5452
_VERSION = 1
_BPE = 1
_UNIGRAM = 2
_CHARACTERS = 3
_WHITESPACE = 4
_KINDS = {1: _UNIGRAM, 2: _BPE, 4: _CHARACTERS}
"""SentencePiece's types of models; its "word" models are whitespace vocabularies."""
(
    _BYTE_FALLBACK,
    _DUMMY_PREFIX,
    _SPACE_AS_SUFFIX,
    _REMOVE_SPACES,
    _ESCAPE_SPACES,
    _NUMBERED,
    _WORDWISE,
) = (1 << bit for bit in range(7))
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_AS_TEXT, _AS_NOTHING, _AS_UNKNOWN, _AS_BYTE = range(4)
_WORD_UNREAD = 4
_WORD_GAP = 8
_WORD_START = 16
_COPIES = frozenset(character.encode() for character in COPY_CHARACTERS)
"""Copy tokens are whole by themselves, being characters that no other token holds."""
_UNKNOWN_PENALTY = np.float32(10)
_LEAF = 1 << 31
_HAS_LEAF = 1 << 8
_BLOCK = 256
_OFFSETS = 1 << 21
"""Largest distance between two units of a trie that the format holds."""


@lru_cache(4)
def token_tables(vocabulary: Vocabulary, reads_text: bool = True) -> bytes:
    """Write the tables of a vocabulary, little-endian, each part aligned to 8 bytes.

    Without `reads_text` they lack the tries that text is tokenised with, which take longest.
    Raises ValueError if the vocabulary cannot be written, with the reason.
    """
    model = _SentencePieceModel.parse(vocabulary.model)
    tokens = vocabulary.tokens(range(len(vocabulary)))
    if tokens[: len(SPECIAL)] != [*SPECIAL]:
        raise ValueError(
            f"the first tokens of the vocabulary are not {' '.join(SPECIAL)}"
        )
    if model.denormalises:
        raise ValueError(
            "its SentencePiece model changes decoded text (denormalizer_spec), which the runtime "
            "does not"
        )
    kind = (
        _WHITESPACE
        if isinstance(vocabulary, WhitespaceVocabulary)
        else _KINDS.get(model.kind)
    )
    if kind is None:
        raise ValueError(
            f"its SentencePiece model is of type {model.kind}, which the runtime does not know"
        )
    texts = [token.encode() for token in tokens]
    ids = {
        text: index
        for index, text in enumerate(texts)
        if index > EOS or vocabulary.table is None
    }
    numbered = isinstance(vocabulary, TableVocabulary)
    piece_tokens = [
        ids.get(piece, UNK) if numbered else index
        for index, piece in enumerate(model.pieces)
    ]
    unknown = [index for index, kind in enumerate(model.kinds) if kind == _UNKNOWN]
    fallback = (
        [ids.get(b"<0x%02X>" % byte, UNK) for byte in range(256)]
        if model.flags & _BYTE_FALLBACK
        else []
    )
    trie = model.searchable(every=kind == _WHITESPACE)
    names = {text: index for text, index in ids.items() if text}
    if not reads_text:  # one entry each, since the format has no tries without any
        trie = dict([next(iter(trie.items()))])
        names = dict([next(iter(names.items()))])
    parts = [
        np.cumsum([0, *(len(text) + 1 for text in texts)], dtype="<u4").tobytes(),
        b"".join(text + b"\0" for text in texts),
        _token_kinds(vocabulary, tokens, model, numbered),
        np.array(model.scores, "<f4").tobytes(),
        np.array(piece_tokens, "<i4").tobytes(),
        bytes(model.kinds),
        build_trie(trie),
        build_trie(
            {
                piece: index
                for piece, index in trie.items()
                if model.kinds[index] == _USER_DEFINED and piece not in _COPIES
            }
        ),
        build_trie(names) if numbered else b"",
        *(
            model.charsmap
            if model.charsmap[0] or numbered or not reads_text
            else _known_forms(vocabulary)
        ),
        np.array(fallback, "<i4").tobytes(),
        "⁇".encode(),
    ]
    flags = (
        model.flags
        | _NUMBERED * numbered
        | _WORDWISE * (not any(SPACE.encode() in piece[1:] for piece in trie))
    )
    numbers = (
        len(texts),
        len(model.pieces),
        piece_tokens[unknown[0]] if unknown else UNK,
        model.unknown_score,
    )
    return _assemble(
        struct.pack("<IIIIIIif", _MAGIC, _VERSION, kind, flags, *numbers), parts
    )


def _known_forms(vocabulary: Vocabulary) -> tuple[bytes, bytes]:
    """Write what `Vocabulary.known_form` changes as the charsmap that the model lacks."""
    half = [chr(code) for code in range(0xFF66, 0xFFDD)]
    values = dict[bytes, int]()
    text = b""
    single = map(chr, (*range(0x2000, 0x10000), *range(0x1D400, 0x1D800)))
    for letters in filter(
        COMPATIBILITY.fullmatch,
        (*single, *(first + second for first in half for second in half)),
    ):
        if (form := vocabulary.known_form(letters)) != letters:
            values[letters.encode()] = len(text)
            text += form.encode() + b"\0"
    return build_trie(values), text


def _assemble(header: bytes, parts: Sequence[bytes]) -> bytes:
    """Join parts behind a header and a list of where they lie."""
    position = len(header) + 16 * len(parts)
    places = []
    body = []
    for part in parts:
        places.append(struct.pack("<QQ", position, len(part)))
        body.append(part + bytes(-len(part) % 8))
        position += len(body[-1])
    return b"".join((header, *places, *body))


def _token_kinds(
    vocabulary: Vocabulary,
    tokens: Sequence[str],
    model: _SentencePieceModel,
    numbered: bool,
) -> bytes:
    """Return for each token how it is decoded, and where it stands in a word."""
    decoding = {_CONTROL: _AS_NOTHING, _BYTE: _AS_BYTE}
    by_piece = {
        piece: _AS_UNKNOWN
        if kind == _UNKNOWN and not numbered
        else decoding.get(kind, _AS_TEXT)
        for piece, kind in zip(model.pieces, model.kinds, strict=True)
    }
    kinds = [by_piece.get(token.encode(), _AS_TEXT) for token in tokens]
    kinds[UNK] = _AS_UNKNOWN
    kinds[PAD] = kinds[BOS] = kinds[EOS] = _AS_NOTHING
    return bytes(
        kind | _word_flags(vocabulary, token)
        for kind, token in zip(kinds, tokens, strict=True)
    )


def _word_flags(vocabulary: Vocabulary, token: str) -> int:
    """Find out what `word_indices` makes of a token: among letters, and alone."""
    among = vocabulary.word_indices(["a", token, "a"])
    alone = vocabulary.word_indices([token])
    if among[1] < 0:
        return _WORD_UNREAD
    return _WORD_START * (among[1] == 1) | _WORD_GAP * (alone == [-1])


@dataclass
class _SentencePieceModel:
    """Contents of a serialised SentencePiece model."""

    pieces: list[bytes] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    kind: int = 1
    flags: int = _DUMMY_PREFIX | _REMOVE_SPACES | _ESCAPE_SPACES
    charsmap: tuple[bytes, bytes] = (b"", b"")
    denormalises: bool = False

    @classmethod
    def parse(cls, data: bytes) -> _SentencePieceModel:
        """Read the message ModelProto of sentencepiece_model.proto."""
        model = cls()
        for number, value in _fields(data):
            if number == 1:
                piece = dict(_fields(_bytes(value)))
                model.pieces.append(_bytes(piece.get(1, b"")))
                model.scores.append(float(piece.get(2, 0.0)))
                model.kinds.append(int(piece.get(3, _NORMAL)))
            elif number == 2:
                trainer = dict(_fields(_bytes(value)))
                model.kind = int(trainer.get(3, model.kind))
                model.flags |= _BYTE_FALLBACK * bool(
                    trainer.get(35)
                ) | _SPACE_AS_SUFFIX * bool(trainer.get(24))
            elif number == 3:
                model._read_normalizer(dict(_fields(_bytes(value))))
            elif number == 5:
                model.denormalises = bool(dict(_fields(_bytes(value))).get(2))
        return model

    def _read_normalizer(self, settings: Mapping[int, float | bytes]) -> None:
        for number, flag in (
            (3, _DUMMY_PREFIX),
            (4, _REMOVE_SPACES),
            (5, _ESCAPE_SPACES),
        ):
            if not settings.get(number, 1):
                self.flags &= ~flag
        if charsmap := _bytes(settings.get(2, b"")):
            end = 4 + int.from_bytes(charsmap[:4], "little")
            self.charsmap = charsmap[4:end], charsmap[end:]

    @property
    def unknown_score(self) -> np.float32:
        """The score of a character without a piece, in the arithmetic of SentencePiece."""
        normal = [
            score
            for score, kind in zip(self.scores, self.kinds, strict=True)
            if kind == _NORMAL
        ]
        return (
            np.float32(min(normal, default=np.finfo(np.float32).max)) - _UNKNOWN_PENALTY
        )

    def searchable(self, every: bool) -> dict[bytes, int]:
        """Return the pieces that text is segmented into, or every piece that can be looked up, with
        their numbers.
        """
        wanted = range(1, 7) if every else (_NORMAL, _USER_DEFINED, _UNUSED)
        numbered = zip(self.pieces, self.kinds, strict=True)
        return {
            piece: index
            for index, (piece, kind) in enumerate(numbered)
            if kind in wanted and b"\0" not in piece
        }


def _bytes(value: float | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("not a SentencePiece model: a number instead of text")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, float | bytes]]:
    """Yield the numbers and values of the fields of a protocol buffer message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number = key >> 3
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            size, at = _varint(data, at)
            yield number, data[at : at + size]
            at += size
        elif wire == 5:
            yield number, struct.unpack_from("<f", data, at)[0]
            at += 4
        elif wire == 1:
            at += 8
        else:
            raise ValueError(f"not a SentencePiece model: a field of wire type {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at = at + 1
        shift = shift + 7
        if byte < 0x80:
            return value, at


def build_trie(values: Mapping[bytes, int]) -> bytes:
    """Build the double-array trie of some strings and their values; empty if there are none.

    Raises ValueError if a string is empty or holds a NUL, or the trie grows too large.
    """
    if not values:
        return b""
    if any(not key or 0 in key for key in values):
        raise ValueError("a token is empty or holds a NUL character")
    keys = sorted(values)
    builder = _TrieBuilder(sum(map(len, keys)))
    waiting = [(0, 0, len(keys), 0)]
    while waiting:
        unit, first, last, depth = waiting.pop()
        children = _children(keys, first, last, depth)
        labels = [label for label, _, _ in children]
        base = builder.place(unit, labels)
        for label, begin, end in children:
            if label:
                waiting.append((base ^ label, begin, end, depth + 1))
            else:
                builder.units[base] = _LEAF | values[keys[begin]]
    return builder.finish()


def _children(
    keys: Sequence[bytes], first: int, last: int, depth: int
) -> list[tuple[int, int, int]]:
    """Divide sorted keys by their byte at a depth: (byte, first, end); a key that ends there has
    the byte 0.
    """
    children = []
    begin = first
    while begin < last:
        label = keys[begin][depth] if depth < len(keys[begin]) else 0
        end = begin + 1
        while label and end < last and keys[end][depth] == label:
            end += 1
        children.append((label, begin, end))
        begin = end
    return children


class _TrieBuilder:
    """Units of a trie that is being built; places for children are searched from the first free
    unit on.
    """

    def __init__(self, nodes: int) -> None:
        self.units: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self.used = bytearray()
        self.bases = bytearray()
        self.first_free = 1
        self._grow(nodes + 2 * _BLOCK)
        self.used[0] = 1

    def _grow(self, size: int) -> None:
        size = -(-size // _BLOCK) * _BLOCK
        self.units = np.concatenate(
            [self.units, np.zeros(size - len(self.units), np.uint32)]
        )
        self.used.extend(bytes(size - len(self.used)))
        self.bases.extend(bytes(size - len(self.bases)))

    def place(self, unit: int, labels: Sequence[int]) -> int:
        """Find room for the children of a unit, and link them; returns their base."""
        used = self.used
        start = self.first_free
        while True:
            free = used.find(0, start)
            if free < 0 or free >= len(used) - _BLOCK:
                self._grow(2 * len(used))
                continue
            base = free ^ labels[0]
            if (
                base
                and not self.bases[base]
                and not any(used[base ^ label] for label in labels)
            ):
                break
            start = free + 1
        if (unit ^ base) >= _OFFSETS:
            raise ValueError("its tokens are too many for a trie")
        self.bases[base] = 1
        for label in labels:
            used[base ^ label] = 1
            self.units[base ^ label] = label
        self.units[unit] |= (unit ^ base) << 10 | (_HAS_LEAF if labels[0] == 0 else 0)
        self.first_free = used.find(0, self.first_free)
        return base

    def finish(self) -> bytes:
        """Return the units up to the last one in use; unused ones are leaves, so that nothing leads
        through them.
        """
        used = np.frombuffer(bytes(self.used), np.uint8)
        size = -(-(int(used.nonzero()[0][-1]) + 1) // _BLOCK) * _BLOCK
        units = self.units[:size]
        units[used[:size] == 0] = _LEAF
        return units.astype("<u4").tobytes()
