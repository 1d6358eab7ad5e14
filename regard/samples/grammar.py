"""Drawing whole sentences of exactly as many words as asked for.

Every clause costs its English words, every connective and vocative one more. So the words of a sentence are shared out
among its clauses first, and then each clause is drawn to its share.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from regard.samples.derivation import Clause, Sentence
from regard.samples.draft import Draft, Setting
from regard.samples.lexicon import COORDINATING, SUBORDINATING, VOCATIVES, Connective, Noun
from regard.samples.tenses import frames
from regard.samples.verbs import VERBS, Verb

__all__ = ["SHORTEST", "Combination", "Grammar"]

Combination = tuple[Verb, Noun]  # a verb and one of its objects

SHORTEST, LONGEST_CLAUSE = 2, 14
ATTEMPTS, TRIES = 100, 40  # for a sentence, for a clause
TEMPORAL = ("when", "after", "before", "while")


class Grammar:
    """Draws sentences without the combinations `held_out`, unless one is asked for."""

    def __init__(self, rng: Random, held_out: Collection[Combination] = ()) -> None:
        self.rng = rng
        barred = set(held_out)
        self.objects = {verb: [noun for noun in verb.objects if (verb, noun) not in barred] for verb in VERBS}

    def sentence(self, words: int, combination: Combination | None = None) -> Sentence | None:
        """A sentence of exactly this many English words; a `combination` occurs in its longest clause.

        None when none was found: few words do not hold every combination.
        """
        assert words >= SHORTEST, f"no sentence has fewer than {SHORTEST} words"
        for _ in range(ATTEMPTS):
            sentence = self._attempt(words, combination)
            if sentence:
                return sentence
        return None

    def _attempt(self, words: int, combination: Combination | None) -> Sentence | None:
        """None when some clause found no way to have its share of words in its frame."""
        rng = self.rng
        vocative = rng.choice(VOCATIVES) if words > SHORTEST and rng.random() < 0.2 else None
        shares = _shares(rng, words - (vocative is not None))
        connectives = _connectives(rng, len(shares) - 1)
        longest = shares.index(max(shares))
        clauses: list[Clause] = []
        leading: Connective | None = None
        for i, frame in enumerate(frames(rng, connectives, shares)):
            own = connectives[i] if i < len(connectives) else None
            setting = Setting(shares[i], frame, vocative, _dated(leading, own), clauses[-1] if clauses else None)
            clause = self._clause(setting, own, combination if i == longest else None)
            if clause is None:
                return None
            clauses.append(clause)
            leading = own
        return Sentence(tuple(clauses), tuple(connectives), vocative)

    def _clause(self, setting: Setting, own: Connective | None, combination: Combination | None) -> Clause | None:
        stative = not setting.frame.progressive and not (own and own.timeless)
        for _ in range(TRIES):
            verb = combination[0] if combination else self.rng.choice(VERBS)
            if (verb.stative and not stative) or (setting.before and verb is setting.before.verb):
                continue
            things = [combination[1]] if combination else self.objects[verb]
            clause = Draft(self.rng, verb, things, setting).finish()
            if clause:
                return clause
        return None


def _shares(rng: Random, words: int) -> list[int]:
    """The words of each clause, one word apart for the connective."""
    shares: list[int] = []
    while words > 4 and not (words <= LONGEST_CLAUSE and rng.random() < 0.55):
        longest = min(words - 3, 12)
        shares.append(round(rng.triangular(min(3, longest), longest, min(5, longest))))
        words -= shares[-1] + 1
    return [*shares, words]


def _connectives(rng: Random, count: int) -> list[Connective]:
    """What stands between the clauses; a subordinate clause is followed by its main clause."""
    drawn: list[Connective] = []
    for _ in range(count):
        free = not (drawn and drawn[-1].subordinate)
        kind = SUBORDINATING if free and rng.random() < 0.5 else COORDINATING
        drawn.append(rng.choices(kind, [connective.weight for connective in kind])[0])
    return drawn


def _dated(leading: Connective | None, own: Connective | None) -> bool:
    """Whether a clause may say when: not if it is subordinate, nor if a subordinate clause says when already."""
    if own and own.subordinate:
        return False
    return leading is None or leading.english not in TEMPORAL
