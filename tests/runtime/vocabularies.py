"""Small vocabularies of every kind, and lines that are hard to normalise or to segment."""

from __future__ import annotations

import io
import json
import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import sentencepiece

from regard.data.marian_vocab import PieceTable
from regard.data.text import COMPATIBILITY
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import Vocabulary, vocabulary_of
from regard.learn.samples import korean_english

SIZES = {"train": 300, "valid": 0, "test": 60, "recombination": 0, "length": 0}


@cache
def sample_lines() -> tuple[list[str], list[str]]:
    """Return Korean and English sentences to train on, and others to encode."""
    splits = korean_english(sizes=SIZES, short=1.0).splits
    return tuple(
        [text for p in splits[part] for text in (p.source, p.target)] for part in ("train", "test")
    )  # type: ignore[return-value]


def regard_vocabulary(
    lines: Sequence[str], kind: str, fallback: bool, size: int | None = None
) -> Vocabulary:
    settings = TokenizerSettings.parse(
        {"kind": kind, "byte_fallback": fallback, "size": size}, "test"
    )
    return Tokenizer.train(lines, lines[:1], settings).source


def marian_vocabulary(
    lines: Sequence[str], kind: str, size: int = 320, **options: Any
) -> Vocabulary:
    """Train a vocabulary like those of OPUS-MT: <unk> <s> </s> first, with NFKC, numbered by a
    table.
    """
    model = train_sentencepiece(lines, kind, size, normalization_rule_name="nmt_nfkc", **options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    # some pieces are left out of the table, and it has others: language codes, and what the model
    # has no piece for
    pieces = [processor.id_to_piece(i) for i in range(3, len(processor)) if i % 29]
    names = sorted({*pieces, ">>eng<<", ">>한국어<<", "漢字", "ßø", "⁇⁇"})
    random.Random(7).shuffle(names)
    table = {name: number for number, name in enumerate(["</s>", "<unk>", *names, "<pad>"])}
    return vocabulary_of(model, PieceTable.parse(json.dumps(table).encode()))


def train_sentencepiece(lines: Sequence[str], kind: str, size: int, **options: Any) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=size, model_type=kind, hard_vocab_limit=False,
        minloglevel=4, **{"character_coverage": 1.0, **options},
    )  # fmt: skip
    return model.getvalue()


def odd_model(lines: Sequence[str], kind: str, **options: Any) -> Vocabulary:
    """Train a SentencePiece model with settings that Regard does not use."""
    ids = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    return Vocabulary(train_sentencepiece(lines, kind, 700, **ids, **options))


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


# --- lines
# -------------------------------------------------------------------------------------------------------------


@cache
def code_points() -> dict[str, list[int]]:
    """Return code points by sort. Those without a meaning in this Python's Unicode version are left
    out, for the tables may be of a newer one; noncharacters and planes 4 to 13 have none in any.
    """
    names = (
        "nonstarter",
        "decomposes",
        "compatible",
        "assigned",
        "space",
        *(f"plane {plane}" for plane in range(17)),
    )
    sorts: dict[str, list[int]] = {name: [] for name in names}
    for code in range(0x110000):
        character = chr(code)
        if 0xD800 <= code < 0xE000 or not (
            unicodedata.category(character) != "Cn" or is_unassigned_forever(code)
        ):
            continue
        sorts["assigned"].append(code)
        sorts[f"plane {code >> 16}"].append(code)
        if unicodedata.combining(character):
            sorts["nonstarter"].append(code)
        if unicodedata.decomposition(character):
            sorts["decomposes"].append(code)
        if COMPATIBILITY.fullmatch(character):
            sorts["compatible"].append(code)
        if character.isspace():
            sorts["space"].append(code)
    return sorts


def is_unassigned_forever(code: int) -> bool:
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code < 0xFDF0 or 0x40000 <= code < 0xE0000


def generated_lines(count: int, seed: int, texts: Sequence[str]) -> Iterator[str]:
    """Yield lines over all of Unicode, among them parts of real text."""
    rng = random.Random(seed)
    sorts = code_points()

    def draw(codes: Sequence[int], most: int) -> str:
        return "".join(chr(rng.choice(codes)) for _ in range(rng.randint(0, most)))

    parts: list[Callable[[], str]] = [
        lambda: draw(sorts[f"plane {rng.randrange(17)}"], 6),
        lambda: draw(sorts["assigned"], 5),
        lambda: draw(range(0x80), 6),
        lambda: draw(range(0x20), 3),
        lambda: rng.choice("aeo가") + draw(sorts["nonstarter"], rng.choice((3, 3, 45))),
        lambda: draw(sorts["decomposes"], 4),
        lambda: draw(sorts["space"], 3),
        lambda: draw([*range(0x1100, 0x1200), *range(0xA960, 0xA980), *range(0xD7B0, 0xD7FC)], 6),
        lambda: "\u200d".join(rng.choice("👩👨👧❤🏳🏽") + "\ufe0f" for _ in range(rng.randint(1, 5))),
        lambda: rng.choice(["▁", "▁▁a", "a▁b", "_", "<unk>", "<s>", "<0x41>", "⁇", ">>", "<<", ">>eng<<", ">>한국어<<"]),
        lambda: rng.choice(["\ufdd0", "\ufdd1", "\ufdd1\ufdd0x", "漢字", "ßø", "ﬁ ① ｗｉｄｅ …", "\0", "\x00\x01", "<pad></s>"]),
        lambda: draw(sorts["compatible"], 6),
        lambda: "".join(rng.choice("ｦｳｶｷﾊ") + rng.choice("ﾞﾟｱ") for _ in range(rng.randint(0, 3))),
        lambda: rng.choice("ﾡﾤﾻ") + rng.choice("ￂￃￜﾞ"),
        lambda: rng.choice(texts)[: rng.randint(0, 30)],
        lambda: unicodedata.normalize("NFD", rng.choice(texts))[: rng.randint(0, 40)],
        lambda: " ",
    ]  # fmt: skip
    for number in range(count):
        line = "".join(rng.choice(parts)() for _ in range(rng.randint(0, 6)))
        yield (
            rng.choice([">>eng<<", ">>xyz<<", ">>" + "é" * rng.randint(33, 37) + "<<"]) + line
            if number % 20 == 7
            else line
        )
