"""Train one model of a demonstration, or resume its training; what it prints goes through `Output`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.training import Recipe
    from regard.training.journal import Report


@dataclass(frozen=True)
class Output:
    """Output functions of a demonstration: for results, for messages about progress, and for events of training."""

    result: Callable[[str], None]
    message: Callable[[str], None]
    event: Report


def train_model(recipe: Recipe, folder: Path, device: str, output: Output) -> None:
    """Train by this recipe, or resume the run in `folder`. Raises Interrupted."""
    from regard.run import Interrupted, train

    resume = (folder / "journal.jsonl").exists()
    outcome = train(recipe, out=folder, resume=resume, device=device, report=output.event).outcome
    if outcome.stopped is not None:
        raise Interrupted(outcome.stopped)
