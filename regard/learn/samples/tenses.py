"""Draw tense, aspect and polarity of the clauses of a sentence so that they are consistent."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from regard.learn.samples.derivation import Frame
from regard.learn.samples.lexicon import Connective

TENSES = ("past", "present", "future")


def frames(
    rng: Random, connectives: Sequence[Connective], shares: Sequence[int]
) -> list[Frame]:
    """Draw a frame for each clause that fits into its number of English words (`shares`).

    Frames are drawn from the last clause to the first, since a clause depends on the one after it.
    """
    drawn: list[Frame] = []
    for i in reversed(range(len(shares))):
        connective = connectives[i] if i < len(connectives) else None
        following = drawn[0] if drawn else None
        if connective and connective.subordinate and following:
            frame = _subordinate(rng, connective, following)
        else:
            frame = _main(rng, connectives[i - 1] if i else None, following)
        # Korean marks no aspect before a timeless connective, so the English aspect must not depend
        # on the number of words.
        if not (connective and connective.timeless):
            frame = _affordable(frame, shares[i])
        drawn.insert(0, frame)
    return drawn


def _main(rng: Random, previous: Connective | None, following: Frame | None) -> Frame:
    """Draw the frame of a main clause.

    It mostly has the tense of the clause that follows. The subordinate clause before it may exclude
    the past or the progressive.
    """
    conjunction = previous.english if previous and previous.subordinate else ""
    if following and rng.random() < 0.6:
        tense = following.tense
    else:
        tense = rng.choices(TENSES, (40, 35, 25))[0]
    if conjunction == "if" and tense == "past":
        tense = rng.choice(("present", "future"))

    simple = conjunction in ("if", "after", "before")
    if conjunction == "when" and tense == "present":
        simple = True
    return _negated(rng, Frame(tense, not simple and rng.random() < 0.3), 0.25)


def _negated(rng: Random, frame: Frame, share: float) -> Frame:
    """Negate a frame with probability `share`.

    The negation is long (지 않다) or short (안); in the simple past and present it may be of
    ability (못).
    """
    if rng.random() >= share:
        return frame
    able = not frame.progressive and frame.tense != "future" and rng.random() < 0.25
    return Frame(frame.tense, frame.progressive, True, rng.random() < 0.5, able)


def _subordinate(rng: Random, connective: Connective, main: Frame) -> Frame:
    """Draw the frame of a subordinate clause.

    Except after "because", English has the present for the future: "when he comes, I will go".
    """
    tense = "past" if main.tense == "past" else "present"
    if connective.timeless:
        return Frame(tense, connective.english == "while")

    if connective.english == "because":
        earlier_tenses = {
            "past": ("past",),
            "present": ("past", "present"),
            "future": TENSES,
        }
        tense = rng.choice(earlier_tenses[main.tense])
        return _negated(rng, Frame(tense, rng.random() < 0.25), 0.25)

    if connective.english == "if":
        tense = "present"
    return _negated(rng, Frame(tense, rng.random() < 0.2), 0.2)


def _affordable(frame: Frame, share: int) -> Frame:
    """Drop negation, aspect or tense if their auxiliaries leave too few words for the clause."""
    candidates = (frame, Frame(frame.tense, frame.progressive), Frame(frame.tense))
    for candidate in candidates:
        if share >= 2 + _count_auxiliaries(candidate):
            return candidate
    return Frame("present")


def _count_auxiliaries(frame: Frame) -> int:
    """Count the English words before the verb: 0 in "eats", 1 in "is eating" or "didn't eat"."""
    has_will_or_do = frame.tense == "future" or (
        frame.negative and not frame.progressive
    )
    has_not = frame.negative and not frame.short
    return has_will_or_do + frame.progressive + has_not
