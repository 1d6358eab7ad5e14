"""Resuming a run with another recipe: the differences, and the values that hold."""

from __future__ import annotations

from typing import Any

from regard.common.settings import merge
from regard.data.images import ImageSizeSettings
from regard.training import Recipe
from regard.training.recipe import preset
from regard.training.recipe_diff import IMAGE, reconcile


def recipe(**changes: Any) -> Recipe:
    data = {"data": {"source": "a", "target": "b"}}
    return Recipe.parse(
        merge(merge(preset("transformer-tiny"), data), changes), "the test"
    )


def test_settings_that_may_change_take_the_new_value() -> None:
    reconciled, differences = reconcile(
        recipe(training={"updates": 10}),
        recipe(training={"updates": 20}, schedule={"warmup": 7}),
    )

    assert (reconciled.training.updates, reconciled.schedule.warmup) == (20, 7)
    assert differences == [
        "schedule.warmup was 2000 and is 7 now: 7 holds from here on",
        "training.updates was 10 and is 20 now: 20 holds from here on",
    ]


def test_model_tokenizer_search_and_seed_stay() -> None:
    """Values that `auto` became are no difference."""
    before = recipe(training={"precision": "bfloat16"}, batching={"micro_batches": 2})
    after = recipe(
        model={"encoder": {"layers": 2}, "decoder": {"kind": "recurrent", "size": 32}},
        tokenizer={"size": 900},
        search={"beam": 9},
        training={"seed": 5},
    )
    reconciled, differences = reconcile(before, after)

    assert reconciled == before

    names = [line.split(" ")[0] for line in differences]

    assert [name for name in names if "decoder" not in name] == [
        "model.encoder.layers",
        "search.beam",
        "tokenizer.size",
        "training.seed",
    ]

    text = "\n".join(differences)

    assert "model.decoder.kind was 'transformer' and is 'recurrent' now" in text
    assert (
        "model.encoder.layers was 4 and is 2 now: 4 holds, the weights have that shape; "
        "for the other value train anew" in text
    )


def test_minutes_stay_the_updates_they_became() -> None:
    before = recipe(training={"updates": 1234})
    reconciled, differences = reconcile(before, recipe(training={"minutes": 30.0}))

    assert reconciled == before
    assert differences == [
        "training.minutes = 30: the run ends at training.updates = 1234, and that holds; to train longer, set "
        "training.updates",
    ]


def test_settings_of_images_that_a_model_depends_on_are_fixed() -> None:
    # Of files: they may be raised when a run is resumed.
    limits = {"max_pixels", "max_file_side"}
    assert set(IMAGE) == ImageSizeSettings.model_fields.keys() - limits
