"""Lexicon of the Korean–English grammar, except verbs, read from lexicon.toml.

Each English word of a role has one Korean word in that role, and vice versa; an article belongs to
its noun. So each side determines the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.common.reading import package_toml


# eq=False: entries are compared and hashed by identity, which is fast.
@dataclass(frozen=True, eq=False)
class Noun:
    """A person, thing or place with the article it always has; a place also has its preposition."""

    english: str
    korean: str
    article: str = ""
    preposition: str = ""


@dataclass(frozen=True, eq=False)
class Expression:
    """A fixed expression: an adverb of manner, a time, a greeting, or someone addressed; the last
    two are polite.

    `fits`: the tenses that a time goes with (`habit`: simple present, `ongoing`: progressive).
    `bars`: the noun that a sentence does not mention if this person is addressed.
    """

    english: str
    korean: str
    fits: Sequence[str] = ()
    bars: str = ""


@dataclass(frozen=True, eq=False)
class Connective:
    """A conjunction between clauses: a word in English, a verb ending and perhaps a noun in Korean.

    Before a `timeless` one Korean marks no tense, and English takes that of the following clause.
    `weight` is its relative frequency among its kind.
    """

    english: str
    ending: str
    noun: str = ""
    subordinate: bool = True
    timeless: bool = False
    weight: int = 1


def by_name(nouns: tuple[Noun, ...], names: str) -> tuple[Noun, ...]:
    """Return the nouns of these English names, separated by spaces; "post_office" is the post
    office.
    """
    known = {noun.english.replace(" ", "_"): noun for noun in nouns}
    return tuple(known[name] for name in names.split())


_TABLES = package_toml("regard.learn.samples", "lexicon.toml")
_NOUNS = {
    name: tuple(Noun(*row) for row in rows) for name, rows in _TABLES["nouns"].items()
}
_PHRASES = _TABLES["phrases"]
PRONOUNS = _NOUNS["pronouns"]
NAMES = _NOUNS["names"]
PERSONS = _NOUNS["persons"]
I, YOU, _HE, _SHE, WE, THEY = PRONOUNS  # noqa: E741
PEOPLE = PRONOUNS + NAMES + PERSONS
# Polite speech would need honorific verbs for them, so it does not speak of them.
HONOURED = ("teacher",)
PLACES = _NOUNS["places"]
VEHICLES = _NOUNS["vehicles"]
KINDS = tuple(_NOUNS[name] for name in _TABLES["kinds"])
THINGS = tuple(noun for kind in KINDS for noun in kind)
ADVERBS, TIMES, VOCATIVES, GREETINGS = (
    tuple(Expression(**row) for row in _PHRASES[name])
    for name in ("adverbs", "times", "vocatives", "greetings")
)
COORDINATING, SUBORDINATING = (
    tuple(Connective(**row) for row in _PHRASES[name])
    for name in ("coordinating", "subordinating")
)
