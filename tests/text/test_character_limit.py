"""Of the hypotheses of a beam the best is taken that has few enough characters and keeps its
line's code.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from regard.common.errors import UsageError
from regard.text.casing import CaseReader
from regard.text.character_limit import check_limit, limited_path
from regard.text.text_path import (
    BEST_TEXT,
    Path,
    PathRules,
    Request,
    lines_path,
    run_path,
)
from regard.text.translation import TranslatedPart, Translation

READER = CaseReader(("", ""), lambda text: [*map(ord, text)])
RULES = PathRules(READER)


def limited(
    line: str, hypotheses: list[str], limit: int, rules: PathRules = RULES
) -> Translation:
    """Translate a line, of whose parts a search returns the same hypotheses, in brackets."""

    def decode(request: Request) -> list[Translation]:
        results = []
        for text in request.lines:
            ranked = []
            for rank, hypothesis in enumerate(hypotheses):
                whole = hypothesis.replace("*", text)
                part = TranslatedPart(text, whole, -rank, quality=0.9 - rank / 10)
                translation = Translation(whole, (), -rank, ((0, 0),), parts=(part,))
                ranked.append(translation)
            results.append(Translation(**{**vars(ranked[0]), "nbest": tuple(ranked)}))
        return results

    path = lines_path([line], rules, [True])
    (result,) = run_path(limited_path(path, [line], rules, limit), decode)
    assert result.nbest == ()
    return result


@pytest.mark.parametrize(
    ("limit", "text", "is_broken"),
    [
        (99, "a long one", False),
        (10, "a long one", False),
        (9, "shorter", False),
        (6, "short", False),
        (4, "a long one", True),
    ],
)
def test_the_best_that_is_short_enough_is_taken(
    limit: int, text: str, is_broken: bool
) -> None:
    result = limited("line", ["a long one", "shorter", "short"], limit)
    assert (result.text, result.broken) == (text, is_broken)
    assert [part.text for part in result.parts] == [text]
    if is_broken:
        (note,) = result.notes
        assert "has 10 characters, and the limit is 4" in note
    else:
        assert result.notes == ()


def test_characters_are_those_of_unicode() -> None:
    assert limited("line", ["가나다🙂", "가"], 4).text == "가나다🙂"
    assert limited("line", ["가나다🙂", "가"], 3).text == "가"


def test_a_hypothesis_without_the_code_of_its_line_is_not_taken() -> None:
    hypotheses = ["* and more", "dog", "* it"]
    result = limited("Open {x} %s", hypotheses, 16)
    assert result.broken == (len(result.text) > 16)
    assert "{x}" in result.text
    assert "%s" in result.text


@pytest.mark.parametrize("dialect", ["python-brace", "auto"])
def test_code_is_put_back_into_each_hypothesis(dialect: str) -> None:
    """The parts around three spans are translated by themselves."""
    line = "Ab {x} cd {y} ef {z}"
    rules = PathRules(READER, dialect=dialect)
    longest = limited(line, ["* gone", "*"], 99, rules)
    assert len(longest.text) > len(line)
    result = limited(line, ["* gone", "*"], len(line), rules)
    assert (result.text, result.broken) == (line, False)
    assert result.notes == ()


def finished(result: Translation) -> Path[list[Translation]]:
    """Return a path that has its result without decoding."""
    yield from ()
    return [result]


@pytest.mark.parametrize("repetition", [None, ("again", 3)])
@pytest.mark.parametrize("is_broken", [False, True])
def test_notes_on_the_best_translation_go_with_it(
    is_broken: bool, repetition: tuple[str, int] | None
) -> None:
    line = "Open {x} now"
    texts = ("Up {x} now again", "Up now", "{x} up")
    ranked = [Translation(text, (), 0.0) for text in texts]
    notes = ("the line was split", *["again"] * bool(repetition), *["x"] * is_broken)
    best = replace(
        ranked[0],
        nbest=tuple(ranked),
        notes=notes,
        broken=is_broken,
        repetition=repetition,
    )
    for limit, text in ((99, texts[0]), (6, texts[2]), (5, texts[0])):
        path = limited_path(finished(best), [line], RULES, limit)
        (result,) = run_path(path, lambda _: None)
        assert result.text == text
        kept = notes[:1] if limit == 6 else notes
        assert result.notes[: len(kept)] == kept
        assert len(result.notes) == len(kept) + (limit == 5)
        assert result.broken == (limit == 5 or (limit == 99 and is_broken))


def test_escapes_are_those_of_the_line_in_each_hypothesis() -> None:
    result = limited("It isn\\'t {x}", ["* and so on", "*"], 13)
    assert result.text == "It isn\\'t {x}"
    assert not result.broken


def test_limits_go_with_the_best_text_alone() -> None:
    check_limit(1, BEST_TEXT, None)
    for limit in (0, -3, True, 2.0, "9"):
        with pytest.raises(UsageError, match="wanted 1 or more characters, got"):
            check_limit(limit, BEST_TEXT, None)
    with pytest.raises(UsageError) as caught:
        check_limit(0, BEST_TEXT._replace(nbest=2, readings=True), True)
    assert len(caught.value.causes) == 4


def test_a_shortened_translation_has_the_quality_of_its_own_text() -> None:
    hypotheses = ["a long one", "shorter", "short"]
    qualities = [limited("text", hypotheses, limit).quality for limit in (99, 9, 6)]
    assert qualities == pytest.approx([0.9, 0.8, 0.7])
