"""One run, from its recipe to its model folder: the data, the model, the training, and what is said meanwhile."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.app import say
from regard.cli.train_config import longest_of
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.data.batching import BatchSource
    from regard.data.prepare import PreparedData
    from regard.data.tokenizer import Tokenizer
    from regard.model_folder import FolderSettings
    from regard.models import Model
    from regard.training import Outcome, Recipe, World

__all__ = ["RunMode", "report_dry_run", "run"]


@dataclass(frozen=True)
class RunMode:
    """How a run begins: anew, where it stopped (`resume`), or with the largest of several `sizes` that a time budget
    suffices for.
    """

    resume: bool = False
    sizes: dict[str, Recipe] = field(default_factory=dict)


def run(
    recipe: Recipe, out: Path, start: RunMode | None = None, device: str = "cpu", world: World | None = None
) -> Outcome:
    """Train by this recipe in this folder. Raises UsageError where a run is there that is not to be resumed, and where
    another process is training in it.
    """
    from regard.training import World
    from regard.training.run_lock import lock_run

    start, world = start or RunMode(), world or World()
    recipe.model.check(recipe.tokenizer.joint)
    if not start.resume:
        _check_parent(recipe)
    if world.is_main:
        _check_folder(out, start.resume)
    with lock_run(out) if world.is_main else nullcontext():
        world.barrier()
        return _trained(recipe, out, start, device, world)


def _trained(recipe: Recipe, out: Path, start: RunMode, device: str, world: World) -> Outcome:
    import torch

    from regard.cli.progress import TrainReporter
    from regard.evaluation.validation import validation
    from regard.models import count_parameters
    from regard.training import Trainer, model_card
    from regard.training.checkpoint import there
    from regard.training.tensorboard_log import listeners

    if start.resume:
        recipe = _reconciled(recipe, out)
    recipe = recipe.resolved(device, world.size)
    _check_guided(recipe)
    goes_on = start.resume and there(out)
    recipe, settings, data = _prepared(recipe, out, start, device, world)
    torch.manual_seed(recipe.training.seed)
    tokenizer, batches = data.tokenizer, data.batches
    model = _model(recipe, tokenizer, begun=goes_on).to(device)
    say(f"model: {count_parameters(model):,} weights · {recipe.training.precision} on {device}{_processes(world)}")
    say(_about(batches, recipe))
    watched = validation(data.valid, tokenizer, settings, recipe.training.validate_with)
    with TrainReporter() as teller:
        tell = listeners(teller, out, recipe.training.tensorboard and world.is_main)
        trainer = Trainer(model, batches, recipe, out, watched, tell, world)
        if start.resume:
            if not trainer.resume():
                say("there is no checkpoint yet: starting from the beginning")
            if world.is_main:
                recipe.write(out / "train.toml")
        if world.is_main:
            world.begun()  # all that was asked for is in the folder now, and nothing of the run in its journal yet
            trainer.journal.write("machine", **_machine(device), processes=world.size)
        outcome = trainer.run()
    if world.is_main:
        model_card.write(out, trainer.recipe, data.facts, outcome)
    return outcome


def _prepared(
    recipe: Recipe, out: Path, start: RunMode, device: str, world: World
) -> tuple[Recipe, FolderSettings, PreparedData]:
    """The data of a run, its recipe with nothing left open, and what its folder holds from the start.

    The first process makes vocabulary, shards and folder; the others wait, and read them.
    """
    from regard.model_folder import CONFIG, load_settings
    from regard.settings import read_toml
    from regard.training import Recipe

    begun = start.resume and (out / CONFIG).exists()
    world.barrier()  # until all have looked, before the first one writes
    if world.is_main:
        data = _data(recipe, out, begun)
        if start.sizes:
            recipe = _within_budget(recipe, start.sizes, data, device, world.size)
        settings = load_settings(out) if begun else _folder(recipe, data, out)
    world.barrier()
    if not world.is_main:
        settings = load_settings(out)
        if not begun:
            recipe = Recipe.parse(read_toml(out / "train.toml"), str(out / "train.toml"))
        data = _data(recipe, out, True)
    return recipe, settings, data


def _data(recipe: Recipe, out: Path, begun: bool) -> PreparedData:
    """Read the corpora and make batches of them, with the run's vocabulary, the other run's, or one made now."""
    from regard.data.prepare import prepare_data
    from regard.data.tokenizer import Tokenizer
    from regard.model_folder import load_settings
    from regard.training.script_check import check_scripts

    parent = None if begun else _parent(recipe)
    given: Tokenizer | None = None
    if begun or parent is not None:
        given = Tokenizer.load(parent or out, load_settings(parent or out).tokenizer)

    def look(sources: Sequence[str], targets: Sequence[str]) -> None:
        if given is not None and parent is not None:
            if sources:
                check_scripts(sources, given.source, "the source side")
            check_scripts(targets, given.target, "the target side")

    batching, seed = recipe.batching, recipe.training.seed
    wanted = recipe.data if recipe.training.guided else recipe.data.without_alignments()
    data = prepare_data(wanted, given or recipe.tokenizer, batching, seed, out, log=say, inspect=look)
    say(*data.report, *data.changes)
    if not begun:
        sizes = f"{len(data.tokenizer.source):,}"
        sizes += "" if recipe.tokenizer.joint else f" + {len(data.tokenizer.target):,}"
        say(f"vocabulary: {sizes} pieces{f' of {parent}' if parent else ''}")
    return data


def _about(batches: BatchSource, recipe: Recipe) -> str:
    source, target = batches.padding()
    together = f" in {batches.per_update} batches each" if batches.per_update > 1 else ""
    updates = math.ceil(batches.epoch_stats.batches / batches.per_update)
    entries, sides = "pieces a side", ("the source", "the target")
    if recipe.data.images is not None:
        entries, sides = "cells of pictures or pieces of captions", ("the pictures", "the captions")
    return (
        f"updates: {updates:,} an epoch of at most {recipe.batching.tokens:,} {entries}{together}, "
        f"padding {source:.1%} of {sides[0]} and {target:.1%} of {sides[1]}"
    )


def _processes(world: World) -> str:
    return f" in {world.size} processes{', weights split over them' * world.sharded}" if world.size > 1 else ""


def _reconciled(recipe: Recipe, out: Path) -> Recipe:
    """The recipe that a run goes on with; what differs from the one it began with is told."""
    from regard.settings import read_toml
    from regard.training import Recipe
    from regard.training.recipe_diff import reconcile

    path = out / "train.toml"
    recipe, said = reconcile(Recipe.parse(read_toml(path), str(path)), recipe)
    say(*said)
    return recipe


def _folder(recipe: Recipe, data: PreparedData, out: Path) -> FolderSettings:
    """Write what stays the same through a run; `config.json` comes last."""
    from regard.model_folder import FolderSettings, load_settings, save_folder

    images, parent = recipe.data.images, _parent(recipe)
    frame = None if images is None else images.size_settings
    settings = FolderSettings(model=recipe.model, tokenizer=recipe.tokenizer, search=recipe.search, images=frame)
    name, longest = longest_of(settings), data.longest_source
    if parent is not None:  # it has not forgotten those
        longest = max(longest, getattr(load_settings(parent).search, name) or 0)
    if not getattr(recipe.search, name):
        settings = settings.with_values(search=recipe.search.with_values(**{name: longest}))
    out.mkdir(parents=True, exist_ok=True)
    recipe.write(out / "train.toml")
    save_folder(out, settings, data.tokenizer)
    return settings


def _parent(recipe: Recipe) -> Path | None:
    return None if recipe.training.parent is None else Path(recipe.training.parent)


def _model(recipe: Recipe, tokenizer: Tokenizer, begun: bool = False) -> Model:
    """The model as a run begins with it; where it has begun, the weights come from its checkpoint."""
    from regard.model_folder import WEIGHTS, load_tensors, load_weights
    from regard.models import build, load_pretrained

    model = build(recipe.model, len(tokenizer.source), len(tokenizer.target), recipe.tokenizer.joint)
    parent = _parent(recipe)
    if begun:
        return model
    if parent is not None:
        load_weights(model, load_tensors(parent / WEIGHTS), parent / WEIGHTS)
    else:
        load_pretrained(model, recipe.model)
    return model


def _check_parent(recipe: Recipe) -> None:
    """Raise UsageError, with all causes, where this is another vocabulary or another shape than those of the run whose
    vocabulary and weights are kept.
    """
    from regard.data.tokenizer import Tokenizer
    from regard.model_folder import WEIGHTS, load_settings, load_tensors
    from regard.models import build

    parent = _parent(recipe)
    if parent is None:
        return
    kept = load_settings(parent)
    asked, own = recipe.tokenizer.model_dump(), kept.tokenizer.model_dump()
    causes = [
        f"tokenizer.{name} = {asked[name]!r}: with --from the vocabulary of {parent} is kept ({own[name]!r}); leave it "
        "out"
        for name in (own if asked["kind"] == own["kind"] else ["kind"])  # another kind knows nothing of the rest
        if asked[name] != own[name]
    ]
    if not causes:
        import torch

        tokenizer = Tokenizer.load(parent, kept.tokenizer)
        with torch.device("meta"):
            model = build(recipe.model, len(tokenizer.source), len(tokenizer.target), recipe.tokenizer.joint)
        wanted = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
        there = {name: tuple(weight.shape) for name, weight in load_tensors(parent / WEIGHTS).items()}
        others = [name for name in sorted({*wanted, *there}) if wanted.get(name) != there.get(name)]
        if others:
            causes.append(
                f"with --from the weights of {parent} are kept, and this model has others (such as {others[0]}: "
                f"{there.get(others[0], 'none')} there, {wanted.get(others[0], 'none')} here); leave out what changes "
                "the model's shape, or train without --from"
            )
    if causes:
        raise UsageError(*causes)


def _check_guided(recipe: Recipe) -> None:
    """Say which head is guided, if any. Raises ConfigurationError for one that this model lacks."""
    import torch

    from regard.models import build
    from regard.training.guided import Guide

    if not recipe.training.guided and recipe.data.alignment_files:
        say("training.guided = 0: the alignments are not used")
    with torch.device("meta"):
        guide = Guide.of(build(recipe.model, 8, 8, recipe.tokenizer.joint), recipe.training)
    if guide is not None:
        say(f"guided: {guide.layer}, head {guide.head + 1}, weight {guide.weight:g} (training.guided)")


def _within_budget(
    recipe: Recipe, sizes: dict[str, Recipe], data: PreparedData, device: str, processes: int = 1
) -> Recipe:
    from regard.training.budget import choose

    assert recipe.training.minutes is not None, "a budget is a number of minutes"
    vocabularies = len(data.tokenizer.source), len(data.tokenizer.target)
    resolved = {name: size.resolved(device, processes) for name, size in sizes.items()}
    choice = choose(recipe.training.minutes, resolved, data.batches, vocabularies, device, processes)
    say(*choice.said)
    return choice.recipe


def report_dry_run(recipe: Recipe, start: RunMode, device: str) -> None:
    """What `--dry-run` says: the model and its parts, memory, time, and where else it could run."""
    from tempfile import TemporaryDirectory

    import torch

    from regard.training.run_report import report_run

    recipe.model.check(recipe.tokenizer.joint)
    _check_parent(recipe)
    recipe = recipe.resolved(device)
    _check_guided(recipe)
    with TemporaryDirectory() as folder:
        data = _data(recipe, Path(folder), False)
        if start.sizes:
            recipe = _within_budget(recipe, start.sizes, data, device)
        torch.manual_seed(recipe.training.seed)
        model = _model(recipe, data.tokenizer).to(device)
        say(_about(data.batches, recipe))
        for line in report_run(model, recipe, data.batches, device):
            typer.echo(line)


def _machine(device: str) -> dict[str, Any]:
    """What else the bits of a run depend on."""
    import platform

    import torch

    import regard

    versions = {"regard": regard.__version__, "torch": torch.__version__, "python": platform.python_version()}
    return {**versions, "device": device, "threads": torch.get_num_threads(), "processor": platform.machine()}


def _check_folder(out: Path, resume: bool) -> None:
    """Raise UsageError where this folder cannot be written, or holds something that would be lost."""
    from regard.model_folder import CONFIG, WEIGHTS

    there = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise UsageError(f"--out {out}: nothing can be written in {there}; choose another folder")
    if resume:
        return
    if (out / "journal.jsonl").exists():
        raise UsageError(f"{out}: there is a run already; add --resume to go on with it, or choose another --out")
    others = [name for name in ("README.md", CONFIG, WEIGHTS) if (out / name).exists()]
    if others and not (out / "train.toml").exists():
        raise UsageError(f"--out {out}: its {' and '.join(others)} would be overwritten; choose another folder")
