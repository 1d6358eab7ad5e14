"""Particles after the placeholders of a line are written in both forms, if the line is translated
into Korean.
"""

from __future__ import annotations

import pytest

from regard.common.errors import UsageError
from regard.text.casing import CaseReader
from regard.text.contracts import particles_written
from regard.text.particles import are_both
from regard.text.text_path import PathRules, Request, lines_path, run_path
from regard.text.translation import TranslatedPart, Translation


def rules(target: str = "ko", both: bool = True) -> PathRules:
    reader = CaseReader(("en", target), lambda text: [*map(ord, text)])
    return PathRules(reader, copies="\U000f1900\U000f1901", both_particles=both)


def decode(request: Request) -> list[Translation]:
    """Translate `Delete X now` into `X를 지금 삭제`."""
    results = list[Translation]()
    for line in request.lines:
        _, _, text = line.partition("Delete")
        text = text.replace(" now", "를 지금 삭제").strip()
        part = TranslatedPart(line, text, 0.0)
        results.append(Translation(text, (), 0.0, parts=(part,)))
    return results


def translated(line: str, chosen: PathRules) -> str:
    (result,) = run_path(lines_path([line], chosen, [True]), decode)
    assert [part.text for part in result.parts] == [result.text]
    return result.text


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("Delete {name} now", "{name}을(를) 지금 삭제"),
        ("Delete %1$s now", "%1$s을(를) 지금 삭제"),
        ("Delete { $file } now", "{ $file }을(를) 지금 삭제"),
        ("Delete { -brand-name } now", "{ -brand-name }를 지금 삭제"),
        ("Delete https://example.org now", "https://example.org를 지금 삭제"),
    ],
)
def test_a_placeholder_has_both_forms_and_what_is_constant_has_one(
    line: str, text: str
) -> None:
    assert translated(line, rules()) == text
    one = text.replace("을(를)", "를")
    assert translated(line, rules(both=False)) == one
    assert translated(line, rules("de")) == one


def test_the_code_of_a_line_names_its_target() -> None:
    assert translated(">>ko<< Delete {x} now", rules("")) == "{x}을(를) 지금 삭제"
    assert translated(">>ja<< Delete {x} now", rules("")) == "{x}를 지금 삭제"


def test_sentences_of_markup_have_both_forms() -> None:
    given = Translation("{name}를 삭제", (), 0.0, markup="<b>{name}를</b> 삭제")
    result = particles_written("Delete <b>{name}</b>", given, "auto")
    assert result.text == "{name}을(를) 삭제"
    assert result.markup == "<b>{name}을(를)</b> 삭제"


def test_other_ways_are_refused() -> None:
    assert [are_both("both"), are_both("as-is")] == [True, False]
    with pytest.raises(UsageError, match="wanted both or as-is, got 'one'"):
        are_both("one")
