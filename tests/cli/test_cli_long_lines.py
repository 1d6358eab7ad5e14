"""Lines longer than any in training: split at sentence ends, or with a warning."""

from __future__ import annotations

import itertools
import json
import warnings
from pathlib import Path

import pytest
from command import Command
from limits import time_limit

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


@pytest.fixture
def translator(transformer: Path) -> FolderTranslator:
    """Load a translator with short outputs, for fast tests, as if trained on at most twelve tokens
    a line.
    """
    return load_brief(transformer)


def load_brief(folder: Path) -> FolderTranslator:
    result = load(folder)
    search = result.settings.search.with_values(
        max_ratio=0.4, max_extra=3, beam=2, longest_source=LONGEST
    )
    return FolderTranslator(
        result.model, result.tokenizer, result.settings.with_values(search=search.model_dump())
    )


def split_line(translator: FolderTranslator, line: str) -> tuple[list[str], list[str]]:
    """Return the parts of a split line, and the notes."""
    notes = list[str]()
    segments = translator._segments(line, 0, NO_CONSTRAINTS, translator.settings.search, notes)
    return [segment.text for segment in segments], notes


def translate_line(translator: FolderTranslator, line: str, **options: bool | int) -> Translation:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return translator.translate(line, **options)[0]  # type: ignore[arg-type]


LINES = {
    "sentences": " ".join(SENTENCES * 3),
    "sentences without spaces between": "나는 간다。나는 쉰다！「나는 걷는다。」나는 웃는다？" * 4,
    "one sentence": "나는 빵을 먹고 " * 20 + "간다",
    "one word": "나는빵을먹고" * 20,
    "a long word among others": "나는 " + "가나다라마바사" * 13 + " 집에 간다",
    "an unseen script": "我们今天去公园" * 10,
    "one full stop after another": "." * 300,
    "quotes": 'Go. "Go." (Go!) »Go?« “Go.” Go… ' * 6,
    "spaces": "  나는   집에 \u00a0간다.\t" * 9,
    "brackets and spaces": "「나는 간다。」 너는 쉰다！』 " * 6,
    "short": "나는 집에 간다",
}


@pytest.mark.parametrize("name", LINES)
def test_the_parts_joined_are_the_line(translator: FolderTranslator, name: str) -> None:
    parts, _ = split_line(translator, LINES[name])
    assert "".join(parts) == clean(LINES[name])
    assert all(part.strip() for part in parts)
    assert all(len(translator.encode(part)) <= 2 * LONGEST for part in parts)


@pytest.mark.parametrize("name", LINES)
def test_splits_inside_sentences_cause_warnings(translator: FolderTranslator, name: str) -> None:
    parts, messages = split_line(translator, LINES[name])
    long = [part for part in parts if len(translator.encode(part)) > LONGEST]
    assert sum("is translated whole" in message for message in messages) == len(long)
    if name in (
        "sentences",
        "sentences without spaces between",
        "quotes",
        "spaces",
        "brackets and spaces",
    ):
        assert [message for message in messages if "was split" in message] == []
    elif name != "short":
        (note,) = (message for message in messages if "was split" in message)
        boundaries = "at spaces" if name == "one sentence" else "at spaces and inside words"
        total = len(translator.encode(LINES[name]))
        assert note.startswith(
            f"a sentence of {total} tokens is longer than any in training (12); it was split {boundaries} into {len(parts)} parts, "
        )
        assert note.endswith(f": {clean(LINES[name])[:40]}…")


def test_words_are_split_only_if_necessary(translator: FolderTranslator) -> None:
    parts, _ = split_line(translator, LINES["one sentence"])
    assert all(part.endswith(" ") for part in parts[:-1])
    assert all(len(translator.encode(part)) <= LONGEST for part in parts)
    assert all(
        len(translator.encode(a + b.split(" ")[0])) > LONGEST for a, b in itertools.pairwise(parts)
    ), "each part is as long as possible"
    parts, _ = split_line(translator, LINES["a long word among others"])
    assert parts[0] == "나는 "
    assert parts[-1].endswith("집에 간다"), "the rest of the word is joined with the next words"


def test_a_sentence_up_to_twice_as_long_stays_whole(translator: FolderTranslator) -> None:
    line = "나는"
    while len(translator.encode(line)) <= 2 * LONGEST:
        parts, messages = split_line(translator, line)
        length = len(translator.encode(line))
        assert parts == [line]
        assert len(messages) == (length > LONGEST)
        assert all(
            f"a sentence of {length} tokens is longer than any in training (12); it is translated whole"
            in message
            for message in messages
        )
        line += " 집에"
    assert len(split_line(translator, line)[0]) > 1


