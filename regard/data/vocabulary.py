"""Vocabularies: encode text as token ids and decode it, with SentencePiece."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

from regard.common.reading import reason_of
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.data.marian_vocab import SPECIAL, PieceTable
from regard.data.subword_sampling import (
    bpe_dropout,
    sample_segmentations,
    unigram_sampling,
)
from regard.data.text import COMPATIBILITY, clean, unknown_share

PAD = 0
UNK = 1
BOS = 2
EOS = 3

SPACE = "▁"
"""How SentencePiece writes a space; the character itself becomes a plain underscore in text."""

_UNREAD = ("<pad>", "<s>", "</s>")
_GAPS = (SPACE, *(f"<0x{ord(space):02X}>" for space in "\t\n\v\f\r\x1c\x1d\x1e\x1f "))
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_LONGEST_CODE = 40
"""Characters within which a language code ends."""
# Noncharacters of Unicode, so no vocabulary has them.
_STRANGE, _STRANGE_START = "\ufdd0", "\ufdd1"


def normalised_line(text: str) -> str:
    """Normalise a line for every vocabulary."""
    return clean(text).replace(SPACE, "_")


def surfaces_of(tokens: Iterable[str], is_byte: Callable[[str], bool]) -> list[bytes]:
    """Return the bytes that each token of a vocabulary adds to a text, as UTF-8; none for PAD, UNK,
    BOS and EOS.

    `is_byte`: whether a token that looks like a byte is one.
    """
    surfaces = []
    for index, token in enumerate(tokens):
        byte = _BYTE.fullmatch(token)
        if index in (PAD, UNK, BOS, EOS):
            surfaces.append(b"")
        elif byte and is_byte(token):
            surfaces.append(bytes([int(byte[1], 16)]))
        else:
            surfaces.append(token.replace(SPACE, " ").encode())
    return surfaces


def vocabulary_of(model: bytes, table: PieceTable | None = None) -> Vocabulary:
    """Make the vocabulary of a serialised SentencePiece model, of the class that suits its tokens.

    `table` numbers the tokens, if not SentencePiece. Raises ValueError if `model` is not a
    SentencePiece model.
    """
    try:
        if not model:
            raise ValueError("it is empty")
        vocabulary = (
            Vocabulary(model) if table is None else TableVocabulary(model, table)
        )
        vocabulary.tokens(range(min(4, len(vocabulary))))
        if not all(map(math.isfinite, vocabulary._scores.values())):
            raise ValueError("a token has no finite score")
    except (RuntimeError, ValueError) as problem:
        # ValueError: a token is not UTF-8, too.
        raise ValueError(f"not a SentencePiece model ({reason_of(problem)})") from None
    return (
        WhitespaceVocabulary(model)
        if table is None and vocabulary.is_whitespace
        else vocabulary
    )


class Vocabulary:
    """The tokens of one language (or of both), from a serialised SentencePiece model; see
    `vocabulary_of`.
    """

    table: PieceTable | None = None
    """The table that numbers the tokens, if SentencePiece does not."""
    _word_starts: tuple[str, ...] = (SPACE,)
    """Prefixes of tokens that begin a word."""

    def __init__(self, model: bytes) -> None:
        self.model = model
        # Late: translating a runtime file imports this module, and needs no SentencePiece.
        import sentencepiece

        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    @cached_property
    def is_whitespace(self) -> bool:
        """True if each token is everything between two spaces."""
        return all(len(token) > 1 and token.startswith(SPACE) for token in self._scores)

    @property
    def kind(self) -> Literal["unigram", "bpe"]:
        """The algorithm of the vocabulary: BPE scores tokens by their rank, unigram by their
        log-probability.
        """
        return (
            "bpe"
            if all(score == int(score) for score in self._scores.values())
            else "unigram"
        )

    def encode(self, text: str) -> list[int]:
        """Encode a line, without BOS and EOS."""
        ids: list[int] = self._processor.encode(self._normal(text), out_type=int)
        return ids

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Encode many lines on several threads, without BOS and EOS."""
        ids: list[list[int]] = self._processor.encode(
            [self._normal(text) for text in texts], out_type=int
        )
        return ids

    def sample_all(
        self, texts: Sequence[str], kind: str, dropout: float, seed: int
    ) -> list[list[int]]:
        """Encode many lines with a sampled segmentation; see `Tokenizer.sample`."""
        lines = [
            [
                SPACE + word
                for word in self._replace_unknown(self._normal(text)).split(" ")
                if word
            ]
            for text in texts
        ]
        segment = (
            bpe_dropout(self._scores, dropout)
            if kind == "bpe"
            else unigram_sampling(self._scores, 1 - dropout)
        )
        sampled = sample_segmentations(lines, segment, seed)
        return [
            self._ids_with_bytes(token for word in line for token in word)
            for line in sampled
        ]

    def id_of(self, token: str) -> int:
        """Return the id of a token of text; UNK if there is no such token."""
        return int(self._processor.piece_to_id(token))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id; "▁" at its start is a space before it."""
        return [self._processor.id_to_piece(int(index)) for index in ids]

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """Return the id of each token: the inverse of `tokens`, special tokens included."""
        return [int(self._processor.piece_to_id(token)) for token in tokens]

    @cached_property
    def surface_bytes(self) -> list[bytes]:
        """The bytes that each token adds to a text, as UTF-8; empty for PAD, UNK, BOS and EOS."""
        p = self._processor
        return surfaces_of(
            self.tokens(range(len(self))), lambda token: p.is_byte(p.piece_to_id(token))
        )

    @cached_property
    def copy_ids(self) -> dict[str, int]:
        """The ids of the copy tokens by their characters; empty in vocabularies that have none."""
        return {
            text: index
            for text in COPY_CHARACTERS
            if (index := self.id_of(text)) != UNK
        }

    @cached_property
    def copy_tokens(self) -> tuple[int, ...]:
        """The ids of the copy tokens."""
        return tuple(self.copy_ids.values())

    @cached_property
    def byte_tokens(self) -> dict[int, bytes]:
        """The tokens that stand for single bytes of a character (byte fallback), ASCII aside, or
        for a space alone.
        """
        single = (
            (index, text)
            for index, text in enumerate(self.surface_bytes)
            if len(text) == 1
        )
        return {
            index: text for index, text in single if text >= b"\x80" or text == b" "
        }

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids to a line of text, without PAD, BOS, EOS and bytes that form no character; UNK
        becomes ⁇.
        """
        return clean(
            self._join(
                [int(index) for index in ids if index not in (PAD, BOS, EOS)], "⁇"
            )
        )

    def detokenised(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return texts that `encode_all` encodes as these ids (EOS aside), to be segmented anew.

        A run of unknown characters becomes one character that no text contains, and so is unknown
        too.
        """
        return [
            self._detokenised([index for index in row if index != EOS]) for row in rows
        ]

    def language_code(self, text: str) -> str:
        """Return the language code that a line begins with, such as >>fra<<; empty if the model has
        none.
        """
        del text
        return ""

    @property
    def language_codes(self) -> tuple[str, ...]:
        """The language codes that a line may begin with, such as >>fra<<; empty if the model has
        none.
        """
        return ()

    def unknown_share(self, text: str) -> float:
        """Return the share of a line's characters (spaces aside) without a token: encoded as bytes,
        or lost.
        """
        return unknown_share(self._normal(text), self.tokens(self.encode(text)))

    def word_indices(self, tokens: Iterable[str]) -> list[int]:
        """Return for each token the word it belongs to, counted from 0; -1 for PAD, BOS and EOS.

        A lone "▁" belongs to the word that follows (-1 where none does), bytes belong to the word
        they are in.
        """
        words: list[int] = []
        word = -1
        is_open = False
        has_letters = False
        for token in tokens:
            if token in _UNREAD:
                words.append(-1)
                continue
            begins = token in _GAPS or token.startswith(self._word_starts)
            if not is_open or (has_letters and begins):
                word = word + 1
                is_open = True
                has_letters = False
            has_letters = has_letters or token not in _GAPS
            words.append(word)
        return (
            words
            if has_letters or not is_open
            else [-1 if index == word else index for index in words]
        )

    @cached_property
    def _scores(self) -> dict[str, float]:
        """The score of each token that SentencePiece segments text into, with or without an id."""
        p = self._processor
        ids = (
            i
            for i in range(len(p))
            if not (p.is_control(i) or p.is_unknown(i) or p.is_byte(i))
        )
        return {p.id_to_piece(i): p.get_score(i) for i in ids}

    @cached_property
    def _token_ids(self) -> dict[str, int]:
        return {token: self.id_of(token) for token in self._scores}

    def _normal(self, text: str) -> str:
        """Normalise a line as SentencePiece does before segmentation."""
        line = normalised_line(text)
        return (
            line
            if line.isascii()
            else COMPATIBILITY.sub(lambda letters: self.known_form(letters[0]), line)
        )

    def known_form(self, letters: str) -> str:
        """Return the NFKC form of `COMPATIBILITY` letters if tokens hold its characters, and not
        the letters.
        """
        form = unicodedata.normalize("NFKC", letters)
        if not self._characters.issuperset(letters) and self._characters.issuperset(
            form
        ):
            return form
        return "".join(map(self.known_form, letters)) if len(letters) > 1 else letters

    @cached_property
    def _characters(self) -> set[str]:
        """The characters that tokens hold; none if words are tokens, or the model normalises text
        by its own rules.
        """
        is_own = self.is_whitespace or "ａ" not in self._processor.normalize("ａ")
        return set() if is_own else set[str]().union(*self._scores)

    def _replace_unknown(self, text: str) -> str:
        """Without byte fallback: replace each run of unknown characters by one and the same, as
        `detokenised` does.
        """
        if self.id_of("<0x41>") != UNK:
            return text
        runs = groupby(
            text, lambda character: character == " " or character in self._scores
        )
        return "".join("".join(run) if known else _STRANGE for known, run in runs)

    def _ids_with_bytes(self, tokens: Iterable[str]) -> list[int]:
        """Look up tokens; an unknown character becomes bytes, or a run of them one UNK."""
        ids: list[int] = []
        in_run = False
        for token in tokens:
            index = self._token_ids.get(token)
            byte_ids = (
                [self.id_of(f"<0x{byte:02X}>") for byte in token.encode()]
                if index is None
                else [index]
            )
            if index is not None or UNK not in byte_ids:
                ids += byte_ids
            elif not in_run:
                ids.append(UNK)
            in_run = index is None and UNK in byte_ids
        return ids

    def _detokenised(self, ids: list[int]) -> str:
        return self._join(ids, _STRANGE)

    def _join(self, ids: Sequence[int], unknown: str) -> str:
        surfaces = (
            unknown.encode() if index == UNK else self.surface_bytes[index]
            for index in ids
        )
        return b"".join(surfaces).decode("utf-8", "ignore").replace(SPACE, " ")

    def _with_tokens(self, ids: Sequence[int]) -> Iterator[tuple[int, str]]:
        return zip(ids, self.tokens(ids), strict=True)


class WhitespaceVocabulary(Vocabulary):
    """Tokens split at spaces, as formulas are written: each unknown one is one UNK."""

    _word_starts = (SPACE, SPECIAL[UNK])

    def encode(self, text: str) -> list[int]:
        """Encode a line, without BOS and EOS."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Encode many lines; SentencePiece would merge unknown neighbours into one."""
        lines = (normalised_line(text).split(" ") for text in texts)
        return [[self.id_of(SPACE + word) for word in line if word] for line in lines]

    def _join(self, ids: Sequence[int], unknown: str) -> str:
        return " ".join(
            unknown if index == UNK else token.removeprefix(SPACE)
            for index, token in self._with_tokens(ids)
        )


class TableVocabulary(Vocabulary):
    """Tokens numbered by a table, as in Marian models; some have tokens for target languages, such
    as >>fra<<.
    """

    table: PieceTable

    def __init__(self, model: bytes, table: PieceTable) -> None:
        super().__init__(model)
        self.table = table
        # The special ones occur in no text.
        self._ids = {token: i for i, token in enumerate(table.names) if i > EOS}

    def __len__(self) -> int:
        return len(self.table.names)

    def encode(self, text: str) -> list[int]:
        """Encode a line, without BOS and EOS."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Encode many lines, with the language code that one may begin with."""
        lines = [_split_code(normalised_line(text)) for text in texts]
        tokens: list[list[str]] = self._processor.encode(
            [rest for _, rest in lines], out_type=str
        )
        return [
            [*map(self.id_of, code), *self._ids_of(row)]
            for (code, _), row in zip(lines, tokens, strict=True)
        ]

    def _ids_of(self, tokens: list[str]) -> Iterator[int]:
        """Look up tokens; of a detokenised text SentencePiece joins unknown ones, and puts a space
        before the first.
        """
        if (
            tokens[:1] == [SPACE]
            and tokens[1:]
            and tokens[1].startswith(_STRANGE_START)
        ):
            tokens = tokens[1:]
        for token in tokens:
            unknown = sum(map(token.count, (_STRANGE, _STRANGE_START)))
            yield from [UNK] * unknown or [self.id_of(token)]

    def sample_all(
        self, texts: Sequence[str], kind: str, dropout: float, seed: int
    ) -> list[list[int]]:
        """Like `Vocabulary.sample_all`; a language code is not segmented."""
        ids = super().sample_all(texts, kind, dropout, seed)
        codes = [_split_code(normalised_line(text))[0] for text in texts]
        return [
            [*map(self.id_of, code), *row] for code, row in zip(codes, ids, strict=True)
        ]

    def id_of(self, token: str) -> int:
        """Return the id of a token of text; UNK if there is no such token."""
        return self._ids.get(token, UNK)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id; "▁" at its start is a space before it."""
        return [self.table.names[int(index)] for index in ids]

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """Return the id of each token: the inverse of `tokens`, special tokens included."""
        special = {
            name: index for index, name in enumerate(self.table.names[: EOS + 1])
        }
        return [special.get(token, self.id_of(token)) for token in tokens]

    def language_code(self, text: str) -> str:
        """Return the language code that a line begins with, such as >>fra<<; empty if there is
        none.
        """
        return "".join(_split_code(normalised_line(text))[0])

    @property
    def language_codes(self) -> tuple[str, ...]:
        """The language codes that a line may begin with, such as >>fra<<; empty if the model has
        none.
        """
        return tuple(
            token for token in self.table.names if _split_code(token) == ([token], "")
        )

    def _normal(self, text: str) -> str:
        """Normalise a line as SentencePiece does before segmentation: imported models have rules of
        their own.
        """
        line: str = self._processor.normalize(_split_code(normalised_line(text))[1])
        return line.replace(SPACE, " ").strip()

    def _detokenised(self, ids: list[int]) -> str:
        tokens = [
            _STRANGE if index == UNK else token
            for index, token in self._with_tokens(ids)
        ]
        # After the language code.
        first = int(bool(tokens) and bool(_split_code(tokens[0])[0]))
        if ids[first : first + 1] == [UNK]:  # not a space and then something unknown
            tokens[first] = _STRANGE_START
        return str(self._processor.decode_pieces(tokens))


def _split_code(line: str) -> tuple[list[str], str]:
    """Split a line into its language code, such as >>fra<<, which is one token, and the rest."""
    end = line.find("<<", 1, _LONGEST_CODE) if line.startswith(">>") else 0
    return ([line[: end + 2]], line[end + 2 :]) if end > 0 else ([], line)
