"""Finding the weights: a recipe, a loss, a schedule, a loop, and going on after a stop."""

import os

from regard.training.distributed import World
from regard.training.recipe import Recipe, TrainingSettings, preset, presets
from regard.training.trainer import Outcome, Progress, Trainer

__all__ = ["Outcome", "Progress", "Recipe", "Trainer", "TrainingSettings", "World", "preset", "presets"]

# oneDNN and PyTorch keep a program for each shape of a matrix product, the last 1,024 of them. Batches have shapes
# without end, so few are asked for again, and they take a gigabyte. Read at the first product; the user's values hold.
for _cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_cache, "64")
