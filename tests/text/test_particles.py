"""Particles after placeholders are written in both forms, and nothing else is."""

from __future__ import annotations

import re

import pytest

from regard.learn.samples.hangul import PARTICLES, particle
from regard.text.particles import both_particles

PLACEHOLDER = re.compile(r"\{\w*\}|%\w")
REWRITTEN = [
    ("{name}을 지웁니다.", "{name}을(를) 지웁니다."),
    ("{name}를 지웁니다.", "{name}을(를) 지웁니다."),
    ("{name}은 없습니다", "{name}은(는) 없습니다"),
    ("%s는 %s가 씁니다", "%s은(는) %s이(가) 씁니다"),
    ("{a}와 {b}과의 차이", "{a}과(와) {b}과(와)의 차이"),
    ("{}로 이동, %s으로부터", "{}(으)로 이동, %s(으)로부터"),
    ("{path}로는, {path}로", "{path}(으)로는, {path}(으)로"),
    ("{name}라는 이름", "{name}(이)라는 이름"),
    ("{name}이라고 합니다", "{name}(이)라고 합니다"),
    ("{a}나 {b}이나", "{a}(이)나 {b}(이)나"),
    ("{a}랑만, {b}이며", "{a}(이)랑만, {b}(이)며"),
    ("{name}예요!", "{name}이에요(예요)!"),
    ("“{name}”를, '{x}'이", "“{name}”을(를), '{x}'이(가)"),
    ("{a}{b}을{c}를", "{a}{b}을(를){c}을(를)"),
    ("{a}를/{b}", "{a}을(를)/{b}"),
    ("🙂{a}는", "🙂{a}은(는)"),
]
LEFT = """
{count}개를 지웁니다.|{name}이미지를 봅니다|{name}로그인|%s가격|{name}은행|{n}이상|{n}과목
{name} 이 파일|{name}에서 {b}의|{name}까지|{name}입니다|{name}을(를)|{name}은/는|{name}(으)로
{name}를(을)|{name}이(가)|{name}(이)라고|{name}와(과)|{name}라면집|{name}고|{name}란|{name}
이름을 {x}에|<b>{name}</b>을|"{name}")을
"""


def spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in PLACEHOLDER.finditer(text)]


def rewritten(text: str) -> str:
    return both_particles(text, spans(text))


@pytest.mark.parametrize(("text", "both"), REWRITTEN)
def test_particles_are_written_in_both_forms_once(text: str, both: str) -> None:
    assert rewritten(text) == both
    assert rewritten(both) == both


@pytest.mark.parametrize("text", re.split(r"[|\n]", LEFT.strip()))
def test_words_and_both_forms_are_left_alone(text: str) -> None:
    assert rewritten(text) == text


def test_words_that_are_no_placeholders_keep_their_particles() -> None:
    assert both_particles("사과를 3은 %s을", []) == "사과를 3은 %s을"
    assert both_particles("사과를 %s을", [(4, 6)]) == "사과를 %s을(를)"


@pytest.mark.parametrize("role", ["topic", "subject", "object", "with", "means"])
@pytest.mark.parametrize("word", ["나무", "집", "물"])
def test_both_forms_hold_that_of_every_value(word: str, role: str) -> None:
    right = particle(word, role).removeprefix(word)
    for form in PARTICLES[role]:
        both = rewritten(f"{{x}}{form} 봅니다").removesuffix(" 봅니다")
        optional = re.fullmatch(r"\{x\}(.*?)\((.)\)(.*)", both)
        assert optional is not None
        before, letter, after = optional.groups()
        # The bracket holds what one form has more than the other, or the other form.
        readings = {before + letter + after, before + after, letter}
        assert right in readings
