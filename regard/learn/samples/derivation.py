"""Derivation of a sentence, common to Korean and English: a sequence of clauses and connectives.

Korean and English have their clauses in the same order, so a sentence is realised clause by clause,
and no link leaves its clause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from regard.learn.samples.lexicon import Connective, Expression, Noun
from regard.learn.samples.verbs import Verb


class Word(NamedTuple):
    """A surface word, and the parts of the derivation that it realises: words that share one are
    linked.
    """

    text: str
    realises: tuple[str, ...]


class Frame(NamedTuple):
    """Tense ("past", "present", "future"), aspect and polarity of a clause.

    A negative clause is `short` with 안, "didn't", rather than with 지 않다, "did not". It may deny
    that somebody is `able`: 못, "couldn't", and 지 못하다, "could not".
    """

    tense: str
    progressive: bool = False
    negative: bool = False
    short: bool = False
    able: bool = False

    @property
    def time(self) -> str:
        """The kind of time expression that fits: the tense; for the present, "habit" or
        "ongoing".
        """
        return (
            self.tense
            if self.tense != "present"
            else "ongoing"
            if self.progressive
            else "habit"
        )


@dataclass(frozen=True)
class Clause:
    """A clause: who does what to whom, where, how and when. `place` is a goal for verbs of
    motion.
    """

    frame: Frame
    verb: Verb
    subject: tuple[Noun, ...]
    objects: tuple[Noun, ...] = ()
    recipient: Noun | None = None
    place: Noun | None = None
    means: Noun | None = None
    companion: Noun | None = None
    adverb: Expression | None = None
    time: Expression | None = None


@dataclass(frozen=True)
class Sentence:
    """Clauses with a connective between each and the next, or a greeting; polite if it greets or
    addresses someone.
    """

    clauses: tuple[Clause, ...] = ()
    connectives: tuple[Connective, ...] = ()
    vocative: Expression | None = None
    greeting: Expression | None = None
    full_stop: bool = False

    def __post_init__(self) -> None:
        assert len(self.connectives) == max(0, len(self.clauses) - 1), (
            "one connective between two clauses"
        )
        assert self.clauses or self.greeting, "a sentence says something"


@cache
def fixed(
    entry: Expression | None, role: str, language: Literal["korean", "english"]
) -> tuple[Word, ...]:
    """Return a fixed expression in one language; with equally many words in both, they are linked
    one by one.
    """
    if entry is None:
        return ()
    korean = entry.korean.split()
    english = entry.english.split()
    one_by_one = len(korean) == len(english)
    words = korean if language == "korean" else english
    return tuple(
        Word(word, (f"{role} {i}" if one_by_one else role,))
        for i, word in enumerate(words)
    )


def with_mark(words: Sequence[Word], mark: str = ",") -> list[Word]:
    """Add a comma, or another mark, to the last word."""
    return [*words[:-1], words[-1]._replace(text=words[-1].text + mark)]
