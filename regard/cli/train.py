"""regard train: train a model on sentence pairs, or on images with captions."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from regard.cli.app import app, say
from regard.cli.progress import TrainReporter
from regard.common.errors import UsageError
from regard.common.requests import call_with
from regard.requests.train_request import TrainCommand

if TYPE_CHECKING:
    from regard.run import Run


@app.command(request=TrainCommand, sets=("threads",))
def train(command: TrainCommand) -> None:
    """Train a model on sentence pairs, or on images; without validation files some pairs are held
    out.

    regard train --source train.ko --target train.en --valid-source valid.ko --valid-target valid.en
    --out RUN

    `regard sample .` writes such files to try.

    regard train --images DIR --captions train.tsv --valid-captions valid.tsv --out RUN
    """
    from regard import run

    _check_dry_run(command)
    with TrainReporter() as report:
        if command.dry_run:
            for line in run.dry_run(command, report, command.processes):
                typer.echo(line)
            return
        ended = call_with(run.train, command, report=report)
    if ended.outcome.stopped is not None:
        _exit_stopped(ended.outcome.stopped, ended.folder, command.threads)
    _say_how_to_use(ended)


def _say_how_to_use(run: Run) -> None:
    command = "translate" if run.recipe.data.images is None else "caption"
    say(f"use it: regard {command} {shlex.quote(str(run.folder))}")


def _exit_stopped(signal: int, out: Path, threads: int | None) -> NoReturn:
    """Print how to resume a run that a signal has stopped, and exit with the signal's status."""
    options = "" if threads is None else f" --threads {threads}"
    say(f"to resume: regard train --out {shlex.quote(str(out))} --resume{options}")
    sys.exit(128 + signal)


def _check_dry_run(command: TrainCommand) -> None:
    """Raise UsageError if --out is missing, or if an option is only valid with --dry-run."""
    if command.out is None and not command.dry_run:
        raise UsageError("--out: say which folder to write, such as --out runs/first")
    if command.processes > 1 and not command.dry_run:
        raise UsageError(
            "--processes: only with --dry-run; torchrun starts processes: see the page Training"
        )
