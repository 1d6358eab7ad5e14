"""Translators keep placeholders, addresses, code and emoji of a line, and translate what stands around them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pytest
from small import SENTENCES, folder

from regard.common.errors import LineError, LineWarning, UsageError
from regard.data.casing import CaseReader
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.data.mnemonics import insert_mnemonic
from regard.data.spans import differing_spans
from regard.pipeline import RuntimeTranslator, Translator, load_translator
from regard.pipeline.around_spans import translate_around_spans
from regard.pipeline.translation import TranslatedPart, Translation
from regard.runtime import native
from regard.search.line_constraints import NO_CONSTRAINTS, Constraints
from tests.runtime.pairs import maker

pytestmark = pytest.mark.filterwarnings("ignore:the translation")
SPANS = ["%s", "{name}", "https://x.org/a?b=1", "`a < b`", "👍🏽", "[X8X]"]
LINES = [f"{SENTENCES[0]} {span} {SENTENCES[1]}" for span in SPANS]
LINES += [
    "{a} {b} %s %d [X8X]",
    f"{SENTENCES[0]} <b>{{a}} {SENTENCES[1]}</b> %d",
    f"{SENTENCES[2]} {COPY_CHARACTERS[:2]}",
]
LINES += [
    "OPEN {a} THE FILE",
    "SAVE <b>ALL</b> FILES",
    "Close The Last Window Of Regard",
    "PDF",
    "_PDF",
    f"&{SENTENCES[0]} %s",
]
LINES += [f"MSB5018: {SENTENCES[0]} 2026", f"{SENTENCES[0]} 10 20 30 F5 {SENTENCES[2]}", "<b>12</b> 30%"]
LINES += ["{a} {b}", "  {a}집", "", SENTENCES[2], f"{{n, plural, one {{{SENTENCES[0]}}} other {{{SENTENCES[1]}}}}}"]


@pytest.fixture(scope="module", params=[0, 4])
def translators(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Translator | RuntimeTranslator]:
    """Return a model of random weights as a folder and, where there is a C library, as a runtime file.

    The vocabulary has no copy tokens, or fewer than some lines have spans.
    """
    if native.why_unavailable() is not None:
        return [load_translator(folder(tmp_path_factory.mktemp("spans") / "run", copy_tokens=request.param))]
    make = maker(lambda: tmp_path_factory.mktemp("spans") / "run")
    return [*make("transformer", "transformer", copy_tokens=request.param)]


def test_each_span_is_there_once(translators: list[Translator | RuntimeTranslator]) -> None:
    for translator in translators:
        for line, translation in zip(LINES, translator.translate(LINES), strict=True):
            lost, _ = differing_spans(line, translation.text)
            assert lost == []
            assert translation.text == translation.text.strip()
            assert bool(translation.parts) == bool(line)


def test_capitals_come_back_and_titles_are_read_as_sentences(
    translators: list[Translator | RuntimeTranslator],
) -> None:
    for translator in translators:
        capitals, title, plain = translator.translate(
            ["OPEN THE FILE", "Close The Last Window", "Close the last window"]
        )
        assert capitals.text == capitals.text.upper()
        assert capitals.tokens == tuple(token.upper() for token in capitals.tokens)
        assert [part.source for part in capitals.parts] == ["OPEN THE FILE"]
        assert title.text == plain.text
        assert translator.translate("OPEN THE FILE", keep=False)[0].text != capitals.text


def test_mnemonics_come_back(translators: list[Translator | RuntimeTranslator]) -> None:
    for translator in translators:
        label, plain = translator.translate(["_PDF", "PDF"])
        assert label.text == insert_mnemonic(plain.text, "_P")
        assert (label.tokens, [part.source for part in label.parts]) == (plain.tokens, ["_PDF"])


def test_spans_and_a_mnemonic_stand_apart(translators: list[Translator | RuntimeTranslator]) -> None:
    for translator in translators:
        label, plain = translator.translate(["_PDF %s to %s of %s", "PDF %s to %s of %s"])
        assert label.text == insert_mnemonic(plain.text, "_P")
        (capital,) = translator.translate(["&OPEN THE FILE"])
        assert capital.text == capital.text.upper()
        assert "&" in capital.text


def test_both_translate_alike(translators: list[Translator | RuntimeTranslator]) -> None:
    first, *others = [[(one.text, one.tokens) for one in each.translate(LINES, beam=3)] for each in translators]
    assert all(other == first for other in others)


def test_a_line_is_translated_alone_as_among_others(translators: list[Translator | RuntimeTranslator]) -> None:
    for translator in translators:
        alone = [translator.translate(line)[0] for line in LINES]
        assert [one.text for one in alone] == [one.text for one in translator.translate(LINES)]


def test_lines_stay_whole_if_more_is_asked_for_or_nothing_is_to_be_kept(
    translators: list[Translator | RuntimeTranslator],
) -> None:
    for translator in translators:
        whole = [one.text for one in translator.translate(LINES, keep=False)]
        assert [one.text for one in translator.translate(LINES, alignments=True)] == whole
        assert [one.text for one in translator.translate(LINES, nbest=2, beam=5)] == [
            one.text for one in translator.translate(LINES, keep=False, beam=5)
        ]
        assert whole != [one.text for one in translator.translate(LINES)]


def test_constraints_of_one_line_leave_the_spans_of_the_others(
    translators: list[Translator | RuntimeTranslator],
) -> None:
    for translator in translators:
        prefixed = [NO_CONSTRAINTS] * len(LINES)
        prefixed[1] = Constraints(prefix="I")
        whole = translator.translate(LINES[1], constraints=prefixed[1], keep=False)[0].text
        expected = [one.text for one in translator.translate(LINES)]
        expected[1] = whole
        assert [one.text for one in translator.translate(LINES, constraints=prefixed)] == expected
        assert "{name}" not in whole
        with pytest.raises(UsageError, match="patterns of what to keep"):
            translator.translate(LINES, constraints=prefixed, keep=["PDF"])


def test_a_line_with_a_language_code_is_kept_in_one_part(translators: list[Translator | RuntimeTranslator]) -> None:
    for translator in translators:
        (one,) = translator.translate(f">>deu<< {SENTENCES[0]} {{x}}")
        assert "{x}" in one.text
        message = ">>deu<< {n, plural, one {집} other {빵}}"
        assert translator.translate(message)[0].text == translator.translate(message, keep=False)[0].text


def test_errors_name_the_line_among_all(translators: list[Translator | RuntimeTranslator]) -> None:
    for translator in translators:
        with pytest.raises(LineError) as raised:
            translator.translate([SENTENCES[0], "집 {a}", "집" * 50], max_line=20)
        assert [index for index, _ in raised.value.problems] == [2]


def test_only_what_is_said_of_the_translation_that_is_taken_is_a_warning() -> None:
    translated = list[str]()

    def translate(lines: Sequence[str], owners: Sequence[int], links: bool) -> list[Translation]:
        translated.extend(lines)
        texts = [line.replace("20", "2") for line in lines]
        parts = [(TranslatedPart(text, text, 0.0),) for text in texts]
        repeated = [("2", 9) if text != line else None for text, line in zip(texts, lines, strict=True)]
        return [
            Translation(t, (), 0.0, (), repetition=r, parts=p) for t, r, p in zip(texts, repeated, parts, strict=True)
        ]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first, second = translate_around_spans(
            ["at 20 now", "go"], translate, True, [True, True], "", CaseReader(("", ""), lambda text: [*map(ord, text)])
        )
    assert (first.text, second.text, first.repetition, caught) == ("at 20 now", "go", None, [])
    assert translated == ["at 20 now", "go", "at now"]
    with pytest.warns(LineWarning, match=r"repeats '2' 9 times|lacks '20'"):
        translate_around_spans(
            ["at 20 now"], translate, False, [True], "", CaseReader(("", ""), lambda text: [len(text)])
        )
