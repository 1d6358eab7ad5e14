"""Experiments: one file each, which reads like its description. Add one here."""

from __future__ import annotations

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
EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (*_RECURRENT, *_TRANSFORMER)
}
