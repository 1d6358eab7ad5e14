"""Verdicts on the parts of a claim, from dots: one number for each seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from regard.common.bilingual import Text, Words
from regard.learn.lab.findings import LABELS, OUTCOMES, Outcome, Part
from regard.learn.lab.sweep import Dots

LEAST = 1.0
"""Smallest difference of a score from 0 to 100 that counts."""
STEPS = 3
"""So many further rates, each with the gain of the last, would have to close a gap before it counts
as open.
"""
POWER = 15.7
"""2 (1.96 + 0.84)²: seeds for each arm that show a difference of one standard deviation in four of
five trials.
"""


def above(
    high: Dots, low: Dots, claim: Text, least: float = LEAST, digits: int = 1
) -> Part:
    """Judge the claim that one arm scores higher than another.

    It holds if each seed of the one is above each of the other, and their means are `least` apart;
    of three seeds against three, chance does that once in twenty times. It is undecided where dots
    overlap, with one seed, and if the worse arm was best at the last rate tried, by a gain that
    could close the gap.
    """
    gaps = {
        True: min(high.values) - max(low.values),
        False: min(low.values) - max(high.values),
    }
    difference = high.mean - low.mean
    worse, better = (low, high) if difference > 0 else (high, low)
    values: dict[str, Words | float] = {
        "high_name": high.name,
        "low_name": low.name,
        "rate": worse.rate,
    }
    values |= {
        "high": f"{high:{digits}}",
        "low": f"{low:{digits}}",
        "least": f"{least:g}",
    }
    values |= {"worse": worse.name, "better": better.name}
    gap = gaps[difference > 0]
    values["gap"] = f"{max(0.0, gap):.{digits}f}"
    spread = max(high.values + low.values) - min(high.values + low.values)
    if min(len(high.values), len(low.values)) < 2:
        return _part("undecided", "one_seed", claim, values)
    if gap > 0 and abs(difference) >= least:
        if worse.gain is not None and STEPS * worse.gain >= gap:
            return _part("undecided", "edge", claim, values)
        return _part(
            "holds" if difference > 0 else "contradicted", "apart", claim, values
        )
    if spread < least:
        return _part("contradicted", "same", claim, values)
    variance = (_variance(high.values) + _variance(low.values)) / 2
    seeds = (
        math.ceil(POWER * variance / max(difference**2, 1e-9)) if difference else 1000
    )
    values["seeds"] = (
        LABELS["many"] if seeds > 100 else str(max(seeds, len(high.values) + 1))
    )
    return _part("undecided", "overlap", claim, values)


def beyond(
    dots: Dots, bound: float, claim: Text, is_above: bool = True, digits: int = 2
) -> Part:
    """Judge the claim that a measure is above a bound (or below it): in each seed, in none, or in
    some.
    """
    count = sum((value > bound) == is_above for value in dots.values)
    outcome: Outcome = (
        "undecided"
        if 0 < count < len(dots.values)
        else "holds"
        if count
        else "contradicted"
    )
    nearest = min(dots.values, key=lambda value: abs(value - bound))
    values: dict[str, Words | float] = {
        "measure": dots.name,
        "dots": f"{dots:{digits}}",
        "bound": f"{bound:g}",
    }
    values |= {
        "nearest": f"{nearest:.{digits}f}",
        "count": count,
        "all": len(dots.values),
    }
    return _part(
        outcome,
        ("one_" if len(dots.values) < 2 else "") + ("above" if is_above else "below"),
        claim,
        values,
    )


def despite_shifts(part: Part, outcomes: Sequence[Outcome]) -> Part:
    """Call a part undecided if it came out otherwise when all learning rates were halved, or
    doubled.
    """
    if part.outcome == "undecided" or {*outcomes} <= {part.outcome}:
        return part
    half, double = (OUTCOMES[f"part_{outcome}"] for outcome in outcomes)
    reason = LABELS["shifted"].fill(reason=part.reason, half=half, double=double)
    return Part("undecided", part.claim, reason, LABELS.table("changes")["shifted"])


def _part(
    outcome: Outcome, kind: str, claim: Text, values: Mapping[str, Words | float]
) -> Part:
    reasons = LABELS.table("reasons")
    changes = LABELS.table("changes")
    return Part(
        outcome, claim, reasons[kind].fill(**values), changes[kind].fill(**values)
    )


def _variance(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
