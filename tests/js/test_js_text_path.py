"""The module translates a line as Python does: capitals, mnemonics, spans, second tries, parts,
doubts and notes.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from contracts import string_cases
from helpers.small_models import SENTENCES

from regard.common.errors import LineWarning
from regard.pipeline import RuntimeTranslator
from regard.text.constraints import Constraints
from tests.cli.labels import labels
from tests.data.test_spans import SPANS
from tests.js.test_js_text_rules import LABELS, TITLES
from tests.js.test_module import run

COPY_TOKEN = "[\U000f1900-\U000f1917]"
SPANS_OF_ALL_KINDS = [span for spans in SPANS.values() for span in spans]
WITH_SPANS = [
    f"{SENTENCES[n % 6]} {span} 집" for n, span in enumerate(SPANS_OF_ALL_KINDS)
]
LINES = [*TITLES, *LABELS, *WITH_SPANS, "ΟΔΟΣ {a} ΣΑΣ"]
LINES += [capitals for language in ("tr", "el") for _, capitals in labels(language)[:6]]
"""Lines for rules of languages; `tests/laws/test_interfaces.py` compares all sorts of lines."""


def translations_of(
    model: Path,
    lines: Sequence[str],
    **options: Any,
) -> list[dict[str, Any]]:
    """Return what Python gives for lines, each with its notes."""
    results = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        translations = RuntimeTranslator(model, threads=1).translate(lines, **options)

    notes: list[list[str]] = [[] for _ in lines]
    for warning in caught:
        if isinstance(warning.message, LineWarning):
            notes[warning.message.index].append(str(warning.message))

    for number, one in enumerate(translations):
        links = one.alignments
        result = {
            "text": one.text,
            "tokens": list(one.tokens),
            "doubtful": one.doubtful,
            "broken": one.broken,
            "parts": [(part.source, part.text, part.doubtful) for part in one.parts],
            "alignments": None if links is None else [list(link) for link in links],
            "score": pytest.approx(one.score, abs=1e-4),
            "notes": notes[number],
        }
        results.append(result)

    return results


def assert_equal(
    lines: Sequence[str],
    answers: Sequence[Any],
    expected: Sequence[dict[str, Any]],
) -> None:
    for line, answer, other in zip(lines, answers, expected, strict=True):
        parts = [
            (part["source"], part["text"], part["doubtful"]) for part in answer["parts"]
        ]
        actual = {**answer, "parts": parts}
        # Python also gives the notes of tries that were given up.
        assert {*actual["notes"]} <= {*other["notes"]}, line

        for name in (
            "text",
            "tokens",
            "doubtful",
            "broken",
            "parts",
            "alignments",
            "score",
        ):
            assert actual[name] == other[name], (line, name)


def test_lines_are_translated_as_by_the_package(
    node: str,
    wasm: Path,
    make: Callable[..., Path],
) -> None:
    model = make(copy_tokens=24, languages=("tr", "el"))
    answers = run(node, wasm, model, lines=LINES, options={})["answers"]
    assert_equal(LINES, answers, translations_of(model, LINES))
    whole = run(node, wasm, model, lines=LINES, options={"keep": False})["answers"]
    assert_equal(LINES, whole, translations_of(model, LINES, keep=False))
    texts = zip(answers, whole, strict=True)

    assert sum(one["text"] != other["text"] for one, other in texts) > 50


@pytest.mark.parametrize("dialect", ["auto", "html", "c-format"])
def test_strings_of_programs_keep_their_contracts_as_in_the_package(
    node: str, wasm: Path, make: Callable[..., Path], dialect: str
) -> None:
    model = make(copy_tokens=24)
    strings = [line["text"].replace("\n", " ") for line in string_cases.lines()[::12]]
    options = {"dialect": dialect}
    answers = run(node, wasm, model, lines=strings, options=options)["answers"]
    assert_equal(strings, answers, translations_of(model, strings, **options))
    assert any(answer["broken"] for answer in answers)


def test_a_dialect_that_is_not_known_is_refused(
    node: str, wasm: Path, make: Callable[..., Path]
) -> None:
    wrong = [["translate", "a", {"dialect": name}] for name in ("x", "constructor", "")]
    errors = run(node, wasm, make(), lines=[], options={}, wrong=wrong)["errors"]
    assert all(error.startswith("option dialect: wanted auto, or") for error in errors)


def test_constraints_of_one_line_leave_the_others(
    node: str,
    wasm: Path,
    make: Callable[..., Path],
) -> None:
    model = make(copy_tokens=24)
    lines = ["나는 {name} 집에 간다", "OPEN THE FILE", "_PDF", "나는 {a} {b} {c} 집"]
    prefixes = ["", "I go", "", "I go"]
    constraints = [Constraints(prefix=prefix) for prefix in prefixes]
    answers = run(node, wasm, model, lines=lines, options={"prefixes": prefixes})[
        "answers"
    ]
    assert_equal(lines, answers, translations_of(model, lines, constraints=constraints))


def test_a_search_that_is_recorded_and_a_stream_show_the_spans(
    node: str,
    wasm: Path,
    make: Callable[..., Path],
) -> None:
    model = make(copy_tokens=24)
    line = "나는 {name} 집에 간다"
    options: dict[str, Any] = {"trace": True, "attention": "cross", "alignments": True}
    lines = [*WITH_SPANS[::9], "OPEN {a} THE FILE", "열기(_O)"]
    result = run(
        node,
        wasm,
        model,
        lines=[line],
        options=options,
        streamed=lines,
    )
    (answer,) = result["answers"]
    tokens = [
        candidate["token"]
        for step in answer["steps"]
        for candidate in step["candidates"]
    ]

    assert "{name}" in tokens
    assert sum("{name}" in word for word in answer["targetWords"]["texts"]) == 1
    assert not re.search(COPY_TOKEN, str(answer))

    translator = RuntimeTranslator(model, threads=1)

    assert result["streams"] == [list(translator.begin_stream(line)) for line in lines]

    begun = answer["ids"][:-1]  # a page goes on from them
    options = {"prefixes": [begun]}
    (answer,) = run(node, wasm, model, lines=[line], options=options)["answers"]

    assert answer["ids"][: len(begun)] == begun
    assert answer["text"].count("{name}") == 1
    assert not re.search(COPY_TOKEN, answer["text"])


def test_links_count_the_words_of_the_line_as_it_was_given(
    node: str,
    wasm: Path,
    make: Callable[..., Path],
) -> None:
    model = make(copy_tokens=24)
    marked = "나는\u00a0새  {name} \u200b 집에 %s."
    lines = [*SENTENCES, "  나는   집에 간다 ", "나는 \u200b 집에 간다", "", marked]
    answers = run(node, wasm, model, lines=lines, options={"alignments": True})[
        "answers"
    ]
    assert_equal(
        lines[:-1],
        answers[:-1],
        translations_of(model, lines[:-1], alignments=True),
    )
    links = answers[-1]["alignments"]
    sources = {source for source, _ in links}

    assert sources <= {0, 1, 2, 4, 5}, "the word of invisible characters is no word"
    assert {target for _, target in links} <= {*range(len(answers[-1]["text"].split()))}


def test_hypotheses_are_in_the_letters_of_the_line_and_figures_in_those_of_the_model(
    node: str,
    wasm: Path,
    make: Callable[..., Path],
) -> None:
    model = make(copy_tokens=24)
    lines = ["OPEN THE FILE {name}", "_PDF"]
    capitals, label = run(node, wasm, model, lines=lines, options={"nbest": 3})[
        "answers"
    ]
    for hypothesis in capitals["nbest"]:
        letters = hypothesis["text"].replace("{name}", "")
        assert letters == letters.upper() != hypothesis["text"]

    assert all("_" in hypothesis["text"] for hypothesis in label["nbest"])

    options = {"attention": "cross"}
    (figure,) = run(node, wasm, make(), lines=["OPEN THE FILE"], options=options)[
        "answers"
    ]
    (expected,) = translations_of(make(), ["OPEN THE FILE"], keep=False)

    assert figure["text"] == expected["text"]


def test_an_error_names_the_line_among_all(
    node: str,
    wasm: Path,
    make: Callable[..., Path],
) -> None:
    lines = ["나는 집에 간다", "{a}\n집\n빵", "집" * 50]
    wrong = [["translate", lines, {"maxLine": 20}]]
    (message,) = run(
        node,
        wasm,
        make(copy_tokens=24),
        lines=[],
        options={},
        wrong=wrong,
    )["errors"]

    assert message.startswith("line 3:")
