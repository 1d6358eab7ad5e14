"""Experiments: one file each, which reads like its description, and one with its texts. Add one here."""

from __future__ import annotations

from types import ModuleType

from regard.learn.lab.experiment import Experiment
from regard.learn.lab.experiments import (
    attention,
    bottleneck,
    captions,
    costs,
    dictionary,
    directions,
    heads,
    mask,
    norm,
    positions,
    reach,
    residual,
    scaling,
    score,
    teacher_forcing,
    warmup,
)

_RECURRENT = (dictionary, attention, bottleneck, directions, reach, teacher_forcing, score, captions)
_TRANSFORMER = (scaling, heads, positions, mask, norm, residual, warmup, costs)


def _experiment(module: ModuleType) -> Experiment:
    """Return the experiment of a module: its texts and its function."""
    name, texts = module.__name__.rpartition(".")[2].replace("_", "-"), module.TEXTS
    return Experiment(name, texts["title"], texts["claim"], texts["source"].en, texts["method"], module.run)


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in map(_experiment, (*_RECURRENT, *_TRANSFORMER))
}
"""Experiments by name."""
