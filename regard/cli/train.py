"""regard train: from sentence pairs to a model folder."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.app import app, prepare, say
from regard.cli.options import Debug, Device, Quiet, Seed, Threads, device_named
from regard.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from regard.checkpoint import FolderSettings
    from regard.data.corpus import Corpus
    from regard.data.tokenizer import Tokenizer
    from regard.training import Outcome, Recipe

__all__ = ["run", "train"]

FIXED = ("model.", "tokenizer.", "search.", "training.seed")
"""What a run cannot change once it has begun: its folder says it already, and what is held out depends on the seed."""


@app.command()
def train(
    config: Annotated[Path | None, typer.Argument(help="A TOML file with a whole recipe or part of one.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder to write: it is a model folder too.")] = None,
    source: Annotated[str | None, typer.Option(help="Training sentences, one a line.")] = None,
    target: Annotated[str | None, typer.Option(help="Their translations, line by line.")] = None,
    valid_source: Annotated[str | None, typer.Option(help="Sentences on which training is watched.")] = None,
    valid_target: Annotated[str | None, typer.Option(help="Their translations.")] = None,
    pairs: Annotated[str | None, typer.Option(help="Instead of --source and --target: TSV or JSONL.")] = None,
    valid_pairs: Annotated[str | None, typer.Option(help="The same for validation.")] = None,
    preset: Annotated[str | None, typer.Option(help="A named starting point; regard.presets() lists them.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value, as often as needed.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in --out stopped.")] = False,
    device: Device = "auto",
    threads: Threads = None,
    seed: Seed = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train a model on sentence pairs; without validation files some pairs are held out for it.

    regard train --source train.ko --target train.en --valid-source valid.ko --valid-target valid.en --out RUN
    """
    prepare(threads, quiet, debug)
    if out is None:
        raise UsageError("--out: say which folder to write, such as --out runs/first")
    files = {
        "source": source,
        "target": target,
        "pairs": pairs,
        "valid_source": valid_source,
        "valid_target": valid_target,
        "valid_pairs": valid_pairs,
    }
    settings = [*(set_ or []), *([f"training.seed={seed}"] if seed is not None else [])]
    recipe = _recipe(config, preset, {k: v for k, v in files.items() if v}, settings, out if resume else None)
    outcome = run(recipe, out, resume, device_named(device))
    if outcome.stopped is not None:
        say(f"to go on: regard train --out {shlex.quote(str(out))} --resume")
        sys.exit(128 + outcome.stopped)


def _recipe(config: Path | None, preset: str | None, data: dict[str, Any], sets: list[str], run: Path | None) -> Recipe:
    from regard.settings import merge, override, read_toml
    from regard.training import Recipe
    from regard.training.recipe import preset as preset_values

    values: dict[str, Any] = {"data": {}}
    where = "the command line"
    if run is not None:
        if not (run / "train.toml").is_file():
            raise UsageError(f"--resume: {run / 'train.toml'} is missing, so {run} is no run; train without --resume")
        if preset is not None:
            raise UsageError(f"--preset {preset}: {run} has its recipe already; leave --preset or --resume out")
        config = config or run / "train.toml"
    if config is not None:
        values, where = {**values, **read_toml(config)}, str(config)
    named = preset or values.pop("preset", None)
    if named is not None or not _names_a_model(values):
        values = merge(preset_values(str(named or "transformer-tiny")), values)
    values = override(merge(values, {"data": data} if data else {}), sets)
    return Recipe.parse(values, where)


def _names_a_model(values: Mapping[str, Any]) -> bool:
    """Whether these settings say what encoder and decoder are, so that no preset need be put below them."""
    model = values.get("model")
    sides = [model.get(side) for side in ("encoder", "decoder")] if isinstance(model, dict) else []
    return bool(sides) and all(isinstance(side, dict) and "kind" in side for side in sides)


