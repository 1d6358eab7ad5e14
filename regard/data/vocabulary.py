"""Vocabularies: encode text as token ids and decode it, with SentencePiece."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby
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
"""Id of the token that pads batches."""
UNK = 1
"""Id of the unknown token."""
BOS = 2
"""Id of the token with which the input of a decoder begins."""
EOS = 3
"""Id of the token that ends each source and target."""

SPACE = "▁"
"""SentencePiece's character for a space; in text it is replaced by an underscore."""

_WORDLESS = ("<pad>", "<s>", "</s>")
"""Special tokens that belong to no word."""
_SPACES = (SPACE, *(f"<0x{ord(space):02X}>" for space in "\t\n\v\f\r\x1c\x1d\x1e\x1f "))
"""Tokens that stand for a white-space character alone."""
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_LONGEST_CODE = 40
"""Characters within which a language code ends."""
_UNKNOWN, _UNKNOWN_START = "\ufdd0", "\ufdd1"
"""Stand-ins for unknown characters, within a text and at its start; they are noncharacters of
Unicode, so no vocabulary has them.
"""


def normalised_line(text: str) -> str:
    """Normalise a line for every vocabulary."""
    return clean(text).replace(SPACE, "_")


def surfaces_of(tokens: Iterable[str], is_byte: Callable[[str], bool]) -> list[bytes]:
    """Return the UTF-8 bytes that each token of a vocabulary adds to a text; none for PAD, UNK, BOS
    and EOS.

    `is_byte` tells whether a token that looks like a byte, such as <0x41>, is one.
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
    """Make the vocabulary of a serialised SentencePiece model; its class depends on the tokens.

    A `table` gives the tokens other ids than SentencePiece. Raises ValueError if `model` is not a
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
        # A token that is not UTF-8 raises ValueError, too.
        raise ValueError(f"not a SentencePiece model ({reason_of(problem)})") from None
    if table is None and vocabulary.is_whitespace:
        return WhitespaceVocabulary(model)
    return vocabulary


