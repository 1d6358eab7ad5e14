"""Time budget: parsing, and choice of the largest size that fits. Scripts without tokens in a
vocabulary.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from regard.common.errors import DataError, TrainingError, UsageError
from regard.common.settings import merge
from regard.data.batch import Example
from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.vocabulary import EOS, Vocabulary
from regard.training import Recipe
from regard.training.budget import Trial, choose, minutes_of, trial
from regard.training.gradient_workers import GradientWorkers
from regard.training.recipe import preset
from regard.training.scheduled_sampling import sample_target_inputs
from regard.training.script_check import check_scripts


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("30m", 30), ("1h30m", 90), ("90s", 1.5), ("10min", 10), (" 5M ", 5)],
)
def test_times_are_converted_to_minutes(text: str, minutes: float) -> None:
    assert minutes_of(text) == pytest.approx(minutes)


@pytest.mark.parametrize("text", ["", "30", "0m", "-5m", "1d"])
def test_invalid_times_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="wanted a time such as 30m"):
        minutes_of(text)


def _recipes() -> dict[str, Recipe]:
    recipes = {}
    for name, size in {"small": 8, "large": 64}.items():
        side = {
            "layers": 1,
            "heads": 2,
            "dropout": 0.0,
            "size": size,
            "feedforward": size,
        }
        values = {
            "data": {"source": "a", "target": "b"},
            "model": {"encoder": side, "decoder": side},
            "training": {"precision": "float32"},
            "batching": {"tokens": 32, "micro_batches": 1},
        }
        recipes[name] = Recipe.parse(
            merge(preset("transformer-tiny"), values), "the test"
        )
    return recipes


@pytest.mark.parametrize(("minutes", "expected"), [(1e-6, "small"), (1000.0, "large")])
def test_the_largest_size_within_the_budget_else_the_smallest_is_chosen(
    monkeypatch: pytest.MonkeyPatch, minutes: float, expected: str
) -> None:
    fast = Trial(1e-6, 20, 100, 4)
    monkeypatch.setattr("regard.training.budget.trial", lambda *_: fast)
    choice = choose(minutes, _recipes(), _batches(), (20, 20), "cpu")

    assert choice.preset == expected
    assert choice.recipe.training.minutes == minutes, "the clock ends the run"
    assert choice.recipe.training.updates is None
    assert choice.recipe.schedule.warmup == min(2000, int(60 * minutes / 1e-6) // 4)
    assert f"chosen: {expected} for" in choice.report[-1]
    assert len(choice.report) == 3
    meaning = "% of enough training (from 100% on, longer training adds little)"
    assert [meaning in line for line in choice.report] == [True, False, False]


def test_a_budget_below_one_update_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Trial(3.0, 20, 100, 4)
    monkeypatch.setattr("regard.training.budget.trial", lambda *_: slow)
    message = "`budget=`: 2 seconds are too few for one update, which takes 3 here"

    with pytest.raises(TrainingError, match=message):
        choose(2 / 60, _recipes(), _batches(), (20, 20), "cpu")


class _Letters(Vocabulary):
    """Vocabulary with tokens for lower-case letters only."""

    def __init__(self) -> None: ...

    def unknown_share(self, text: str) -> float:
        unknown = [character for character in text if not "a" <= character <= "z"]
        return len(unknown) / len(text)


def _batches(micro_batches: int = 1) -> BatchStream:
    settings = BatchingSettings(tokens=32, micro_batches=micro_batches)
    return BatchStream([Example([4, EOS], [5, EOS])] * 40, settings, 1)


@pytest.mark.parametrize(("processes", "share"), [(1, 4), (3, 2)])
def test_a_trial_computes_the_share_of_one_process(
    monkeypatch: pytest.MonkeyPatch, processes: int, share: int
) -> None:
    recipe = _recipes()["small"]
    recipe = recipe.with_values(
        batching={**recipe.batching.model_dump(), "micro_batches": 4},
        training={**recipe.training.model_dump(), "scheduled_sampling": 0.5},
    )
    compute = Mock(side_effect=GradientWorkers.gradients)
    sample = Mock(wraps=sample_target_inputs)
    monkeypatch.setattr(GradientWorkers, "gradients", lambda *given: compute(*given))
    monkeypatch.setattr("regard.training.gradient_workers.sample_target_inputs", sample)
    result = trial(recipe, _batches(4), (20, 20), "cpu", processes)
    sizes = [len(call.args[1]) for call in compute.call_args_list]

    assert set(sizes) == {share}

    probabilities = [call.args[2] for call in sample.call_args_list]

    assert probabilities == [0.5] * sum(sizes)

    alone = trial(recipe, _batches(4), (20, 20), "cpu")

    assert result.tokens == alone.tokens, "tokens of the whole update"


@pytest.mark.parametrize("fits", [True, False])
def test_sizes_that_do_not_fit_in_memory_are_passed_over(
    monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    recipes = _recipes()

    def limited_trial(recipe: Recipe, *_: Any) -> Trial:
        if not fits or recipe is recipes["large"]:
            raise MemoryError
        return Trial(1e-6, 20, 100, 4)

    monkeypatch.setattr("regard.training.budget.trial", limited_trial)
    if fits:
        choice = choose(1000.0, recipes, _batches(), (20, 20), "cpu")

        assert choice.preset == "small"
        assert "large: does not fit in memory (MemoryError)" in choice.report
    else:
        message = r"small: does not fit in memory \(MemoryError\); take a smaller model"
        with pytest.raises(TrainingError, match=message):
            choose(1000.0, recipes, _batches(), (20, 20), "cpu")


def test_a_script_without_tokens_is_refused_with_the_reason() -> None:
    with pytest.raises(DataError) as raised:
        check_scripts(["나는 집에 간다", "hello"], _Letters(), "the source side")

    (cause,) = raised.value.causes

    assert "the source side: 55% of the letters are Hangul" in cause
    assert "100% of those have no token" in cause
    assert "without `parent=`" in cause

    few_names = ["hello world " * 30, "나"]
    check_scripts(few_names, _Letters(), "the source side")
