"""Train or resume the model of a demonstration, choose its alignment head, and report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from regard.common.arguments import Report
from regard.common.version import __version__
from regard.model_folder import save_alignment
from regard.pipeline import AlignmentChoice, Captioner, FolderTranslator
from regard.run import Interrupted, train
from regard.training import Recipe
from regard.visualisation import Meta

P = TypeVar("P", Captioner, FolderTranslator)


@dataclass(frozen=True)
class Output:
    """Functions through which a demonstration reports results, progress, and training events."""

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
    """Train by a recipe, or resume the run in `folder`; return the model with its alignment head.

    `choose` selects the head, which is stored in the folder. Raises Interrupted if the training was
    stopped.
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
    """Return the metadata for a page that shows the model's attention."""
    return Meta(
        facts={
            **facts,
            "decoding": model.engine.describe(),
            "drawn by": f"regard {__version__}",
        }
    )
