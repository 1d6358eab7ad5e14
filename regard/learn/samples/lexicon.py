"""Lexicon of the Korean–English grammar without its verbs, read from lexicon.toml.

In each role, an English word has exactly one Korean translation and vice versa, and an article
belongs to its noun. So each side of a sentence pair determines the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.common.reading import package_toml


# With eq=False, entries are compared and hashed by identity, which is fast.
@dataclass(frozen=True, eq=False)
class Noun:
    """A person, thing or place with its fixed article; a place also has its preposition."""

    english: str
    korean: str
    article: str = ""
    preposition: str = ""


@dataclass(frozen=True, eq=False)
class Expression:
    """A fixed expression: an adverb of manner, a time, a greeting, or a vocative.

    `fits` lists the kinds of clauses that a time goes with: "past", "future", "habit" (simple
    present) or "ongoing" (present progressive). `bars` is the noun that a sentence with this
    vocative does not mention.
    """

    english: str
    korean: str
    fits: Sequence[str] = ()
    bars: str = ""


@dataclass(frozen=True, eq=False)
class Connective:
    """A conjunction between clauses: a word in English, a verb ending and perhaps a noun in Korean.

    Korean marks no tense before a `timeless` connective; the English clause has the tense of the
    clause that follows. `weight` is the relative frequency among coordinating or subordinating
    connectives.
    """

    english: str
    ending: str
    noun: str = ""
    subordinate: bool = True
    timeless: bool = False
    weight: int = 1


def by_name(nouns: tuple[Noun, ...], names: str) -> tuple[Noun, ...]:
    """Return the nouns with these English names, separated by spaces.

    A space within a name is written as an underscore: "post_office".
    """
    nouns_by_name = {noun.english.replace(" ", "_"): noun for noun in nouns}
    return tuple(nouns_by_name[name] for name in names.split())


_TABLES = package_toml("regard.learn.samples", "lexicon.toml")
_NOUNS = {
    name: tuple(Noun(*row) for row in rows) for name, rows in _TABLES["nouns"].items()
}
_PHRASES = _TABLES["phrases"]
PRONOUNS = _NOUNS["pronouns"]
NAMES = _NOUNS["names"]
# Persons by what they are, with an article: the teacher, the neighbour.
PERSONS = _NOUNS["persons"]
I, YOU, _, _, WE, THEY = PRONOUNS  # noqa: E741
# Everybody that a sentence may speak of.
PEOPLE = PRONOUNS + NAMES + PERSONS
# Persons for whom polite speech requires honorific verbs; polite sentences do not mention them.
HONOURED = ("teacher",)
PLACES = _NOUNS["places"]
VEHICLES = _NOUNS["vehicles"]
# Kinds of things: two of a kind can be joined, bread and rice, but not bread and history.
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
