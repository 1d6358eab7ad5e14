"""Write the tables of a vocabulary in binary for the C tokenizer (regard/runtime/c/tokenizer.c).

The tables are one blob, which the tokenizer uses in place. Strings are found in double-array tries,
in the format of the charsmaps of SentencePiece models (darts-clone): unit i leads with byte b to
unit i ^ offset ^ b, whose label is b; a unit with its top bit set is a leaf with a value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

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
"""Model types of SentencePiece by number; its "word" models are stored as whitespace
vocabularies.
"""
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
"""Copy tokens. They need no entry as user-defined pieces, since no other token contains them."""
_UNKNOWN_PENALTY = np.float32(10)
_LEAF = 1 << 31
_HAS_LEAF = 1 << 8
_BLOCK = 256
_OFFSETS = 1 << 21
"""Largest distance between two units of a trie in this format."""


@lru_cache(4)
def token_tables(vocabulary: Vocabulary, reads_text: bool = True) -> bytes:
    """Write the tables of a vocabulary, little-endian, each part aligned to 8 bytes.

    Without `reads_text`, the tries that text is tokenised with are left out, as building them takes
    longest. Raises ValueError with the reason if the vocabulary cannot be written.
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
    kind = _KINDS.get(model.kind)
    if isinstance(vocabulary, WhitespaceVocabulary):
        kind = _WHITESPACE
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
    fallback = list[int]()
    if model.flags & _BYTE_FALLBACK:
        fallback = [ids.get(b"<0x%02X>" % byte, UNK) for byte in range(256)]

    trie = model.searchable(every=kind == _WHITESPACE)
    names = {text: index for text, index in ids.items() if text}
    if not reads_text:  # one entry each, since the format has no empty tries
        trie = dict(islice(trie.items(), 1))
        names = dict(islice(names.items(), 1))
    user_defined = {
        piece: index
        for piece, index in trie.items()
        if model.kinds[index] == _USER_DEFINED and piece not in _COPIES
    }
    charsmap = model.charsmap
    if reads_text and not numbered and not charsmap[0]:
        charsmap = _known_forms(vocabulary)

    parts = [
        np.cumsum([0, *(len(text) + 1 for text in texts)], dtype="<u4").tobytes(),
        b"".join(text + b"\0" for text in texts),
        _token_kinds(vocabulary, tokens, model, numbered),
        np.array(model.scores, "<f4").tobytes(),
        np.array(piece_tokens, "<i4").tobytes(),
        bytes(model.kinds),
        build_trie(trie),
        build_trie(user_defined),
        build_trie(names) if numbered else b"",
        *charsmap,
        np.array(fallback, "<i4").tobytes(),
        "⁇".encode(),
    ]
    flags = model.flags
    if numbered:
        flags |= _NUMBERED
    if not any(SPACE.encode() in piece[1:] for piece in trie):
        flags |= _WORDWISE
    numbers = (
        len(texts),
        len(model.pieces),
        piece_tokens[unknown[0]] if unknown else UNK,
        model.unknown_score,
    )
    header = struct.pack("<IIIIIIif", _MAGIC, _VERSION, kind, flags, *numbers)
    return _assemble(header, parts)


def _known_forms(vocabulary: Vocabulary) -> tuple[bytes, bytes]:
    """Return the replacements of `Vocabulary.known_form` as a charsmap, which the model lacks."""
    singles = map(chr, (*range(0x2000, 0x10000), *range(0x1D400, 0x1D800)))
    half_width = [chr(code) for code in range(0xFF66, 0xFFDD)]
    pairs = (first + second for first in half_width for second in half_width)
    values = dict[bytes, int]()
    forms = b""
    for letters in filter(COMPATIBILITY.fullmatch, (*singles, *pairs)):
        form = vocabulary.known_form(letters)
        if form != letters:
            values[letters.encode()] = len(forms)
            forms += form.encode() + b"\0"
    return build_trie(values), forms


def _assemble(header: bytes, parts: Sequence[bytes]) -> bytes:
    """Join a header, a table of the offsets and sizes of parts, and the parts."""
    position = len(header) + 16 * len(parts)
    table = []
    body = []
    for part in parts:
        table.append(struct.pack("<QQ", position, len(part)))
        body.append(part + bytes(-len(part) % 8))
        position += len(body[-1])
    return b"".join((header, *table, *body))


def _token_kinds(
    vocabulary: Vocabulary,
    tokens: Sequence[str],
    model: _SentencePieceModel,
    numbered: bool,
) -> bytes:
    """Return a byte for each token: how it is decoded, and its position in a word."""
    decoding = {_CONTROL: _AS_NOTHING, _BYTE: _AS_BYTE}
    if not numbered:
        decoding[_UNKNOWN] = _AS_UNKNOWN
    by_piece = {
        piece: decoding.get(kind, _AS_TEXT)
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
    """Return the flags of a token by its word index, between letters and by itself."""
    between = vocabulary.word_indices(["a", token, "a"])
    alone = vocabulary.word_indices([token])
    if between[1] < 0:
        return _WORD_UNREAD
    flags = 0
    if between[1] == 1:
        flags |= _WORD_START
    if alone == [-1]:
        flags |= _WORD_GAP
    return flags


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
                if trainer.get(35):
                    model.flags |= _BYTE_FALLBACK
                if trainer.get(24):
                    model.flags |= _SPACE_AS_SUFFIX
            elif number == 3:
                model._read_normalizer(dict(_fields(_bytes(value))))
            elif number == 5:
                model.denormalises = bool(dict(_fields(_bytes(value))).get(2))
        return model

    def _read_normalizer(self, settings: Mapping[int, float | bytes]) -> None:
        flags = {3: _DUMMY_PREFIX, 4: _REMOVE_SPACES, 5: _ESCAPE_SPACES}
        for number, flag in flags.items():
            if not settings.get(number, 1):
                self.flags &= ~flag
        charsmap = _bytes(settings.get(2, b""))
        if charsmap:
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
        lowest = min(normal, default=np.finfo(np.float32).max)
        return np.float32(lowest) - _UNKNOWN_PENALTY

    def searchable(self, every: bool) -> dict[bytes, int]:
        """Return the numbers of the pieces that text is segmented into, or of all pieces if
        `every`.
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
    offset = 0
    while offset < len(data):
        key, offset = _varint(data, offset)
        number = key >> 3
        wire = key & 7
        if wire == 0:
            value, offset = _varint(data, offset)
            yield number, value
        elif wire == 2:
            size, offset = _varint(data, offset)
            yield number, data[offset : offset + size]
            offset += size
        elif wire == 5:
            yield number, struct.unpack_from("<f", data, offset)[0]
            offset += 4
        elif wire == 1:
            offset += 8
        else:
            raise ValueError(f"not a SentencePiece model: a field of wire type {wire}")


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        offset += 1
        shift += 7
        if byte < 0x80:
            return value, offset


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
    """Divide sorted keys by their byte at a depth, into triples (byte, first, end).

    A key that ends at this depth has the byte 0.
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
    """Units of a trie under construction. Free units are searched from the first free one on."""

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
        """Find room for the children of a unit, and link them; return their base."""
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
        """Return the units up to the last block in use.

        Unused units become leaves, so that no path leads through them.
        """
        used = np.frombuffer(bytes(self.used), np.uint8)
        size = -(-(int(used.nonzero()[0][-1]) + 1) // _BLOCK) * _BLOCK
        units = self.units[:size]
        units[used[:size] == 0] = _LEAF
        return units.astype("<u4").tobytes()
