"""Lines longer than any in training: split at sentence ends, or with a warning."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from command import Command, write_lines
from helpers.time_limits import time_limit

from regard.data.text import MAX_LINE, clean
from regard.pipeline import FolderTranslator, Translation, load
from regard.pipeline.folder_translator import WORD_BY_WORD
from regard.search import NO_CONSTRAINTS

LONGEST = 12
SENTENCES = [
    "나는 집에 간다.",
    "나는 빵을 먹고 있었다!",
    '아이는 말했다. "걷는다." 그는 쉰다?',
    "유나가 춤출 때 너는 웃는다…",
]
LONG_SENTENCE = "나는 빵을 먹고 " * 20 + "간다"
LONG_WORD = "나는 " + "가나다라마바사" * 13 + " 집에 간다"
SPLIT_AT_ENDS = [
    " ".join(SENTENCES * 3),
    "나는 간다。나는 쉰다！「나는 걷는다。」나는 웃는다？" * 4,
    'Go. "Go." (Go!) »Go?« “Go.” Go… ' * 6,
    "  나는   집에 \u00a0간다.\t" * 9,
    "「나는 간다。」 너는 쉰다！』 " * 6,
]
SPLIT_INSIDE = [
    LONG_SENTENCE,
    LONG_WORD,
    "나는빵을먹고" * 20,
    "我们今天去公园" * 10,
    "." * 300,
]


@pytest.fixture
def translator(transformer: Path) -> FolderTranslator:
    """Load a translator with short outputs, for fast tests, as if trained on at most twelve tokens
    a line.
    """
    whole = load(transformer)
    short = {"max_ratio": 0.4, "max_extra": 3, "beam": 2, "longest_source": LONGEST}
    search = whole.settings.search.with_values(**short)
    settings = whole.settings.with_values(search=search.model_dump())
    return FolderTranslator(whole.model, whole.tokenizer, settings)


def split_line(translator: FolderTranslator, line: str) -> tuple[list[str], list[str]]:
    """Return the parts of a split line, and the notes."""
    notes = list[str]()
    segments = translator._segments(
        line, 0, NO_CONSTRAINTS, translator.settings.search, notes
    )
    return [segment.text for segment in segments], notes


def translate_line(
    translator: FolderTranslator, line: str, **options: bool | int
) -> Translation:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return translator.translate(line, **options)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("line", [*SPLIT_AT_ENDS, *SPLIT_INSIDE])
def test_the_parts_joined_are_the_line(translator: FolderTranslator, line: str) -> None:
    """Splits inside sentences cause warnings."""
    parts, messages = split_line(translator, line)
    assert "".join(parts) == clean(line)
    assert all(part.strip() for part in parts)

    lengths = [len(translator.encode(part)) for part in parts]
    assert max(lengths) <= 2 * LONGEST

    whole = [message for message in messages if "is translated whole" in message]
    assert len(whole) == sum(length > LONGEST for length in lengths)

    split = [message for message in messages if "was split" in message]
    assert len(split) == (line in SPLIT_INSIDE)

    for message in split:
        total = len(translator.encode(line))
        where = "at spaces" if line == LONG_SENTENCE else "at spaces and inside words"
        longer = f"a sentence of {total} tokens is longer than any in training (12)"
        assert message.startswith(
            f"{longer}; it was split {where} into {len(parts)} parts, "
        )
        assert message.endswith(f": {clean(line)[:40]}…")


def test_a_split_line_is_streamed_in_groups_of_parts(
    translator: FolderTranslator,
) -> None:
    line = " ".join(SENTENCES * 10)
    parts, _ = split_line(translator, line)
    assert len(parts) > WORD_BY_WORD + 2

    for search in ({"beam": 1}, {"sample": True, "seed": 3}):
        expected = translate_line(translator, line, **search).text
        options = {name: value for name, value in search.items() if name != "beam"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            increments = list(translator.stream(line, **options))
        assert "".join(increments) == expected

    increments = list(translator.stream(line))
    last = translate_line(translator, parts[-1], beam=1).text
    assert increments[-1] == f" {last}", (
        "the last parts are decoded together and yielded whole"
    )


def test_a_line_of_as_many_characters_as_allowed_is_translated(
    regard: Command, other: Path
) -> None:
    line = ("나는 빵을 먹고 " * 2_400)[:MAX_LINE]
    write_lines("long", ["나는 집에 간다", line, "나는 집에 간다"])
    with time_limit(300):  # a few seconds on a quiet machine
        done = regard(f"translate {other} long --beam 1 --format jsonl")

    first, long, last = map(json.loads, done.lines)
    assert first["text"] == last["text"]

    (note,) = (warning for warning in done.warnings if "was split" in warning)
    parts = int(note.split(" into ")[1].split(" ")[0].replace(",", ""))
    assert parts > 100
    assert len(long["tokens"]) > parts


def test_a_line_beyond_a_limit_is_refused_by_its_number(
    regard: Command, transformer: Path
) -> None:
    translate = f"translate {transformer} --beam 1"
    stdin = f"나는 집에 간다\n{'가' * 101}\n"
    because = "standard input: line 2 has more than 100 characters; break it at the"
    regard.fails(f"{translate} --max-line 100", stdin=stdin, status=1, because=because)
    assert len(regard(f"{translate} --max-line 101", stdin=stdin).lines) == 2

    rows = [{"text": "나는 집에 간다"}, {"text": "나는 " * 600, "terms": ["I"]}]
    write_lines("rows", map(json.dumps, rows))
    done = regard.ended(f"{translate} rows --input jsonl --chunk 1")
    whole = "a line with terms is translated whole, up to 500 tokens"
    assert done.status == 1
    assert done.causes[0].startswith(f"rows: line 2 has 601 tokens, and {whole}")
