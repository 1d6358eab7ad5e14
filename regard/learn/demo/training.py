"""Training of the demonstrations, or its continuation, with the choice of a head, and what they
print and draw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from regard.common.version import __version__
from regard.model_folder import save_alignment
from regard.pipeline import AlignmentChoice, Captioner, FolderTranslator
from regard.run import Interrupted, train
from regard.training import Recipe
from regard.training.journal import Report
from regard.visualisation import Meta

P = TypeVar("P", Captioner, FolderTranslator)


@dataclass(frozen=True)
class Output:
    """Output functions of a demonstration: for results, for messages about progress, and for events
    of training.
    """

    result: Callable[[str], None]
    message: Callable[[str], None]
    event: Report


def train_with_head(
    recipe: Recipe,
    folder: Path,
    device: str,
    output: Output,
    load: Callable[[Path, str], P],
    choose: Callable[[P], AlignmentChoice],
) -> P:
    """Train by this recipe, or resume the run in `folder`; store the head that is chosen, and load
    the model with it.

    Raises Interrupted.
    """
    resume = (folder / "journal.jsonl").exists()
    outcome = train(
        recipe, out=folder, resume=resume, device=device, report=output.event
    ).outcome
    if outcome.stopped is not None:
        raise Interrupted(outcome.stopped)
    save_alignment(folder, asdict(choose(load(folder, device))))
    return load(folder, device)


def page_meta(model: Captioner | FolderTranslator, **facts: str) -> Meta:
    """Return the facts on a page of the model's attention."""
    return Meta(
        facts={
            **facts,
            "decoding": model.engine.describe(),
            "drawn by": f"regard {__version__}",
        }
    )
