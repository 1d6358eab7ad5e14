"""Figures of a run as a whole: learning curve, learning-rate schedule, positional encoding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import ModelFolderError, UsageError

if TYPE_CHECKING:
    from regard.visualisation import Chart, Series
    from regard.visualisation.layout import Figure

__all__ = ["RUN_VIEWS", "draw_run"]

RUN_VIEWS = ("curve", "schedule", "positions")
POSITIONS = 100


def draw_run(run: Path, view: str) -> Chart | Figure:
    """Draw one of RUN_VIEWS. Raises ModelFolderError if the run folder lacks the file that it comes from."""
    if view == "positions":
        return _positions(run)
    return _curve(run) if view == "curve" else _schedule(run)


def _curve(run: Path) -> Chart:
    """Draw training and validation losses above, validation scores below, against updates."""
    from regard.training.journal import read
    from regard.visualisation import Chart

    path = run / "journal.jsonl"
    if not path.is_file():
        raise ModelFolderError(f"{path}: missing, and the learning curve is in it; give a folder of `regard train`")
    events = read(path)
    train = [event for event in events if event.get("event") == "train"]
    valid = [event for event in events if event.get("event") == "valid"]
    losses = _series("training", train, "cross_entropy") + _series("validation", valid, "loss")
    losses += _series("guided", train, "guided")
    scores = _series("chrF", valid, "chrf") + _series("BLEU", valid, "bleu") + _series("CIDEr-D", valid, "cider")
    panels = (("loss in nats per token", losses), ("validation score", scores))
    return Chart(f"Learning curve of {run.name}", "updates", tuple(panel for panel in panels if panel[1]))


def _series(name: str, events: Sequence[dict[str, Any]], key: str) -> tuple[Series, ...]:
    """Return the values of a journal key against updates as a line, or nothing if no event has it."""
    from regard.visualisation import Series

    points = tuple((float(event["update"]), float(event[key])) for event in events if event.get(key) is not None)
    points = tuple(point for point in points if math.isfinite(point[1]))
    return (Series(name, points),) if points else ()


def _schedule(run: Path) -> Chart:
    """Draw the learning rate against updates: up in the warm-up, then down."""
    from regard.model_folder import load_folder
    from regard.settings import read_toml
    from regard.training.recipe import Recipe
    from regard.training.schedule import learning_rate
    from regard.visualisation import Chart, Series

    path = run / "train.toml"
    if not path.is_file():
        raise ModelFolderError(f"{path}: missing, and the schedule is in it; give a folder of `regard train`")
    recipe = Recipe.parse(read_toml(path), str(path))
    schedule, size = recipe.schedule, load_folder(run).model.decoder.output.weight.shape[1]
    last = recipe.training.updates or 10 * schedule.warmup
    updates = sorted({max(1, round(last * n / 400)) for n in range(401)} | {min(last, schedule.warmup)})
    points = tuple((float(update), learning_rate(schedule, update, size)) for update in updates)
    caption = f"{schedule.kind.replace('_', ' ')}, warm-up of {schedule.warmup:,} updates"
    return Chart("Learning rate", "updates", (("rate", (Series("rate", points),)),), caption)


def _positions(run: Path) -> Figure:
    """Draw the positional encoding: sinusoids, or the learned vectors up to the longest source in training."""
    import torch

    from regard.layers.positions import LearnedPositions, SinusoidalPositions, sinusoids
    from regard.model_folder import load_folder
    from regard.visualisation.charts import layout_places, layout_positions

    folder = load_folder(run)
    modules = [(side, module) for side in ("encoder", "decoder") for module in getattr(folder.model, side).modules()]
    for _, module in modules:
        if isinstance(module, SinusoidalPositions):
            waves = sinusoids(torch.arange(POSITIONS)[None], module.size)[0].numpy()
            return layout_positions(waves, f"Sinusoidal positional encoding, {module.size} dimensions")
    rows = min(POSITIONS, folder.settings.search.longest_source or POSITIONS)
    tables = [
        (side, module.weight.detach()[:rows].numpy())
        for side, module in modules
        if isinstance(module, LearnedPositions)
    ]
    if not tables:
        raise UsageError("this model has no positional encoding: its order comes from recurrence, or it has none")
    return layout_places(tables, f"Learned positions of {run.name}")
