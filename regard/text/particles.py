"""Korean particles after placeholders, whose form depends on a value that is not known yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from regard.common.arguments import describe
from regard.common.errors import UsageError
from regard.common.lazy import lazy_pattern

Particles = Literal["both", "as-is"]
"""Ways to write the particles after placeholders: in both forms, or as the model writes them."""

PARTICLES = {
    "을": "을(를)",
    "를": "을(를)",
    "은": "은(는)",
    "는": "은(는)",
    "이": "이(가)",
    "가": "이(가)",
    "과": "과(와)",
    "와": "과(와)",
    "으로": "(으)로",
    "로": "(으)로",
    "이라": "(이)라",
    "라": "(이)라",
    "이랑": "(이)랑",
    "랑": "(이)랑",
    "이나": "(이)나",
    "나": "(이)나",
    "이며": "(이)며",
    "이고": "(이)고",
    "이면": "(이)면",
    "이란": "(이)란",
    "이에요": "이에요(예요)",
    "예요": "이에요(예요)",
}
"""The notation of both forms of a particle by each of them. Forms after a vowel that are nouns and
endings as well, such as 고, 면 and 란, are left out.
"""
_ENDINGS = {
    "과와": "의|는|도|만",
    "은는": "커녕",
    "로": "(?:서|써|부터|까지)?(?:의|는|도|만)?",
    "라": "(?:고|는|면|도|서|니|며|든지)?(?:는|도)?",
    "랑": "은|도|만",
    "나": "마",
}
"""Further particles and endings by the last letters of the particles that they may follow."""


def _form(form: str) -> str:
    """Return the pattern of a particle that no other word goes on with."""
    endings = [end for last, end in _ENDINGS.items() if form[-1] in last]
    return rf"{form}(?=(?:{''.join(endings)})?(?!\w))"


_PARTICLE = lazy_pattern(
    rf"(?P<quote>[\"'”’»」』]?)(?P<form>{'|'.join(map(_form, PARTICLES))})"
    rf"(?![(/](?:{'|'.join(PARTICLES)})(?!\w))"
)
"""A particle after a placeholder, and perhaps a closing quotation mark, in one form alone."""


def are_both(particles: str) -> bool:
    """Return whether particles are written in both forms. Raises UsageError for other ways."""
    if particles not in get_args(Particles):
        raise UsageError(
            f"`particles=`: wanted both or as-is, got {describe(particles)}"
        )
    return particles == "both"


def both_particles(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Write the particles directly after placeholders in both forms: 을 and 를 as 을(를).

    `spans` are the offsets of the placeholders in the text. A word that only begins as a particle
    does, such as 이미지, is left alone, and so are particles in both forms.
    """
    for _, end in sorted(spans, reverse=True):
        match = _PARTICLE.match(text, end)
        if match:
            both = PARTICLES[match["form"]]
            text = f"{text[: match.start('form')]}{both}{text[match.end() :]}"
    return text
