"""Callbacks of a training, and what they see and change; extensions that a caller brings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.common.arguments import describe
from regard.common.errors import UsageError
from regard.common.plugins import qualified_name, short
from regard.data.batch import TrainingBatch
from regard.models import Model
from regard.training.loss import LossFunction
from regard.training.recipe import Recipe, TrainingSettings

REPLACED = "label_smoothing, rdrop, guided and doubly_stochastic"
"""Settings of the loss that an objective replaces."""


@dataclass
class TrainingContext:
    """A training as its callbacks see it.

    - `batches`: the micro-batches of the update.
    - `metrics`: losses and gradient norm of the update, or the scores of a validation.
    - `learning_rate`: that of the update; a value set in `before_update` holds for it alone.
    """

    model: Model
    folder: Path
    recipe: Recipe
    update: int = 0
    learning_rate: float = 0.0
    batches: Sequence[TrainingBatch] = ()
    metrics: Mapping[str, object] = field(default_factory=dict)
    logged: dict[str, object] = field(default_factory=dict)
    stop_reason: str = ""

    def log(self, **values: object) -> None:
        """Write values to the journal, in an event "callback", once the callbacks have returned.

        Raises TypeError for values that JSON lacks, and for the names that each event has.
        """
        for name, value in values.items():
            if name in ("event", "time", "update"):
                raise TypeError(
                    f"log({name}=…): each event has this name; take another"
                )
            try:
                json.dumps(value)
            except (TypeError, ValueError) as problem:
                raise TypeError(
                    f"log({name}=…): wanted a value that JSON has, got {describe(value)}; give a "
                    "number (of a tensor: float(x)), a text, a list or a dictionary"
                ) from problem
        self.logged |= values

    def stop(self, reason: str) -> None:
        """End the training after this update; `reason` is written to the journal."""
        self.stop_reason = reason


class Callback:
    """A callback of a training: methods that are called at named points, and do nothing here."""

    def on_start(self, context: TrainingContext) -> None:
        """Called before the first update of a call of `regard.train`, also of a resumed one."""

    def before_update(self, context: TrainingContext) -> None:
        """Called before each update, with its batches and its learning rate."""

    def after_update(self, context: TrainingContext) -> None:
        """Called after each update, with its metrics."""

    def after_validation(self, context: TrainingContext) -> None:
        """Called after each validation, with its scores as metrics."""

    def on_end(self, context: TrainingContext) -> None:
        """Called when training has ended, before the scores of the test are computed."""


@dataclass(frozen=True)
class Extensions:
    """The objective and the callbacks that the caller of a training brings."""

    objective: LossFunction | None = None
    callbacks: tuple[Any, ...] = ()

    @property
    def names(self) -> dict[str, str | tuple[str, ...] | None]:
        """The settings by which the recipe records them."""
        objective = self.objective
        return {
            "objective": None if objective is None else qualified_name(objective),
            "callbacks": tuple(map(qualified_name, self.callbacks)),
        }

    def check(
        self, recorded: TrainingSettings, is_begun: bool, call: str = "regard.train"
    ) -> None:
        """Raise UsageError if a recipe, or a run that was begun, has others; `call` takes them.

        Their versions may differ: one that failed has to be mended before the run is resumed.
        """
        causes = []
        for name, given in self.names.items():
            before = getattr(recorded, name)
            if (is_begun or before) and _bare(before) != _bare(given):
                causes.append(
                    f"`{name}=`: the recipe has {listed(before)}, and given is {listed(given)}; "
                    f"give what it has, in Python: {call}(…, {name}=…); a command cannot"
                )
        for callback in self.callbacks:
            if not isinstance(callback, Callback):
                causes.append(
                    f"`callbacks=`: {qualified_name(callback)} is no regard.Callback; give objects "
                    "of a class that inherits from it"
                )
        UsageError.raise_all(causes)


def _bare(names: str | tuple[str, ...] | None) -> list[str]:
    """Return names without their versions."""
    listed = [names] if isinstance(names, str) else names or ()
    return [name.partition("==")[0] for name in listed]


def listed(names: str | tuple[str, ...] | None) -> str:
    """Return names with short hashes for a sentence; "none" if there are none."""
    return (
        short(", ".join([names] if isinstance(names, str) else names or ())) or "none"
    )
