"""Finding the weights: a recipe, a loss, a schedule, a loop, and going on after a stop."""

from regard.training.distributed import World
from regard.training.loop import Outcome, Progress, Trainer
from regard.training.recipe import Recipe, TrainingSettings, preset, presets

__all__ = ["Outcome", "Progress", "Recipe", "Trainer", "TrainingSettings", "World", "preset", "presets"]
