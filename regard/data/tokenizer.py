"""Sentences to pieces and back: SentencePiece vocabularies trained on the training side, kept in the model folder."""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import sentencepiece
from pydantic import Field

from regard.data.cuts import bpe_cut, drawn, unigram_cut
from regard.data.listing import SPECIAL, Listing
from regard.data.text import clean, write_bytes
from regard.errors import ConfigurationError, DataError, ModelFolderError
from regard.settings import Settings

__all__ = ["BOS", "EOS", "PAD", "UNK", "Tokenizer", "TokenizerSettings", "Vocabulary", "chosen_size", "sample_step"]

PAD, UNK, BOS, EOS = 0, 1, 2, 3

_SPACE = "▁"  # SentencePiece writes a space so; a text that holds the character itself gets a plain underscore
_UNREAD = ("<pad>", "<s>", "</s>")
_GAPS = (_SPACE, "<0x20>", "<0x09>", "<0x0A>", "<0x0D>")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_STRANGE = "\ufdd0"  # Unicode keeps it out of texts, so no vocabulary has it
_MOST_LINES = 2_000_000


class TokenizerSettings(Settings):
    """How text becomes pieces."""

    kind: Literal["unigram", "bpe", "char", "token"] = Field(
        "bpe",
        description="How SentencePiece chooses its pieces; char: single characters; token: all that stands between "
        "spaces, as formulas are written (tokens never seen are unknown). Of these two there is no subword_dropout.",
    )
    joint: bool = Field(True, description="One vocabulary for both sides, or one for each.")
    size: int | None = Field(None, ge=5, description="Pieces in each vocabulary; chosen from the corpus if not given.")
    byte_fallback: bool = Field(True, description="Spell characters never seen in training as bytes, not as unknown.")
    character_coverage: float = Field(
        0.9999, gt=0, le=1, description="Share of the training text whose characters get pieces of their own."
    )
    numbers: Literal["sentencepiece", "marian"] = Field(
        "sentencepiece", description="Who numbers the pieces; marian: a list beside them, in models that were imported."
    )


