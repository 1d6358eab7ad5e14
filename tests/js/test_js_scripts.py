"""The JavaScript module translates two sentences of any script as two parts."""

from __future__ import annotations

from pathlib import Path

from regard.pipeline import RuntimeTranslator
from tests.js.test_module import run
from tests.script_model import LINES, write_model


def test_two_sentences_of_a_script_are_two_parts(node: str, wasm: Path, tmp_path: Path) -> None:
    _, file = write_model(tmp_path)
    answers = run(node, wasm, file, lines=LINES, options={"beam": 1})["answers"]
    assert [len(answer["parts"]) for answer in answers] == [2] * len(LINES)
    assert [answer["text"] for answer in answers] == [
        line.text for line in RuntimeTranslator(file).translate(LINES)
    ]


def test_notes_of_clauses_come_from_the_library(node: str, wasm: Path, tmp_path: Path) -> None:
    _, file = write_model(tmp_path)
    (answer,) = run(
        node, wasm, file, lines=["ฉันกลับบ้าน " * 60], options={"beam": 1, "split": False}
    )["answers"]
    assert "was split between clauses into" in answer["notes"][0]
