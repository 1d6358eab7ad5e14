"""Translators keep placeholders, addresses, code and emoji of a line, and translate what stands
around them.
"""

from __future__ import annotations

import pytest
from small import SENTENCES, folder

from regard.common.errors import LineError, RegardError, UsageError
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.data.spans import differing_spans
from regard.pipeline import Translator, load_translator
from regard.runtime import native
from regard.text.casing import CaseReader
from regard.text.constraints import NO_CONSTRAINTS, Constraints
from regard.text.mnemonics import insert_mnemonic, strip_mnemonic
from regard.text.text_path import Path, PathRules, Request, lines_path, run_path
from regard.text.translation import TranslatedPart, Translation
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
LINES += [
    f"MSB5018: {SENTENCES[0]} 2026",
    f"{SENTENCES[0]} 10 20 30 F5 {SENTENCES[2]}",
    "<b>12</b> 30%",
]
LINES += [
    "{a} {b}",
    "  {a}집",
    "",
    SENTENCES[2],
    f"{{n, plural, one {{{SENTENCES[0]}}} other {{{SENTENCES[1]}}}}}",
]


@pytest.fixture(scope="module", params=[0, 4])
def translators(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Translator]:
    """Return a model of random weights as a folder and, where there is a C library, as a runtime
    file.

    The vocabulary has no copy tokens, or fewer than some lines have spans.
    """
    if native.why_unavailable() is not None:
        return [
            load_translator(
                folder(tmp_path_factory.mktemp("spans") / "run", copy_tokens=request.param)
            )
        ]
    make = maker(lambda: tmp_path_factory.mktemp("spans") / "run")
    return [*make("transformer", "transformer", copy_tokens=request.param)]


def test_each_span_is_there_once(translators: list[Translator]) -> None:
    for translator in translators:
        for line, translation in zip(LINES, translator.translate(LINES), strict=True):
            lost, _ = differing_spans(line, translation.text)
            assert lost == []
            assert translation.text == translation.text.strip()
            assert bool(translation.parts) == bool(line)


def test_capitals_come_back_and_titles_are_read_as_sentences(
    translators: list[Translator],
) -> None:
    for translator in translators:
        capitals, title, plain = translator.translate(
            ["OPEN THE FILE", "Close The Last Window", "Close the last window"]
        )
        assert capitals.text == capitals.text.upper()
        letters = [token for token in capitals.tokens if not token.startswith("<0x")]
        assert letters == [token.upper() for token in letters]
        assert capitals.source_tokens[-1] == "</s>"
        assert [part.source for part in capitals.parts] == ["OPEN THE FILE"]
        assert title.text == plain.text
        assert translator.translate("OPEN THE FILE", keep=False)[0].text != capitals.text


def test_mnemonics_come_back(translators: list[Translator]) -> None:
    for translator in translators:
        label, plain = translator.translate(["_PDF", "PDF"])
        assert label.text == insert_mnemonic(plain.text, "_P")
        assert (label.tokens, [part.source for part in label.parts]) == (plain.tokens, ["_PDF"])


def test_spans_and_a_mnemonic_stand_apart(translators: list[Translator]) -> None:
    for translator in translators:
        label, plain = translator.translate(["_PDF %s to %s of %s", "PDF %s to %s of %s"])
        assert label.text == insert_mnemonic(plain.text, "_P")
        (capital,) = translator.translate(["&OPEN THE FILE"])
        assert capital.text == capital.text.upper()
        assert "&" in capital.text


def test_both_translate_alike(translators: list[Translator]) -> None:
    first, *others = [
        [(one.text, one.tokens) for one in each.translate(LINES, beam=3)] for each in translators
    ]
    assert all(other == first for other in others)


def test_a_line_is_translated_alone_as_among_others(translators: list[Translator]) -> None:
    for translator in translators:
        alone = [translator.translate(line)[0] for line in LINES]
        assert [one.text for one in alone] == [one.text for one in translator.translate(LINES)]


def test_lines_stay_whole_if_nothing_is_to_be_kept(translators: list[Translator]) -> None:
    for translator in translators:
        whole = [one.text for one in translator.translate(LINES, keep=False)]
        assert [
            one.text for one in translator.translate(LINES, keep=False, alignments=True)
        ] == whole
        assert whole != [one.text for one in translator.translate(LINES)]


