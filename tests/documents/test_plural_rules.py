"""Plural rules: those of Unicode CLDR, as Babel has them, and those of headers."""

from __future__ import annotations

import pytest
from helpers.text_table import items

from regard.documents.plural_rules import plural_rule, read_plural_rule

NUMBERS = range(1_000)
CODES = items(
    "af ar be bg bs ca cs cy da de dsb el en es et fi fr ga gd he hi hr hsb hu hy is it ja ko lt "
    "lv mk mt nb nl pl pt ro ru sk sl sq sr sv th tr uk zh"
)


@pytest.mark.parametrize("code", CODES)
def test_rules_are_those_of_cldr(code: str) -> None:
    core = pytest.importorskip("babel.core", reason="Babel is not installed")
    category = core.Locale.parse(code).plural_form
    rule = plural_rule(code)
    assert rule is not None
    assert [rule.categories[form] for form in rule.forms] == [*map(category, NUMBERS)]
    assert read_plural_rule(rule.header).forms == rule.forms


def test_regions_have_the_rule_of_their_language() -> None:
    assert plural_rule("de_AT") == plural_rule("de")
    assert plural_rule("sr@latin") == plural_rule("sr")
    assert plural_rule("pt_PT") == plural_rule("de") != plural_rule("pt_BR")
    assert plural_rule("") is plural_rule("xx") is plural_rule(None) is None


def test_forms_of_one_thing_are_known() -> None:
    russian = plural_rule("ru")
    german = plural_rule("de")
    korean = plural_rule("ko")
    assert russian
    assert german
    assert korean
    assert [russian.is_singular(form) for form in range(3)] == [True, False, False]
    assert not russian.is_for_one(0)
    assert german.is_for_one(0)
    assert not korean.is_singular(0)
