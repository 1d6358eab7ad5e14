"""A run that goes on with another recipe: what is different, and which of the two values holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regard.training.recipe import Recipe

__all__ = ["reconcile"]

BEGUN_WITH = {
    "model.": "the weights have that shape",
    "tokenizer.": "the vocabulary was made so",
    "search.": "it is in config.json",
    **{f"data.images.{name}": "the model sees pictures of that size" for name in ("height", "width", "largest", "fit")},
    "batching.buffer_size": "the place in the data is counted in pools of that size",
    "training.parent": "it began with those weights",
    "training.seed": "what was held out and what was drawn depend on it",
}
"""Settings that a run keeps, and why."""


def reconcile(before: Recipe, now: Recipe) -> tuple[Recipe, list[str]]:
    """The recipe to go on with, and a sentence for each setting that differs: which value holds, and why.

    A value that the run chose for itself (auto, minutes turned into updates) is not a difference.
    """
    old, new = dict(_flat(before.model_dump())), dict(_flat(now.model_dump()))
    chosen, said = {**new}, []
    settled: tuple[str, ...] = ()
    if new.get("training.minutes") is not None and old.get("training.updates") is not None:
        settled = ("training.minutes", "training.updates")
        chosen |= {"training.minutes": None, "training.updates": old["training.updates"]}
        said.append(
            f"training.minutes = {new['training.minutes']:g} was turned into training.updates = "
            f"{old['training.updates']} when the run began: that holds"
        )
    for key in sorted({*old, *new}):
        if old.get(key) == new.get(key) or key in settled:
            continue
        if new.get(key) == "auto":
            chosen[key] = old.get(key)
            continue
        difference = f"{key} was {old.get(key)!r} and is {new.get(key)!r} now"
        reason = next((why for start, why in BEGUN_WITH.items() if key.startswith(start)), None)
        if reason is None:
            said.append(f"{difference}: {new.get(key)!r} holds from here on")
        else:
            chosen[key] = old.get(key)
            said.append(f"{difference}: {old.get(key)!r} holds, {reason}; for the other value train anew")
    kinds = {key for key in chosen if key not in old and key.startswith(tuple(BEGUN_WITH))}
    return Recipe.parse(_deep({key: value for key, value in chosen.items() if key not in kinds}), "the run"), said


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting by its dotted name."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _deep(values: Mapping[str, Any]) -> dict[str, Any]:
    """The tables that dotted names stand for."""
    tables: dict[str, Any] = {}
    for name, value in values.items():
        *path, key = name.split(".")
        table = tables
        for part in path:
            table = table.setdefault(part, {})
        table[key] = value
    return tables
