"""Derivation of a sentence, shared by Korean and English: a sequence of clauses and connectives.

Korean and English have their clauses in the same order. So a sentence is realised clause by clause,
and every alignment link joins words of the same clause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from regard.learn.samples.lexicon import Connective, Expression, Noun
from regard.learn.samples.verbs import Verb


class Word(NamedTuple):
    """A surface word, and the parts of the derivation that it realises.

    A Korean and an English word are aligned if they realise the same part.
    """

    text: str
    realises: tuple[str, ...]


class Frame(NamedTuple):
    """Tense ("past", "present", "future"), aspect and polarity of a clause.

    A `short` negative clause has 안 and "didn't", any other 지 않다 and "did not". With `able`, the
    negation is of ability: 못 and "couldn't", or 지 못하다 and "could not".
    """

    tense: str
    progressive: bool = False
    negative: bool = False
    short: bool = False
    able: bool = False

    @property
    def time(self) -> str:
        """Kind of time expression that fits: "past", "future", "habit" or "ongoing"."""
        if self.tense != "present":
            return self.tense
        return "ongoing" if self.progressive else "habit"


@dataclass(frozen=True)
class Clause:
    """A clause: who does what to whom, where, how and when.

    For verbs of motion, `place` is the goal.
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
    """Clauses with a connective between each and the next, or a greeting alone.

    A sentence with a greeting or a vocative is in polite speech.
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
    """Return the words of a fixed expression in one language; () if `entry` is None.

    If both languages have the same number of words, the words are linked one by one, else all words
    with all.
    """
    if entry is None:
        return ()
    korean = entry.korean.split()
    english = entry.english.split()
    words = korean if language == "korean" else english
    if len(korean) == len(english):
        return tuple(Word(word, (f"{role} {i}",)) for i, word in enumerate(words))
    return tuple(Word(word, (role,)) for word in words)


def with_mark(words: Sequence[Word], mark: str = ",") -> list[Word]:
    """Append a punctuation mark to the last word."""
    return [*words[:-1], words[-1]._replace(text=words[-1].text + mark)]
