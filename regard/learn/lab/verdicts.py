"""Judge the parts of a claim by scores with one value for each seed (`Dots`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from regard.common.bilingual import Text, Words
from regard.learn.lab.findings import LABELS, OUTCOMES, Outcome, Part
from regard.learn.lab.sweep import Dots

LEAST = 1.0
"""Smallest difference that counts, for scores from 0 to 100."""
STEPS = 3
"""Number of further learning rates that must not be able to close a gap.

Each further rate is assumed to gain as much as the last one did.
"""
POWER = 15.7
"""2 (1.96 + 0.84)²: seeds of each arm that show a difference of one standard deviation at the 5 %
level with a power of 80 %.
"""


def above(
    high: Dots, low: Dots, claim: Text, least: float = LEAST, digits: int = 1
) -> Part:
    """Judge the claim that one arm scores higher than another.

    It holds if each seed of one arm is above each seed of the other and their means differ by at
    least `least`; with three seeds each, chance alone does that once in twenty times. It is
    undecided if the scores overlap, if there is one seed, or if the worse arm was best at the last
    learning rate tried and further rates could close the gap.
    """
    difference = high.mean - low.mean
    worse, better = (low, high) if difference > 0 else (high, low)
    gap = min(better.values) - max(worse.values)
    values: dict[str, Words | float] = {
        "high_name": high.name,
        "low_name": low.name,
        "rate": worse.rate,
        "high": f"{high:{digits}}",
        "low": f"{low:{digits}}",
        "least": f"{least:g}",
        "worse": worse.name,
        "better": better.name,
        "gap": f"{max(0.0, gap):.{digits}f}",
    }

    if min(len(high.values), len(low.values)) < 2:
        return _part("undecided", "one_seed", claim, values)
    if gap > 0 and abs(difference) >= least:
        if worse.gain is not None and STEPS * worse.gain >= gap:
            return _part("undecided", "edge", claim, values)
        outcome: Outcome = "holds" if difference > 0 else "contradicted"
        return _part(outcome, "apart", claim, values)
    all_values = high.values + low.values
    if max(all_values) - min(all_values) < least:
        return _part("contradicted", "same", claim, values)

    seeds = _seeds_needed(high, low)
    many = seeds > 100
    values["seeds"] = LABELS["many"] if many else str(max(seeds, len(high.values) + 1))
    return _part("undecided", "overlap", claim, values)


def _seeds_needed(high: Dots, low: Dots) -> int:
    """Estimate the seeds of each arm that would show the difference of the means."""
    difference = high.mean - low.mean
    if not difference:
        return 1000
    variance = (_variance(high.values) + _variance(low.values)) / 2
    return math.ceil(POWER * variance / max(difference**2, 1e-9))


def beyond(
    dots: Dots,
    bound: float,
    claim: Text,
    is_above: bool = True,
    digits: int = 2,
    change: Literal["", "computed", "timed"] = "",
) -> Part:
    """Judge the claim that a measure is above a bound, or below it.

    The claim holds if all seeds agree with it, and is contradicted if none does. Without seeds,
    `change` is the kind of the measure: "computed" or "timed".
    """
    count = sum((value > bound) == is_above for value in dots.values)
    outcome: Outcome = "undecided"
    if count == len(dots.values):
        outcome = "holds"
    elif count == 0:
        outcome = "contradicted"

    nearest = min(dots.values, key=lambda value: abs(value - bound))
    values: dict[str, Words | float] = {
        "measure": dots.name,
        "dots": f"{dots:{digits}}",
        "bound": f"{bound:g}",
        "nearest": f"{nearest:.{digits}f}",
        "count": count,
        "all": len(dots.values),
    }
    kind = "above" if is_above else "below"
    reason = f"one_{kind}" if len(dots.values) < 2 else kind
    return _part(outcome, reason, claim, values, change or kind)


def despite_shifts(part: Part, outcomes: Sequence[Outcome]) -> Part:
    """Make a part undecided if its outcome differed with halved or with doubled learning rates.

    `outcomes` are those with halved and with doubled rates.
    """
    if part.outcome == "undecided" or all(o == part.outcome for o in outcomes):
        return part
    half, double = (OUTCOMES[f"part_{outcome}"] for outcome in outcomes)
    reason = LABELS["shifted"].fill(reason=part.reason, half=half, double=double)
    return Part("undecided", part.claim, reason, LABELS.table("changes")["shifted"])


def _part(
    outcome: Outcome,
    kind: str,
    claim: Text,
    values: Mapping[str, Words | float],
    change: str = "",
) -> Part:
    """Make a part with the reason of this kind of outcome, and the change of the same kind, or of
    another.
    """
    reason = LABELS.table("reasons")[kind].fill(**values)
    changes = LABELS.table("changes")[change or kind]
    return Part(outcome, claim, reason, changes.fill(**values))


def _variance(values: Sequence[float]) -> float:
    """Return the unbiased sample variance; 0 for one value."""
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
