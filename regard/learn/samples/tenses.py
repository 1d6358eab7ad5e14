"""Tense, aspect and polarity of the clauses of a sentence, so that they agree with one another."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from regard.learn.samples.derivation import Frame
from regard.learn.samples.lexicon import Connective

TENSES = ("past", "present", "future")


def frames(
    rng: Random, connectives: Sequence[Connective], shares: Sequence[int]
) -> list[Frame]:
    """Draw a frame for each clause that its share of English words allows; from the last clause to
    the first.
    """
    drawn: list[Frame] = []
    for i in reversed(range(len(shares))):
        connective = connectives[i] if i < len(connectives) else None
        following = drawn[0] if drawn else None
        if connective and connective.subordinate and following:
            frame = _subordinate(rng, connective, following)
        else:
            frame = _main(rng, connectives[i - 1] if i else None, following)
        # Before a timeless connective Korean does not mark the aspect, so that English must not
        # choose it.
        drawn.insert(
            0,
            frame
            if connective and connective.timeless
            else _affordable(frame, shares[i]),
        )
    return drawn


def _main(rng: Random, previous: Connective | None, following: Frame | None) -> Frame:
    """Draw a main clause: mostly in the tense of the next one, as the subordinate clause before it
    allows.
    """
    led_by = previous.english if previous and previous.subordinate else ""
    tense = (
        following.tense
        if following and rng.random() < 0.6
        else rng.choices(TENSES, (40, 35, 25))[0]
    )
    if led_by == "if" and tense == "past":
        tense = rng.choice(("present", "future"))
    simple = led_by in ("if", "after", "before") or (
        led_by == "when" and tense == "present"
    )
    return _negated(rng, Frame(tense, not simple and rng.random() < 0.3), 0.25)


def _negated(rng: Random, frame: Frame, share: float) -> Frame:
    """Negate a share of frames: with 지 않다 or with 안, and some of the simple past and present
    with 못.
    """
    if rng.random() >= share:
        return frame
    able = not frame.progressive and frame.tense != "future" and rng.random() < 0.25
    return Frame(frame.tense, frame.progressive, True, rng.random() < 0.5, able)


def _subordinate(rng: Random, connective: Connective, main: Frame) -> Frame:
    """Draw a subordinate clause; in English it has no future of its own: "when he comes, I will
    go".
    """
    same = "past" if main.tense == "past" else "present"
    if connective.timeless:
        return Frame(same, connective.english == "while")
    if connective.english == "because":
        earlier = {"past": ("past",), "present": ("past", "present"), "future": TENSES}[
            main.tense
        ]
        return _negated(rng, Frame(rng.choice(earlier), rng.random() < 0.25), 0.25)
    return _negated(
        rng,
        Frame("present" if connective.english == "if" else same, rng.random() < 0.2),
        0.2,
    )


def _affordable(frame: Frame, share: int) -> Frame:
    """Drop negation, aspect or tense if their auxiliaries leave too few words for the clause."""
    for cheaper in (
        frame,
        Frame(frame.tense, frame.progressive),
        Frame(frame.tense),
        Frame("present"),
    ):
        if share >= 2 + _auxiliaries(cheaper):
            return cheaper
    return Frame("present")


def _auxiliaries(frame: Frame) -> int:
    """Count the English words before the verb: none in "eats", one in "is eating" or "didn't
    eat".
    """
    auxiliary = frame.tense == "future" or (frame.negative and not frame.progressive)
    return auxiliary + frame.progressive + (frame.negative and not frame.short)
