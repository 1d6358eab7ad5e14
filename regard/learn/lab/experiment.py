"""Experiment: a claim of the notes, and the function that tries it on a bench."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regard.common.bilingual import Text, Texts, read_texts
from regard.learn.lab.bench import Bench
from regard.learn.lab.findings import Findings


@dataclass(frozen=True)
class Experiment:
    """An experiment: its name, the claim in a sentence, its place in the notes, the method and what
    it cannot show.
    """

    name: str
    title: Text
    claim: Text
    source: str
    method: Text
    caveats: Text
    run: Callable[[Bench], Findings]


def experiment_texts(name: str, *own: str) -> Texts:
    """Read the texts of an experiment, in NAME.toml: those that every experiment has, and its `own`
    keys.
    """
    common = ("source", "title", "claim", "method", "caveats")
    return read_texts("regard.learn.lab.experiments", f"{name}.toml", (*common, *own))
