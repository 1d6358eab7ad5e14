"""Training: from a recipe and batches to trained weights, with checkpoints that resume bit for bit.

`compose_recipe` makes a `Recipe`; `Trainer` takes `Prefetcher`ed updates, whose micro-batches
`Updater` accumulates with `GradientWorkers` (`Objective` is the loss) before each step of the
optimizer and of the `MovingAverage`; it validates, writes the journal and `Checkpoints`.
`distributed` runs it in several processes, `budget` chooses a model size. `regard.train` puts all
of it together.
"""

import os

from regard.training.distributed import World
from regard.training.recipe import Recipe, TrainingSettings, preset, presets
from regard.training.trainer import Outcome, Progress, Trainer

__all__ = [
    "Outcome",
    "Progress",
    "Recipe",
    "Trainer",
    "TrainingSettings",
    "World",
    "preset",
    "presets",
]

# oneDNN and PyTorch cache a program for each shape of a matrix product, the last 1,024 of them.
# Batches have endless shapes, so that few are used again, and they take a gigabyte. Read at the
# first product; the user's values hold.
for _cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_cache, "64")
