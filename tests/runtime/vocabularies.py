"""Small vocabularies of every kind, and lines that are hard to normalise or to segment."""

from __future__ import annotations

import io
import json
import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import sentencepiece

from regard.data.marian_vocab import PieceTable
from regard.data.text import COMPATIBILITY
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import Vocabulary, vocabulary_of
from regard.learn.samples import korean_english
from regard.runtime.engine.token_tables import token_tables

SIZES = {"train": 300, "valid": 0, "test": 60, "recombination": 0, "length": 0}


@cache
def sample_lines() -> tuple[list[str], list[str]]:
    """Return Korean and English sentences to train on, and others to encode."""
    splits = korean_english(sizes=SIZES, short=1.0).splits
    train = [text for pair in splits["train"] for text in (pair.source, pair.target)]
    test = [text for pair in splits["test"] for text in (pair.source, pair.target)]
    return train, test


def regard_vocabulary(kind: str, fallback: bool, size: int | None = None) -> Vocabulary:
    lines, _ = sample_lines()
    values = {"kind": kind, "byte_fallback": fallback, "size": size}
    return Tokenizer.train(
        lines,
        lines[:1],
        TokenizerSettings.parse(values, "test"),
    ).source


def train_sentencepiece(kind: str, size: int, **options: Any) -> bytes:
    model = io.BytesIO()
    lines, _ = sample_lines()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=size,
        model_type=kind,
        hard_vocab_limit=False,
        minloglevel=4,
        character_coverage=1.0,
        **options,
    )
    return model.getvalue()


