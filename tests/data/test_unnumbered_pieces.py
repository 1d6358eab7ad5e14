"""Imported vocabularies whose table leaves out pieces of SentencePiece: each of these is one
unknown token.
"""

from __future__ import annotations

import io
import itertools
import json
import random

import pytest
import sentencepiece

from regard.data.marian_vocab import PieceTable
from regard.data.vocabulary import EOS, UNK, TableVocabulary
from regard.learn.samples import korean_english

SIZES = {"train": 200, "valid": 0, "test": 0, "recombination": 0, "length": 0}
PAIRS = korean_english(sizes=SIZES, short=1.0).splits["train"]
ODD = [
    "never seen: ßøж 漢字",
    ">>eng<< 나는 집에 간다",
    ">>xyz<< 나는",
    "한글",
    "<s> </s> <unk>",
    "ßø",
    " ",
    "",
    "ж I go ж",
]


def make_vocabulary(
    kind: str, side: str, numbered: float
) -> tuple[TableVocabulary, list[str]]:
    """Return a vocabulary with numbers for a share of its pieces, and lines of text."""
    lines = [getattr(pair, side) for pair in PAIRS]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=320, model_type=kind, hard_vocab_limit=False,
        character_coverage=1.0, minloglevel=4,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [processor.id_to_piece(i) for i in range(3, len(processor))]
    kept = random.Random(3).sample(pieces, int(numbered * len(pieces)))
    table = {
        piece: number
        for number, piece in enumerate(["</s>", "<unk>", *kept, ">>eng<<", "<pad>"])
    }
    return TableVocabulary(
        model.getvalue(), PieceTable.parse(json.dumps(table).encode())
    ), [
        *lines[:60],
        *ODD,
    ]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("numbered", [0.97, 0.6, 0.0])
def test_each_piece_without_a_number_is_one_unknown(
    kind: str, side: str, numbered: float
) -> None:
    vocabulary, lines = make_vocabulary(kind, side, numbered)
    rows = vocabulary.encode_all(lines)

    assert numbered > 0.9 or any(
        first == second == UNK
        for row in rows
        for first, second in itertools.pairwise(row)
    ), "neighbours without a number"
    assert (
        vocabulary.encode_all(vocabulary.detokenised([[*row, EOS] for row in rows]))
        == rows
    )
    if kind == "bpe":
        assert vocabulary.sample_all(lines, kind, 0.0, 3) == rows
