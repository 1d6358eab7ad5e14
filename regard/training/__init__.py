"""Training: from a recipe and batches to trained weights, with checkpoints that resume bit for bit.

`compose_recipe` makes a `Recipe`. `Trainer` is the training loop: a `Prefetcher` loads the updates,
`Updater` accumulates the gradients of their micro-batches with `GradientWorkers` (`Objective` is
the loss) and steps the optimizer, and `MovingAverage` follows the weights. The trainer validates
and writes the `Journal` and `Checkpoints`. `distributed` runs it in several processes, and `budget`
chooses a model size. `regard.train` puts all of this together.
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

# oneDNN and PyTorch cache a program for each of the last 1,024 shapes of matrix products. Batches
# have so many shapes that few programs are used again, and they take a gigabyte. The variables are
# read at the first product; values that the user has set are kept.
for _cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_cache, "64")