class Vocabulary:
    """The pieces of one language (or of both), from a serialised SentencePiece model.

    `listing` numbers the pieces where SentencePiece's own numbers are not meant.
    """

    def __init__(self, model: bytes, listing: Listing | None = None) -> None:
        self.model, self.listing = model, listing
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)

    def __len__(self) -> int:
        return int(self._processor.get_piece_size()) if self.listing is None else len(self.listing.names)

    def encode(self, text: str) -> list[int]:
        """The ids of a line, without BOS and EOS."""
        if self.listing is not None or self._by_tokens:
            return self.encode_all([text])[0]
        ids: list[int] = self._processor.encode(_prepared(text), out_type=int)
        return ids

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of many lines, on several threads."""
        lines = [_prepared(text) for text in texts]
        if self._by_tokens:  # SentencePiece makes one of neighbours that are unknown
            return [[self._number(_SPACE + word) for word in line.split(" ") if word] for line in lines]
        if self.listing is None:
            ids: list[list[int]] = self._processor.encode(lines, out_type=int)
            return ids
        codes, rests = zip(*(_coded(line) for line in lines), strict=True) if lines else ((), ())
        pieces: list[list[str]] = self._processor.encode(list(rests), out_type=str)
        return [[self._number(p) for p in (*code, *row)] for code, row in zip(codes, pieces, strict=True)]

    def sample_all(self, texts: Sequence[str], kind: str, dropout: float, seed: int) -> list[list[int]]:
        """The ids of many lines, each cut in one of the ways its pieces allow; `Tokenizer.sample` says how."""
        lines = [[_SPACE + word for word in self._spellable(self._normal(text)).split(" ") if word] for text in texts]
        cut = bpe_cut(self._scores, dropout) if kind == "bpe" else unigram_cut(self._scores, 1 - dropout)
        ids = [self._ids(piece for word in line for piece in word) for line in drawn(lines, cut, seed)]
        if self.listing is None:
            return ids
        codes = [_coded(_prepared(text))[0] for text in texts]
        return [[*map(self._number, code), *row] for code, row in zip(codes, ids, strict=True)]

    def _spellable(self, text: str) -> str:
        """Where there are no bytes: with one and the same character for each run of unknown ones, as `restored` has."""
        if self._number("<0x41>") != UNK:
            return text
        runs = groupby(text, lambda character: character == " " or character in self._scores)
        return "".join("".join(run) if known else _STRANGE for known, run in runs)

    @cached_property
    def _by_tokens(self) -> bool:
        """Whether a piece is all that stands between spaces."""
        return self.listing is None and all(len(piece) > 1 and piece.startswith(_SPACE) for piece in self._scores)

    @property
    def kind(self) -> Literal["unigram", "bpe"]:
        """How its pieces were chosen: BPE scores them by their rank, unigram by their probability."""
        return "bpe" if all(score == int(score) for score in self._scores.values()) else "unigram"

    @cached_property
    def _scores(self) -> dict[str, float]:
        """How good each piece is that text can hold."""
        p = self._processor
        inside = (i for i in range(len(p)) if not (p.is_control(i) or p.is_unknown(i) or p.is_byte(i)))
        scores = {p.id_to_piece(i): p.get_score(i) for i in inside}
        return {piece: score for piece, score in scores.items() if self._number(piece) != UNK}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {piece: self._number(piece) for piece in self._scores}

    @cached_property
    def _places(self) -> dict[str, int]:
        """The number of each listed piece; the four special ones are no piece of any text."""
        names = self.listing.names if self.listing else ()
        return {piece: i for i, piece in enumerate(names) if i > EOS}

    def _number(self, piece: str) -> int:
        """The id of a piece; UNK where it has none."""
        if self.listing is None:
            return int(self._processor.piece_to_id(piece))
        return self._places.get(piece, UNK)

    def _normal(self, text: str) -> str:
        """A line as SentencePiece sees it before it cuts."""
        line = _prepared(text)
        return line if self.listing is None else self._processor.normalize(_coded(line)[1]).replace(_SPACE, " ").strip()

    def _ids(self, pieces: Iterable[str]) -> list[int]:
        """Pieces as numbers; a character that is none is spelt as bytes, or a run of them is one UNK."""
        ids: list[int] = []
        for piece in pieces:
            number = self._numbers.get(piece)
            if number is not None:
                ids.append(number)
                continue
            spelt = [self._number(f"<0x{byte:02X}>") for byte in piece.encode()]
            if UNK not in spelt:
                ids += spelt
            elif not ids or ids[-1] != UNK:
                ids.append(UNK)
        return ids

    def id_of(self, piece: str) -> int:
        """The id of a piece of text; UNK where there is no such piece."""
        return self._number(piece)

    @cached_property
    def surfaces(self) -> list[bytes]:
        """What each piece adds to a text, as UTF-8; nothing for PAD, UNK, BOS and EOS."""
        found = []
        for index, piece in enumerate(self.pieces(range(len(self)))):
            if index in (PAD, UNK, BOS, EOS):
                found.append(b"")
            elif byte := self._byte(piece):
                found.append(bytes([int(byte, 16)]))
            else:
                found.append(piece.replace(_SPACE, " ").encode())
        return found

    def _byte(self, piece: str) -> str | None:
        """The two digits of a piece that is a byte."""
        byte = _BYTE.fullmatch(piece)
        return byte[1] if byte and self._processor.is_byte(self._processor.piece_to_id(piece)) else None

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """What each id stands for; "▁" at a piece's start is a space before it."""
        if self.listing is not None:
            return [self.listing.names[int(index)] for index in ids]
        return [self._processor.id_to_piece(int(index)) for index in ids]

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """The id of each piece: what `pieces` gave, the four that are no text among them."""
        if self.listing is None:
            return [int(self._processor.piece_to_id(piece)) for piece in pieces]
        special = {name: index for index, name in enumerate(self.listing.names[: EOS + 1])}
        return [special.get(piece, self._number(piece)) for piece in pieces]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids, on one line; PAD, BOS and EOS are skipped, UNK reads ⁇."""
        return clean(self._joined([int(index) for index in ids if index not in (PAD, BOS, EOS)]))

    def _joined(self, ids: list[int]) -> str:
        """The text that these ids spell."""
        if self._by_tokens:
            return " ".join("⁇" if index == UNK else piece.removeprefix(_SPACE) for index, piece in self._named(ids))
        if self.listing is None:
            return str(self._processor.decode(ids))
        pieces = [self.listing.names[index] if index != UNK else "⁇" for index in ids]
        return str(self._processor.decode_pieces(pieces)).replace(_SPACE, " ")  # unknown ones come back as they are

    def _named(self, ids: Sequence[int]) -> Iterator[tuple[int, str]]:
        return zip(ids, self.pieces(ids), strict=True)

    def restored(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The texts that `encode_all` cut into these ids (EOS aside), to be cut anew: each is cut into the same ids.

        A run of unknown characters comes back as one character that no text holds, and so is unknown too.
        """
        kept = [[index for index in row if index != EOS] for row in rows]
        if self._by_tokens:
            return [" ".join(_STRANGE if i == UNK else piece[1:] for i, piece in self._named(row)) for row in kept]
        texts: list[str] = self._processor.decode(kept) if self.listing is None else [*map(self._joined, kept)]
        for place, row in enumerate(rows):
            if UNK in row:
                ids = [index for index in row if index != EOS]
                named = self._named(ids)
                texts[place] = self._processor.decode([_STRANGE if index == UNK else piece for index, piece in named])
        return texts

    def code(self, text: str) -> str:
        """What a line for a model of many languages begins with, such as >>fra<<; nothing for any other model."""
        return "" if self.listing is None else "".join(_coded(_prepared(text))[0])

    def unknown(self, text: str) -> float:
        """The share of a line's characters (spaces aside) that have no piece: spelt as bytes, or lost."""
        prepared = self._normal(text)
        pieces: list[str] = self._processor.encode(prepared, out_type=str)
        strange = sum(self._strange(piece) for piece in pieces)
        return strange / max(1, len(prepared.replace(" ", "")))

    def words(self, pieces: Iterable[str]) -> list[int]:
        """For each piece the word it belongs to, counted from 0; -1 for PAD, BOS and EOS.

        A lone "▁" belongs to the word that follows (-1 where none does), bytes belong to the word they are in.
        """
        words: list[int] = []
        word, is_open, has_letters = -1, False, False
        for piece in pieces:
            if piece in _UNREAD:
                words.append(-1)
                continue
            begins = piece in _GAPS or piece.startswith(_SPACE) or (self._by_tokens and piece == SPECIAL[UNK])
            if not is_open or (has_letters and begins):
                word, is_open, has_letters = word + 1, True, False
            has_letters = has_letters or piece not in _GAPS
            words.append(word)
        return words if has_letters or not is_open else [-1 if index == word else index for index in words]

    def _strange(self, piece: str) -> int:
        """How many unknown characters a piece stands for: each first byte is one, and so is each character of UNK."""
        if byte := self._byte(piece):
            return int(not 0x80 <= int(byte, 16) < 0xC0)
        return len(piece.replace(_SPACE, "")) if self._number(piece) == UNK else 0


