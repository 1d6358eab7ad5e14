"""Draw sentences with an exact number of English words from a grammar.

Every connective and vocative is one word. The remaining words are first distributed among the
clauses, and then each clause is drawn with its number of words.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from regard.learn.samples.derivation import Clause, Sentence
from regard.learn.samples.draft import Draft, Setting
from regard.learn.samples.lexicon import (
    COORDINATING,
    GREETINGS,
    SUBORDINATING,
    VOCATIVES,
    Connective,
    Noun,
)
from regard.learn.samples.tenses import frames
from regard.learn.samples.verbs import VERBS, Verb

Combination = tuple[Verb, Noun]  # a verb and one of its objects
# The copula is drawn five times as often as another verb, since few clauses are as short as
# "I am a student".
CHOICES = (
    *VERBS,
    *[verb for verb in VERBS if verb.copula] * 4,
)

SHORTEST = 2  # words of the shortest sentence
LONGEST_CLAUSE = 14  # words
ATTEMPTS = 100  # to draw a sentence
TRIES = 40  # to draw a clause
TEMPORAL = ("when", "after", "before", "while")


class Grammar:
    """Draws sentences without the combinations `held_out`, unless one is requested."""

    def __init__(self, rng: Random, held_out: Collection[Combination] = ()) -> None:
        self.rng = rng
        excluded = set(held_out)
        self.objects = {
            verb: [noun for noun in verb.objects if (verb, noun) not in excluded]
            for verb in VERBS
        }

    def sentence(
        self, words: int, combination: Combination | None = None
    ) -> Sentence | None:
        """Draw a sentence of exactly `words` English words, with `combination` in its longest
        clause.

        Return None if none was found, since not every combination fits into few words.
        """
        assert words >= SHORTEST, f"no sentence has fewer than {SHORTEST} words"
        for _ in range(ATTEMPTS):
            sentence = self._attempt(words, combination)
            if sentence:
                return sentence
        return None

    def _attempt(self, words: int, combination: Combination | None) -> Sentence | None:
        """Draw a sentence; None if a clause cannot be drawn with its number of words and its
        frame.
        """
        rng = self.rng
        vocative = None
        if words > SHORTEST and rng.random() < 0.2:
            vocative = rng.choice(VOCATIVES)
        greeting = rng.choice(GREETINGS) if rng.random() < 0.06 else None
        full_stop = rng.random() < 0.3

        words_left = words
        if vocative:
            words_left -= 1
        if greeting:
            words_left -= len(greeting.english.split())
        if greeting and vocative and not words_left and not combination:
            return Sentence((), (), vocative, greeting, full_stop)
        if words_left < SHORTEST:
            return None

        shares = _shares(rng, words_left)
        connectives = _connectives(rng, len(shares) - 1)
        longest = shares.index(max(shares))
        clauses: list[Clause] = []
        previous: Connective | None = None
        for i, frame in enumerate(frames(rng, connectives, shares)):
            connective = connectives[i] if i < len(connectives) else None
            dated = _may_have_time(previous, connective)
            previous_clause = clauses[-1] if clauses else None
            setting = Setting(
                shares[i], frame, vocative or greeting, dated, previous_clause
            )
            requested = combination if i == longest else None
            clause = self._clause(setting, connective, requested)
            if clause is None:
                return None
            clauses.append(clause)
            previous = connective

        return Sentence(
            tuple(clauses), tuple(connectives), vocative, greeting, full_stop
        )

    def _clause(
        self,
        setting: Setting,
        connective: Connective | None,
        combination: Combination | None,
    ) -> Clause | None:
        """Draw a clause with a verb that fits; None if that failed `TRIES` times."""
        frame = setting.frame
        timeless = connective is not None and connective.timeless
        stative_fits = not (frame.progressive or frame.able or timeless)
        for _ in range(TRIES):
            verb = combination[0] if combination else self.rng.choice(CHOICES)
            if setting.previous and verb is setting.previous.verb:
                continue
            if verb.stative and not stative_fits:
                continue
            if verb.copula and frame.short:
                continue

            objects = [combination[1]] if combination else self.objects[verb]
            clause = Draft(self.rng, verb, objects, setting).finish()
            if clause:
                return clause
        return None


def _shares(rng: Random, words: int) -> list[int]:
    """Draw the number of words of each clause, leaving one word for each connective."""
    shares: list[int] = []
    while words > 4 and not (words <= LONGEST_CLAUSE and rng.random() < 0.55):
        longest = min(words - 3, 12)
        shares.append(round(rng.triangular(min(3, longest), longest, min(5, longest))))
        words -= shares[-1] + 1
    return [*shares, words]


def _connectives(rng: Random, count: int) -> list[Connective]:
    """Draw the connectives; a subordinate clause is followed by its main clause."""
    drawn: list[Connective] = []
    for _ in range(count):
        may_subordinate = not (drawn and drawn[-1].subordinate)
        choices = COORDINATING
        if may_subordinate and rng.random() < 0.5:
            choices = SUBORDINATING
        weights = [connective.weight for connective in choices]
        drawn.append(rng.choices(choices, weights)[0])
    return drawn


def _may_have_time(previous: Connective | None, connective: Connective | None) -> bool:
    """Return whether a clause may have a time expression.

    A subordinate clause may not, nor may the main clause after a temporal clause.
    """
    if connective and connective.subordinate:
        return False
    return previous is None or previous.english not in TEMPORAL
