"""Train the models of a comparison under an equal budget, one after another, and continue after a
stop.

The plan stands in `plan.json` before anything is trained: a comparison that is started again
continues with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from regard.common.atomic import write_text
from regard.common.counting import counted
from regard.common.errors import DataError, RegardError, UsageError
from regard.common.reading import file_bytes, parse_json
from regard.comparison.entries import has_ended
from regard.data.provenance import DATA_FILE, fingerprint_files, refuse_changed_files
from regard.run import Interrupted, TrainPlan, plan_training, train_request
from regard.training.compose_recipe import TrainRequest, data_table
from regard.training.journal import Report
from regard.training.recipe import Recipe, presets, read_run_recipe

PLAN = "plan.json"
RUNS = "runs"
VALIDATIONS = 10
"""Validations of a run, so that learning curves have points even of a short one."""
WARMUP = 8
"""At most one in so many updates warms up."""


@dataclass(frozen=True)
class Budget:
    """The resources of each run: one of minutes of training, updates, or target tokens."""

    minutes: float | None = None
    updates: int | None = None
    tokens: int | None = None

    def problems(self) -> list[str]:
        """Sentences on what is wrong with it."""
        given = {
            name: value for name, value in asdict(self).items() if value is not None
        }
        if len(given) != 1:
            kinds = "`minutes=`, `updates=` or `tokens=`"
            return [
                f"a budget for each run is needed: give one of {kinds}"
                + (", not several" if given else "")
            ]
        ((name, value),) = given.items()
        return (
            []
            if value > 0
            else [f"`{name}={value}`: a budget too small for one update; give more"]
        )

    def __str__(self) -> str:
        if self.minutes is not None:
            return f"{self.minutes:g} minutes of training each"
        return (
            f"{counted(self.updates, 'update')} each"
            if self.updates is not None
            else f"{self.tokens:,} target tokens each"
        )


@dataclass(frozen=True)
class ModelPlan:
    """A model to train under one name: a preset or recipe file with settings on top, and the
    updates of its runs.

    `expected` is the number of updates that the budget allows by a trial. `updates` is fixed once
    it is known: with minutes, when the first run has measured its speed; all seeds then take as
    many.
    """

    preset: str | None
    recipe: str | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    expected: int = 0
    updates: int | None = None


@dataclass(frozen=True)
class Plan:
    """The plan of a comparison: budget, seeds, data files and models by name."""

    budget: Budget
    seeds: int
    data: Mapping[str, str | None]
    models: Mapping[str, ModelPlan]
    first_seed: int = 1

    def save(self, folder: Path) -> None:
        """Write the plan."""
        folder.mkdir(parents=True, exist_ok=True)
        write_text(
            folder / PLAN, json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n"
        )

    @property
    def folders(self) -> list[tuple[str, int, str]]:
        """The name of the model, the seed, and the folder below `runs` of each run; seed after
        seed.
        """
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        return [
            (name, seed, f"{name}-seed{seed}") for seed in seeds for name in self.models
        ]


def load_plan(folder: Path) -> Plan | None:
    """Read the plan of a comparison that was begun; None if there is none. Raises DataError if it
    is damaged.
    """
    path = folder / PLAN
    if not path.is_file():
        return None
    try:
        return TypeAdapter(Plan).validate_python(parse_json(file_bytes(path)))
    except ValidationError as problem:
        damage = "; ".join(
            f"{'.'.join(map(str, error['loc']))}: {error['msg']}"
            for error in problem.errors()
        )
    except (OSError, ValueError) as problem:
        damage = str(problem)
    raise DataError(
        f"{path}: damaged ({damage}); delete it and begin again, or choose another `out=`"
    )


def model_plans(
    names: Sequence[str | Path], settings: Mapping[str, Any]
) -> dict[str, ModelPlan]:
    """Make a plan for each preset, or recipe file (.toml). Raises UsageError, with all causes, for
    unknown ones.
    """
    models = dict[str, ModelPlan]()
    causes = list[str]()
    for item in names:
        path = Path(item)
        is_file = path.suffix == ".toml"
        name = path.stem if is_file else str(item)
        if name in models:
            causes.append(
                f"{item}: is given twice; `seeds=` trains a model several times"
            )
        elif is_file and not path.is_file():
            causes.append(
                f"{path}: no such recipe file; give another, or one of {', '.join(presets())}"
            )
        elif not is_file and name not in presets():
            causes.append(
                f"no preset is called {name!r}; there are {', '.join(presets())}, or a recipe file "
                "(.toml)"
            )
        models[name] = ModelPlan(
            None if is_file else name, str(path) if is_file else None, dict(settings)
        )
    UsageError.raise_all(causes)
    return models


def complete_plan(
    plan: Plan, device: str, threads: int | None, report: Report | None
) -> Plan:
    """Find out how many updates the budget allows each model. Raises RegardError, with all causes,
    if it is none.

    With a number of updates there is nothing to find out; else the data are read and a few updates
    are timed.
    """
    causes = list[str]()
    models = dict[str, ModelPlan]()
    for name, model in plan.models.items():
        try:
            request = _request(plan, model, plan.first_seed)
            request.compose()  # settings that do not fit together
            if plan.budget.updates is not None:
                models[name] = replace(
                    model, expected=plan.budget.updates, updates=plan.budget.updates
                )
                continue
            say(report, f"{name}: reading the data and timing a few updates")
            models[name] = _allow(
                model, plan.budget, plan_training(request, device, threads)
            )
            if not models[name].expected:
                causes.append(
                    f"{name}: a budget of {plan.budget} is too small for one update; give more"
                )
        except RegardError as problem:
            causes += [f"{name}: {cause}" for cause in problem.causes]
    UsageError.raise_all(dict.fromkeys(causes))
    return replace(plan, models=models)


def _allow(model: ModelPlan, budget: Budget, trial: TrainPlan) -> ModelPlan:
    if budget.tokens is not None:
        updates = int(budget.tokens / trial.tokens_per_update)
        return replace(model, expected=updates, updates=updates)
    assert budget.minutes is not None, "checked before"
    return replace(model, expected=int(budget.minutes * 60 / trial.seconds_per_update))


def _request(
    plan: Plan, model: ModelPlan, seed: int, end: Mapping[str, Any] | None = None
) -> TrainRequest:
    data = data_table(**plan.data)
    settings = {**(end or {}), **model.settings}
    recipe = None if model.recipe is None else Path(model.recipe)
    return TrainRequest(
        recipe=recipe, preset=model.preset, data=data, settings=settings, seed=seed
    )


def check_files(plan: Plan, out: Path) -> None:
    """Raise DataError, with all causes, if a run of the plan was begun with files whose content is
    another now.
    """
    runs = [out / RUNS / folder for _, _, folder in plan.folders]
    begun = [run for run in runs if (run / DATA_FILE).is_file()]
    if not begun:
        return
    recipe = _request(plan, next(iter(plan.models.values())), plan.first_seed).compose()
    fingerprints = fingerprint_files(recipe.data)
    for run in begun:
        refuse_changed_files(
            run,
            fingerprints,
            "put back what it was to go on, or compare anew in another `out=`",
        )


def train_missing(
    plan: Plan, out: Path, device: str, threads: int | None, report: Report | None
) -> Plan:
    """Train each run that is not there yet, or not to its end; return the plan with all updates
    known.

    Raises Interrupted if a signal stops training; its checkpoint is saved, and the next call
    continues there.
    """
    for number, (name, seed, folder) in enumerate(plan.folders, 1):
        path = out / RUNS / folder
        model = plan.models[name]
        if not has_ended(path):
            say(
                report,
                "",
                f"training {name}, seed {seed} ({number} of {len(plan.folders)}) in {path}",
            )
            _train(plan, model, seed, path, device, threads, report)
        if model.updates is None:
            plan = _with_updates(plan, name, path)
            plan.save(out)
    return plan


def _train(  # noqa: PLR0913 - all that one run depends on
    plan: Plan,
    model: ModelPlan,
    seed: int,
    path: Path,
    device: str,
    threads: int | None,
    report: Report | None,
) -> None:
    if (path / "journal.jsonl").exists():
        request = TrainRequest(resume=True)
    else:
        request = _request(plan, model, seed)
        recipe = request.compose()
        request = _request(plan, model, seed, _ending(plan.budget, model, recipe))
    run = train_request(request, path, device, threads, report)
    if run.outcome.stopped is not None:
        raise Interrupted(run.outcome.stopped)


def _ending(budget: Budget, model: ModelPlan, recipe: Recipe) -> dict[str, Any]:
    """Settings that the budget decides: the end, and a warm-up and validations that fit into it.

    Nothing stops before: a model that is validated seldom would be stopped by chance. They follow
    from the expected updates, which stand in the plan, so that all seeds of a model have one
    recipe, whenever they were trained.
    """
    every = max(1, min(recipe.training.validate_every, model.expected // VALIDATIONS))
    return {
        **(
            {"training.minutes": budget.minutes}
            if model.updates is None
            else {"training.updates": model.updates}
        ),
        "training.validate_every": every,
        "training.patience": max(recipe.training.patience, 10 * VALIDATIONS),
        "training.log_every": max(1, min(recipe.training.log_every, every)),
        "schedule.warmup": min(
            recipe.schedule.warmup, max(1, model.expected // WARMUP)
        ),
    }


def _with_updates(plan: Plan, name: str, path: Path) -> Plan:
    """Fix the updates of all runs of a model by those that its first run came to in its minutes."""
    values = read_run_recipe(path / "train.toml").get("training", {})
    model = replace(plan.models[name], updates=values.get("updates"))
    return replace(plan, models={**plan.models, name: model})


def say(report: Report | None, *lines: str) -> None:
    """Report messages."""
    for line in lines:
        if report is not None:
            report("message", {"text": line})
