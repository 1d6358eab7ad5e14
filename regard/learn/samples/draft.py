"""Draw one clause: first the parts that its verb requires, then optional parts until its number
of words is reached.
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
TRIES = 8  # to draw a person


class Setting(NamedTuple):
    """Constraints on a clause.

    A clause does not mention the subject of the `previous` clause again, unless by a pronoun:
    nobody says "Minji slept, and Minji ran".
    """

    words: int  # number of English words
    frame: Frame
    vocative: Expression | None = None  # or greeting
    dated: bool = True  # the clause may have a time expression
    previous: Clause | None = None


class Draft:
    """A clause being drawn, whose objects are chosen from `objects`."""

    def __init__(
        self, rng: Random, verb: Verb, objects: Sequence[Noun], setting: Setting
    ) -> None:
        self.rng = rng
        self.verb = verb
        self.objects = objects
        self.setting = setting
        self.words_left = setting.words
        previous_subject = setting.previous.subject if setting.previous else ()
        self.taken = [
            *_unmentioned(setting.vocative),
            *(noun for noun in previous_subject if noun not in PRONOUNS),
        ]
        self.parts: dict[str, Any] = {}

    def finish(self) -> Clause | None:
        """Return the clause with exactly the words of its setting, or None if that failed."""
        if not self._take_required():
            return None

        optional_parts = [
            self._second_subject,
            self._second_object,
            self._recipient,
            self._place,
            self._means,
            self._companion,
            self._adverb,
            self._time,
        ]
        self.rng.shuffle(optional_parts)
        for take in optional_parts:
            if not self.words_left:
                break
            take()

        clause = Clause(self.setting.frame, self.verb, **self.parts)
        return None if self.words_left or _looks_past(clause) else clause

    def _take_required(self) -> bool:
        """Take the required parts. Return False if the words do not suffice."""
        verb_group = english.predicate(self.verb, self.setting.frame, "plural")
        self.words_left -= len(verb_group)
        for role, take in self._required():
            take()
            if role not in self.parts:
                return False
        return True

    def _required(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield each required role and the method that fills it."""
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
        people: Sequence[Noun] = PEOPLE
        if self.verb.copula:
            people = [noun for noun in PEOPLE if noun not in (WE, THEY)]
        noun = self._person(people)
        if noun:
            self._take("subject", (noun,), _word_count(noun))

    def _second_subject(self) -> None:
        first = self.parts["subject"][0]
        if first not in FIRST_OF_TWO or self.verb.copula:
            return
        noun = self._person(SECOND_OF_TWO)
        if noun:
            self._take("subject", (first, noun), 1 + _word_count(noun))

    def _object(self) -> None:
        noun = self._choose_noun(self.objects)
        if noun:
            cost = _word_count(noun) + bool(self.verb.preposition)
            self._take("objects", (noun,), cost)

    def _second_object(self) -> None:
        if "objects" not in self.parts or self.verb.copula:
            return
        (first,) = self.parts["objects"]
        if first in PRONOUNS:
            return
        candidates = [
            noun
            for noun in self.objects
            if noun is not first and noun in _same_kind(first)
        ]
        if not candidates:
            return
        noun = self._choose_noun(candidates)
        if noun:
            self._take("objects", (first, noun), 1 + _word_count(noun))

    def _choose_noun(self, candidates: Sequence[Noun]) -> Noun | None:
        if self.verb.personal:
            return self._person(candidates)
        return self.rng.choice(candidates)

    def _recipient(self) -> None:
        if "recipient" in self.parts or "companion" in self.parts:
            return
        if self.verb.recipient == "never":
            return
        noun = self._person(PEOPLE)
        if noun:
            self._take("recipient", noun, 1 + _word_count(noun))

    def _place(self) -> None:
        if self.verb.places and "place" not in self.parts:
            noun = self.rng.choice(self.verb.places)
            # Goals such as "home" have neither an article nor a preposition.
            has_preposition = self.verb.goal == "never" or bool(noun.article)
            self._take("place", noun, _word_count(noun) + has_preposition)

    def _means(self) -> None:
        if self.verb.goal != "never":
            self._take("means", self.rng.choice(VEHICLES), 2)

    def _companion(self) -> None:
        if self.verb.alone or self.verb.personal or "recipient" in self.parts:
            return
        noun = self._person(PEOPLE)
        if noun:
            self._take("companion", noun, 1 + _word_count(noun))

    def _adverb(self) -> None:
        """Add an adverb of manner, unless the clause is negative.

        잘 자지 않는다, "does not sleep well", would mean that somebody hardly sleeps.
        """
        if self.verb.adverbs and not self.setting.frame.negative:
            self._take("adverb", self.rng.choice(self.verb.adverbs), 1)

    def _time(self) -> None:
        if self.setting.dated and not self.verb.stative:
            kind = self.setting.frame.time
            time = self.rng.choice([time for time in TIMES if kind in time.fits])
            self._take("time", time, len(fixed(time, "time", "english")))

    def _person(self, candidates: Sequence[Noun]) -> Noun | None:
        """Draw a person who may be mentioned and is not in the clause yet; None if `TRIES` draws
        find none.
        """
        for _ in range(TRIES):
            noun = self.rng.choice(candidates)
            if noun not in self.taken:
                self.taken += (I, WE) if noun in (I, WE) else (noun,)
                return noun
        return None


@cache
def _unmentioned(vocative: Expression | None) -> tuple[Noun, ...]:
    """Return the persons that a polite sentence does not mention.

    They are "you", the addressee, and persons who require honorific verbs.
    """
    if vocative is None:
        return ()
    names = ("you", vocative.bars, *HONOURED)
    return tuple(noun for noun in PEOPLE if noun.english in names)


@cache
def _same_kind(noun: Noun) -> tuple[Noun, ...]:
    """Return the nouns that can be joined with a noun: bread and rice, not bread and history."""
    return next(kind for kind in (*KINDS, PLACES, NAMES + PERSONS) if noun in kind)


@cache
def _word_count(noun: Noun) -> int:
    """Return the number of English words of a noun with its article."""
    return len(english.phrase((noun,), "subject"))


def _looks_past(clause: Clause) -> bool:
    """Return whether a clause in the present looks like one in the past.

    "I read a book" can be either, "he reads a book" is the present. The grammar uses the ambiguous
    form for the past only.
    """
    same_form = clause.verb.english == clause.verb.past
    is_simple_present = clause.frame == Frame("present")
    is_singular = english.agreement(clause.subject) == "singular"
    return same_form and is_simple_present and not is_singular
