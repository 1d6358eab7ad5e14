"""Time budget: choose the largest model size that this machine can train in the given time."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from torch.random import fork_rng

from regard.common.counting import counted, format_duration
from regard.common.errors import TrainingError, UsageError
from regard.common.reading import reason_of
from regard.data.batch_stream import BatchSource
from regard.models import build, count_parameters
from regard.training.gradient_workers import out_of_memory
from regard.training.recipe import Recipe
from regard.training.schedule import learning_rate
from regard.training.updater import Updater

ENOUGH_EPOCHS = 40
"""Epochs that are enough training."""
ENOUGH_TOKENS_PER_WEIGHT = 20
"""Target tokens for each weight that are enough training."""
UPDATES_PER_WARMUP = 4
"""The warm-up of the learning rate takes at most one of so many updates."""
UNTIMED_UPDATES = 1
"""Updates of a trial before timing starts."""
TIMED_UPDATES = 2
"""Updates of a trial that are timed."""

_TIME = re.compile(
    r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?:in)?)?(?:(\d+(?:\.\d+)?)s)?"
)


@dataclass(frozen=True)
class BudgetChoice:
    """The chosen preset with its recipe and trial, and a report line for each size tried."""

    preset: str
    recipe: Recipe
    trial: Trial
    report: tuple[str, ...]


@dataclass(frozen=True)
class Trial:
    """Mean seconds and target tokens of the timed updates, the model's weights, and all updates."""

    seconds: float
    tokens: float
    weights: int
    updates: int


def minutes_of(text: str) -> float:
    """Parse a time such as 30m, 1h30m, 90s or 2h into minutes.

    Raises UsageError for any other text.
    """
    match = _TIME.fullmatch(text.strip().lower())
    parts = [float(part or 0) for part in match.groups()] if match else []
    if not parts or not sum(parts):
        raise UsageError(f"`budget={text}`: wanted a time such as 30m, 1h30m or 90s")
    hours, minutes, seconds = parts
    return hours * 60 + minutes + seconds / 60


def choose(
    minutes: float,
    recipes: Mapping[str, Recipe],
    batches: BatchSource,
    vocabularies: tuple[int, int],
    device: str,
    processes: int = 1,
) -> BudgetChoice:
    """Choose the largest of these recipes for which the budget is enough, or the smallest of all.

    `recipes` are ordered from small to large.
    """
    report = []
    time_given = format_duration(60 * minutes)
    best = None
    problem = None
    epoch_tokens = batches.epoch_stats.tokens[1]
    for name, recipe in recipes.items():
        try:
            result = trial(recipe, batches, vocabularies, device, processes)
        except Exception as error:
            if not out_of_memory(error):
                raise
            problem = f"{name}: does not fit in memory ({reason_of(error)})"
        if problem is not None:
            # This is outside the except clause, because the exception keeps tensors alive. Larger
            # sizes would not fit either.
            report.append(problem)
            break
        updates = int(minutes * 60 / result.seconds)
        tokens = updates * result.tokens
        enough = enough_tokens(epoch_tokens, result.weights)
        speed = result.tokens / result.seconds
        epochs = tokens / epoch_tokens
        meaning = "" if report else " (from 100% on, longer training adds little)"
        report.append(
            f"{name}: {result.weights:,} weights, {speed:,.0f} target tokens/s here; {time_given} "
            f"are {counted(updates, 'update')}, {epochs:.1f} epochs, {tokens / enough:.0%} "
            f"of enough training{meaning}"
        )
        if best is None or tokens >= enough:
            warmup = min(recipe.schedule.warmup, max(1, updates // UPDATES_PER_WARMUP))
            best = (name, updates, warmup, result)
    if best is None:
        raise TrainingError(
            f"`budget=`: {report[-1]}; take a smaller model or batching.tokens"
        )
    name, updates, warmup, result = best
    if not updates:
        raise TrainingError(
            f"`budget=`: {60 * minutes:.3g} seconds are too few for one update, which takes "
            f"{result.seconds:.2g} here; give more"
        )
    recipe = recipes[name]
    recipe = recipe.with_values(
        training={**recipe.training.model_dump(), "minutes": minutes},
        schedule={**recipe.schedule.model_dump(), "warmup": warmup},
    )
    report.append(
        f"chosen: {name} for {time_given}, about {counted(updates, 'update')}, {warmup:,} "
        "of them warm-up"
    )
    return BudgetChoice(name, recipe, result, tuple(report))


def enough_tokens(epoch_tokens: float, weights: int) -> float:
    """Return the target tokens that are enough training.

    These are 40 epochs, or 20 tokens for every weight, whichever comes first: a small corpus is
    learned by then, and from a large one a model of that size would not learn much more.
    """
    return min(ENOUGH_EPOCHS * epoch_tokens, ENOUGH_TOKENS_PER_WEIGHT * weights)


@fork_rng(devices=[])
def trial(
    recipe: Recipe,
    batches: BatchSource,
    vocabularies: tuple[int, int],
    device: str,
    processes: int = 1,
) -> Trial:
    """Time a few updates of a new model, as one of several processes computes its share of them.

    The state of the random number generator is restored afterwards, whatever fails.
    """
    model = build(recipe.model, *vocabularies, recipe.tokenizer.joint)
    model = model.to(device).train()
    size = model.decoder.output.weight.shape[1]
    updater = Updater(model, recipe, -(-batches.per_update // processes))
    updater.workers.configure(recipe.training.rdrop, recipe.training.scheduled_sampling)
    seconds = []
    tokens = []
    numbers = range(1, UNTIMED_UPDATES + TIMED_UPDATES + 1)
    with closing(updater.workers):
        for number, update in zip(numbers, batches.updates(), strict=False):
            began = time.perf_counter()
            share = [
                (i, update.plans[i].batch())
                for i in range(0, len(update.plans), processes)
            ]
            updater.accumulate(number, share, update.tokens)
            updater.clip()
            updater.step(learning_rate(recipe.schedule, number, size))
            seconds.append(time.perf_counter() - began)
            tokens.append(update.tokens)
    return Trial(
        sum(seconds[UNTIMED_UPDATES:]) / TIMED_UPDATES,
        sum(tokens[UNTIMED_UPDATES:]) / TIMED_UPDATES,
        count_parameters(model),
        UNTIMED_UPDATES + TIMED_UPDATES,
    )
