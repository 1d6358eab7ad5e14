"""Draft of one clause: first what its verb requires, then optional parts until its words are used
up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple

from regard.learn.samples import english
from regard.learn.samples.derivation import Clause, Frame, fixed
from regard.learn.samples.lexicon import (
    HONOURED,
    KINDS,
    NAMES,
    PEOPLE,
    PERSONS,
    PLACES,
    PRONOUNS,
    THEY,
    TIMES,
    VEHICLES,
    WE,
    YOU,
    Expression,
    I,
    Noun,
)
from regard.learn.samples.verbs import Verb

FIRST_OF_TWO = (YOU, *NAMES, *PERSONS)
SECOND_OF_TWO = (I, *NAMES, *PERSONS)
TRIES = 8


class Setting(NamedTuple):
    """Constraints on a clause: its English words, its frame, the vocative or greeting, whether it
    may have a time.

    It does not mention the subject of the `previous` clause again: nobody says "Minji slept, and
    Minji ran".
    """

    words: int
    frame: Frame
    vocative: Expression | None = None
    dated: bool = True
    previous: Clause | None = None


class Draft:
    """A clause being drawn; `objects` are those it may choose from."""

    def __init__(
        self, rng: Random, verb: Verb, things: Sequence[Noun], setting: Setting
    ) -> None:
        self.rng = rng
        self.verb = verb
        self.objects = things
        self.setting = setting
        self.words_left = setting.words
        mentioned = setting.previous.subject if setting.previous else ()
        self.taken = [
            *_unmentioned(setting.vocative),
            *(noun for noun in mentioned if noun not in PRONOUNS),
        ]
        self.parts: dict[str, Any] = {}

    def finish(self) -> Clause | None:
        """Return the clause with exactly the words of its setting, or None if that failed."""
        if not self._take_required():
            return None
        extras = [
            self._second_subject,
            self._second_object,
            self._recipient,
            self._place,
        ]
        extras += [self._means, self._companion, self._adverb, self._time]
        self.rng.shuffle(extras)
        for extra in extras:
            if not self.words_left:
                break
            extra()
        clause = Clause(self.setting.frame, self.verb, **self.parts)
        return None if self.words_left or _looks_past(clause) else clause

    def _take_required(self) -> bool:
        """Take the required parts. Return False if the words do not suffice."""
        self.words_left -= len(
            english.predicate(self.verb, self.setting.frame, "plural")
        )
        for role, take in self._required():
            take()
            if role not in self.parts:
                return False
        return True

    def _required(self) -> Iterator[tuple[str, Callable[[], None]]]:
        yield "subject", self._subject
        if self.verb.objects:
            yield "objects", self._object
        if self.verb.recipient == "always":
            yield "recipient", self._recipient
        if self.verb.goal == "always":
            yield "place", self._place

    def _take(self, role: str, part: object, cost: int) -> None:
        """Fill a role if enough words are left."""
        if cost <= self.words_left:
            self.parts[role] = part
            self.words_left -= cost

    def _subject(self) -> None:
        people = (
            [noun for noun in PEOPLE if noun not in (WE, THEY)]
            if self.verb.copula
            else PEOPLE
        )
        if noun := self._person(people):
            self._take("subject", (noun,), _word_count(noun))

    def _second_subject(self) -> None:
        first = self.parts["subject"][0]
        if (
            first in FIRST_OF_TWO
            and not self.verb.copula
            and (noun := self._person(SECOND_OF_TWO))
        ):
            self._take("subject", (first, noun), 1 + _word_count(noun))

    def _object(self) -> None:
        if (
            noun := self._person(self.objects)
            if self.verb.personal
            else self.rng.choice(self.objects)
        ):
            self._take(
                "objects", (noun,), _word_count(noun) + bool(self.verb.preposition)
            )

    def _second_object(self) -> None:
        if (
            "objects" not in self.parts
            or self.parts["objects"][0] in PRONOUNS
            or self.verb.copula
        ):
            return
        (first,) = self.parts["objects"]
        candidates = [
            noun
            for noun in self.objects
            if noun is not first and noun in _same_kind(first)
        ]
        if not candidates:
            return
        if (
            noun := self._person(candidates)
            if self.verb.personal
            else self.rng.choice(candidates)
        ):
            self._take("objects", (first, noun), 1 + _word_count(noun))

    def _recipient(self) -> None:
        free = "recipient" not in self.parts and "companion" not in self.parts
        if self.verb.recipient != "never" and free and (noun := self._person(PEOPLE)):
            self._take("recipient", noun, 1 + _word_count(noun))

    def _place(self) -> None:
        if self.verb.places and "place" not in self.parts:
            noun = self.rng.choice(self.verb.places)
            bare = self.verb.goal != "never" and not noun.article
            self._take("place", noun, _word_count(noun) + (not bare))

    def _means(self) -> None:
        if self.verb.goal != "never":
            self._take("means", self.rng.choice(VEHICLES), 2)

    def _companion(self) -> None:
        alone = self.verb.alone or self.verb.personal or "recipient" in self.parts
        if not alone and (noun := self._person(PEOPLE)):
            self._take("companion", noun, 1 + _word_count(noun))

    def _adverb(self) -> None:
        """Add a manner, but not to a negated verb: 잘 자지 않는다 would mean that one hardly
        sleeps.
        """
        if self.verb.adverbs and not self.setting.frame.negative:
            self._take("adverb", self.rng.choice(self.verb.adverbs), 1)

    def _time(self) -> None:
        if self.setting.dated and not self.verb.stative:
            time = self.rng.choice(
                [time for time in TIMES if self.setting.frame.time in time.fits]
            )
            self._take("time", time, len(fixed(time, "time", "english")))

    def _person(self, candidates: Sequence[Noun]) -> Noun | None:
        """Draw a person who is not in the clause yet and may be mentioned. None if it is hard to
        find one.
        """
        for _ in range(TRIES):
            noun = self.rng.choice(candidates)
            if noun not in self.taken:
                self.taken += (I, WE) if noun in (I, WE) else (noun,)
                return noun
        return None


@cache
def _unmentioned(vocative: Expression | None) -> tuple[Noun, ...]:
    """Return whom a polite sentence does not mention: the addressee, "you", and those who need
    honorific verbs.
    """
    if vocative is None:
        return ()
    names = ("you", vocative.bars, *HONOURED)
    return tuple(noun for noun in PEOPLE if noun.english in names)


@cache
def _same_kind(noun: Noun) -> tuple[Noun, ...]:
    """Return the nouns that can be joined with it: bread and rice, but not bread and history."""
    return next(kind for kind in (*KINDS, PLACES, NAMES + PERSONS) if noun in kind)


@cache
def _word_count(noun: Noun) -> int:
    """Return the number of English words of a noun with its article."""
    return len(english.phrase((noun,), "subject"))


def _looks_past(clause: Clause) -> bool:
    """Return whether a present looks like the past: "I read a book" is used for the past, unlike
    "he reads".
    """
    alike = clause.verb.english == clause.verb.past and clause.frame == Frame("present")
    return alike and english.agreement(clause.subject) != "singular"
