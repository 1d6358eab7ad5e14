"""Drawing one clause: what its verb needs first, then whatever else makes sense until its words are used up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple

from regard.samples import english
from regard.samples.derivation import Clause, Frame, fixed
from regard.samples.lexicon import (
    HONOURED,
    KINDS,
    NAMES,
    PEOPLE,
    PERSONS,
    PLACES,
    PRONOUNS,
    TIMES,
    VEHICLES,
    WE,
    YOU,
    I,
    Noun,
    Time,
    Vocative,
)
from regard.samples.verbs import Verb

__all__ = ["Draft", "Setting"]

FIRST_OF_TWO = (YOU, *NAMES, *PERSONS)
SECOND_OF_TWO = (I, *NAMES, *PERSONS)
TRIES = 8


class Setting(NamedTuple):
    """What a clause must fit: the words of English it has, its frame, to whom it is said, whether it is dated.

    It leaves out whom the clause `before` named as its subject: nobody says "Minji slept, and Minji ran".
    """

    words: int
    frame: Frame
    vocative: Vocative | None = None
    dated: bool = True
    before: Clause | None = None


class Draft:
    """A clause in the making; `things` are the objects it may choose from."""

    def __init__(self, rng: Random, verb: Verb, things: Sequence[Noun], setting: Setting) -> None:
        self.rng, self.verb, self.things, self.setting = rng, verb, things, setting
        self.left = setting.words
        named = setting.before.subject if setting.before else ()
        self.taken = [*_unspoken(setting.vocative), *(noun for noun in named if noun not in PRONOUNS)]
        self.parts: dict[str, Any] = {}

    def finish(self) -> Clause | None:
        """The clause with exactly the words of its setting, or None if that did not come out."""
        if not self._needed():
            return None
        extras = [self._second_subject, self._second_object, self._recipient, self._place]
        extras += [self._means, self._companion, self._adverb, self._time]
        self.rng.shuffle(extras)
        for extra in extras:
            if not self.left:
                break
            extra()
        clause = Clause(self.setting.frame, self.verb, **self.parts)
        return None if self.left or _past_in_disguise(clause) else clause

    def _needed(self) -> bool:
        """Take what the clause cannot do without. False if the words do not suffice."""
        self.left -= len(english.predicate(self.verb, self.setting.frame, "plural"))
        for role, take in self._needs():
            take()
            if role not in self.parts:
                return False
        return True

    def _needs(self) -> Iterator[tuple[str, Callable[[], None]]]:
        yield "subject", self._subject
        if self.verb.objects:
            yield "objects", self._object
        if self.verb.recipient == "always":
            yield "recipient", self._recipient
        if self.verb.goal == "always":
            yield "place", self._place

    def _take(self, role: str, part: object, cost: int) -> None:
        """Give a part to a role if there are words left to say it."""
        if cost <= self.left:
            self.parts[role] = part
            self.left -= cost

    def _subject(self) -> None:
        if noun := self._person(PEOPLE):
            self._take("subject", (noun,), _width(noun))

    def _second_subject(self) -> None:
        first = self.parts["subject"][0]
        if first in FIRST_OF_TWO and (noun := self._person(SECOND_OF_TWO)):
            self._take("subject", (first, noun), 1 + _width(noun))

    def _object(self) -> None:
        if noun := self._person(self.things) if self.verb.personal else self.rng.choice(self.things):
            self._take("objects", (noun,), _width(noun) + bool(self.verb.preposition))

    def _second_object(self) -> None:
        if "objects" not in self.parts or self.parts["objects"][0] in PRONOUNS:
            return
        (first,) = self.parts["objects"]
        others = [noun for noun in self.things if noun is not first and noun in _like(first)]
        if not others:
            return
        if noun := self._person(others) if self.verb.personal else self.rng.choice(others):
            self._take("objects", (first, noun), 1 + _width(noun))

    def _recipient(self) -> None:
        free = "recipient" not in self.parts and "companion" not in self.parts
        if self.verb.recipient != "never" and free and (noun := self._person(PEOPLE)):
            self._take("recipient", noun, 1 + _width(noun))

    def _place(self) -> None:
        if self.verb.places and "place" not in self.parts:
            noun = self.rng.choice(self.verb.places)
            bare = self.verb.goal != "never" and not noun.article
            self._take("place", noun, _width(noun) + (not bare))

    def _means(self) -> None:
        if self.verb.goal != "never":
            self._take("means", self.rng.choice(VEHICLES), 2)

    def _companion(self) -> None:
        alone = self.verb.alone or self.verb.personal or "recipient" in self.parts
        if not alone and (noun := self._person(PEOPLE)):
            self._take("companion", noun, 1 + _width(noun))

    def _adverb(self) -> None:
        """How; but not of what is not done: 잘 자지 않는다 would mean that one hardly sleeps."""
        if self.verb.adverbs and not self.setting.frame.negative:
            self._take("adverb", self.rng.choice(self.verb.adverbs), 1)

    def _time(self) -> None:
        if self.setting.dated and not self.verb.stative:
            time = self.rng.choice(_times(self.setting.frame.time))
            self._take("time", time, len(fixed(time, "time", "english")))

    def _person(self, among: Sequence[Noun]) -> Noun | None:
        """Someone who is not in the clause yet, and may be spoken of. None if it is hard to find one."""
        for _ in range(TRIES):
            noun = self.rng.choice(among)
            if noun not in self.taken:
                self.taken += (I, WE) if noun in (I, WE) else (noun,)
                return noun
        return None


@cache
def _unspoken(vocative: Vocative | None) -> tuple[Noun, ...]:
    """Whom a polite sentence leaves out: the one addressed, "you", and those who would need honorific verbs."""
    if vocative is None:
        return ()
    names = ("you", vocative.bars, *HONOURED)
    return tuple(noun for noun in PEOPLE if noun.english in names)


@cache
def _like(noun: Noun) -> tuple[Noun, ...]:
    """What may stand beside it: bread and rice, but not bread and history."""
    return next(kind for kind in (*KINDS, PLACES, NAMES + PERSONS) if noun in kind)


@cache
def _times(tense: str) -> tuple[Time, ...]:
    return tuple(time for time in TIMES if tense in time.fits)


@cache
def _width(noun: Noun) -> int:
    """How many words of English a noun has, its article included."""
    return len(english.phrase((noun,), "subject"))


def _past_in_disguise(clause: Clause) -> bool:
    """Whether a present looks like the past: "I read a book" is kept for the past, unlike "he reads"."""
    alike = clause.verb.english == clause.verb.past and clause.frame == Frame("present")
    return alike and english.agreement(clause.subject) != "singular"