class Tokenizer:
    """The vocabularies of a model: one per side, or the same for both."""

    def __init__(self, source: Vocabulary, target: Vocabulary, settings: TokenizerSettings) -> None:
        assert (source is target) == settings.joint or settings.numbers == "marian", (
            "a joint tokenizer has one vocabulary, any other has two, unless a list numbers the pieces of both"
        )
        self.source, self.target, self.settings = source, target, settings

    @classmethod
    def train(cls, sources: Sequence[str], targets: Sequence[str], settings: TokenizerSettings) -> Tokenizer:
        """Learn the pieces from training text; the same text and settings give the same pieces, to the byte."""
        if settings.numbers != "sentencepiece":
            raise ConfigurationError(
                "tokenizer.numbers = 'marian' is for models that were imported; leave it out to learn a vocabulary"
            )
        if settings.joint:
            both = Vocabulary(_train([*_some(sources), *_some(targets)], settings, "both sides together"))
            return cls(both, both, settings)
        source = Vocabulary(_train(_some(sources), settings, "the source side"))
        return cls(source, Vocabulary(_train(_some(targets), settings, "the target side")), settings)

    def sample(
        self, sources: Sequence[str], targets: Sequence[str], dropout: float, seed: int
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The ids of both sides, each line cut in one of the ways its pieces allow; the seed decides which.

        bpe: each merge is left out with probability `dropout` (Provilkov et al. 2020). unigram: a cut is drawn by its
        probability to the power of 1 − `dropout` (Kudo 2018).
        """
        kind = self.settings.kind
        if kind in ("char", "token"):  # can be cut in one way only
            return self.source.encode_all(sources), self.target.encode_all(targets)
        left = self.source.sample_all(sources, kind, dropout, seed)
        return left, self.target.sample_all(targets, kind, dropout, seed + 1)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of its vocabularies."""
        sides = (self.source, self.target)
        listed = b"".join(side.listing.text for side in sides if side.listing is not None)
        return hashlib.sha256(self.source.model + self.target.model + listed).hexdigest()

    def save(self, folder: str | Path) -> None:
        """Write the vocabularies into a model folder."""
        sides = (self.source, self.target)
        for name, vocabulary in zip(_names(self.settings), sides, strict=False):
            write_bytes(Path(folder) / name, vocabulary.model)
        for name, vocabulary in zip(_listings(self.settings), sides, strict=False):
            assert vocabulary.listing is not None, "a list numbers the pieces"
            write_bytes(Path(folder) / name, vocabulary.listing.text)

    @classmethod
    def load(cls, folder: str | Path, settings: TokenizerSettings) -> Tokenizer:
        """Read them back. Raises ModelFolderError when a file is missing or damaged."""
        lists = [_listing(Path(folder) / name) for name in _listings(settings)]
        paths = [Path(folder) / name for name in _names(settings)]
        vocabularies = [
            _load(path, lists[min(side, len(lists) - 1)] if lists else None) for side, path in enumerate(paths)
        ]
        return cls(vocabularies[0], vocabularies[-1], settings)


def chosen_size(texts: Iterable[str], settings: TokenizerSettings) -> int:
    """How many pieces suit a text: its alphabet and, above that, 50 · ∛(characters of text); at most 32,000 in all."""
    seen: set[str] = set()
    length = 0
    for text in texts:
        length += len(text)
        seen.update(text)
    alphabet = len(seen) + 4 + 256 * settings.byte_fallback
    return max(alphabet + 1, min(32_000, alphabet + round(50 * math.pow(length, 1 / 3))))


def _names(settings: TokenizerSettings) -> tuple[str, ...]:
    one = settings.joint and settings.numbers == "sentencepiece"
    return ("joint.model",) if one else ("source.model", "target.model")


def _listings(settings: TokenizerSettings) -> tuple[str, ...]:
    if settings.numbers == "sentencepiece":
        return ()
    return ("vocab.json",) if settings.joint else ("vocab.json", "target_vocab.json")


def _coded(line: str) -> tuple[list[str], str]:
    """What a line for a model of many languages begins with, such as >>fra<<, which is one piece; and the rest."""
    end = line.find("<<")
    return ([line[: end + 2]], line[end + 2 :]) if line.startswith(">>") and end > 0 else ([], line)


def _prepared(text: str) -> str:
    return clean(text).replace(_SPACE, "_")


def sample_step(lines: int) -> int:
    """Of so many lines, every how-manieth pieces are learnt from: spread evenly where the text is too long."""
    return 1 + max(0, lines - 1) // _MOST_LINES


def _some(texts: Sequence[str]) -> Sequence[str]:
    return texts[:: sample_step(len(texts))]


def _train(texts: Sequence[str], settings: TokenizerSettings, side: str) -> bytes:
    lines = [line for line in map(_prepared, texts) if line]
    if not lines:
        raise DataError(f"{side}: there is no text to learn a vocabulary from; give at least one sentence")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_bytes(lines), model_writer=model, **_options(lines, settings)
        )
    except RuntimeError as problem:
        raise _explained(str(problem), settings, side) from None
    return model.getvalue()


