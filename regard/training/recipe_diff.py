"""Reconcile the recipe of a resumed run with new settings: differences, and which value holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from regard.common.settings import override
from regard.training.recipe import Recipe

IMAGE = ("height", "width", "max_side", "fit", "cell", "blank")
"""Settings of images that a model depends on; the others are limits on files."""
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
"""Prefixes of the settings that a run keeps from its start, with the reasons."""


def reconcile(before: Recipe, after: Recipe) -> tuple[Recipe, list[str]]:
    """Return the recipe to continue with, and a sentence for each setting that differs.

    The sentence says which value holds, and why. A value that the run resolved itself (`auto`, or
    minutes that became updates) is not a difference.
    """
    old = dict(_flatten(before.model_dump()))
    new = dict(_flatten(after.model_dump()))
    chosen = {**new}
    differences = []
    settled: tuple[str, ...] = ()
    updates = old.get("training.updates")
    if new.get("training.minutes") is not None and updates is not None:
        settled = ("training.minutes", "training.updates")
        chosen["training.minutes"] = None
        chosen["training.updates"] = updates
        differences.append(
            f"training.minutes = {new['training.minutes']:g}: the run ends at training.updates = "
            f"{updates}, and that holds; to train longer, set training.updates"
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

    # A fixed setting that the run does not have belongs to another kind of model or tokenizer.
    kept = {
        key: value
        for key, value in chosen.items()
        if key in old or not key.startswith(tuple(FIXED))
    }
    return Recipe.parse(override({}, kept), "the run"), differences


def _flatten(
    values: Mapping[str, object], prefix: str = ""
) -> Iterator[tuple[str, object]]:
    """Yield all settings with their dotted names."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
