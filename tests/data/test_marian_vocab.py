"""Vocabulary files of Marian models: renumbered to our order, or refused with what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import regard
from regard.data import vocabulary
from regard.data.marian_vocab import SPECIAL, PieceTable
from regard.runtime import model


def test_special_tokens_have_the_same_ids_everywhere() -> None:
    ids = (vocabulary.PAD, vocabulary.UNK, vocabulary.BOS, vocabulary.EOS)
    assert ids == tuple(range(len(SPECIAL)))
    assert model.EOS == vocabulary.EOS
    for name in (
        "runtime/c/model.h",
        "runtime/js/regard.js",
        "visualisation/assets/explanation_data.js",
    ):
        text = (Path(regard.__file__).parent / name).read_text("utf-8")
        assert re.findall(r"\bEOS(?: =)? (\d+)", text) == [str(vocabulary.EOS)], name


def test_special_tokens_come_first_and_the_others_keep_their_order() -> None:
    table = PieceTable.parse(
        json.dumps({"</s>": 0, "▁b": 1, "<unk>": 3, "a": 2, "<pad>": 4}).encode()
    )
    assert table.names == ("<pad>", "<unk>", "<s>", "</s>", "▁b", "a")
    assert table.rows == (4, 3, 4, 0, 1, 2), "a target begins with the file's <pad>"


@pytest.mark.parametrize(
    ("text", "because"),
    [
        (b"{", "not JSON"),
        (b"[1, 2]", "not a table of tokens and their numbers"),
        (b'{"a": 1.5}', "not a table of tokens and their numbers"),
        (b'{"a": true}', "not a table of tokens and their numbers"),
        (
            b'{"<pad>": 0, "<unk>": 1, "</s>": 3}',
            "the numbers of 3 tokens are not 0 to 2, each once",
        ),
        (
            b'{"<pad>": 0, "<unk>": 1, "</s>": 1}',
            "the numbers of 3 tokens are not 0 to 2, each once",
        ),
        (b'{"a": 0, "<unk>": 1}', "the tokens <pad> </s> are missing"),
    ],
)
def test_other_content_is_refused(text: bytes, because: str) -> None:
    with pytest.raises(ValueError, match=because):
        PieceTable.parse(text)
