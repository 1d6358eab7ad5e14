"""Figures of a training run: learning curve, learning-rate schedule and positional encodings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import ModelFolderError, UsageError

if TYPE_CHECKING:
    from regard.visualisation import Chart, Figure, Series

RUN_VIEWS = ("curve", "schedule", "positions")
MAX_POSITIONS = 100


def draw_run(run: Path, view: str) -> Chart | Figure:
    """Return one of RUN_VIEWS. Raises ModelFolderError if the run folder lacks the file it is drawn from."""
    if view == "positions":
        return _positions(run)
    return _learning_curve(run) if view == "curve" else _schedule(run)


def _learning_curve(run: Path) -> Chart:
    """Training and validation loss above, validation scores below, against updates."""
    from regard.reading import check_links
    from regard.training.journal import read
    from regard.visualisation import Chart, Panel

    path = run / "journal.jsonl"
    check_links(run, path.name)
    if not path.is_file():
        raise ModelFolderError(f"{path}: missing, so there is no learning curve; give a folder of `regard train`")
    events = read(path)
    train = [event for event in events if event.get("event") == "train"]
    valid = [event for event in events if event.get("event") == "valid"]
    losses = (("training", train, "cross_entropy"), ("validation", valid, "loss"), ("guided", train, "guided"))
    scores = (("chrF", valid, "chrf"), ("BLEU", valid, "bleu"), ("CIDEr-D", valid, "cider"))
    panels = [
        Panel(title, "updates", tuple(line for source in sources for line in _series(*source)))
        for title, sources in (("loss in nats per token", losses), ("validation score", scores))
    ]
    return Chart(f"Learning curve of {run.name}", tuple(panel for panel in panels if panel.series))


def _series(name: str, events: list[dict[str, Any]], key: str) -> list[Series]:
    """Return the finite values of a journal key against updates, or nothing if there are none."""
    from regard.visualisation import Series

    values = [(event["update"], event[key]) for event in events if event.get(key) is not None]
    points = [(float(update), float(value)) for update, value in values if abs(value) < 1e300]
    return [Series(name, tuple(points))] if points else []


def _schedule(run: Path) -> Chart:
    """The learning rate at each update: up during warm-up, then down."""
    from regard.model_folder import load_folder
    from regard.reading import check_links
    from regard.settings import read_toml
    from regard.training.recipe import Recipe
    from regard.training.schedule import learning_rate
    from regard.visualisation import Chart, Panel, Series

    path = run / "train.toml"
    check_links(run, path.name)
    if not path.is_file():
        raise ModelFolderError(f"{path}: missing, so the schedule is unknown; give a folder of `regard train`")
    recipe = Recipe.parse(read_toml(path), str(path))
    schedule, size = recipe.schedule, load_folder(run).model.decoder.output.weight.shape[1]
    last = recipe.training.updates or 10 * schedule.warmup
    updates = sorted({max(1, round(last * n / 400)) for n in range(401)} | {min(last, schedule.warmup)})
    points = tuple((float(update), learning_rate(schedule, update, size)) for update in updates)
    caption = f"{schedule.kind.replace('_', ' ')}, warm-up of {schedule.warmup:,} updates"
    panel = Panel("learning rate", "updates", (Series("learning rate", points),))
    return Chart("Learning rate", (panel,), caption)


def _positions(run: Path) -> Figure:
    """Sinusoidal encodings, or learned position embeddings up to the longest training sentence."""
    import torch

    from regard.layers.positions import LearnedPositions, SinusoidalPositions, sinusoids
    from regard.model_folder import load_folder
    from regard.visualisation.positions import layout_learned_positions, layout_sinusoids

    loaded = load_folder(run)
    modules = [(side, part) for side in ("encoder", "decoder") for part in getattr(loaded.model, side).modules()]
    for _, module in modules:
        if isinstance(module, SinusoidalPositions):
            encoding = sinusoids(torch.arange(MAX_POSITIONS)[None], module.size)[0].numpy()
            return layout_sinusoids(encoding, f"Sinusoidal positional encoding, {module.size} dimensions")
    rows = min(MAX_POSITIONS, loaded.settings.search.longest_source or MAX_POSITIONS)
    embeddings = [(side, m.weight.detach()[:rows].numpy()) for side, m in modules if isinstance(m, LearnedPositions)]
    if not embeddings:
        raise UsageError("this model has no positional encoding: its layers know the order of tokens without one")
    return layout_learned_positions(embeddings, f"Learned position embeddings of {run.name}")
