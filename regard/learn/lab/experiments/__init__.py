"""Experiments of the lab: a Python module for each, and a TOML file with its texts.

A new experiment is added to one of the lists below.
"""

from __future__ import annotations

from importlib import import_module

from regard.learn.lab.experiment import Experiment

_RECURRENT = (
    "dictionary",
    "attention",
    "bottleneck",
    "directions",
    "reach",
    "teacher_forcing",
    "score",
    "captions",
)
_TRANSFORMER = (
    "scaling",
    "heads",
    "positions",
    "mask",
    "norm",
    "residual",
    "warmup",
    "failures",
    "costs",
)


def _experiment(name: str) -> Experiment:
    """Make the experiment of a module from its texts and its function `run`."""
    module = import_module(f"{__name__}.{name}")
    texts = {
        key: module.TEXTS[key]
        for key in ("title", "claim", "scope", "method", "caveats")
    }
    return Experiment(
        name.replace("_", "-"),
        source=module.TEXTS["source"].en,
        run=module.run,
        **texts,
    )


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in map(_experiment, _RECURRENT + _TRANSFORMER)
}
"""Experiments by name."""