def test_hypotheses_and_links_are_of_the_first_reading(translators: list[Translator]) -> None:
    lines = [*LINES, f"  {SENTENCES[0]}\u00a0%s {SENTENCES[1]}", f"{{a}}{SENTENCES[0]} {{b}}"]
    for translator in translators:
        ranked = translator.translate(lines, nbest=2, beam=5)
        linked = translator.translate(lines, alignments=True, beam=5)
        read = translator.translate(lines, readings=True, beam=5)
        for line, first, second, third in zip(lines, ranked, linked, read, strict=True):
            is_label = bool(strip_mnemonic(line, translator.case_reader.encode)[1])
            assert is_label or first.text == second.text == third.text
            assert not first.nbest or first.nbest[0].text == first.text
            assert all(
                s < len(line.split()) and t < len(second.text.split(" "))
                for s, t in second.alignments or ()
            )
            if third.readings and translator.copies and "%s" in line and "{" not in line:
                assert "%s" in "".join(third.readings.source)
        if translator.copies:
            assert ["%s" in hypothesis.text for hypothesis in ranked[0].nbest] == [True] * len(
                ranked[0].nbest
            )


def test_constraints_of_one_line_leave_the_spans_of_the_others(
    translators: list[Translator],
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


def test_a_line_with_a_language_code_is_kept_in_one_part(translators: list[Translator]) -> None:
    for translator in translators:
        (one,) = translator.translate(f">>deu<< {SENTENCES[0]} {{x}}")
        assert "{x}" in one.text
        message = ">>deu<< {n, plural, one {집} other {빵}}"
        assert (
            translator.translate(message)[0].text
            == translator.translate(message, keep=False)[0].text
        )


def test_errors_name_the_line_among_all(translators: list[Translator]) -> None:
    for translator in translators:
        with pytest.raises(LineError) as raised:
            translator.translate([SENTENCES[0], "집 {a}", "집" * 50], max_line=20)
        assert [index for index, _ in raised.value.problems] == [2]


def _path(lines: list[str], keep: bool = True) -> Path[list[Translation]]:
    rules = PathRules(CaseReader(("", ""), lambda text: [*map(ord, text)]), keep=keep)
    return lines_path(lines, rules, [True] * len(lines))


def test_only_what_is_said_of_the_translation_that_is_taken_is_a_note() -> None:
    translated = list[str]()

    def decode(request: Request) -> list[Translation]:
        translated.extend(request.lines)
        texts = [line.replace("20", "2") for line in request.lines]
        parts = [(TranslatedPart(text, text, 0.0),) for text in texts]
        repeated = [
            ("2", 9) if text != line else None
            for text, line in zip(texts, request.lines, strict=True)
        ]
        return [
            Translation(t, (), 0.0, (), repetition=r, parts=p)
            for t, r, p in zip(texts, repeated, parts, strict=True)
        ]

    first, second = run_path(_path(["at 20 now", "go"]), decode)
    assert (first.text, second.text, first.repetition, first.notes) == ("at 20 now", "go", None, ())
    assert translated == ["at 20 now", "go", "at now"]
    (kept,) = run_path(_path(["at 20 now"], keep=False), decode)
    assert len(kept.notes) == 2
    assert "repeats '2' 9 times" in kept.notes[0]
    assert "lacks '20'" in kept.notes[1]


def test_a_refused_or_late_retry_leaves_the_first_translation() -> None:
    def first(request: Request) -> list[Translation]:
        return [Translation(line.replace("20", "2"), (), 0.0) for line in request.lines]

    def refuse(request: Request) -> list[Translation]:
        if request.is_retry:
            raise RegardError("too late")
        return first(request)

    (refused,) = run_path(_path(["at 20 now"]), refuse)
    path = _path(["at 20 now"])
    request = path.send(first(next(path)))
    assert request.is_retry
    with pytest.raises(StopIteration) as stopped:
        path.send(None)
    assert [refused] == stopped.value.value
    assert refused.text == "at 2 now"


def test_lines_are_translated_again_after_all_first_tries() -> None:
    """A refused retry leaves those of other lines alone."""

    def decode(request: Request) -> list[Translation]:
        if "at now" in request.lines:
            raise LineError((request.lines.index("at now"), "is too long"))
        return [Translation(line.replace("0", ""), (), 0.0) for line in request.lines]

    lines = ["till 30", "at 20 now", "<b>one</b> two {b} {c}"]
    assert [result.text for result in run_path(_path(lines), decode)] == [
        "till 30",
        "at 2 now",
        lines[2],
    ]


def test_spans_are_compared_in_whole_lines() -> None:
    """What stands around a span that was taken out makes no span together."""

    def decode(request: Request) -> list[Translation]:
        return [Translation(line.replace("()", ""), (), 0.0) for line in request.lines]

    (result,) = run_path(_path(['they walked(<x id="0"/> --keep=3)']), decode)
    assert result.notes == ()
    assert result.text.startswith("they walked")


def test_an_error_of_a_line_has_its_number() -> None:
    def decode(request: Request) -> list[Translation]:
        raise LineError((request.lines.index("bad"), "is too long"))

    with pytest.raises(LineError) as raised:
        run_path(_path(["{a} go", "<b>one</b> {b} {c} two", "bad"]), decode)
    assert raised.value.problems == ((2, "is too long"),)
