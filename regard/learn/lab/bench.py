"""The bench that experiments work on: their data, and sweeps of models trained side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli_w

from regard.common.atomic import write_text
from regard.common.bilingual import Words
from regard.common.checksums import json_digest
from regard.common.reading import file_bytes, parse_json
from regard.common.settings import merge
from regard.comparison.entries import has_ended
from regard.learn.lab.data import write_crowded, write_lengths, write_lists
from regard.learn.lab.sweep import Run, Sweep, best_rate
from regard.learn.lab.training import Job, TrainingPool
from regard.learn.samples.writing import PAGE, write_sample
from regard.training.journal import read
from regard.training.recipe import Recipe

LEARNT = 10.0
"""A validation score below which nothing was learnt, so that a lower rate may be the cure."""
DATA: dict[str, Callable[[Path], Any]]
DATA = {
    "sample": write_sample,
    "length-sample": write_lengths,
    "lists": write_lists,
    "image-sample": write_crowded,
}
COMMON: dict[str, Any] = {
    "batching": {"tokens": 512, "micro_batches": 1},
    "training": {
        "validate_with": 100,
        "precision": "float32",
        "ema_decay": 0.99,
        "patience": 1000,
    },
}
"""Settings of all models: small batches, since the models are small and the time is short."""
Measure = Callable[[Path], Mapping[str, float]]


@dataclass(frozen=True)
class Plan:
    """Plan of a sweep: updates of each run, the learning rates that it begins with, each twice the
    one before.

    `extra`: the most rates that it goes beyond them; `seeds` at the best rate of each arm.
    `by_loss`: the score is the probability of a token that the validation loss stands for, in per
    cent.
    """

    updates: int
    rates: tuple[float, ...]
    extra: int = 3
    seeds: int = 3
    by_loss: bool = False


RECURRENT = Plan(1000, (4e-3, 8e-3, 16e-3))
SHORT = Plan(800, RECURRENT.rates)
LONG = Plan(2000, RECURRENT.rates)
"""Recurrent models on sentences of all lengths, of which those without attention learn slowly."""
TRANSFORMER = Plan(800, (2e-3, 4e-3, 8e-3))
DEEP = Plan(600, (2e-3, 4e-3, 8e-3))
"""Transformers of three and more layers a side."""


@dataclass
class Bench:
    """Bench of one experiment: its folder, its time, its data and its trainings.

    `full`: whole sweeps; else one seed at the best rate of `shipped` results. `workers` train at
    once, each on one thread. `swept`: the sweep, once it is done.
    """

    out: Path
    full: bool
    workers: int
    seed: int
    say: Callable[[str], None]
    shipped: Sweep | None = None
    swept: Sweep | None = field(default=None, init=False)
    digests: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._pool = TrainingPool(self.workers, self.say)
        self._plan = RECURRENT

    def data(self, name: str = "sample") -> Path:
        """Write data for training and testing, once; return their folder."""
        folder = self.out / name
        if not (folder / PAGE).exists():
            self.say("writing the data")
            DATA[name](folder)
        return folder

    def sweep(
        self,
        arms: Mapping[str, Mapping[str, Any]],
        names: Mapping[str, Words],
        plan: Plan,
        measure: Measure,
        data: str = "sample",
    ) -> Sweep:
        """Train each arm at several learning rates, and with further seeds at its best; measure
        these.

        `arms` are recipes. A rate that is the best and the last is followed by another, as often as
        planned. Quick: one seed at the best rate of shipped results, whose other seeds join it.
        """
        recipes = {
            arm: _recipe(values, _files(self.data(data)), plan.updates)
            for arm, values in arms.items()
        }
        self._plan = plan
        self.digests = {
            arm: json_digest([values, COMMON, plan.updates, data])[:10]
            for arm, values in arms.items()
        }
        shipped = {
            arm: self._shipped_runs(arm, digest) for arm, digest in self.digests.items()
        }
        if self.full:
            runs, best = self._search(recipes, plan)
            runs += self._train(
                recipes,
                [
                    (a, best[a], self.seed + n)
                    for a in recipes
                    for n in range(1, plan.seeds)
                ],
            )
        else:
            middle = plan.rates[len(plan.rates) // 2]
            best = {
                a: self.shipped.best[a] if self.shipped and shipped[a] else middle
                for a in recipes
            }
            spent = [
                [r.seconds for r in shipped[arm] if r.rate == best[arm]]
                for arm in recipes
            ]
            known = [sum(seconds) / len(seconds) for seconds in spent if seconds]
            self._pool.forecast(
                [*known, *[max(known, default=0.0)] * (len(recipes) - len(known))]
            )
            runs = self._train(
                recipes, [(arm, best[arm], self.seed) for arm in recipes]
            )
        measured = [
            self._measure(run, measure) if run.rate == best[run.arm] else run
            for run in runs
        ]
        keys = {(run.arm, run.rate, run.seed) for run in measured}
        others = [
            r
            for arm in recipes
            for r in shipped[arm]
            if (r.arm, r.rate, r.seed) not in keys
        ]
        self.swept = Sweep(names, best, (*measured, *others), self.digests)
        return self.swept

    def own(self, arm: str) -> list[Path]:
        """Return the folders of an arm's runs that were trained here at its best rate, and did not
        diverge.
        """
        chosen = self.swept.chosen(arm) if self.swept else []
        folders = [
            self.job(run.arm, run.rate, run.seed).folder
            for run in chosen
            if not run.is_shipped
        ]
        return [folder for folder in folders if has_ended(folder)]

    def _shipped_runs(self, arm: str, digest: str) -> list[Run]:
        """Return the shipped runs of an arm; none if its settings have changed since."""
        runs = (
            self.shipped.runs
            if self.shipped and self.shipped.recipes.get(arm) == digest
            else ()
        )
        return [run for run in runs if run.arm == arm]

    def _search(
        self, recipes: Mapping[str, dict[str, Any]], plan: Plan
    ) -> tuple[list[Run], dict[str, float]]:
        """Train each arm with one seed at the rates planned; go on while its last rate is the best,
        or none learns.
        """
        self.say(f"training {len(recipes)} models at {len(plan.rates)} learning rates")
        runs = self._train(
            recipes, [(arm, rate, self.seed) for rate in plan.rates for arm in recipes]
        )
        for _ in range(plan.extra):
            further = list[tuple[str, float, int]]()
            for arm in recipes:
                mine = [run for run in runs if run.arm == arm]
                rates = sorted(run.rate for run in mine)
                best = best_rate(mine)
                is_lower = best == rates[0] or max(run.valid for run in mine) < LEARNT
                if is_lower or best == rates[-1]:
                    further.append(
                        (arm, rates[0] / 2 if is_lower else rates[-1] * 2, self.seed)
                    )
            runs += self._train(recipes, further)
        return runs, {
            arm: best_rate([run for run in runs if run.arm == arm]) for arm in recipes
        }

    def _train(
        self,
        recipes: Mapping[str, dict[str, Any]],
        wanted: Sequence[tuple[str, float, int]],
    ) -> list[Run]:
        """Train arms at rates with seeds; a run whose gradients are no longer finite scores 0."""
        jobs = [self.job(*key) for key in wanted]
        for job, (arm, rate, _) in zip(jobs, wanted, strict=True):
            recipe = merge(recipes[arm], {"schedule": {"peak": rate}})
            job.recipe.parent.mkdir(parents=True, exist_ok=True)
            write_text(
                job.recipe,
                tomli_w.dumps(Recipe.parse(recipe, arm).model_dump(exclude_none=True)),
            )
        diverged = self._pool.train(jobs)
        outcomes = [
            (0.0, 0.0) if job.folder in diverged else self._outcome(job.folder)
            for job in jobs
        ]
        return [
            Run(*key, *outcome) for key, outcome in zip(wanted, outcomes, strict=True)
        ]

    def job(self, arm: str, rate: float, seed: int) -> Job:
        """Return a training, in a folder of its own."""
        recipe = self.out / "recipes" / f"{arm}-{rate:.3g}.toml"
        return Job(
            arm,
            recipe,
            self.out / "runs" / f"{arm}-{rate:.3g}-seed{seed}",
            seed,
            self._plan.updates,
        )

    def _outcome(self, folder: Path) -> tuple[float, float]:
        """Return the best validation score of a run, CIDEr-D of images or else chrF, and its
        seconds in all.
        """
        events = read(folder / "journal.jsonl")
        by_loss = self._plan.by_loss
        rows = [
            event
            for event in events
            if event["event"] == "valid" and event.get("loss") is not None
        ]
        values = [
            100 * math.exp(-row["loss"])
            if by_loss
            else row.get("cider", row.get("chrf"))
            for row in rows
        ]
        seconds = float(events[-1]["time"] - events[0]["time"]) if events else 0.0
        return max(
            (value for value in values if value is not None), default=0.0
        ), seconds

    def _measure(self, run: Run, measure: Measure) -> Run:
        """Measure a run, once; one that diverged has no scores."""
        folder = self.job(run.arm, run.rate, run.seed).folder
        path = self.out / "measured" / f"{folder.name}.json"
        if not has_ended(folder):
            return run
        if not path.is_file():
            path.parent.mkdir(exist_ok=True)
            write_text(path, json.dumps(measure(folder)) + "\n")
        return replace(run, scores=parse_json(file_bytes(path)))


def _recipe(
    values: Mapping[str, Any], data: Mapping[str, Any], updates: int
) -> dict[str, Any]:
    """Put a recipe together: what all models have, the data, an end, and the values of this
    model.
    """
    every = max(1, updates // 8)
    fitted = {
        "data": dict(data),
        "schedule": {"warmup": every},
        "training": {
            "updates": updates,
            "validate_every": every,
            "log_every": max(1, every // 4),
        },
    }
    return merge(merge(COMMON, fitted), values)


def _files(folder: Path) -> dict[str, Any]:
    """Return the settings of the data in a folder."""
    if (folder / "images").is_dir():
        paths = {
            "captions": "train.en.tsv",
            "valid_captions": "valid.en.tsv",
            "folder": "images",
        }
        return {
            "images": {
                key: str(folder.absolute() / name) for key, name in paths.items()
            }
        }
    names = {
        "source": "train.ko",
        "target": "train.en",
        "valid_source": "valid.ko",
        "valid_target": "valid.en",
    }
    return {key: str(folder.absolute() / name) for key, name in names.items()}
