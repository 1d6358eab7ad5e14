"""The module translates a line as Python does: capitals, mnemonics, spans, second tries, parts,
doubts and notes.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from small import SENTENCES

from regard.common.errors import LineWarning
from regard.pipeline import RuntimeTranslator
from regard.text.constraints import Constraints
from regard.visualisation.live_page import LiveModel, render_live_page
from tests.cli.labels import labels
from tests.data.test_spans import LINES as SPANS
from tests.js.test_js_text_rules import LABELS, TITLES
from tests.js.test_module import run

SCRIPTS = [
    *(
        "ሰላም ለዓለም።",
        "مرحبا بالعالم",
        "Բարեւ աշխարհ։",
        "হ্যালো বিশ্ব।",
        "你好，世界。",
        "გამარჯობა",
        "Γειά σου Κόσμε",
        "નમસ્તે",
        "ਸਤ ਸ੍ਰੀ ਅਕਾਲ",
    ),
    *(
        "שלום עולם",
        "नमस्ते दुनिया।",
        "こんにちは世界",
        "ಹಲೋ",
        "សួស្តី",
        "안녕 세계",
        "ສະບາຍດີ",
        "ഹലോ",
        "မင်္ဂလာပါ",
        "ହେଲୋ",
        "Привет, мир",
    ),
    *("හෙලෝ", "வணக்கம்", "హలో", "สวัสดีชาวโลก", "བཀྲ་ཤིས་", "ᠰᠠᠢᠨ", "ⴰⵣⵓⵍ", "ޙެލޯ", "ᏏᏲ", "ᱡᱚᱦᱟᱨ"),
]
ODD = [
    *(
        "",
        " ",
        "12",
        "…",
        "12 %s",
        "{a} {b}",
        "  나는   집에 간다 ",
        "나는\u00a0집에\u200b 간다",
        "\u200b",
        "\u200b %s 집",
        "나는\t집에",
    ),
    *(
        "나는 집에 간다. 너는 책을 읽는다. I go home!",
        "나는 {a} 집에. 너는 {b} 읽는다.",
        "집\n빵 %s\n12",
        "가\u0301 %s 나",
    ),
    *(
        ">>deu<< I go home {x}",
        ">>tr<< OPEN THE FILE",
        "MSB5018: I go home 2026",
        "I go home 10 20 30 F5",
        "Ctrl+S © 12.5",
        "\U000f1900 집",
    ),
    *(
        "집 " * 60,
        "집 {a} " + "빵을 먹고 " * 30,
        "I'm “sure”",
        "it's 'ok' {x}",
        "CAFÉ OUVERT",
        "ΟΔΟΣ {a} ΣΑΣ",
    ),
]


def spans_lines() -> list[str]:
    """Return lines with one span of each kind, with two, and with three."""
    found = [span for spans in SPANS.values() for span in spans]
    lines = [f"{SENTENCES[n % 6]} {span} 집" for n, span in enumerate(found)]
    lines += [
        f"{one} {SENTENCES[n % 6]} ({other})"
        for n, (one, other) in enumerate(zip(found, found[7:], strict=False))
    ]
    lines += [
        f"{a}, {b} 집 {c}." for a, b, c in zip(found[::3], found[1::3], found[2::3], strict=False)
    ]
    return lines


LINES = [*SENTENCES, *SCRIPTS, *ODD, *TITLES, *LABELS, *spans_lines()]
LINES += [
    unicodedata.normalize("NFD", line) for line in (*TITLES, *SENTENCES, "_Àbc %s", "É {a} É")
]
LINES += [capitals for language in ("tr", "el", "lt", "nl") for _, capitals in labels(language)[:6]]


def translations_of(model: Path, lines: Sequence[str], **options: Any) -> list[dict[str, Any]]:
    """Return what Python gives for lines, each with its notes."""
    results = list[dict[str, Any]]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        translations = RuntimeTranslator(model, threads=1).translate(lines, **options)
    for n, one in enumerate(translations):
        notes = [
            str(w.message)
            for w in caught
            if isinstance(w.message, LineWarning) and w.message.index == n
        ]
        parts = [(part.source, part.text, part.doubtful) for part in one.parts]
        result = {
            "text": one.text,
            "tokens": list(one.tokens),
            "doubtful": one.doubtful,
            "parts": parts,
            "score": one.score,
        }
        results.append(
            {
                **result,
                "notes": notes,
                "alignments": None if one.alignments is None else [*map(list, one.alignments)],
            }
        )
    return results


def assert_equal(
    lines: Sequence[str], answers: Sequence[Any], expected: Sequence[dict[str, Any]]
) -> None:
    wrong = list[Any]()
    for line, answer, other in zip(lines, answers, expected, strict=True):
        result = {name: answer[name] for name in ("text", "tokens", "doubtful", "alignments")}
        result["parts"] = [
            (part["source"], part["text"], part["doubtful"]) for part in answer["parts"]
        ]
        differing = {
            name: (value, other[name]) for name, value in result.items() if value != other[name]
        }
        if answer["score"] != pytest.approx(other["score"], abs=1e-4):
            differing["score"] = (answer["score"], other["score"])
        if not set(answer["notes"]) <= set(
            other["notes"]
        ):  # Python also tells those of tries that were given up
            differing["notes"] = (answer["notes"], other["notes"])
        if differing:
            wrong.append((line, differing))
    assert wrong[:10] == [], "\n".join(map(str, wrong))


@pytest.mark.parametrize(
    ("languages", "copy_tokens"),
    [(("tr", "el"), 24), pytest.param(("nl", "tr"), 0, marks=pytest.mark.slow), (("", ""), 1)],
)
def test_lines_are_translated_as_by_the_package(
    node: str, wasm: Path, make: Callable[..., Path], languages: tuple[str, str], copy_tokens: int
) -> None:
    model = make(copy_tokens=copy_tokens, languages=languages)
    answers = run(node, wasm, model, lines=LINES, options={})["answers"]
    assert_equal(LINES, answers, translations_of(model, LINES))
    whole = run(node, wasm, model, lines=LINES, options={"keep": False})["answers"]
    assert_equal(LINES, whole, translations_of(model, LINES, keep=False))
    assert (
        sum(one["text"] != other["text"] for one, other in zip(answers, whole, strict=True)) > 100
    )


def test_constraints_of_one_line_leave_the_others(
    node: str, wasm: Path, make: Callable[..., Path]
) -> None:
    model = make(copy_tokens=24)
    lines = ["나는 {name} 집에 간다", "OPEN THE FILE", "_PDF", "나는 {a} {b} {c} 집"]
    constraints = [Constraints(prefix="I go" if n % 2 else "") for n in range(4)]
    prefixes = [item.prefix for item in constraints]
    answers = run(node, wasm, model, lines=lines, options={"prefixes": prefixes})["answers"]
    assert_equal(lines, answers, translations_of(model, lines, constraints=constraints))


def test_a_hypothesis_goes_on_with_its_spans(
    node: str, wasm: Path, make: Callable[..., Path]
) -> None:
    """What a page continues from a word has copy tokens as the hypothesis had them."""
    model = make(copy_tokens=24)
    line = "나는 {name} 집에 간다"
    (shown,) = run(node, wasm, model, lines=[line], options={"attention": "cross"})["answers"]
    for size in (1, len(shown["ids"]) - 1):
        options = {"prefixes": [shown["ids"][:size]]}
        (answer,) = run(node, wasm, model, lines=[line], options=options)["answers"]
        assert answer["ids"][:size] == shown["ids"][:size]
        assert answer["text"].count("{name}") == 1
        assert not re.search("[\U000f1900-\U000f1917]", answer["text"])


def test_links_count_the_words_of_the_line_as_it_was_given(
    node: str, wasm: Path, make: Callable[..., Path]
) -> None:
    model = make(copy_tokens=24)
    marked = "나는\u00a0새  {name} \u200b 집에 %s."
    lines = [
        *SENTENCES,
        *SCRIPTS[:24],
        "  나는   집에 간다 ",
        "나는\u00a0집에\u200b 간다",
        "나는 \u200b 집에 간다",
        "",
    ]
    answers = run(node, wasm, model, lines=lines, options={"alignments": True})["answers"]
    assert_equal(lines, answers, translations_of(model, lines, alignments=True))
    (answer,) = run(node, wasm, model, lines=[marked], options={"alignments": True})["answers"]
    assert {"{name}", "%s"} <= {*answer["text"].replace(".", " ").split()} | {"%s"}
    assert {source for source, _ in answer["alignments"]} <= {0, 1, 2, 4, 5}, (
        "the word of invisible characters is no word"
    )
    assert {target for _, target in answer["alignments"]} <= {*range(len(answer["text"].split()))}


def test_hypotheses_are_in_the_letters_of_the_line(
    node: str, wasm: Path, make: Callable[..., Path]
) -> None:
    lines = ["OPEN THE FILE {name}", "_PDF", "Close The Last Window"]
    whole = run(node, wasm, make(copy_tokens=24), lines=lines, options={"nbest": 3})["answers"]
    for rank in range(3):
        text = whole[0]["nbest"][rank]["text"]
        assert text.replace("{name}", "") == text.replace("{name}", "").upper()
        assert "{name}" in text
        assert "_" in whole[1]["nbest"][rank]["text"]
    (plain,) = run(
        node, wasm, make(copy_tokens=24), lines=["Close the last window"], options={"nbest": 3}
    )["answers"]
    assert [one["text"] for one in whole[2]["nbest"]] == [one["text"] for one in plain["nbest"]]


def test_a_figure_shows_the_letters_that_the_model_reads(
    node: str, wasm: Path, make: Callable[..., Path]
) -> None:
    for options in ({"attention": "cross"}, {"trace": True}):
        answers = run(node, wasm, make(), lines=["OPEN THE FILE"], options=options)["answers"]
        assert [one["text"] for one in answers] == [
            one["text"] for one in translations_of(make(), ["OPEN THE FILE"], keep=False)
        ]


def test_an_error_names_the_line_among_all(
    node: str, wasm: Path, make: Callable[..., Path]
) -> None:
    lines = ["나는 집에 간다", "{a}\n집\n빵", "집" * 50]
    wrong = [["translate", lines, {"maxLine": 20}]]
    (message,) = run(node, wasm, make(copy_tokens=24), lines=[], options={}, wrong=wrong)["errors"]
    assert message.startswith("line 3:")


@pytest.mark.system
def test_a_page_translates_as_the_package(
    browser: Any, wasm: Path, make: Callable[..., Path], tmp_path: Path
) -> None:
    model = make(copy_tokens=24, languages=("tr", "el"))
    lines = ["OPEN THE FILE", "İŞİ SİL", "나는 {name} 집에", "_PDF", "집 <b>{a}</b> %s 빵"]
    page = browser.new_context(offline=True).new_page()
    problems = list[str]()
    page.on("pageerror", lambda error: problems.append(str(error)))
    path = tmp_path / "page.html"
    path.write_text(
        render_live_page([LiveModel(model.read_bytes(), ("tr", "el"))], wasm.read_bytes()),
        encoding="utf-8",
    )
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-loaded]")
    page.fill("#input", "\n".join(lines))
    page.wait_for_function(
        "n => document.querySelectorAll('#translation .line-of-text:not(.pending)').length === n",
        arg=len(lines),
    )
    shown = page.locator("#translation .line-of-text").all_inner_texts()
    assert shown == [one["text"] for one in translations_of(model, lines)]
    assert "{name}" in shown[2]
    assert problems == []
    page.context.close()
