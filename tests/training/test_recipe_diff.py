"""A run that goes on with another recipe says what differs, and which value holds."""

from __future__ import annotations

from typing import Any

from regard.settings import merge
from regard.training import Recipe
from regard.training.recipe import preset
from regard.training.recipe_diff import reconcile


def recipe(**changes: Any) -> Recipe:
    data = {"data": {"source": "a", "target": "b"}}
    return Recipe.parse(merge(merge(preset("transformer-tiny"), data), changes), "the test")


def test_nothing_changed_nothing_said() -> None:
    before = recipe()
    assert reconcile(before, recipe()) == (before, [])


def test_what_can_change_does() -> None:
    found, said = reconcile(recipe(training={"updates": 10}), recipe(training={"updates": 20}, schedule={"warmup": 7}))
    assert (found.training.updates, found.schedule.warmup) == (20, 7)
    assert said == [
        "schedule.warmup was 2000 and is 7 now: 7 holds from here on",
        "training.updates was 10 and is 20 now: 20 holds from here on",
    ]


def test_what_the_weights_were_made_for_stays() -> None:
    now = recipe(model={"encoder": {"layers": 2}}, tokenizer={"size": 900}, search={"beam": 9}, training={"seed": 5})
    found, said = reconcile(recipe(), now)
    assert found == recipe()
    assert [line.split(" ")[0] for line in said] == [
        "model.encoder.layers",
        "search.beam",
        "tokenizer.size",
        "training.seed",
    ]
    assert "4 holds, the weights have that shape; for the other value train anew" in said[0]


def test_another_family_stays_out() -> None:
    now = recipe(model={"decoder": {"kind": "recurrent", "size": 32}})
    found, said = reconcile(recipe(), now)
    assert found == recipe()
    assert any(line.startswith("model.decoder.kind was 'transformer' and is 'recurrent' now") for line in said)


def test_what_the_run_chose_itself_is_no_difference() -> None:
    before = recipe(training={"precision": "bfloat16"}, batching={"micro_batches": 2})
    assert reconcile(before, recipe()) == (before, [])


def test_minutes_stay_the_updates_they_became() -> None:
    before = recipe(training={"updates": 1234})
    found, said = reconcile(before, recipe(training={"minutes": 30.0}))
    assert found == before
    assert said == [
        "training.minutes = 30 was turned into training.updates = 1234 when the run started: that holds",
    ]
