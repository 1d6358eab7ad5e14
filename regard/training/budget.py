"""A time budget: which size of model it suffices for on this machine, with this data."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

import torch

from regard.data.batching import BatchSource
from regard.errors import TrainingError, UsageError
from regard.models import build, count_parameters
from regard.training.gradient_workers import GradientWorkers, first_line, out_of_memory
from regard.training.guided import Guide
from regard.training.loss import Objective
from regard.training.recipe import Recipe

__all__ = ["BudgetChoice", "Trial", "choose", "minutes_of", "trial"]

EPOCHS, PIECES_PER_WEIGHT = 40, 20
WARM, TIMED = 1, 2  # updates of a trial

_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?:in)?)?(?:(\d+(?:\.\d+)?)s)?")


@dataclass(frozen=True)
class BudgetChoice:
    """What a budget comes to: a preset's recipe with its end and warm-up, and what it was chosen from."""

    preset: str
    recipe: Recipe
    said: tuple[str, ...]


def minutes_of(text: str) -> float:
    """The minutes that 30m, 1h30m, 90s or 2h stand for. Raises UsageError for anything else."""
    found = _TIME.fullmatch(text.strip().lower())
    parts = [float(part or 0) for part in found.groups()] if found else []
    if not parts or not sum(parts):
        raise UsageError(f"--budget {text}: wanted a time such as 30m, 1h30m or 90s")
    return parts[0] * 60 + parts[1] + parts[2] / 60


def choose(
    minutes: float,
    recipes: dict[str, Recipe],
    batches: BatchSource,
    vocabularies: tuple[int, int],
    device: str,
    processes: int = 1,
) -> BudgetChoice:
    """The largest of these recipes, given from small to large, that the budget can train; else the smallest.

    Enough is to see each sentence 40 times, or 20 pieces for every weight, whichever comes first: a small corpus is
    learnt by then, and of a large one a model of that size would make no more.
    """
    said, best, problem = [], None, None
    pieces = batches.epoch_stats.tokens[1]
    for name, recipe in recipes.items():
        try:
            tried = trial(recipe, batches, vocabularies, device, processes)
        except Exception as found:
            if not out_of_memory(found):
                raise
            problem = f"{name}: does not fit in memory ({first_line(found)})"
        if problem is not None:  # outside, where what was computed is forgotten; nor will the larger ones fit
            said.append(problem)
            break
        updates = max(1, int(minutes * 60 / tried.seconds))
        seen, enough = updates * tried.tokens, min(EPOCHS * pieces, PIECES_PER_WEIGHT * tried.weights)
        speed, times = tried.tokens / tried.seconds, seen / pieces
        said.append(
            f"{name}: {tried.weights:,} weights, {speed:,.0f} target pieces/s here; {minutes:g} minutes are "
            f"{updates:,} updates, {times:.1f} times through the data, {seen / enough:.0%} of enough"
        )
        if best is None or seen >= enough:
            warmup = max(1, min(recipe.schedule.warmup, updates // 8))
            best = (name, updates, warmup)
    if best is None:
        raise TrainingError(f"--budget: {said[-1]}; take a smaller model or batching.tokens")
    name, updates, warmup = best
    recipe = recipes[name]
    recipe = recipe.with_values(
        training={**recipe.training.model_dump(), "updates": updates, "minutes": None},
        schedule={**recipe.schedule.model_dump(), "warmup": warmup},
    )
    said.append(f"chosen: {name} for {updates:,} updates, {warmup:,} of them warm-up")
    return BudgetChoice(name, recipe, tuple(said))


@dataclass(frozen=True)
class Trial:
    """A few updates of a model that is then forgotten: means of those that were timed."""

    seconds: float
    tokens: float
    weights: int
    updates: int


def trial(
    recipe: Recipe, batches: BatchSource, vocabularies: tuple[int, int], device: str, processes: int = 1
) -> Trial:
    """Seconds and target pieces of an update on this machine, of which one of several processes computes its share.

    Random numbers drawn later are not changed by it.
    """
    state = torch.get_rng_state()
    model = build(recipe.model, *vocabularies, recipe.tokenizer.joint).to(device).train()
    s = recipe.training
    objective = Objective(model, s.label_smoothing, s.rdrop, Guide.of(model, s), s.doubly_stochastic)
    where = torch.device(device)
    threads = min(torch.get_num_threads(), -(-batches.per_update // processes)) if where.type == "cpu" else 1
    crew = GradientWorkers(objective, s.precision, where, threads)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)
    crew.configure(s.rdrop, s.scheduled_sampling)
    seconds, tokens = [], []
    for number, update in zip(range(WARM + TIMED), batches.updates(), strict=False):
        began = time.perf_counter()
        share = [(plan.batch(), f"{number}/{i}") for i, plan in enumerate(update.plans[::processes])]
        crew.gradients(share, update.tokens)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - began)
        tokens.append(update.tokens)
    crew.close()
    torch.set_rng_state(state)
    return Trial(sum(seconds[WARM:]) / TIMED, sum(tokens[WARM:]) / TIMED, count_parameters(model), WARM + TIMED)