@pytest.mark.parametrize(
    "name",
    ["sentences", "one sentence", "a long word among others", "brackets and spaces", "short"],
)
def test_the_translation_of_a_split_line_joins_those_of_its_parts(model: Path, name: str) -> None:
    line = clean(LINES[name])
    translator = load_brief(model)
    parts, _ = split_line(translator, line)
    whole = translate_line(translator, line, alignments=True, nbest=2, readings=True)
    results = [translate_line(translator, part, alignments=True, nbest=2) for part in parts]
    assert whole.text == " ".join(result.text for result in results if result.text)
    assert whole.tokens == sum((result.tokens for result in results), ())
    assert whole.score == pytest.approx(sum(result.score for result in results), rel=1e-4)
    assert (whole.readings is None) == (len(parts) > 1)
    assert len(whole.nbest) == 2
    assert (whole.nbest[0].text, whole.nbest[0].score) == (whole.text, whole.score)
    assert whole.nbest[1].score <= whole.score
    assert whole.nbest[1].tokens == sum((result.nbest[-1].tokens for result in results), ())
    starts = [len("".join(parts[:i])) for i in range(len(parts))]
    links = []
    target = 0
    for start, result in zip(starts, results, strict=True):
        links += [(line[:start].count(" ") + s, target + t) for s, t in result.alignments or ()]
        target += len(result.text.split())
    assert whole.alignments == tuple(links)
    assert target == len(whole.text.split())
    assert all(s < len(line.split(" ")) for s, _ in links)


def test_a_line_alone_equals_the_line_in_a_batch(translator: FolderTranslator) -> None:
    lines = [*LINES.values(), ""]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        batch = translator.translate(lines, alignments=True)
    for line, result in zip(lines, batch, strict=True):
        single = translate_line(translator, line, alignments=True)
        assert (single.text, single.alignments) == (result.text, result.alignments)


def test_a_split_line_is_streamed_in_groups_of_parts(model: Path) -> None:
    translator = load_brief(model)
    line = " ".join(SENTENCES[i % 4] for i in range(40))
    parts, _ = split_line(translator, line)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = translator.translate(line, beam=1)[0].text
        sampled = translator.translate(line, sample=True, seed=3)[0].text
        increments = list(translator.stream(line))
        assert "".join(translator.stream(line, sample=True, seed=3)) == sampled
    assert "".join(increments) == expected
    assert len(parts) > WORD_BY_WORD + 2
    last = translate_line(translator, parts[-1], beam=1).text
    assert last
    assert increments[-1] == f" {last}", "the last parts are decoded together and yielded whole"


LONG = {
    "words": ("나는 빵을 먹고 " * 2_400)[:20_000],
    "bytes": "A\u0301" * 10_000,
}


@pytest.mark.parametrize("name", LONG)
def test_a_line_of_as_many_characters_as_allowed_is_translated(
    regard: Command, recurrent: Path, name: str
) -> None:
    line = LONG[name]
    assert len(line) == MAX_LINE
    Path("long").write_text(f"나는 집에 간다\n{line}\n나는 집에 간다\n", encoding="utf-8")
    with time_limit(300):  # a few seconds on a quiet machine
        done = regard("translate", recurrent, "long", "--beam", 1, "--format", "jsonl")
    rows = [json.loads(row) for row in done.lines]
    assert rows[0]["text"] == rows[2]["text"]
    (note,) = (warning for warning in done.warnings if "was split" in warning)
    parts = int(note.split(" into ")[1].split(" ")[0].replace(",", ""))
    assert parts > 100
    assert len(rows[1]["tokens"]) > parts


def test_a_line_beyond_the_limit_is_refused_by_file_and_line(
    regard: Command, transformer: Path
) -> None:
    Path("long").write_text("나는 집에 간다\n" + "가" * 101 + "\n", encoding="utf-8")
    message = "long: line 2 has more than 100 characters; break it at the ends of sentences, or raise that limit (--max-line)"
    regard.fails(
        "translate",
        transformer,
        "long",
        "--max-line",
        100,
        "--output",
        "out",
        status=1,
        because=message,
    )
    assert len(regard("translate", transformer, "long", "--max-line", 101, "--beam", 1).lines) == 2
    rows = [
        json.dumps({"text": "가" * 101}),
        json.dumps({"text": "나는 집에", "terms": ["I"] * 30}),
    ]
    Path("rows").write_text("\n".join(rows) + "\n", encoding="utf-8")
    causes = [
        "rows, line 1: text has more than 100 characters",
        "rows, line 2: term: wanted at most 20 tokens in all",
    ]
    options = ("--input", "jsonl", "--max-line", 100, "--max-required", 20)
    regard.fails("translate", transformer, "rows", *options, status=1, because=causes)


def test_a_line_with_terms_that_is_too_long_to_stay_whole_is_refused(
    regard: Command, transformer: Path
) -> None:
    rows = [{"text": "나는 집에 간다"}, {"text": "나는 " * 600, "terms": ["I"]}]
    Path("rows").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    options = ("translate", transformer, "rows", "--input", "jsonl", "--chunk", 1)
    message = (
        "rows: line 2 has 601 tokens, and a line with terms is translated whole, up to 500 tokens"
    )
    done = regard.ended(*options)
    assert (done.status, len(done.causes)) == (1, 1)
    assert done.causes[0].startswith(message)
    Path("source").write_text("나는 " * 600, encoding="utf-8")
    Path("target").write_text("I go", encoding="utf-8")
    pair = ("align", transformer, "--source", "source", "--target", "target")
    regard.fails(
        *pair,
        status=1,
        because="source: line 1 has 601 tokens, and a pair is read whole, up to 500 tokens",
    )
