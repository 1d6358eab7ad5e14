"""Which tense, aspect and polarity the clauses of a sentence have, one beside the other."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from regard.samples.derivation import Frame
from regard.samples.lexicon import Connective

__all__ = ["frames"]

TENSES = ("past", "present", "future")


def frames(rng: Random, connectives: Sequence[Connective], shares: Sequence[int]) -> list[Frame]:
    """A frame for each clause, such as its share of English words affords; from the last clause to the first."""
    drawn: list[Frame] = []
    for i in reversed(range(len(shares))):
        own = connectives[i] if i < len(connectives) else None
        after = drawn[0] if drawn else None
        if own and own.subordinate and after:
            frame = _subordinate(rng, own, after)
        else:
            frame = _main(rng, connectives[i - 1] if i else None, after)
        # Before a timeless connective Korean does not show the aspect, so that English may not choose it.
        drawn.insert(0, frame if own and own.timeless else _affordable(frame, shares[i]))
    return drawn


def _main(rng: Random, before: Connective | None, after: Frame | None) -> Frame:
    """A main clause: mostly in the tense of the next one, and such as the subordinate clause before it allows."""
    led_by = before.english if before and before.subordinate else ""
    tense = after.tense if after and rng.random() < 0.6 else rng.choices(TENSES, (40, 35, 25))[0]
    if led_by == "if" and tense == "past":
        tense = rng.choice(("present", "future"))
    simple = led_by in ("if", "after", "before") or (led_by == "when" and tense == "present")
    return Frame(tense, not simple and rng.random() < 0.3, rng.random() < 0.2)


def _subordinate(rng: Random, own: Connective, main: Frame) -> Frame:
    """A subordinate clause. In time with its main clause English has no future: "when he comes, I will go"."""
    same = "past" if main.tense == "past" else "present"
    if own.timeless:
        return Frame(same, own.english == "while")
    if own.english == "because":
        earlier = {"past": ("past",), "present": ("past", "present"), "future": TENSES}[main.tense]
        return Frame(rng.choice(earlier), rng.random() < 0.25, rng.random() < 0.25)
    return Frame("present" if own.english == "if" else same, rng.random() < 0.2, rng.random() < 0.15)


def _affordable(frame: Frame, share: int) -> Frame:
    """The frame without negation, without aspect or in the present, where its auxiliaries leave too few words."""
    for cheaper in (frame, frame._replace(negative=False), Frame(frame.tense), Frame("present")):
        if share >= 2 + _auxiliaries(cheaper):
            return cheaper
    return Frame("present")


def _auxiliaries(frame: Frame) -> int:
    """How many words of English stand before the verb: none in "eats", one in "is eating", two in "did not eat"."""
    helped = frame.tense == "future" or (frame.negative and not frame.progressive)
    return helped + frame.progressive + frame.negative
