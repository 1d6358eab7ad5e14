"""Pictures of a run as a whole: what it learnt, how its learning rate went, and how it tells positions apart."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import ModelFolderError, UsageError

if TYPE_CHECKING:
    from regard.visualisation import Chart
    from regard.visualisation.layout import Figure

__all__ = ["RUN_VIEWS", "draw_run"]

RUN_VIEWS = ("curve", "schedule", "positions")
POSITIONS = 100


def draw_run(run: Path, view: str) -> Chart | Figure:
    """One of RUN_VIEWS. Raises ModelFolderError where the run folder does not hold what it shows."""
    if view == "positions":
        return _positions(run)
    return _curve(run) if view == "curve" else _schedule(run)


def _curve(run: Path) -> Chart:
    """Losses of training and validation above, validation scores below, against updates."""
    from regard.training.journal import read
    from regard.visualisation import Chart, Series

    path = run / "journal.jsonl"
    if not path.is_file():
        raise ModelFolderError(
            f"{path}: missing, so nobody knows what was learnt when; give a folder of `regard train`"
        )
    events = read(path)
    train = [each for each in events if each.get("event") == "train"]
    valid = [each for each in events if each.get("event") == "valid"]

    def trace(name: str, some: list[dict[str, Any]], key: str) -> tuple[Series, ...]:
        points = tuple((float(each["update"]), float(each[key])) for each in some if each.get(key) is not None)
        points = tuple(point for point in points if math.isfinite(point[1]))
        return (Series(name, points),) if points else ()

    panels = [
        (
            "loss in nats per piece",
            trace("training", train, "entropy") + trace("validation", valid, "loss") + trace("guided", train, "guided"),
        ),
        (
            "validation score",
            trace("chrF", valid, "chrf") + trace("BLEU", valid, "bleu") + trace("CIDEr-D", valid, "cider"),
        ),
    ]
    return Chart(f"Learning curve of {run.name}", "updates", tuple(panel for panel in panels if panel[1]))


def _schedule(run: Path) -> Chart:
    """The learning rate of each update: up in the warm-up, then down."""
    from regard.model_folder import load_folder
    from regard.settings import read_toml
    from regard.training.recipe import Recipe
    from regard.training.schedule import learning_rate
    from regard.visualisation import Chart, Series

    path = run / "train.toml"
    if not path.is_file():
        raise ModelFolderError(f"{path}: missing, so the schedule is not known; give a folder of `regard train`")
    recipe = Recipe.parse(read_toml(path), str(path))
    schedule, size = recipe.schedule, load_folder(run).model.decoder.output.weight.shape[1]
    last = recipe.training.updates or 10 * schedule.warmup
    updates = sorted({max(1, round(last * n / 400)) for n in range(401)} | {min(last, schedule.warmup)})
    points = tuple((float(update), learning_rate(schedule, update, size)) for update in updates)
    caption = f"{schedule.kind.replace('_', ' ')}, warm-up of {schedule.warmup:,} updates"
    return Chart("Learning rate", "updates", (("rate", (Series("rate", points),)),), caption)


def _positions(run: Path) -> Figure:
    """What is added to the embeddings: waves, or the vectors that were learnt, as far as training sentences reached."""
    import torch

    from regard.layers.positions import LearnedPositions, SinusoidalPositions, sinusoids
    from regard.model_folder import load_folder
    from regard.visualisation.charts import layout_places, layout_positions

    found = load_folder(run)
    modules = {side: [*getattr(found.model, side).modules()] for side in ("encoder", "decoder")}
    for wave in (part for parts in modules.values() for part in parts if isinstance(part, SinusoidalPositions)):
        waves = sinusoids(torch.arange(POSITIONS)[None], wave.size)[0].numpy()
        return layout_positions(waves, f"Sinusoidal positional encoding, {wave.size} dimensions")
    rows = min(POSITIONS, found.settings.search.longest_source or POSITIONS)
    places = [(side, part) for side, parts in modules.items() for part in parts if isinstance(part, LearnedPositions)]
    if not places:
        raise UsageError("this model adds nothing for positions: it knows order by itself, or not at all")
    tables = [(side, part.weight.detach()[:rows].numpy()) for side, part in places]
    return layout_places(tables, f"Learnt positions of {run.name}")
