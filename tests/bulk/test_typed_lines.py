"""Lines that a person types: each that is unlike what the model has learnt is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.small_models import folder

import regard
from regard.data.seen_token_pairs import SeenTokenPairs
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.interchange.runtime import export
from regard.model_folder import load_settings, write_settings
from regard.pipeline.bulk import ChunkTranslator, OutputFormat
from regard.pipeline.bulk.chunk_translator import UNLEARNT
from regard.pipeline.bulk.lines import Chunk
from regard.text.doubtful_sentences import DoubtfulSentences

LINES = {"나는 집에 간다": False, "집에 나는 간다": True, "나는 집에 간다 갔": True}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has seen one line, with nothing doubtful, as a folder and as a runtime file."""
    path = folder(tmp_path_factory.mktemp("models") / "run", score_threshold=None)
    encode = regard.load(path).tokenizer.source.encode
    familiar = SeenTokenPairs.learn([encode("나는 집에 간다")], [], 0.0)
    write_settings(path, load_settings(path).with_values(familiar=familiar))
    export(path, path.with_suffix(".regard"))
    return path


@pytest.mark.system
@pytest.mark.parametrize("suffix", ["", ".regard"])
@pytest.mark.parametrize("line", LINES)
def test_a_typed_line_unlike_the_text_of_training_is_named(
    model: Path, suffix: str, line: str
) -> None:
    translator = regard.load(model.with_suffix(suffix))
    for typed in (False, True):
        translate = ChunkTranslator("standard input", OutputFormat(), {}, typed=typed)
        result = translate(translator, Chunk(0, 1, (line,), ""))

        assert (UNLEARNT in result.notes) == (typed and LINES[line])
        assert result.doubtful == LINES[line]


@pytest.mark.parametrize(
    ("text", "known", "unknown"),
    [
        (
            "ακύρωση τώρα",
            ["ΑΚΥΡΩΣΗ ΤΩΡΑ", "Ω", "Ώ", "ΑΚΎΡΩΣΗ", "ὧ", "PDF ακυρωση"],
            ["привет", "집에", "ג", "PDF"],
        ),
        (
            "отмена",
            ["ОТМЕНА", "О", "https://x.org/abc", "{name}", "{name} ОТМЕНА"],
            ["ΑΚΥΡΩΣΗ", "{name} ΑΒ"],
        ),
        ("իր որդին", ["ԻՐ ՈՐԴԻՆ"], ["отмена"]),
        ("ԻՐ", ["իր"], ["отмена"]),
    ],
)
def test_letters_of_a_known_script_are_known_in_other_forms(
    text: str, known: list[str], unknown: list[str]
) -> None:
    vocabulary = Tokenizer.train([text] * 9, [text] * 9, TokenizerSettings()).source
    doubts = DoubtfulSentences(vocabulary.encode, vocabulary.tokens, None)

    assert [line for line in known if doubts.is_of_unknown_script(line)] == []
    assert [line for line in unknown if not doubts.is_of_unknown_script(line)] == []


@pytest.mark.system
def test_a_note_that_many_lines_have_is_given_once(tmp_path: Path) -> None:
    translator = regard.load(folder(tmp_path / "run", end=2.0))
    # No translation is that short, which is noted.
    translate = ChunkTranslator("a.txt", OutputFormat(), {"max_characters": 1})
    line = "나는 집에 간다"
    few, many = (
        translate(translator, Chunk(0, 1, (line,) * count, "")).notes
        for count in (2, 20)
    )
    assert [note.partition(":")[0] for note in few] == [
        "a.txt, line 1",
        "a.txt, line 2",
    ]
    assert [note.partition(":")[0] for note in many] == ["a.txt, line 1 and 19 more"]