def marian_vocabulary(kind: str, size: int = 320, **options: Any) -> Vocabulary:
    """Train a vocabulary like those of OPUS-MT: <unk> <s> </s> first, with NFKC, numbered by a
    table.
    """
    model = train_sentencepiece(
        kind,
        size,
        normalization_rule_name="nmt_nfkc",
        **options,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    # Some pieces are left out of the table, and it has others: language codes, and what the model
    # has no piece for.
    pieces = [processor.id_to_piece(i) for i in range(3, len(processor)) if i % 29]
    names = sorted({*pieces, ">>eng<<", ">>한국어<<", "漢字", "ßø", "⁇⁇"})
    random.Random(7).shuffle(names)
    table = {
        name: number for number, name in enumerate(["</s>", "<unk>", *names, "<pad>"])
    }
    return vocabulary_of(model, PieceTable.parse(json.dumps(table).encode()))


def odd_model(kind: str, **options: Any) -> Vocabulary:
    """Train a SentencePiece model with settings that Regard does not use."""
    ids = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    return Vocabulary(train_sentencepiece(kind, 700, **ids, **options))


def with_unused(vocabulary: Vocabulary, every: int = 5) -> Vocabulary:
    """Mark some pieces as unused, and give others the same score."""
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString(vocabulary.model)
    for index, piece in enumerate(model.pieces):
        if piece.type == 1 and index % every == 0:
            piece.type = 5
        if piece.type == 1 and index % 7 < 2:
            piece.score = -20.0 if index % 2 else 0.0

    return Vocabulary(model.SerializeToString())


SYMBOLS = {"user_defined_symbols": ["<br>", "ab", "abc", "나는 ", "e", "é"]}
SPACES = {
    "split_by_whitespace": False,
    "remove_extra_whitespaces": False,
    "add_dummy_prefix": False,
}
VOCABULARIES: dict[str, Callable[[], Vocabulary]] = {
    "bpe": partial(regard_vocabulary, "bpe", False, 400),
    "bpe-bytes": partial(regard_vocabulary, "bpe", True, 600),
    "unigram": partial(regard_vocabulary, "unigram", False, 400),
    "char": partial(regard_vocabulary, "char", False),
    "whitespace": partial(regard_vocabulary, "whitespace", False),
    "marian-unigram": partial(marian_vocabulary, "unigram"),
    "marian-bpe": partial(marian_vocabulary, "bpe"),
    "unused-bpe": lambda: with_unused(odd_model("bpe")),
    "user-bpe": partial(
        odd_model,
        "bpe",
        normalization_rule_name="nmt_nfkc_cf",
        **SYMBOLS,
    ),
    "user-unigram": partial(odd_model, "unigram", byte_fallback=True, **SYMBOLS),
    "suffix-bpe": partial(odd_model, "bpe", treat_whitespace_as_suffix=True),
    "spaces-unigram": partial(
        odd_model,
        "unigram",
        normalization_rule_name="nfkc",
        **SPACES,
    ),
    "unused-unigram": lambda: with_unused(odd_model("unigram")),
    "user-unused-bpe": lambda: with_unused(odd_model("bpe", **SYMBOLS), 3),
}


@cache
def vocabulary_and_blob(name: str) -> tuple[Vocabulary, bytes]:
    """Return a vocabulary, and the tables that the library reads."""
    vocabulary = VOCABULARIES[name]()
    return vocabulary, token_tables(vocabulary)


# --- lines


@cache
def code_points() -> list[int]:
    """Return all code points but those without a meaning in this Python's Unicode version, for the
    tables may be of a newer one; noncharacters and planes 4 to 13 have none in any.
    """
    codes = []
    for code in range(0x110000):
        is_unassigned = unicodedata.category(chr(code)) == "Cn"
        is_surrogate = 0xD800 <= code < 0xE000
        if not is_surrogate and (not is_unassigned or is_unassigned_forever(code)):
            codes.append(code)
    return codes


@cache
def changed_by_normalisation() -> dict[str, list[int]]:
    """Return code points by how normalisation treats them."""
    characters = [chr(code) for code in code_points()]
    tests: dict[str, Callable[[str], Any]] = {
        "nonstarter": unicodedata.combining,
        "decomposes": unicodedata.decomposition,
        "compatible": COMPATIBILITY.fullmatch,
        "space": str.isspace,
    }
    return {
        name: [ord(character) for character in characters if is_one(character)]
        for name, is_one in tests.items()
    }


def is_unassigned_forever(code: int) -> bool:
    return (
        code & 0xFFFE == 0xFFFE or 0xFDD0 <= code < 0xFDF0 or 0x40000 <= code < 0xE0000
    )


PIECES = (
    "▁|▁▁a|a▁b|_|<unk>|<s>|<0x41>|⁇|>>|<<|>>eng<<|>>한국어<<|\ufdd0|\ufdd1|\ufdd1\ufdd0x|漢字|ßø"
    "|ﬁ ① ｗｉｄｅ …|\0|\x00\x01|<pad></s>|👩\ufe0f\u200d👧|🏳\ufe0f\u200d❤\ufe0f|ｶﾞ|ﾊﾟｱ|ﾡￂ|ﾻﾞ| "
)
"""Parts of lines that are written otherwise, or stand for tokens, joined by bars."""


def generated_lines(count: int, seed: int, texts: Sequence[str]) -> Iterator[str]:
    """Yield lines over all of Unicode, among them parts of real text."""
    rng = random.Random(seed)
    sorts = changed_by_normalisation()
    jamo = [*range(0x1100, 0x1200), *range(0xA960, 0xA980), *range(0xD7B0, 0xD7FC)]
    ranges = [code_points(), *sorts.values(), range(0x80), range(0x20), jamo]

    def part() -> str:
        kind = rng.randrange(4)
        if kind == 0:
            return rng.choice(PIECES.split("|"))
        if kind == 1:
            text = rng.choice(texts)
            form = unicodedata.normalize("NFD", text) if rng.random() < 0.5 else text
            return form[: rng.randint(0, 40)]

        if kind == 2:
            marks = rng.choices(sorts["nonstarter"], k=rng.choice((1, 3, 45)))
            return rng.choice("aeo가") + "".join(map(chr, marks))
        codes = rng.choice(ranges)
        return "".join(map(chr, rng.choices(codes, k=rng.randint(0, 6))))

    for number in range(count):
        line = "".join(part() for _ in range(rng.randint(0, 6)))
        if number % 20 == 7:
            code = rng.choice(["eng", "xyz", "é" * rng.randint(33, 37)])
            line = f">>{code}<<{line}"
        yield line
