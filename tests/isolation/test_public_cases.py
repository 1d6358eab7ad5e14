"""Faults that users have reported of translators in public, each with its whole kind: rows C1 to
C44 and F1 to F39.

The rows that other tests hold already are not repeated: kinds of files (`data/test_file_formats.py`),
tables of pairs (`data/test_delimited.py`), requests (`serving/test_refusals.py`), captions, scores,
training. Models have random weights: what holds here, no training breaks.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.small_models import folder
from helpers.text_table import items

from regard.common.errors import LineWarning
from regard.interchange.runtime import export
from regard.pipeline import RuntimeTranslator, Translator, load_translator
from regard.runtime import native
from regard.runtime.engine import Precision
from tests.data.test_spans import SPANS as SPANS_BY_KIND
from tests.runtime.pairs import maker

pytestmark = pytest.mark.filterwarnings("ignore::regard.common.errors.LineWarning")
AnyTranslator = Translator | RuntimeTranslator

SPANS = [
    span
    for kind, spans in SPANS_BY_KIND.items()
    for span in spans
    if kind not in ("message", "number", "key") and span != "-v"  # a dash begins a line
]
"""Text that is not language and has to come back as it is."""
FRAMES = [
    "{} 나는 집에 간다",
    "나는 {} 집에 간다. 너는 책을 읽는다.",
    "OPEN {} THE FILE",
]
NUMBERS = items("3.408.215 17 10.0.19041.1 $1,234.56 50% 2016-05-04 +82-2-1234-5678")
INVISIBLE = "\ufeff \u200b \u00ad \u2060 \u061c \u200e\u200f \u202a\u202c \u2066\u2069"
"""Characters that nobody sees, by kinds, which spaces part."""


@pytest.fixture(
    scope="module", params=[0, 4], ids=["without copy tokens", "with copy tokens"]
)
def translators(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[AnyTranslator]:
    """Return a model of random weights as a folder and, where there is a C library, as a runtime
    file.
    """
    make = maker(lambda: tmp_path_factory.mktemp("cases") / "run")
    if native.why_unavailable() is not None:
        run = folder(
            tmp_path_factory.mktemp("cases") / "run", copy_tokens=request.param
        )
        return [load_translator(run)]
    return [*make("transformer", "transformer", copy_tokens=request.param)]


def translated(translator: AnyTranslator, lines: Iterable[str]) -> list[str]:
    return [one.text for one in translator.translate(lines, beam=1)]


def test_what_is_not_language_comes_back_once(translators: list[AnyTranslator]) -> None:
    """Hold C3 to C5, C15 to C18, C28, F24 and F25."""
    spans = [span for span in SPANS for _ in FRAMES]
    lines = [frame.format(span) for span in SPANS for frame in FRAMES]
    for translator in translators:
        texts = translated(translator, lines)
        pairs = zip(spans, texts, strict=True)
        assert [pair for pair in pairs if pair[1].count(pair[0]) != 1] == []


def test_numbers_stay_or_are_missed_aloud(translators: list[AnyTranslator]) -> None:
    """Hold C2: a translation has the digits of its source, or a warning names its line."""
    lines = [f"나는 {number} 집에 간다" for number in NUMBERS]
    lines += [f"I was eating {number}." for number in NUMBERS]
    for translator in translators:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            texts = translated(translator, lines)
        notes = [warning.message for warning in caught]
        named = {note.index for note in notes if isinstance(note, LineWarning)}
        for index, (line, text) in enumerate(zip(lines, texts, strict=True)):
            digits = re.sub(r"\D", "", line)
            assert digits in re.sub(r"\D", "", text) or index in named


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_word_never_becomes_nothing(tmp_path: Path, precision: Precision) -> None:
    """Hold C8, C9 and C11, by a model that would end at once: what has letters comes back with a
    visible character.
    """
    words = [*items("집 사과 a OK changelog. CHANGELOG é 我 ß!"), "집 {a}"]
    run = folder(tmp_path / "run", end=30.0, score_threshold=None)
    translators: list[AnyTranslator] = [load_translator(run, precision=precision)]
    if native.why_unavailable() is None:
        export(run, tmp_path / "run.regard", precision)
        translators.append(RuntimeTranslator(tmp_path / "run.regard", threads=1))
    for translator in translators:
        for beam in (1, 3):
            translations = translator.translate(words, keep=False, beam=beam)
            assert all(one.text.strip() for one in translations)


def test_python_takes_texts_in_any_thread(translators: list[AnyTranslator]) -> None:
    """Hold F32, and that a notebook shows a translation without scripts and addresses."""
    lines = ["나는 집에 간다", "", "I go home", "<script>a</script> https://x.org"]
    translator = translators[0]
    expected = translated(translator, lines)
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(lambda _: translated(translator, iter(lines)), range(8))
        assert [*results] == [expected] * 8
    assert isinstance(translator, Translator)
    for one in translator.translate(lines, beam=1, readings=True):
        assert not re.search(r"<script|src=|href=|url\(", one._repr_html_())


def test_invisible_characters_change_no_translation(
    translators: list[AnyTranslator],
) -> None:
    """Hold F22: wherever they stand, and alone in a line."""
    lines = [
        "|I go home",
        "I go home|",
        "나는 집|에 간다",
        "you |read {name} a| book",
        "|",
        " | ",
    ]
    for translator in translators:
        expected = translated(translator, [line.replace("|", "") for line in lines])
        signs = INVISIBLE.split(" ")
        changed = [line.replace("|", sign) for sign in signs for line in lines]
        assert translated(translator, changed) == expected * len(signs)
