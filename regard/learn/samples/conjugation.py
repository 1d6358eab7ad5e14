"""Conjugate Korean verbs: join a stem and an ending, with the irregular classes of the lexicon.

There are three kinds of endings. An ending that begins with a consonant leaves the stem unchanged
(먹고). An ending that begins with 으 loses it after a vowel or ㄹ (먹으면, 가면, 만들면). An ending
that begins with 아 or 어 follows vowel harmony and contracts (먹어요, 가요, 와요).
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.learn.samples.hangul import (
    add_final,
    decompose,
    final,
    syllable,
    without_final,
)

BRIGHT = ("ㅏ", "ㅗ")
CONTRACTED = {
    "ㅏ": "ㅏ",
    "ㅓ": "ㅓ",
    "ㅐ": "ㅐ",
    "ㅔ": "ㅔ",
    "ㅕ": "ㅕ",
    "ㅗ": "ㅘ",
    "ㅜ": "ㅝ",
    "ㅣ": "ㅕ",
    "ㅚ": "ㅙ",
}


@dataclass(frozen=True, eq=False)
class Stem:
    """A verb without its ending.

    `kind` is "regular" or the irregular class: ㄷ (듣다, 들어요), ㅂ (돕다, 도와요), ㅅ (짓다,
    지어요), 르 (부르다, 불러요), 하 (공부하다, 공부해요), 이 (학생이다, 학생이에요, 의사예요;
    아니다, 아니에요). Stems that end in ㄹ or ㅡ need no class, since all of them change alike. A
    `static` stem denotes a state and has no -는- in the plain style: 있다, not 있는다.
    """

    text: str
    kind: str = "regular"
    static: bool = False


def conjugate(stem: Stem, ending: str, past: bool = False) -> str:
    """Conjugate a stem with an ending.

    The endings are 다 (plain style: 간다, 먹는다), 요 (polite style: 가요), 고, 지만, 지, 기, 는,
    을, 은 and 으면.
    """
    if stem.kind == "이" and (past or ending == "요"):
        return _copula(stem.text, ending, past)
    if past:
        return _past(add_final(_infinitive(stem), "ㅆ"), ending)
    if ending == "다":
        return _plain(stem)
    if ending == "요":
        return _infinitive(stem) + "요"
    if ending == "는":
        text = without_final(stem.text) if final(stem.text) == "ㄹ" else stem.text
        return text + "는"
    if ending in ("을", "은", "으면"):
        return _linked(stem, ending)
    return stem.text + ending


def _copula(text: str, ending: str, past: bool) -> str:
    """Conjugate the copula in the past or in the polite style.

    이 contracts with 었 and 에 after a vowel: 의사였다, 의사예요, but 학생이었다, 학생이에요.
    """
    is_uncontracted = text in ("이", "아니") or final(text[:-1])
    if past:
        return _past(text + "었" if is_uncontracted else text[:-1] + "였", ending)
    return text + "에요" if is_uncontracted else text[:-1] + "예요"


def _past(text: str, ending: str) -> str:
    """Conjugate a past stem such as 먹었 or 갔; its polite ending is always -어요."""
    return text + ("어요" if ending == "요" else ending)


def _plain(stem: Stem) -> str:
    if stem.static or stem.kind == "이":
        return stem.text + "다"
    if final(stem.text) in ("", "ㄹ"):
        return add_final(stem.text, "ㄴ") + "다"
    return stem.text + "는다"


def _linked(stem: Stem, ending: str) -> str:
    """Add 을, 은 or 으면; 으 is lost after a vowel and after ㄹ, unless an irregular consonant has
    changed there.
    """
    if stem.kind == "ㄷ":
        return add_final(stem.text, "ㄹ") + ending
    if stem.kind == "ㅅ":
        return without_final(stem.text) + ending
    text = without_final(stem.text) + "우" if stem.kind == "ㅂ" else stem.text
    if final(text) not in ("", "ㄹ"):
        return text + ending
    return text + "면" if ending == "으면" else add_final(text, final(ending))


def _infinitive(stem: Stem) -> str:
    """Return the stem with 아 or 어, contracted: 먹어, 가, 와, 마셔, 해."""
    text = stem.text
    if stem.kind == "하":
        return text[:-1] + "해"
    if stem.kind == "르":
        return add_final(text[:-1], "ㄹ") + ("라" if _bright(text[:-1]) else "러")
    if stem.kind == "ㅂ":
        return without_final(text) + ("와" if text in ("돕", "곱") else "워")
    vowel = "아" if _bright(text) else "어"
    if stem.kind == "ㄷ":
        return add_final(text, "ㄹ") + vowel
    if stem.kind == "ㅅ":
        return without_final(text) + vowel
    return text + vowel if final(text) else _contracted(text)


def _contracted(text: str) -> str:
    initial, vowel, _ = decompose(text[-1])
    if vowel == "ㅡ":
        return text[:-1] + syllable(initial, "ㅏ" if _bright(text[:-1]) else "ㅓ")
    if vowel in CONTRACTED:
        return text[:-1] + syllable(initial, CONTRACTED[vowel])
    return text + "어"


def _bright(text: str) -> bool:
    """Return whether the last vowel is ㅏ or ㅗ, which vowel harmony follows with 아."""
    return bool(text) and decompose(text[-1])[1] in BRIGHT
