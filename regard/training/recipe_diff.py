"""Reconcile the recipe of a resumed run with new settings: differences, and which value holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regard.common.settings import override
from regard.training.recipe import Recipe

IMAGE = ("height", "width", "max_side", "fit", "cell", "blank")
"""Settings of images that a model depends on; the others are limits of files."""
FIXED = {
    "model.": "the weights have that shape",
    "tokenizer.": "the vocabulary was made with it",
    "search.": "it is in config.json",
    **{f"data.images.{name}": "the model reads images of that size" for name in IMAGE},
    "data.images.blank": "the model has learnt from such images",
    "data.source_language": "it is in config.json",
    "data.target_language": "it is in config.json",
    "data.test_count": "what was not held out has been learnt",
    "batching.buffer_size": "the position in the data counts buffers of that size",
    "training.parent": "it began with those weights",
    "training.seed": "held-out pairs and random numbers depend on it",
}
"""Settings that a run keeps from its start, by the beginnings of their names, and why."""


def reconcile(before: Recipe, after: Recipe) -> tuple[Recipe, list[str]]:
    """The recipe to continue with, and a sentence for each setting that differs: which value holds,
    and why.

    A value that the run resolved itself (auto, minutes turned into updates) is not a difference.
    """
    old = dict(_flat(before.model_dump()))
    new = dict(_flat(after.model_dump()))
    chosen = {**new}
    differences = []
    settled: tuple[str, ...] = ()
    if (
        new.get("training.minutes") is not None
        and old.get("training.updates") is not None
    ):
        settled = ("training.minutes", "training.updates")
        chosen |= {
            "training.minutes": None,
            "training.updates": old["training.updates"],
        }
        differences.append(
            f"training.minutes = {new['training.minutes']:g}: the run ends at training.updates = "
            f"{old['training.updates']}, and that holds; to train longer, set training.updates"
        )
    for key in sorted({*old, *new}):
        if old.get(key) == new.get(key) or key in settled:
            continue
        if new.get(key) == "auto":
            chosen[key] = old.get(key)
            continue
        difference = f"{key} was {old.get(key)!r} and is {new.get(key)!r} now"
        reason = next(
            (why for prefix, why in FIXED.items() if key.startswith(prefix)), None
        )
        if reason is None:
            differences.append(f"{difference}: {new.get(key)!r} holds from here on")
        else:
            chosen[key] = old.get(key)
            differences.append(
                f"{difference}: {old.get(key)!r} holds, {reason}; for the other value train anew"
            )
    of_other_kinds = {
        key for key in chosen if key not in old and key.startswith(tuple(FIXED))
    }
    values = override(
        {}, {key: value for key, value in chosen.items() if key not in of_other_kinds}
    )
    return Recipe.parse(values, "the run"), differences


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted name."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
