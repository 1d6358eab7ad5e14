"""Vocabularies: text to numbers of pieces and back, by SentencePiece."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

import sentencepiece

from regard.data.marian_vocab import SPECIAL, PieceTable
from regard.data.subword_sampling import bpe_dropout, sample_segmentations, unigram_sampling
from regard.data.text import clean

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SPACE",
    "UNK",
    "TableVocabulary",
    "Vocabulary",
    "WhitespaceVocabulary",
    "normalised_line",
    "vocabulary_of",
]

PAD, UNK, BOS, EOS = 0, 1, 2, 3

SPACE = "▁"
"""SentencePiece writes a space so; a text that holds the character itself gets a plain underscore."""

_UNREAD = ("<pad>", "<s>", "</s>")
_GAPS = (SPACE, "<0x20>", "<0x09>", "<0x0A>", "<0x0D>")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_STRANGE = "\ufdd0"  # Unicode keeps it out of texts, so no vocabulary has it


def normalised_line(text: str) -> str:
    """A line as every vocabulary takes it."""
    return clean(text).replace(SPACE, "_")


def vocabulary_of(model: bytes, table: PieceTable | None = None) -> Vocabulary:
    """The vocabulary of a serialised SentencePiece model, of the kind that suits its pieces.

    `listing` numbers the pieces where SentencePiece's own numbers are not meant. Raises RuntimeError where `model` is
    none.
    """
    if table is not None:
        return TableVocabulary(model, table)
    found = Vocabulary(model)
    return WhitespaceVocabulary(model) if found.is_whitespace else found


class Vocabulary:
    """The pieces of one language (or of both), from a serialised SentencePiece model; see `vocabulary_of`."""

    table: PieceTable | None = None
    """What numbers the pieces, if SentencePiece does not."""
    _beginnings: tuple[str, ...] = (SPACE,)
    """How a piece starts that begins a word."""

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    @cached_property
    def is_whitespace(self) -> bool:
        """Whether each piece is all that stands between two spaces."""
        return all(len(piece) > 1 and piece.startswith(SPACE) for piece in self._scores)

    @property
    def kind(self) -> Literal["unigram", "bpe"]:
        """How its pieces were chosen: BPE scores them by their rank, unigram by their probability."""
        return "bpe" if all(score == int(score) for score in self._scores.values()) else "unigram"

    def encode(self, text: str) -> list[int]:
        """The ids of a line, without BOS and EOS."""
        ids: list[int] = self._processor.encode(normalised_line(text), out_type=int)
        return ids

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of many lines, on several threads."""
        ids: list[list[int]] = self._processor.encode([normalised_line(text) for text in texts], out_type=int)
        return ids

    def sample_all(self, texts: Sequence[str], kind: str, dropout: float, seed: int) -> list[list[int]]:
        """The ids of many lines, each cut in one of the ways its pieces allow; `Tokenizer.sample` says how."""
        lines = [[SPACE + word for word in self._spellable(self._normal(text)).split(" ") if word] for text in texts]
        cut = bpe_dropout(self._scores, dropout) if kind == "bpe" else unigram_sampling(self._scores, 1 - dropout)
        return [
            self._spelt(piece for word in line for piece in word) for line in sample_segmentations(lines, cut, seed)
        ]

    def id_of(self, piece: str) -> int:
        """The id of a piece of text; UNK where there is no such piece."""
        return int(self._processor.piece_to_id(piece))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """What each id stands for; "▁" at a piece's start is a space before it."""
        return [self._processor.id_to_piece(int(index)) for index in ids]

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """The id of each piece: what `pieces` gave, the four that are no text among them."""
        return [int(self._processor.piece_to_id(piece)) for piece in pieces]

    @cached_property
    def surface_bytes(self) -> list[bytes]:
        """What each piece adds to a text, as UTF-8; nothing for PAD, UNK, BOS and EOS."""
        found = []
        for index, piece in enumerate(self.tokens(range(len(self)))):
            if index in (PAD, UNK, BOS, EOS):
                found.append(b"")
            elif byte := self._byte(piece):
                found.append(bytes([int(byte, 16)]))
            else:
                found.append(piece.replace(SPACE, " ").encode())
        return found

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids, on one line; PAD, BOS and EOS are skipped, UNK reads ⁇."""
        return clean(self._joined([int(index) for index in ids if index not in (PAD, BOS, EOS)]))

    def detokenised(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The texts that `encode_all` cut into these ids (EOS aside), to be cut anew: each is cut into the same ids.

        A run of unknown characters comes back as one character that no text holds, and so is unknown too.
        """
        return [self._detokenised([index for index in row if index != EOS]) for row in rows]

    def language_code(self, text: str) -> str:
        """What a line for a model of many languages begins with, such as >>fra<<; nothing for any other model."""
        del text
        return ""

    def unknown_share(self, text: str) -> float:
        """The share of a line's characters (spaces aside) that have no piece: spelt as bytes, or lost."""
        line = self._normal(text)
        pieces: list[str] = self._processor.encode(line, out_type=str)
        strange = sum(self._strange(piece) for piece in pieces)
        return strange / max(1, len(line.replace(" ", "")))

    def word_indices(self, pieces: Iterable[str]) -> list[int]:
        """For each piece the word it belongs to, counted from 0; -1 for PAD, BOS and EOS.

        A lone "▁" belongs to the word that follows (-1 where none does), bytes belong to the word they are in.
        """
        words: list[int] = []
        word, is_open, has_letters = -1, False, False
        for piece in pieces:
            if piece in _UNREAD:
                words.append(-1)
                continue
            begins = piece in _GAPS or piece.startswith(self._beginnings)
            if not is_open or (has_letters and begins):
                word, is_open, has_letters = word + 1, True, False
            has_letters = has_letters or piece not in _GAPS
            words.append(word)
        return words if has_letters or not is_open else [-1 if index == word else index for index in words]

    @cached_property
    def _scores(self) -> dict[str, float]:
        """How good each piece is that text can hold."""
        p = self._processor
        inside = (i for i in range(len(p)) if not (p.is_control(i) or p.is_unknown(i) or p.is_byte(i)))
        scores = {p.id_to_piece(i): p.get_score(i) for i in inside}
        return {piece: score for piece, score in scores.items() if self.id_of(piece) != UNK}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {piece: self.id_of(piece) for piece in self._scores}

    def _normal(self, text: str) -> str:
        """A line as SentencePiece sees it before it cuts."""
        return normalised_line(text)

    def _spellable(self, text: str) -> str:
        """Where there are no bytes: with one and the same character for each run of unknown ones, as `restored` has."""
        if self.id_of("<0x41>") != UNK:
            return text
        runs = groupby(text, lambda character: character == " " or character in self._scores)
        return "".join("".join(run) if known else _STRANGE for known, run in runs)

    def _spelt(self, pieces: Iterable[str]) -> list[int]:
        """Pieces as numbers; a character that is none is spelt as bytes, or a run of them is one UNK."""
        ids: list[int] = []
        for piece in pieces:
            number = self._numbers.get(piece)
            if number is not None:
                ids.append(number)
                continue
            spelt = [self.id_of(f"<0x{byte:02X}>") for byte in piece.encode()]
            if UNK not in spelt:
                ids += spelt
            elif not ids or ids[-1] != UNK:
                ids.append(UNK)
        return ids

    def _detokenised(self, ids: list[int]) -> str:
        if UNK not in ids:
            return self._joined(ids)
        text: str = self._processor.decode([_STRANGE if index == UNK else piece for index, piece in self._named(ids)])
        return text

    def _joined(self, ids: list[int]) -> str:
        """The text that these ids spell."""
        text: str = self._processor.decode(ids)
        return text

    def _named(self, ids: Sequence[int]) -> Iterator[tuple[int, str]]:
        return zip(ids, self.tokens(ids), strict=True)

    def _byte(self, piece: str) -> str | None:
        """The two digits of a piece that is a byte."""
        byte = _BYTE.fullmatch(piece)
        return byte[1] if byte and self._processor.is_byte(self._processor.piece_to_id(piece)) else None

    def _strange(self, piece: str) -> int:
        """How many unknown characters a piece stands for: each first byte is one, and so is each character of UNK."""
        if byte := self._byte(piece):
            return int(not 0x80 <= int(byte, 16) < 0xC0)
        return len(piece.replace(SPACE, "")) if self.id_of(piece) == UNK else 0


