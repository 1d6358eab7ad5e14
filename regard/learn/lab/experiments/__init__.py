"""Experiments: one file each, which reads like its description, and one with its texts. Add one to
the list here.
"""

from __future__ import annotations

from importlib import import_module

from regard.learn.lab.experiment import Experiment

_RECURRENT = (
    "dictionary attention bottleneck directions reach teacher_forcing score captions"
)
_TRANSFORMER = "scaling heads positions mask norm residual warmup failures costs"


def _experiment(name: str) -> Experiment:
    """Return the experiment of a module: its texts and its function."""
    module = import_module(f"{__name__}.{name}")
    texts = {key: module.TEXTS[key] for key in ("title", "claim", "method", "caveats")}
    return Experiment(
        name.replace("_", "-"),
        source=module.TEXTS["source"].en,
        run=module.run,
        **texts,
    )


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in map(_experiment, f"{_RECURRENT} {_TRANSFORMER}".split())
}
"""Experiments by name."""
