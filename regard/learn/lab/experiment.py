"""Experiment: a claim of the notes, and the function that tests it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regard.common.bilingual import Text, Texts, read_texts
from regard.learn.lab.bench import Bench
from regard.learn.lab.findings import Findings


@dataclass(frozen=True)
class Experiment:
    """An experiment: its texts, and the function that runs it on a bench."""

    name: str
    title: Text
    claim: Text
    source: str  # place of the claim in the notes
    scope: Text  # the models and measures that the verdict is about
    method: Text
    caveats: Text  # limits of what the experiment can show
    run: Callable[[Bench], Findings]


def experiment_texts(name: str, *keys: str) -> Texts:
    """Read the texts of an experiment from NAME.toml.

    `keys` are the keys that it has besides those that every experiment has.
    """
    common = ("source", "title", "claim", "scope", "method", "caveats")
    return read_texts("regard.learn.lab.experiments", f"{name}.toml", (*common, *keys))
