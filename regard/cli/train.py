"""regard train: from sentence pairs, or from pictures with captions, to a model folder."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import app, say, setup_process
from regard.cli.options import Debug, Device, Quiet, Seed, Threads, select_device
from regard.cli.train_config import TrainOptions, sets, told
from regard.errors import UsageError
from regard.run import RunMode, report_dry_run, run

if TYPE_CHECKING:
    from regard.training import Recipe

__all__ = ["train"]

SIZES = ("transformer-tiny", "transformer-small", "transformer-base")
"""What a time budget chooses from, small to large."""


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
    alignments: Annotated[
        str | None, typer.Option(help="Word links of the training pairs, such as 0-0 1-2: one head learns from them.")
    ] = None,
    images: Annotated[str | None, typer.Option(help="Instead of sentences: a folder of pictures.")] = None,
    captions: Annotated[
        str | None, typer.Option(help="Their captions: lines of file, tab, caption; Flickr8k tokens; COCO; JSONL.")
    ] = None,
    valid_captions: Annotated[str | None, typer.Option(help="Captions on which training is watched.")] = None,
    preset: Annotated[str | None, typer.Option(help="A named starting point; regard.presets() lists them.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value, as often as needed.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in --out stopped.")] = False,
    parent: Annotated[Path | None, typer.Option("--from", help="Begin with this run's weights and vocabulary.")] = None,
    budget: Annotated[str | None, typer.Option(help="Train so long, 30m or 2h; chooses the size for it.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be trained, and how fast.")] = False,
    device: Device = "auto",
    threads: Threads = None,
    seed: Seed = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train a model on sentence pairs, or on pictures; without validation files some are held out for it.

    regard train --source train.ko --target train.en --valid-source valid.ko --valid-target valid.en --out RUN

    regard train --images DIR --captions train.tsv --valid-captions valid.tsv --out RUN
    """
    setup_process(threads, quiet or int(os.environ.get("RANK", "0")) > 0, debug)
    from regard.training.distributed import joined

    if out is None and not dry_run:
        raise UsageError("--out: say which folder to write, such as --out runs/first")
    files = {
        "source": source,
        "target": target,
        "pairs": pairs,
        "valid_source": valid_source,
        "valid_target": valid_target,
        "valid_pairs": valid_pairs,
        "alignments": alignments,
    }
    shown = {"folder": images, "captions": captions, "valid_captions": valid_captions}
    with joined(select_device(device), threads) as (world, place):
        if world.restarted:  # what began the run, and all that was asked for then, is in its folder
            config, resume, preset, parent, budget, seed = None, True, None, None, None, None
            files, shown, set_ = {}, {}, []
        _check_together(resume, parent, budget, preset, dry_run)
        given = TrainOptions(told(files), told(shown), sets(set_, seed, budget))
        recipe = given.recipe(config or (out / "train.toml" if resume and out else None), preset, parent, resume)
        sizes: dict[str, Recipe] = {}
        if budget is not None:  # of one size, the budget chooses updates and warm-up
            sizes = {preset or "this model": recipe}
            if not (given.images or config or preset or parent):
                sizes = {name: given.recipe(None, name) for name in SIZES}
        if dry_run:
            report_dry_run(recipe, RunMode(resume, sizes), place)
            return
        assert out is not None, "without --dry-run there is a folder"
        outcome = run(recipe, out, RunMode(resume, sizes), place, world.split(bool(recipe.training.sharded)))
    if outcome.stopped is not None:
        more = "" if threads is None else f" --threads {threads}"
        say(f"to go on: regard train --out {shlex.quote(str(out))} --resume{more}")
        sys.exit(128 + outcome.stopped)


def _check_together(resume: bool, parent: Path | None, budget: str | None, preset: str | None, dry_run: bool) -> None:
    """Raise UsageError, with all causes, for options that exclude each other."""
    causes = []
    if resume:
        told = {"--preset": preset, "--from": parent, "--budget": budget, "--dry-run": dry_run or None}
        causes += [
            f"{name}: a run that is resumed has its recipe already; leave {name} or --resume out"
            for name, value in told.items()
            if value is not None
        ]
    if parent is not None and preset is not None:
        causes.append("--preset: with --from the model is that of the other run; leave one of them out")
    if causes:
        raise UsageError(*causes)
