"""regard train: from sentence pairs to a model folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.app import app, prepare, say
from regard.cli.options import Debug, Device, Quiet, Seed, Threads, device_named
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.checkpoint import FolderSettings
    from regard.data.corpus import Corpus
    from regard.data.tokenizer import Tokenizer
    from regard.training import Outcome, Recipe

__all__ = ["run", "train"]


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
        sys.exit(128 + outcome.stopped)


def _recipe(config: Path | None, preset: str | None, data: dict[str, Any], sets: list[str], run: Path | None) -> Recipe:
    from regard.settings import merge, override, read_toml
    from regard.training import Recipe
    from regard.training.recipe import preset as preset_values

    values: dict[str, Any] = {}
    where = "the command line"
    if run is not None and config is None:
        config = run / "train.toml"
        if not config.is_file():
            raise UsageError(f"--resume: {config} is missing, so {run} is not a run folder; train it without --resume")
    if config is not None:
        values, where = read_toml(config), str(config)
    if preset is not None or "model" not in values:
        named = preset or values.pop("preset", None) or "transformer-tiny"
        values = merge(preset_values(str(named)), values)
    values = override(merge(values, {"data": data}), sets)
    return Recipe.parse(values, where)


def run(recipe: Recipe, out: Path, resume: bool = False, device: str = "cpu") -> Outcome:
    """Train by this recipe in this folder. Raises UsageError where a run is there that is not to be resumed."""
    import torch

    from regard.cli.progress import Teller
    from regard.data.batching import Batches
    from regard.data.corpus import read_corpus, report_lines
    from regard.data.holdout import hold_out
    from regard.evaluation.validation import Validation, examples
    from regard.models import build, count
    from regard.training import Trainer, card

    if (out / "journal.jsonl").exists() and not resume:
        raise UsageError(f"{out}: there is a run already; add --resume to go on with it, or choose another --out")
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
    batches = Batches(pairs, recipe.batching, recipe.training.seed)
    sizes = f"{len(tokenizer.source):,}" + ("" if joint else f" + {len(tokenizer.target):,}")
    source_pads, target_pads = batches.padding()
    say(f"vocabulary: {sizes} pieces · model: {count(model):,} weights · {recipe.training.precision} on {device}")
    say(
        f"batches: {len(batches.epoch(0)):,} an epoch of at most {recipe.batching.tokens:,} pieces a side, "
        f"padding {source_pads:.1%} of the source and {target_pads:.1%} of the target"
    )
    validation = Validation(corpora["valid"], tokenizer, settings, recipe.training.validate_with)
    with Teller() as teller:
        trainer = Trainer(model, batches, recipe, out, validation, teller)
        if resume and not trainer.resume():
            say("there is no checkpoint yet: starting from the beginning")
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
    recipe.model.check(recipe.tokenizer.joint)
    save_folder(out, settings, tokenizer)
    recipe.write(out / "train.toml")
    return settings, tokenizer
