"""Train the models of a comparison one after another under an equal budget, and resume after an
interruption.

The plan is written to `plan.json` before anything is trained; a comparison that is started again
continues with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from regard.common.arguments import Report
from regard.common.atomic import write_text
from regard.common.counting import counted
from regard.common.errors import DataError, RegardError, UsageError
from regard.common.notebook import progress_bar
from regard.common.plugins import short
from regard.common.reading import file_bytes, parse_json
from regard.common.requests import call_with
from regard.comparison.entries import has_ended
from regard.data.provenance import DATA_FILE, fingerprint_files, refuse_changed_files
from regard.evaluation.training_report import without_advice
from regard.requests.train_request import TrainArguments
from regard.run import Interrupted, TrainPlan, plan_training, train
from regard.training.checkpoint import has_checkpoint
from regard.training.compose_recipe import RecipeComposer
from regard.training.recipe import Recipe, presets, read_run_recipe

PLAN = "plan.json"
RUNS = "runs"
Decode = Callable[[Any], object]
"""Decodes a few lines or images of the test set with a translator or captioner."""
MIN_VALIDATIONS = 10
"""Smallest number of validations of a run, so that even short runs have learning curves."""
UPDATES_PER_WARMUP = 8
"""The warm-up of the learning rate takes at most one of so many updates."""


@dataclass(frozen=True)
class Budget:
    """Budget of each run: minutes of training, updates, or target tokens; one of them is set."""

    minutes: float | None = None
    updates: int | None = None
    tokens: int | None = None

    def problems(self) -> list[str]:
        """Return a sentence for each mistake."""
        limits = {
            name: value for name, value in asdict(self).items() if value is not None
        }
        if len(limits) != 1:
            problem = (
                "a budget for each run is needed: give one of `minutes=`, `updates=` or "
                "`tokens=`"
            )
            return [f"{problem}, not several" if limits else problem]
        ((name, value),) = limits.items()
        if value <= 0:
            return [f"`{name}={value}`: a budget too small for one update; give more"]
        return []

    def __str__(self) -> str:
        if self.minutes is not None:
            return f"{self.minutes:g} minutes of training each"
        if self.updates is not None:
            return f"{counted(self.updates, 'update')} each"
        return f"{self.tokens:,} target tokens each"


@dataclass(frozen=True)
class ModelPlan:
    """A model to train: a preset or a recipe file, settings that override it, and the updates of
    its runs.

    `expected` is the number of updates that the budget allows, as estimated by a short trial.
    `updates` is the same for all seeds; if the budget is in minutes, it is None until the first run
    has ended.
    """

    preset: str | None
    recipe: str | None
    settings: Mapping[str, object] = field(default_factory=dict)
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
        """Name of the model, seed, and folder below `runs` for each run, all models of a seed
        together.
        """
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        return [
            (name, seed, f"{name}-seed{seed}") for seed in seeds for name in self.models
        ]


def load_plan(folder: Path) -> Plan | None:
    """Read the plan of a comparison that was started in this folder; None if there is none. Raises
    DataError if it is damaged.
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
    names: Sequence[str | Path], settings: Mapping[str, object]
) -> dict[str, ModelPlan]:
    """Make a plan for each preset or recipe file (.toml). Raises UsageError, with all causes, for
    unknown ones.
    """
    models = dict[str, ModelPlan]()
    causes = list[str]()
    for preset_or_file in names:
        path = Path(preset_or_file)
        is_file = path.suffix == ".toml"
        name = path.stem if is_file else str(preset_or_file)
        if name in models:
            causes.append(
                f"{preset_or_file}: is given twice; `seeds=` trains a model several times"
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


@dataclass(frozen=True)
class Environment:
    """Device and threads of the runs, and the function that is told of their events."""

    device: str
    threads: int | None
    report: Report | None

    def applied(self, arguments: TrainArguments) -> TrainArguments:
        """Return the arguments of a training here."""
        return replace(arguments, device=self.device, threads=self.threads)


def complete_plan(plan: Plan, environment: Environment, decode: Decode) -> Plan:
    """Compute how many updates the budget allows each model.

    The data are read, a few updates of a new model are timed, and a new model decodes, so that what
    is wrong with any model, such as code of a plug-in, shows before the first one is trained.
    Raises RegardError, with all causes, also if the budget does not allow a single update.
    """
    causes = list[str]()
    models = dict[str, ModelPlan]()
    for name, model in plan.models.items():
        try:
            arguments = _arguments(plan, model, plan.first_seed)
            say(
                environment.report,
                f"{name}: reading the data, timing a few updates, decoding a few lines",
            )
            models[name] = _with_allowed_updates(
                model,
                plan.budget,
                plan_training(environment.applied(arguments), decode),
            )
            if not models[name].expected:
                causes.append(
                    f"{name}: a budget of {plan.budget} is too small for one update; give more"
                )
        except RegardError as problem:
            causes += [f"{name}: {cause}" for cause in problem.causes]
    UsageError.raise_all(dict.fromkeys(causes))
    return replace(plan, models=models)


def _with_allowed_updates(
    model: ModelPlan, budget: Budget, speed: TrainPlan
) -> ModelPlan:
    """Return the plan of a model with the updates that the budget allows at this speed."""
    updates = budget.updates
    if budget.tokens is not None:
        updates = int(budget.tokens / speed.tokens_per_update)
    if updates is not None:
        return replace(model, expected=updates, updates=updates)
    assert budget.minutes is not None, "checked before"
    return replace(model, expected=int(budget.minutes * 60 / speed.seconds_per_update))


def _arguments(
    plan: Plan, model: ModelPlan, seed: int, end: Mapping[str, object] | None = None
) -> TrainArguments:
    files: dict[str, Any] = dict(plan.data)
    return TrainArguments(
        model.recipe,
        **files,
        preset=model.preset,
        settings={**(end or {}), **model.settings},
        seed=seed,
    )


def begin(plan: Plan, out: Path, environment: Environment, decode: Decode) -> Plan:
    """Complete and save a plan, or return that of the same comparison begun in this folder, to
    which seeds may be added.

    Another plan is replaced while no run of it has begun; then UsageError is raised.
    """
    begun = load_plan(out)
    differing = [] if begun is None else _differences(begun, plan)
    if begun is not None and not differing:
        check_plugins(begun, out)
        check_files(begun, out)
        return replace(begun, seeds=plan.seeds)
    if begun is not None and any(map(_has_begun, _run_folders(begun, out))):
        raise UsageError(
            f"{out}: another comparison was begun there ({'; '.join(differing)}); repeat its "
            f"arguments to continue it, delete {out / RUNS} to begin this one in its place, or "
            "choose another `out=`"
        )
    plan = complete_plan(plan, environment, decode)
    plan.save(out)
    return plan


def _run_folders(plan: Plan, out: Path) -> list[Path]:
    return [out / RUNS / folder for _, _, folder in plan.folders]


def _has_begun(run: Path) -> bool:
    return has_checkpoint(run) or has_ended(run)


def _differences(begun: Plan, plan: Plan) -> list[str]:
    """Return what differs between the plan begun in a folder and another one, but for the number
    of seeds.
    """
    before, now = (
        dict(_flat("", {**asdict(one), "seeds": 0})) for one in (begun, plan)
    )
    return [
        f"{name}: {before.get(name)}, and now {now.get(name)}"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]


def _flat(prefix: str, values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the values of nested tables by dotted name, without those that follow from a trial."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        elif not (prefix.startswith("models.") and name in ("expected", "updates")):
            yield f"{prefix}{name}", value


def check_plugins(plan: Plan, out: Path) -> None:
    """Raise DataError if runs of the plan were begun with other versions of its plug-ins."""
    changed = dict[Path, str]()
    for name, seed, folder in plan.folders:
        run = out / RUNS / folder
        if not _has_begun(run):
            continue
        recipe = RecipeComposer(_arguments(plan, plan.models[name], seed)).compose()
        now = (*recipe.model.plugins, *recipe.tokenizer.plugins)
        values = read_run_recipe(run / "train.toml")
        parts = [values.get(part, {}) for part in ("model", "tokenizer")]
        recorded = [plugin for part in parts for plugin in part.get("plugins", ())]
        if now and {*recorded} != {*now}:
            changed[run] = short(", ".join(recorded))
    if changed:
        raise DataError(
            f"{', '.join(map(str, changed))}: trained with {next(iter(changed.values()))}, which "
            "has changed: delete these folders and repeat the command, which trains them again; or "
            "put the plug-in back"
        )


def check_files(plan: Plan, out: Path) -> None:
    """Raise DataError, with all causes, if a run of the plan was started with data files whose
    content has changed.
    """
    begun = [run for run in _run_folders(plan, out) if (run / DATA_FILE).is_file()]
    if not begun:
        return
    model = next(iter(plan.models.values()))
    recipe = RecipeComposer(_arguments(plan, model, plan.first_seed)).compose()
    fingerprints = fingerprint_files(recipe.data)
    for run in begun:
        refuse_changed_files(
            run,
            fingerprints,
            "put back what it was to go on, or compare anew in another `out=`",
        )


def train_missing(plan: Plan, out: Path, environment: Environment) -> Plan:
    """Train each run that has not ended; return the plan with the updates of all models.

    Raises Interrupted if a signal stops training; the next call resumes from the checkpoint.
    """
    for number, (name, seed, folder) in enumerate(plan.folders, 1):
        path = out / RUNS / folder
        model = plan.models[name]
        if not has_ended(path):
            say(
                environment.report,
                "",
                f"training {name}, seed {seed} ({number} of {len(plan.folders)}) in {path}",
            )
            _train(plan, model, seed, path, environment)
        if model.updates is None:
            plan = _with_updates(plan, name, path)
            plan.save(out)
    return plan


def _train(
    plan: Plan, model: ModelPlan, seed: int, path: Path, environment: Environment
) -> None:
    if has_checkpoint(path):
        arguments = TrainArguments(resume=True)
    else:
        arguments = _arguments(plan, model, seed)
        recipe = RecipeComposer(arguments).compose()
        arguments = _arguments(plan, model, seed, _ending(plan.budget, model, recipe))
    arguments = environment.applied(arguments)
    report = environment.report or progress_bar(path.name)
    run = call_with(train, arguments, out=path, report=without_advice(report))
    if run.outcome.stopped is not None:
        raise Interrupted(run.outcome.stopped)


def _ending(budget: Budget, model: ModelPlan, recipe: Recipe) -> dict[str, object]:
    """Return the settings that depend on the budget: the end of training, and a warm-up and
    validations that fit into it.

    Early stopping is disabled, since with few validations it would depend on chance. All values
    follow from the expected updates in the plan, so that all seeds of a model have the same recipe.
    """
    training = recipe.training
    validate_every = max(
        1, min(training.validate_every, model.expected // MIN_VALIDATIONS)
    )
    settings: dict[str, object] = {}
    if model.updates is None:
        settings["training.minutes"] = budget.minutes
    else:
        settings["training.updates"] = model.updates
    settings["training.validate_every"] = validate_every
    settings["training.patience"] = max(training.patience, 10 * MIN_VALIDATIONS)
    settings["training.log_every"] = max(1, min(training.log_every, validate_every))
    longest_warmup = max(1, model.expected // UPDATES_PER_WARMUP)
    settings["schedule.warmup"] = min(recipe.schedule.warmup, longest_warmup)
    return settings


def _with_updates(plan: Plan, name: str, path: Path) -> Plan:
    """Set the updates of all runs of a model to the number that its first run completed."""
    values = read_run_recipe(path / "train.toml").get("training", {})
    model = replace(plan.models[name], updates=values.get("updates"))
    return replace(plan, models={**plan.models, name: model})


def say(report: Report | None, *lines: str) -> None:
    """Report messages."""
    for line in lines:
        if report is not None:
            report("message", {"text": line})
