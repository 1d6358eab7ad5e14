"""Translators keep placeholders, addresses, code and emoji of a line, and translate what stands
around them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath

import pytest
from helpers.small_models import SENTENCES, folder

from regard.common.errors import LineError, RegardError
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.pipeline import Translator, load_translator
from regard.runtime import native
from regard.text.casing import CaseReader
from regard.text.contracts import breaches
from regard.text.mnemonics import insert_mnemonic
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
    "OPEN {a} THE FILE",
    "SAVE <b>ALL</b> FILES",
    "Close The Last Window Of Regard",
    "_PDF",
    f"&{SENTENCES[0]} %s",
    f"MSB5018: {SENTENCES[0]} 2026",
    "<b>12</b> 30%",
    "  {a}집",
    "",
    SENTENCES[2],
    f"{{n, plural, one {{{SENTENCES[0]}}} other {{{SENTENCES[1]}}}}}",
]


def texts(translations: list[Translation]) -> list[str]:
    return [translation.text for translation in translations]


@pytest.fixture(scope="module", params=[0, 4])
def translators(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Translator]:
    """Return a model of random weights as a folder and, where there is a C library, as a runtime
    file.

    The vocabulary has no copy tokens, or fewer than some lines have spans.
    """

    def at() -> FilePath:
        return tmp_path_factory.mktemp("spans") / "run"

    if native.why_unavailable() is not None:
        return [load_translator(folder(at(), copy_tokens=request.param))]
    return [*maker(at)("transformer", "transformer", copy_tokens=request.param)]


def test_each_span_is_there_once(translators: list[Translator]) -> None:
    for translator in translators:
        for line, translation in zip(LINES, translator.translate(LINES), strict=True):
            faults = breaches(line, translation.text)
            assert not any(fault.breaks_programs for fault in faults)
            lost = [fault for fault in faults if fault.kind == "lost"]
            assert translation.broken or not lost
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
        assert (
            translator.translate("OPEN THE FILE", keep=False)[0].text != capitals.text
        )


def test_mnemonics_come_back(translators: list[Translator]) -> None:
    for translator in translators:
        for text in ("PDF", "PDF %s to %s of %s"):
            label, plain = translator.translate([f"_{text}", text])
            assert label.text == insert_mnemonic(plain.text, "_P")

        (label,) = translator.translate(["_PDF"])
        assert [part.source for part in label.parts] == ["_PDF"]

        (capital,) = translator.translate(["&OPEN THE FILE"])
        assert capital.text == capital.text.upper()
        assert "&" in capital.text


def test_lines_stay_whole_if_nothing_is_to_be_kept(
    translators: list[Translator],
) -> None:
    some_lines = LINES[4:10]
    for translator in translators:
        whole = translator.translate(some_lines, keep=False)
        aligned = translator.translate(some_lines, keep=False, alignments=True)

        assert texts(aligned) == texts(whole)
        assert texts(translator.translate(some_lines)) != texts(whole)


def test_each_part_of_a_line_has_its_language_code(
    translators: list[Translator],
) -> None:
    for translator in translators:
        (one,) = translator.translate(f">>deu<< {SENTENCES[0]} {{x}}")
        assert "{x}" in one.text

    requests = []

    def decode(request: Request) -> list[Translation]:
        requests.append(request.lines)
        return decoded(request, ">>deu<< ", "")

    message = ">>deu<< {n, plural, one {집} other {빵}}"
    (kept,) = run_path(path_of([message]), decode)
    assert (kept.text, kept.broken) == (message[8:], False)
    assert requests == [[">>deu<< 집", ">>deu<< 빵"]]


def path_of(lines: list[str], keep: bool = True) -> Path[list[Translation]]:
    rules = PathRules(CaseReader(("", ""), lambda text: [*map(ord, text)]), keep=keep)
    return lines_path(lines, rules, [True] * len(lines))


def decoded(request: Request, old: str, new: str) -> list[Translation]:
    """Translate each line into itself, but for a part."""
    results = []
    for line in request.lines:
        text = line.replace(old, new)
        part = TranslatedPart(text, text, 0.0)
        results.append(Translation(text, (), 0.0, parts=(part,)))

    return results


def test_only_what_is_said_of_the_translation_that_is_taken_is_a_note() -> None:
    translated = list[str]()

    def decode(request: Request) -> list[Translation]:
        translated.extend(request.lines)
        results = []
        for result, line in zip(
            decoded(request, "20", "2"), request.lines, strict=True
        ):
            repetition = ("2", 9) if result.text != line else None
            results.append(replace(result, repetition=repetition))

        return results

    first, second = run_path(path_of(["at 20 now", "go"]), decode)

    assert (first.text, second.text) == ("at 20 now", "go")
    assert first.repetition is None
    assert first.notes == ()
    assert translated == ["at 20 now", "go", "at now"]

    (kept,) = run_path(path_of(["at 20 now"], keep=False), decode)
    repeats, lacks = kept.notes

    assert "repeats '2' 9 times" in repeats
    assert "20 has become 2" in lacks


def test_a_refused_or_late_retry_leaves_the_first_translation() -> None:
    def refuse(request: Request) -> list[Translation]:
        if request.is_retry:
            raise RegardError("too late")
        return decoded(request, "20", "2")

    (refused,) = run_path(path_of(["at 20 now"]), refuse)
    path = path_of(["at 20 now"])
    request = path.send(decoded(next(path), "20", "2"))

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
        return decoded(request, "0", "")

    lines = ["till 30", "at 20 now", "<b>one</b> two {b} {c}"]

    assert texts(run_path(path_of(lines), decode)) == ["till 30", "at 2 now", lines[2]]


def test_spans_are_compared_in_whole_lines() -> None:
    """What stands around a span that was taken out makes no span together."""
    path = path_of(['they walked(<x id="0"/> --keep=3)'])
    (result,) = run_path(path, lambda request: decoded(request, "()", ""))

    assert result.notes == ()
    assert result.text.startswith("they walked")


def test_an_error_of_a_line_has_its_number() -> None:
    def decode(request: Request) -> list[Translation]:
        raise LineError((request.lines.index("bad"), "is too long"))

    with pytest.raises(LineError) as raised:
        run_path(path_of(["{a} go", "<b>one</b> {b} {c} two", "bad"]), decode)
    assert raised.value.problems == ((2, "is too long"),)
