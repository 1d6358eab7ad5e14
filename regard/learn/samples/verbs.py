"""Verbs of the Korean–English grammar with their objects, places and adverbs, from verbs.toml."""

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
    """A verb and its possible objects, places and adverbs.

    `goal` and `recipient` are "always", "perhaps" or "never" present. The place of a verb with a
    `goal` is where somebody goes (에), that of any other where something happens (에서). A
    `stative` verb has no progressive, and a verb with `alone` has no companion. The first object is
    the most typical one, and is never held out.
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
        """True if the objects are people."""
        return self.objects in (PEOPLE, PERSONS)

    @property
    def copula(self) -> bool:
        """True if the verb is 이다, "be", whose object is a noun complement: 학생이다."""
        return self.stem.kind == "이"


_TABLES = package_toml("regard.learn.samples", "verbs.toml")


def _verb(
    english: str,
    korean: str,
    objects: str = "",
    places: str = "",
    adverbs: str = "",
    **options: Any,
) -> Verb:
    """Make a verb from an entry of verbs.toml.

    `english` gives the past and a preposition: "wait/waited for". `korean` gives the stem and its
    irregular class: "돕/ㅂ".
    """
    forms, _, preposition = english.partition(" ")
    base, _, past = forms.partition("/")
    stem, _, kind = korean.partition("/")
    return Verb(
        base,
        past or base,
        Stem(stem, kind or "regular"),
        _objects(objects),
        by_name(PLACES, _expand(places)),
        tuple(adverb for adverb in ADVERBS if adverb.english in adverbs.split()),
        preposition,
        **options,
    )


def _objects(names: str) -> tuple[Noun, ...]:
    if names == "@people":
        return PEOPLE
    if names == "@persons":
        return PERSONS
    return by_name(THINGS + PLACES, _expand(names))


def _expand(names: str) -> str:
    """Replace the names of groups, such as "@food", with the names of their members."""
    return " ".join(
        _TABLES["groups"][name[1:]] if name.startswith("@") else name
        for name in names.split()
    )


VERBS = tuple(
    _verb(**row) for row in (*_TABLES["transitive"], *_TABLES["intransitive"])
)
