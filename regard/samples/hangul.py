"""Korean syllables taken apart into letters and put together again, and the particles that depend on them.

A syllable of Unicode is 0xAC00 + (initial · 21 + vowel) · 28 + final, with final 0 when the syllable is open.
"""

from __future__ import annotations

__all__ = ["add_final", "decompose", "final", "particle", "syllable", "without_final"]

INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
FINALS: list[str] = ["", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"]
FIRST = 0xAC00

# role: (after a final consonant, after a vowel)
PARTICLES = {
    "topic": ("은", "는"),
    "subject": ("이", "가"),
    "object": ("을", "를"),
    "with": ("과", "와"),
    "means": ("으로", "로"),
    "at": ("에서", "에서"),
    "to": ("에", "에"),
    "for": ("에게", "에게"),
}


def decompose(letter: str) -> tuple[str, str, str]:
    """The initial, vowel and final of a syllable: 간 is ㄱ, ㅏ, ㄴ; 가 is ㄱ, ㅏ and nothing."""
    number = ord(letter) - FIRST
    return INITIALS[number // 588], VOWELS[number // 28 % 21], FINALS[number % 28]


def syllable(initial: str, vowel: str, end: str = "") -> str:
    """The syllable of these letters."""
    return chr(FIRST + (INITIALS.index(initial) * 21 + VOWELS.index(vowel)) * 28 + FINALS.index(end))


def final(word: str) -> str:
    """The consonant that ends a word, or nothing after a vowel."""
    return FINALS[(ord(word[-1]) - FIRST) % 28]


def without_final(word: str) -> str:
    """The word with its last syllable opened: 만들 becomes 만드."""
    return word[:-1] + syllable(*decompose(word[-1])[:2])


def add_final(word: str, end: str) -> str:
    """The word with `end` closing its last syllable, in place of what closed it: 가 and ㄴ give 간."""
    return word[:-1] + syllable(*decompose(word[-1])[:2], end)


def particle(word: str, role: str) -> str:
    """The word with the particle of its role: 빵을 but 사과를; 지하철로, because ㄹ counts as open before (으)로."""
    closed, opened = PARTICLES[role]
    end = final(word)
    is_open = not end or (role == "means" and end == "ㄹ")
    return word + (opened if is_open else closed)