def _bytes(lines: Iterable[str]) -> Iterator[bytes]:
    return (line.encode() for line in lines)


def _options(lines: Sequence[str], settings: TokenizerSettings) -> dict[str, Any]:
    tokens = settings.kind == "token"
    return {
        "model_type": "word" if tokens else settings.kind,
        "vocab_size": settings.size or chosen_size(lines, settings),
        "hard_vocab_limit": settings.size is not None,  # a size we chose gives way to what the corpus allows
        "use_all_vocab": settings.size is None and settings.kind in ("char", "token"),
        "byte_fallback": settings.byte_fallback and not tokens,
        "character_coverage": settings.character_coverage,
        "required_chars": "" if tokens else _SPACE,  # however rare: spelt as bytes, it would not come back as a space
        "normalization_rule_name": "identity",  # `clean` normalises
        "max_sentence_length": 2**30,
        "num_threads": 4,  # part of the result: sums of floats depend on how they are split
        "minloglevel": 4,
        "unk_surface": "⁇",
        "pad_id": PAD,
        "unk_id": UNK,
        "bos_id": BOS,
        "eos_id": EOS,
    }


def _explained(problem: str, settings: TokenizerSettings, side: str) -> DataError | ConfigurationError:
    start = f"tokenizer.size: {settings.size:,} pieces are" if settings.size else "tokenizer:"
    if most := re.search(r"value <= (\d+)", problem):
        return ConfigurationError(
            f"{start} more than the text of {side} can fill; the largest possible size is {int(most[1]):,}: "
            f"set tokenizer.size to at most {most[1]}, or leave it out"
        )
    if least := re.search(r"(\d+) vs (\d+)", problem):
        return ConfigurationError(
            f"{start} fewer than the characters of {side} need; the smallest possible size is {int(least[2]):,}: "
            f"set tokenizer.size to at least {least[2]}, lower tokenizer.character_coverage, or leave the size out"
        )
    return DataError(f"{side}: SentencePiece could not learn a vocabulary ({problem.strip()}); check the text")


_REMEDY = "copy it again from where the model was trained, or train the model again"


def _listing(path: Path) -> Listing:
    try:
        return Listing.parse(path.read_bytes())
    except OSError as problem:
        raise ModelFolderError(f"{path}: cannot be read ({problem.strerror}); {_REMEDY}") from None
    except ValueError as problem:
        raise ModelFolderError(f"{path}: damaged, {problem}; {_REMEDY}") from None


def _load(path: Path, listing: Listing | None = None) -> Vocabulary:
    try:
        model = path.read_bytes()
        if not model:
            raise ModelFolderError(f"{path}: damaged, it is empty; {_REMEDY}")
        vocabulary = Vocabulary(model, listing)
    except OSError as problem:
        raise ModelFolderError(f"{path}: cannot be read ({problem.strerror}); {_REMEDY}") from None
    except RuntimeError:
        raise ModelFolderError(f"{path}: damaged, not a SentencePiece model; {_REMEDY}") from None
    if len(vocabulary) <= EOS or vocabulary.pieces(range(4)) != [*SPECIAL]:
        raise ModelFolderError(f"{path}: damaged, or not a vocabulary that Regard made; {_REMEDY}")
    return vocabulary