class WhitespaceVocabulary(Vocabulary):
    """Pieces that are all that stands between spaces, as formulas are written: each unknown one is one UNK."""

    _beginnings = (SPACE, SPECIAL[UNK])

    def encode(self, text: str) -> list[int]:
        """The ids of a line, without BOS and EOS."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of many lines; SentencePiece would make one of neighbours that are unknown."""
        lines = (normalised_line(text).split(" ") for text in texts)
        return [[self.id_of(SPACE + word) for word in line if word] for line in lines]

    def _detokenised(self, ids: list[int]) -> str:
        return self._spaced(ids, _STRANGE)

    def _joined(self, ids: list[int]) -> str:
        return self._spaced(ids, "⁇")

    def _spaced(self, ids: Sequence[int], unknown: str) -> str:
        return " ".join(unknown if index == UNK else piece.removeprefix(SPACE) for index, piece in self._named(ids))


class TableVocabulary(Vocabulary):
    """Pieces that a list numbers, as Marian models have it; some lists have pieces for languages, such as >>fra<<."""

    listing: PieceTable

    def __init__(self, model: bytes, listing: PieceTable) -> None:
        super().__init__(model)
        self.listing = listing
        self._places = {piece: i for i, piece in enumerate(listing.names) if i > EOS}  # the others are in no text

    def __len__(self) -> int:
        return len(self.listing.names)

    def encode(self, text: str) -> list[int]:
        """The ids of a line, without BOS and EOS."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of many lines, the language that one begins with among them."""
        lines = [_coded(normalised_line(text)) for text in texts]
        pieces: list[list[str]] = self._processor.encode([rest for _, rest in lines], out_type=str)
        return [[self.id_of(p) for p in (*code, *row)] for (code, _), row in zip(lines, pieces, strict=True)]

    def sample_all(self, texts: Sequence[str], kind: str, dropout: float, seed: int) -> list[list[int]]:
        """As for every vocabulary; the language that a line begins with stays whole."""
        ids = super().sample_all(texts, kind, dropout, seed)
        codes = [_coded(normalised_line(text))[0] for text in texts]
        return [[*map(self.id_of, code), *row] for code, row in zip(codes, ids, strict=True)]

    def id_of(self, piece: str) -> int:
        """The id of a piece of text; UNK where there is no such piece."""
        return self._places.get(piece, UNK)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """What each id stands for; "▁" at a piece's start is a space before it."""
        return [self.listing.names[int(index)] for index in ids]

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """The id of each piece: what `pieces` gave, the four that are no text among them."""
        special = {name: index for index, name in enumerate(self.listing.names[: EOS + 1])}
        return [special.get(piece, self.id_of(piece)) for piece in pieces]

    def language_code(self, text: str) -> str:
        """What a line for a model of many languages begins with, such as >>fra<<."""
        return "".join(_coded(normalised_line(text))[0])

    def _normal(self, text: str) -> str:
        """A line as SentencePiece sees it before it cuts: imported models have rules of their own."""
        line: str = self._processor.normalize(_coded(normalised_line(text))[1])
        return line.replace(SPACE, " ").strip()

    def _joined(self, ids: list[int]) -> str:
        pieces = [self.listing.names[index] if index != UNK else "⁇" for index in ids]
        return str(self._processor.decode_pieces(pieces)).replace(SPACE, " ")  # unknown ones come back as they are


def _coded(line: str) -> tuple[list[str], str]:
    """What a line for a model of many languages begins with, such as >>fra<<, which is one piece; and the rest."""
    end = line.find("<<")
    return ([line[: end + 2]], line[end + 2 :]) if line.startswith(">>") and end > 0 else ([], line)
