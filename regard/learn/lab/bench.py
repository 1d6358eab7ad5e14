"""Bench of an experiment: its data, and its sweeps of models over learning rates and seeds."""

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
from regard.training.journal import of_kind, read
from regard.training.recipe import Recipe

LEARNT = 10.0
"""Validation score below which a model has learnt nothing; a lower learning rate may help."""
DATA: dict[str, Callable[[Path], object]] = {
    "sample": write_sample,
    "length-sample": write_lengths,
    "lists": write_lists,
    "image-sample": write_crowded,
}
COMMON: dict[str, object] = {
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
    """Plan of a sweep.

    The first learning rates are `rates`, each twice the one before. With `by_loss`, the validation
    score is 100 exp(−loss), the geometric mean of the token probabilities in per cent.
    """

    updates: int
    rates: tuple[float, ...]
    extra: int = 3  # largest number of further rates
    seeds: int = 3  # seeds at the best rate of each arm
    by_loss: bool = False


RECURRENT = Plan(updates=1000, rates=(4e-3, 8e-3, 16e-3))
SHORT = Plan(updates=800, rates=RECURRENT.rates)
LONG = Plan(updates=2000, rates=RECURRENT.rates)
"""Recurrent models on sentences of all lengths; models without attention learn these slowly."""
TRANSFORMER = Plan(updates=800, rates=(2e-3, 4e-3, 8e-3))
DEEP = Plan(updates=600, rates=(2e-3, 4e-3, 8e-3))
"""Transformers with up to four layers in encoder and decoder."""


@dataclass
class Bench:
    """Bench of one experiment: its folder, its data and its training runs.

    If `full`, sweeps cover learning rates and seeds, else one seed at the best rate of the
    `shipped` results. `workers` runs are trained at once, each on one thread. `swept` is the last
    finished sweep, `measured` what was measured besides it, as JSON values.
    """

    out: Path
    full: bool
    workers: int
    seed: int
    say: Callable[[str], None]
    shipped: Sweep | None = None
    swept: Sweep | None = field(default=None, init=False)
    digests: dict[str, str] = field(default_factory=dict, init=False)
    measured: dict[str, Any] = field(default_factory=dict, init=False)

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
        arms: Mapping[str, Mapping[str, object]],
        names: Mapping[str, Words],
        plan: Plan,
        measure: Measure,
        data: str = "sample",
    ) -> Sweep:
        """Train each arm at several learning rates, and with further seeds at its best rate;
        measure the runs at the best rate.

        `arms` are recipes. If the best rate of an arm is the last that was tried, a further one is
        tried, at most `plan.extra` times. A quick sweep trains one seed at the best rate of the
        shipped results, and adds the shipped runs.
        """
        files = _files(self.data(data))
        recipes = {
            arm: _recipe(values, files, plan.updates) for arm, values in arms.items()
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
            further_seeds = range(self.seed + 1, self.seed + plan.seeds)
            keys = [(arm, best[arm], seed) for arm in recipes for seed in further_seeds]
            runs += self._train(recipes, keys)
        else:
            best = self._shipped_best(shipped, plan)
            self._forecast(shipped, best)
            keys = [(arm, best[arm], self.seed) for arm in recipes]
            runs = self._train(recipes, keys)

        measured = [
            self._measure(run, measure) if run.rate == best[run.arm] else run
            for run in runs
        ]
        trained = {(run.arm, run.rate, run.seed) for run in measured}
        added = [
            run
            for arm in recipes
            for run in shipped[arm]
            if (run.arm, run.rate, run.seed) not in trained
        ]
        self.swept = Sweep(names, best, (*measured, *added), self.digests)
        return self.swept

    def _shipped_best(
        self, shipped: Mapping[str, Sequence[Run]], plan: Plan
    ) -> dict[str, float]:
        """Return the best rate of each arm by its shipped runs; the middle rate if it has none."""
        middle = plan.rates[len(plan.rates) // 2]
        best = {}
        for arm, runs in shipped.items():
            best[arm] = self.shipped.best[arm] if self.shipped and runs else middle
        return best

    def _forecast(
        self, shipped: Mapping[str, Sequence[Run]], best: Mapping[str, float]
    ) -> None:
        """Report how long one run of each arm will take, by the shipped runs at its best rate."""
        means = []
        for arm, runs in shipped.items():
            seconds = [run.seconds for run in runs if run.rate == best[arm]]
            if seconds:
                means.append(sum(seconds) / len(seconds))
        # Assume that arms without shipped runs take as long as the slowest of the others.
        unknown = [max(means, default=0.0)] * (len(shipped) - len(means))
        self._pool.forecast([*means, *unknown])

    def own(self, arm: str) -> list[Path]:
        """Return the folders of an arm's finished runs that were trained here at its best rate."""
        chosen = self.swept.chosen(arm) if self.swept else []
        folders = [
            self.job(run.arm, run.rate, run.seed).folder
            for run in chosen
            if not run.is_shipped
        ]
        return [folder for folder in folders if has_ended(folder)]

    def record(self, name: str, measure: Callable[[], Any]) -> Any:
        """Measure something besides the scores of runs, and keep it with the results."""
        self.measured[name] = measure()
        return self.measured[name]

    def _shipped_runs(self, arm: str, digest: str) -> list[Run]:
        """Return the shipped runs of an arm; none if its settings have changed since."""
        if self.shipped is None or self.shipped.recipes.get(arm) != digest:
            return []
        return [run for run in self.shipped.runs if run.arm == arm]

    def _search(
        self, recipes: Mapping[str, dict[str, object]], plan: Plan
    ) -> tuple[list[Run], dict[str, float]]:
        """Train each arm with one seed at the planned rates, and at further ones if needed.

        A further rate is tried as long as the lowest or highest rate is the best, or no run has
        learnt anything. Return the runs, and the best rate of each arm.
        """
        self.say(f"training {len(recipes)} models at {len(plan.rates)} learning rates")
        runs = self._train(
            recipes, [(arm, rate, self.seed) for rate in plan.rates for arm in recipes]
        )
        for _ in range(plan.extra):
            further = list[tuple[str, float, int]]()
            for arm in recipes:
                arm_runs = [run for run in runs if run.arm == arm]
                rates = sorted(run.rate for run in arm_runs)
                best = best_rate(arm_runs)
                has_learnt = max(run.valid for run in arm_runs) >= LEARNT
                if best == rates[0] or not has_learnt:
                    further.append((arm, rates[0] / 2, self.seed))
                elif best == rates[-1]:
                    further.append((arm, rates[-1] * 2, self.seed))
            runs += self._train(recipes, further)

        best_rates = {
            arm: best_rate([run for run in runs if run.arm == arm]) for arm in recipes
        }
        return runs, best_rates

    def _train(
        self,
        recipes: Mapping[str, dict[str, object]],
        keys: Sequence[tuple[str, float, int]],
    ) -> list[Run]:
        """Train a run for each key (arm, rate, seed); a run that diverged scores 0."""
        jobs = [self.job(*key) for key in keys]
        for job, (arm, rate, _) in zip(jobs, keys, strict=True):
            values = merge(recipes[arm], {"schedule": {"peak": rate}})
            recipe = Recipe.parse(values, arm).model_dump(exclude_none=True)
            job.recipe.parent.mkdir(parents=True, exist_ok=True)
            write_text(job.recipe, tomli_w.dumps(recipe))

        diverged = self._pool.train(jobs)
        runs = []
        for job, (arm, rate, seed) in zip(jobs, keys, strict=True):
            valid, seconds = 0.0, 0.0
            if job.folder not in diverged:
                valid, seconds = self._outcome(job.folder)
            runs.append(Run(arm, rate, seed, valid, seconds))
        return runs

    def job(self, arm: str, rate: float, seed: int) -> Job:
        """Return the job of a run, which has its own folder."""
        name = f"{arm}-{rate:.3g}"
        recipe = self.out / "recipes" / f"{name}.toml"
        folder = self.out / "runs" / f"{name}-seed{seed}"
        return Job(arm, recipe, folder, seed, self._plan.updates)

    def _outcome(self, folder: Path) -> tuple[float, float]:
        """Return the best validation score of a run, and its seconds from start to end.

        The score is CIDEr-D for captions and chrF for translations, unless the plan is `by_loss`.
        """
        events = read(folder / "journal.jsonl")
        scores = list[float]()
        for event in of_kind(events, "valid"):
            loss = event.get("loss")
            if loss is None:
                continue
            score = event.get("cider", event.get("chrf"))
            if self._plan.by_loss:
                score = 100 * math.exp(-loss)
            if score is not None:
                scores.append(score)
        seconds = float(events[-1]["time"] - events[0]["time"]) if events else 0.0
        return max(scores, default=0.0), seconds

    def _measure(self, run: Run, measure: Measure) -> Run:
        """Measure a run unless that was done before; a run that diverged gets no scores."""
        folder = self.job(run.arm, run.rate, run.seed).folder
        path = self.out / "measured" / f"{folder.name}.json"
        if not has_ended(folder):
            return run
        if not path.is_file():
            path.parent.mkdir(exist_ok=True)
            write_text(path, json.dumps(measure(folder)) + "\n")
        return replace(run, scores=parse_json(file_bytes(path)))


def _recipe(
    values: Mapping[str, object], data: Mapping[str, object], updates: int
) -> dict[str, object]:
    """Merge the common settings, the data, the number of updates, and the values of a model."""
    validate_every = max(1, updates // 8)
    experiment_settings = {
        "data": dict(data),
        "schedule": {"warmup": validate_every},
        "training": {
            "updates": updates,
            "validate_every": validate_every,
            "log_every": max(1, validate_every // 4),
        },
    }
    return merge(merge(COMMON, experiment_settings), values)


def _files(folder: Path) -> dict[str, object]:
    """Return the data settings for the files in a folder."""
    absolute = folder.absolute()
    if (folder / "images").is_dir():
        image_settings = {
            "captions": str(absolute / "train.en.tsv"),
            "valid_captions": str(absolute / "valid.en.tsv"),
            "folder": str(absolute / "images"),
        }
        return {"images": image_settings}
    names = {
        "source": "train.ko",
        "target": "train.en",
        "valid_source": "valid.ko",
        "valid_target": "valid.en",
    }
    return {key: str(absolute / name) for key, name in names.items()}
