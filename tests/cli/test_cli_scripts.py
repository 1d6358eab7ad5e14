"""regard translate: two sentences of any script in a line, by a model folder and by its runtime
file.
"""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from command import Command

import regard as package
from tests.script_model import LINES, SENTENCES, write_model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_model(tmp_path_factory.mktemp("scripts"))


@pytest.mark.parametrize("kind", [0, 1], ids=["folder", "runtime file"])
def test_two_sentences_of_a_script_are_two_parts(
    regard: Command, models: tuple[Path, Path], kind: int
) -> None:
    Path("lines.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    done = regard("translate", models[kind], "lines.txt", "--format", "jsonl")
    for row, expected in zip(done.lines, SENTENCES, strict=True):
        parts = [part["source"].strip() for part in json.loads(row)["parts"]]
        assert parts == [unicodedata.normalize("NFC", part) for part in expected]


def test_two_sentences_of_a_script_are_two_parts_of_a_model_in_python(
    models: tuple[Path, Path],
) -> None:
    for translation, expected in zip(
        package.load(models[0]).translate(LINES), SENTENCES, strict=True
    ):
        parts = [part.source.strip() for part in translation.parts]
        assert parts == [unicodedata.normalize("NFC", part) for part in expected]
