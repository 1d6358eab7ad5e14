"""Figures of a training run: learning curve, learning-rate schedule and positional encodings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from regard.cli.plain_views import MAX_POSITIONS, draw_sinusoids, schedule_line
from regard.common.errors import ModelFolderError, UsageError
from regard.visualisation.language import words

if TYPE_CHECKING:
    from regard.training.journal import JournalEvent
    from regard.visualisation import Chart, Figure, Panel, Series

    _Key = Literal[
        "loss", "cross_entropy", "guided", "chrf", "bleu", "cider", "attention"
    ]
    # Name of a curve, events, and the journal key that is drawn.
    _Curve = tuple[str, list[JournalEvent], _Key]

RUN_VIEWS = ("curve", "schedule", "positions")
LOSS = "loss in nats per token"
ENTROPY = "attention entropy in nats, mean of the layers"
SCORES: dict[str, _Key] = {"chrF": "chrf", "BLEU": "bleu", "CIDEr-D": "cider"}


def draw_run(runs: Sequence[Path], view: str) -> Chart | Figure:
    """Draw one of RUN_VIEWS; a learning curve may show several runs.

    Raises ModelFolderError if a run folder lacks the file that the view reads, and UsageError if
    there are more runs than the view can show.
    """
    from regard.visualisation.colours import SERIES

    if len(runs) > 1 and view != "curve":
        raise UsageError(
            f"--with: only with --view curve; a picture of --view {view} is of one run"
        )
    if len(runs) > SERIES:
        raise UsageError(
            f"--with: a figure has colours for {SERIES} runs, got {len(runs)}; leave some out"
        )
    if view == "positions":
        return _positions(runs[0])
    if view == "schedule":
        return _schedule(runs[0])
    return _learning_curve(runs[0]) if len(runs) == 1 else _learning_curves(runs)


def _learning_curve(run: Path) -> Chart:
    """Draw losses, validation scores and attention entropy of a run against updates, in panels
    below each other.
    """
    from regard.visualisation import Chart

    train, valid = _events(run)
    losses: list[_Curve] = [
        (words("training"), train, "cross_entropy"),
        (words("validation"), valid, "loss"),
        (words("guided"), train, "guided"),
    ]
    scores: list[_Curve] = [(words(name), valid, key) for name, key in SCORES.items()]
    entropy: list[_Curve] = [(words("cross-attention"), valid, "attention")]
    panels = _panels({LOSS: losses, "validation score": scores, ENTROPY: entropy})
    caption = words(
        "Training loss is measured with dropout, validation loss without it: it may be the lower "
        "one."
    )
    title = words("Learning curve of {run}", run=run.name)
    return Chart(title, panels, caption)


def _learning_curves(runs: Sequence[Path]) -> Chart:
    """Draw the learning curves of several runs: a panel for each value, a line for each run."""
    from regard.visualisation import Chart

    train, valid = zip(*map(_events, runs), strict=True)
    names = [run.resolve().name for run in runs]
    if len({*names}) < len(names):  # prefix equal names with their parent folders
        names = ["/".join(run.resolve().parts[-2:]) for run in runs]

    def curves(events_of_runs: Iterable[list[JournalEvent]], key: _Key) -> list[_Curve]:
        return [
            (name, events, key)
            for name, events in zip(names, events_of_runs, strict=True)
        ]

    curves_by_title = {
        "training loss in nats per token": curves(train, "cross_entropy"),
        "validation loss in nats per token": curves(valid, "loss"),
    }
    for name, key in SCORES.items():
        curves_by_title[f"validation {name}"] = curves(valid, key)
    curves_by_title[ENTROPY] = curves(valid, "attention")
    return Chart(words("Learning curves"), _panels(curves_by_title), columns=2)


def _panels(curves_by_title: Mapping[str, Iterable[_Curve]]) -> tuple[Panel, ...]:
    """Return a panel for each title whose curves have values."""
    from regard.visualisation import Panel

    panels = []
    for title, curves in curves_by_title.items():
        series = [series for curve in curves for series in _series(*curve)]
        if series:
            panels.append(Panel(words(title), words("updates"), tuple(series)))
    return tuple(panels)


def _events(run: Path) -> tuple[list[JournalEvent], list[JournalEvent]]:
    """Read the training and the validation events of a run."""
    from regard.common.reading import check_links
    from regard.training.journal import of_kind, read

    path = run / "journal.jsonl"
    check_links(run, path.name)
    if not path.is_file():
        raise ModelFolderError(
            f"{path}: missing, so there is no learning curve; give a folder of `regard train`"
        )
    events = read(path)
    return of_kind(events, "train"), of_kind(events, "valid")


def _series(name: str, events: list[JournalEvent], key: _Key) -> list[Series]:
    """Return a series of the finite values of a journal key against updates, or an empty list if
    there are none.

    "attention" stands for the mean entropy of cross-attention.
    """
    from regard.training.journal import cross_attention_entropy
    from regard.visualisation import Series

    points = []
    for event in events:
        value = cross_attention_entropy(event) if key == "attention" else event.get(key)
        if value is not None and abs(value) < 1e300:
            points.append((float(event["update"]), float(value)))
    return [Series(name, tuple(points))] if points else []


def _schedule(run: Path) -> Chart:
    """Draw the learning rate of a run against updates."""
    from regard.common.reading import check_links
    from regard.common.settings import read_toml
    from regard.model_folder import load_folder
    from regard.training.recipe import Recipe
    from regard.visualisation import Chart, Panel

    path = run / "train.toml"
    check_links(run, path.name)
    if not path.is_file():
        raise ModelFolderError(
            f"{path}: missing, so the schedule is unknown; give a folder of `regard train`"
        )
    recipe = Recipe.parse(read_toml(path), str(path))
    schedule = recipe.schedule
    size = load_folder(run).model.decoder.output.weight.shape[1]
    last = recipe.training.updates or 10 * schedule.warmup
    series = schedule_line(words("learning rate"), schedule, size, last)
    panel = Panel(words("learning rate"), words("updates"), (series,))

    kind = schedule.kind.replace("_", " ")
    updates = f"{schedule.warmup:,}"
    caption = words("{kind}, warm-up of {updates} updates", kind=kind, updates=updates)
    return Chart(words("Learning rate"), (panel,), caption)


def _positions(run: Path) -> Figure:
    """Draw the sinusoidal encoding, or the learned position embeddings up to the longest training
    sentence.
    """
    from regard.layers.positional_encoding import LearnedPositions, SinusoidalPositions
    from regard.model_folder import load_folder
    from regard.visualisation.position_figures import layout_learned_positions

    loaded = load_folder(run)
    modules = [
        (side, module)
        for side in ("encoder", "decoder")
        for module in getattr(loaded.model, side).modules()
    ]
    for _, module in modules:
        if isinstance(module, SinusoidalPositions):
            return draw_sinusoids(module.size)
    rows = min(MAX_POSITIONS, loaded.settings.search.longest_source or MAX_POSITIONS)
    embeddings = [
        (side, module.weight.detach()[:rows].numpy())
        for side, module in modules
        if isinstance(module, LearnedPositions)
    ]
    if not embeddings:
        raise UsageError(
            "this model has no positional encoding: its layers know the order of tokens without one"
        )
    return layout_learned_positions(
        embeddings, words("Learned position embeddings of {run}", run=run.name)
    )