class Vocabulary:
    """The tokens of one language, or of both; `vocabulary_of` makes it from a SentencePiece
    model.
    """

    table: PieceTable | None = None
    """The table of token ids, if they are not SentencePiece's."""
    _word_starts: tuple[str, ...] = (SPACE,)
    """Prefixes of tokens that begin a word."""

    def __init__(self, model: bytes) -> None:
        self.model = model
        # Translating a runtime file imports this module, but needs no SentencePiece.
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
        is_bpe = all(score == int(score) for score in self._scores.values())
        return "bpe" if is_bpe else "unigram"

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
        lines = []
        for text in texts:
            words = self._replace_unknown(self._normal(text)).split(" ")
            lines.append([SPACE + word for word in words if word])

        if kind == "bpe":
            segment = bpe_dropout(self._scores, dropout)
        else:
            segment = unigram_sampling(self._scores, 1 - dropout)
        sampled = sample_segmentations(lines, segment, seed)
        return [self._ids_with_bytes(chain.from_iterable(line)) for line in sampled]

    def id_of(self, token: str) -> int:
        """Return the id of a token of text; UNK if there is no such token."""
        return int(self._processor.piece_to_id(token))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id; a leading "▁" stands for a space."""
        return [self._processor.id_to_piece(int(index)) for index in ids]

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """Return the id of each token: the inverse of `tokens`, special tokens included."""
        return [int(self._processor.piece_to_id(token)) for token in tokens]

    @cached_property
    def surface_bytes(self) -> list[bytes]:
        """The UTF-8 bytes that each token adds to a text; empty for PAD, UNK, BOS and EOS."""
        processor = self._processor

        def is_byte(token: str) -> bool:
            return bool(processor.is_byte(processor.piece_to_id(token)))

        return surfaces_of(self.tokens(range(len(self))), is_byte)

    @cached_property
    def copy_ids(self) -> dict[str, int]:
        """The ids of the copy tokens by their characters; empty in vocabularies that have none."""
        ids = {character: self.id_of(character) for character in COPY_CHARACTERS}
        return {character: index for character, index in ids.items() if index != UNK}

    @cached_property
    def copy_tokens(self) -> tuple[int, ...]:
        """The ids of the copy tokens."""
        return tuple(self.copy_ids.values())

    @cached_property
    def byte_tokens(self) -> dict[int, bytes]:
        """The tokens that stand for one byte of a character that is not ASCII (byte fallback), or
        for a space alone.
        """
        return {
            index: surface
            for index, surface in enumerate(self.surface_bytes)
            if len(surface) == 1 and (surface >= b"\x80" or surface == b" ")
        }

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids to a line of text; UNK becomes ⁇.

        PAD, BOS, EOS and bytes that form no character are left out.
        """
        text_ids = [int(index) for index in ids if index not in (PAD, BOS, EOS)]
        return clean(self._join(text_ids, "⁇"))

    def detokenised(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return texts that `encode_all` encodes as these ids, without EOS, to segment them anew.

        A run of unknown characters becomes one character that no text contains, and which is
        therefore unknown too.
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
        """Return the share of a line's characters, not counting spaces, that are encoded as bytes
        or lost because they have no token.
        """
        return unknown_share(self._normal(text), self.tokens(self.encode(text)))

    def word_indices(self, tokens: Iterable[str]) -> list[int]:
        """Return for each token the word it belongs to, counted from 0; -1 for PAD, BOS and EOS.

        Bytes belong to the word that contains them. A lone "▁" belongs to the following word; -1 if
        no word follows.
        """
        words: list[int] = []
        word = -1
        is_open = False
        has_letters = False
        for token in tokens:
            if token in _WORDLESS:
                words.append(-1)
                continue
            begins = token in _SPACES or token.startswith(self._word_starts)
            if not is_open or (has_letters and begins):
                word = word + 1
                is_open = True
                has_letters = False
            has_letters = has_letters or token not in _SPACES
            words.append(word)

        if is_open and not has_letters:  # only spaces after the last word
            return [-1 if index == word else index for index in words]
        return words

    @cached_property
    def _scores(self) -> dict[str, float]:
        """The score of each token into which SentencePiece segments text, even if a table gives it
        no id.
        """
        processor = self._processor
        scores = {}
        for index in range(len(processor)):
            is_special = processor.is_control(index) or processor.is_unknown(index)
            if not is_special and not processor.is_byte(index):
                scores[processor.id_to_piece(index)] = processor.get_score(index)
        return scores

    @cached_property
    def _token_ids(self) -> dict[str, int]:
        return {token: self.id_of(token) for token in self._scores}

    def _normal(self, text: str) -> str:
        """Normalise a line as SentencePiece does before segmentation."""
        line = normalised_line(text)
        if line.isascii():
            return line
        return COMPATIBILITY.sub(lambda letters: self.known_form(letters[0]), line)

    def known_form(self, letters: str) -> str:
        """Return the NFKC form of `COMPATIBILITY` letters if the tokens hold its characters, but
        not the letters.
        """
        form = unicodedata.normalize("NFKC", letters)
        is_known = self._characters.issuperset(letters)
        if not is_known and self._characters.issuperset(form):
            return form
        return "".join(map(self.known_form, letters)) if len(letters) > 1 else letters

    @cached_property
    def _characters(self) -> set[str]:
        """The characters that the tokens hold; empty if tokens are words, or if the model
        normalises text by its own rules.
        """
        if self.is_whitespace or "ａ" not in self._processor.normalize("ａ"):
            return set()
        return set[str]().union(*self._scores)

    def _replace_unknown(self, text: str) -> str:
        """Replace each run of unknown characters by `_UNKNOWN`, unless there is byte fallback."""
        if self.id_of("<0x41>") != UNK:
            return text
        runs = groupby(
            text, lambda character: character == " " or character in self._scores
        )
        return "".join(
            "".join(characters) if is_known else _UNKNOWN
            for is_known, characters in runs
        )

    def _ids_with_bytes(self, tokens: Iterable[str]) -> list[int]:
        """Look up tokens; unknown characters become bytes or, if a byte has no token, one UNK for
        each run.
        """
        ids: list[int] = []
        follows_unknown = False
        for token in tokens:
            index = self._token_ids.get(token)
            if index is not None:
                ids.append(index)
                follows_unknown = False
                continue
            byte_ids = [self.id_of(f"<0x{byte:02X}>") for byte in token.encode()]
            is_unknown = UNK in byte_ids
            if not is_unknown:
                ids += byte_ids
            elif not follows_unknown:
                ids.append(UNK)
            follows_unknown = is_unknown
        return ids

    def _detokenised(self, ids: list[int]) -> str:
        return self._join(ids, _UNKNOWN)

    def _join(self, ids: Sequence[int], unknown: str) -> str:
        surfaces = (
            unknown.encode() if index == UNK else self.surface_bytes[index]
            for index in ids
        )
        return b"".join(surfaces).decode("utf-8", "ignore").replace(SPACE, " ")

    def _with_tokens(self, ids: Sequence[int]) -> Iterator[tuple[int, str]]:
        return zip(ids, self.tokens(ids), strict=True)


class WhitespaceVocabulary(Vocabulary):
    """Vocabulary of whole words, split at spaces, as in formulas; each unknown word is one UNK."""

    _word_starts = (SPACE, SPECIAL[UNK])

    def encode(self, text: str) -> list[int]:
        """Encode a line, without BOS and EOS."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Encode many lines, word by word, because SentencePiece merges adjacent unknown words."""
        lines = (normalised_line(text).split(" ") for text in texts)
        return [[self.id_of(SPACE + word) for word in line if word] for line in lines]

    def _join(self, ids: Sequence[int], unknown: str) -> str:
        return " ".join(
            unknown if index == UNK else token.removeprefix(SPACE)
            for index, token in self._with_tokens(ids)
        )


class NamedVocabulary(Vocabulary):
    """Vocabulary whose token ids are positions in a list of names, the special ones first."""

    _names: Sequence[str]

    def __len__(self) -> int:
        return len(self._names)

    @cached_property
    def _ids(self) -> dict[str, int]:
        # Special tokens, which have the first ids, never occur in text.
        return {token: index for index, token in enumerate(self._names) if index > EOS}

    def id_of(self, token: str) -> int:
        """Return the id of a token of text; UNK if there is no such token."""
        return self._ids.get(token, UNK)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id; a leading "▁" stands for a space."""
        return [self._names[int(index)] for index in ids]

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """Return the id of each token: the inverse of `tokens`, special tokens included."""
        special = {name: index for index, name in enumerate(self._names[: EOS + 1])}
        return [special.get(token, self.id_of(token)) for token in tokens]


class TableVocabulary(NamedVocabulary):
    """Vocabulary whose token ids come from a table, as in Marian models.

    Some of these models have tokens for target languages, such as >>fra<<.
    """

    table: PieceTable

    def __init__(self, model: bytes, table: PieceTable) -> None:
        super().__init__(model)
        self.table = table
        self._names = table.names

    def encode(self, text: str) -> list[int]:
        """Encode a line, without BOS and EOS."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Encode many lines, each with its language code if it begins with one."""
        lines = [_split_code(normalised_line(text)) for text in texts]
        tokens: list[list[str]] = self._processor.encode(
            [text for _, text in lines], out_type=str
        )
        return [
            [*map(self.id_of, code), *self._ids_of(row)]
            for (code, _), row in zip(lines, tokens, strict=True)
        ]

    def _ids_of(self, tokens: list[str]) -> Iterator[int]:
        """Look up tokens, with one UNK for each unknown character of a detokenised text.

        SentencePiece joins adjacent unknown characters, and puts a space before a text that begins
        with one.
        """
        starts_unknown = len(tokens) > 1 and tokens[1].startswith(_UNKNOWN_START)
        if starts_unknown and tokens[0] == SPACE:
            tokens = tokens[1:]
        for token in tokens:
            unknown = token.count(_UNKNOWN) + token.count(_UNKNOWN_START)
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
        """Normalise a line as SentencePiece does before segmentation, by the rules of the imported
        model.
        """
        line: str = self._processor.normalize(_split_code(normalised_line(text))[1])
        return line.replace(SPACE, " ").strip()

    def _detokenised(self, ids: list[int]) -> str:
        tokens = [
            _UNKNOWN if index == UNK else token
            for index, token in self._with_tokens(ids)
        ]
        begins_with_code = bool(tokens) and bool(_split_code(tokens[0])[0])
        first = 1 if begins_with_code else 0
        if ids[first : first + 1] == [UNK]:
            # SentencePiece will put a space before it, which `_ids_of` must drop.
            tokens[first] = _UNKNOWN_START
        return str(self._processor.decode_pieces(tokens))


def _split_code(line: str) -> tuple[list[str], str]:
    """Split a line into its language code, such as >>fra<<, as a list of at most one token, and the
    remaining text.
    """
    end = line.find("<<", 1, _LONGEST_CODE) if line.startswith(">>") else 0
    if end <= 0:
        return [], line
    return [line[: end + 2]], line[end + 2 :]
