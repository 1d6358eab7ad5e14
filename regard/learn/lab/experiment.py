"""Experiment: a claim of the notes, and the function that tries it on a bench."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench
from regard.learn.lab.findings import Findings


@dataclass(frozen=True)
class Experiment:
    """An experiment: its name, the claim in a sentence, where the notes make it, and what is done.

    `minutes`: how long it takes at most on two processor cores, quick and full.
    """

    name: str
    title: Text
    claim: Text
    source: str
    method: Text
    run: Callable[[Bench], Findings]
    minutes: tuple[int | float, int | float] = (3, 10)
