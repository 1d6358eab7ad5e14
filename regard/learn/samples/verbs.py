"""Verbs of the Korean–English grammar (verbs.toml), each with the objects, places and adverbs that
it can take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.common.reading import package_toml
from regard.learn.samples.conjugation import Stem
from regard.learn.samples.lexicon import (
    ADVERBS,
    PEOPLE,
    PERSONS,
    PLACES,
    THINGS,
    Expression,
    Noun,
    by_name,
)


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb with what it can take. With a `goal` its place is where one goes (에), else where it
    happens (에서).

    `goal` and `recipient` are "always", "perhaps" or "never" present. A `stative` verb has no
    progressive, and one done `alone` no companion. The first object is its most typical one, which
    is never held out.
    """

    english: str
    past: str
    stem: Stem
    objects: tuple[Noun, ...] = ()
    places: tuple[Noun, ...] = ()
    adverbs: tuple[Expression, ...] = ()
    preposition: str = ""
    goal: str = "never"
    recipient: str = "never"
    stative: bool = False
    alone: bool = False

    @property
    def personal(self) -> bool:
        """True if its objects are people."""
        return self.objects in (PEOPLE, PERSONS)

    @property
    def copula(self) -> bool:
        """True of 이다, "be": its object is what somebody is, 학생이다, 학생이 아니다."""
        return self.stem.kind == "이"


_TABLES = package_toml("regard.learn.samples", "verbs.toml")


def _verb(
    english: str,
    korean: str,
    objects: str = "",
    places: str = "",
    adverbs: str = "",
    **further: Any,
) -> Verb:
    """Make a verb of an entry: "wait/waited for" has its past and preposition, "돕/ㅂ" its
    irregular class.
    """
    forms, _, preposition = english.partition(" ")
    base, _, past = forms.partition("/")
    stem, _, kind = korean.partition("/")
    return Verb(
        base,
        past or base,
        Stem(stem, kind or "regular"),
        {"@people": PEOPLE, "@persons": PERSONS}.get(objects)
        or by_name(THINGS + PLACES, _expand(objects)),
        by_name(PLACES, _expand(places)),
        tuple(adverb for adverb in ADVERBS if adverb.english in adverbs.split()),
        preposition,
        **further,
    )


def _expand(names: str) -> str:
    """Replace groups, such as "@food", by their words."""
    return " ".join(
        _TABLES["groups"][name[1:]] if name.startswith("@") else name
        for name in names.split()
    )


VERBS = tuple(
    _verb(**row) for row in (*_TABLES["transitive"], *_TABLES["intransitive"])
)