def run(recipe: Recipe, out: Path, resume: bool = False, device: str = "cpu") -> Outcome:
    """Train by this recipe in this folder. Raises UsageError where a run is there that is not to be resumed."""
    import torch

    from regard.cli.progress import Teller
    from regard.data.batching import Batches
    from regard.data.corpus import read_corpus, report_lines
    from regard.data.holdout import hold_out
    from regard.evaluation.validation import Validation, examples, resampled
    from regard.models import build, count
    from regard.training import Trainer, card

    recipe.model.check(recipe.tokenizer.joint)
    _check_folder(out, resume)
    if resume:
        _check_unchanged(recipe, out)
    corpora = read_corpus(recipe.data)
    if "valid" not in corpora:
        corpora["train"], corpora["valid"] = hold_out(corpora["train"], recipe.training.seed)
    say(*report_lines(corpora))
    recipe = recipe.resolved(device)
    torch.manual_seed(recipe.training.seed)
    settings, tokenizer = _folder(recipe, corpora["train"], out, resume)
    pairs = examples(corpora["train"].sources, corpora["train"].targets, tokenizer)
    joint = recipe.tokenizer.joint
    model = build(settings.model, len(tokenizer.source), len(tokenizer.target), joint).to(device)
    dropout = recipe.batching.subword_dropout
    again = resampled(corpora["train"], tokenizer, dropout) if dropout else None
    batches = Batches(pairs, recipe.batching, recipe.training.seed, again)
    sizes = f"{len(tokenizer.source):,}" + ("" if joint else f" + {len(tokenizer.target):,}")
    source_pads, target_pads = batches.padding()
    say(f"vocabulary: {sizes} pieces · model: {count(model):,} weights · {recipe.training.precision} on {device}")
    together = f" in {batches.together} batches each" if batches.together > 1 else ""
    say(
        f"updates: {-(-len(batches.epoch(0)) // batches.together):,} an epoch of at most {recipe.batching.tokens:,} "
        f"pieces a side{together}, padding {source_pads:.1%} of the source and {target_pads:.1%} of the target"
    )
    validation = Validation(corpora["valid"], tokenizer, settings, recipe.training.validate_with)
    with Teller() as teller:
        trainer = Trainer(model, batches, recipe, out, validation, teller)
        if resume:
            if not trainer.resume():
                say("there is no checkpoint yet: starting from the beginning")
            if recipe.training.minutes is None:  # else the run has turned them into updates
                recipe.write(out / "train.toml")
        trainer.journal.write("machine", **_machine(device))
        outcome = trainer.run()
    card.write(out, trainer.recipe, corpora, outcome)
    return outcome


def _machine(device: str) -> dict[str, Any]:
    """What else the bits of a run depend on."""
    import platform

    import torch

    import regard

    versions = {"regard": regard.__version__, "torch": torch.__version__, "python": platform.python_version()}
    return {**versions, "device": device, "threads": torch.get_num_threads(), "processor": platform.machine()}


def _check_folder(out: Path, resume: bool) -> None:
    """Raise UsageError where this folder cannot be written, or holds something that would be lost."""
    from regard.checkpoint import CONFIG, WEIGHTS

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


def _check_unchanged(recipe: Recipe, out: Path) -> None:
    """Raise ConfigurationError for settings that the run in this folder cannot change any more."""
    from regard.settings import read_toml
    from regard.training import Recipe

    path = out / "train.toml"
    before, now = (dict(_flat(some.model_dump())) for some in (Recipe.parse(read_toml(path), str(path)), recipe))
    changed = [key for key in sorted({*before, *now}) if key.startswith(FIXED) and before.get(key) != now.get(key)]
    if changed:
        was = {key: f"{key} is {before.get(key)!r} in {out}, not {now.get(key)!r}" for key in changed}
        raise ConfigurationError(
            *(f"--resume: {was[key]}; leave it, or train anew with another --out" for key in changed)
        )


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting by its dotted name."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _folder(recipe: Recipe, corpus: Corpus, out: Path, resume: bool) -> tuple[FolderSettings, Tokenizer]:
    """What stays the same through a run: read back when it goes on, else made and written."""
    from regard.checkpoint import FolderSettings, load_settings, save_folder
    from regard.data.tokenizer import EOS, Tokenizer

    if resume:
        settings = load_settings(out)
        return settings, Tokenizer.load(out, settings.tokenizer)
    tokenizer = Tokenizer.train(corpus.sources, corpus.targets, recipe.tokenizer)
    longest = max(len([*ids, EOS]) for ids in tokenizer.source.encode_all(corpus.sources))
    search = recipe.search.with_values(longest_source=recipe.search.longest_source or longest)
    settings = FolderSettings(model=recipe.model, tokenizer=recipe.tokenizer, search=search)
    save_folder(out, settings, tokenizer)
    recipe.write(out / "train.toml")
    return settings, tokenizer
