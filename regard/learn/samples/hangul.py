"""Decompose Hangul syllables into letters (jamo), compose them, and choose particles.

The Unicode code point of a syllable is 0xAC00 + (initial · 21 + vowel) · 28 + final, where final is
0 if the syllable is open.
"""

from __future__ import annotations

INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
FINALS: list[str] = ["", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"]
FIRST_SYLLABLE = 0xAC00  # 가

# Particles by role, each as (form after a final consonant, form after a vowel).
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


def decompose(syllable_block: str) -> tuple[str, str, str]:
    """Return the initial, vowel and final of a syllable: ㄱ, ㅏ, ㄴ for 간; ㄱ, ㅏ, "" for 가."""
    index = ord(syllable_block) - FIRST_SYLLABLE
    return INITIALS[index // (21 * 28)], VOWELS[index // 28 % 21], FINALS[index % 28]


def syllable(initial: str, vowel: str, end: str = "") -> str:
    """Compose a syllable from its letters."""
    open_syllable = INITIALS.index(initial) * 21 + VOWELS.index(vowel)
    return chr(FIRST_SYLLABLE + open_syllable * 28 + FINALS.index(end))


def final(word: str) -> str:
    """Return the consonant that ends a word, or "" after a vowel."""
    return FINALS[(ord(word[-1]) - FIRST_SYLLABLE) % 28]


def without_final(word: str) -> str:
    """Remove the final consonant of the last syllable: 만들 becomes 만드."""
    return word[:-1] + syllable(*decompose(word[-1])[:2])


def add_final(word: str, end: str) -> str:
    """Set the final consonant of the last syllable: 가 and ㄴ give 간."""
    return word[:-1] + syllable(*decompose(word[-1])[:2], end)


def particle(word: str, role: str) -> str:
    """Append the particle of a role: 빵을 but 사과를.

    A final ㄹ counts as a vowel before (으)로: 지하철로.
    """
    after_consonant, after_vowel = PARTICLES[role]
    end = final(word)
    is_open = not end or (role == "means" and end == "ㄹ")
    return word + (after_vowel if is_open else after_consonant)
