"""regard train: train a model on sentence pairs, or on images with captions."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from regard.cli.app import app, say, setup_process
from regard.cli.options import Debug, Device, Quiet, Seed, Threads
from regard.cli.progress import TrainReporter
from regard.common.errors import UsageError

if TYPE_CHECKING:
    from regard.run import Run

Captions = Annotated[
    str | None,
    typer.Option(
        help="Their captions: lines of file, tab, caption; CSV; Flickr8k tokens; COCO; JSONL."
    ),
]
TestPairs = Annotated[
    str | None,
    typer.Option(
        help="A file of pairs, or how many pairs to hold out, to score once when training has "
        "ended."
    ),
]
WordAlignments = Annotated[
    str | None,
    typer.Option(
        help="Word alignments of the training pairs, such as 0-0 1-2: one head learns them."
    ),
]
LanguageCodes = Annotated[
    str | None,
    typer.Option(
        help="Languages of source and target, as ko,en; by the names of the files if left out."
    ),
]
CardLicence = Annotated[
    str | None,
    typer.Option(help="Licence of the model, for its card, such as CC-BY-4.0 (SPDX)."),
]
CardAuthor = Annotated[
    str | None, typer.Option(help="Who trained the model, for its card.")
]
CardOrigin = Annotated[
    str | None, typer.Option(help="Where the data are from, for the card.")
]
Processes = Annotated[
    int,
    typer.Option(
        min=1, max=1024, help="With --dry-run: also the needs of this many processes."
    ),
]


@app.command()
def train(
    config: Annotated[
        Path | None,
        typer.Argument(help="A TOML file with a whole recipe or part of one."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder to write: it is a model folder too."),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Training sentences, one a line.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Their translations, line by line.")
    ] = None,
    valid_source: Annotated[
        str | None, typer.Option(help="Validation sentences.")
    ] = None,
    valid_target: Annotated[
        str | None, typer.Option(help="Their translations.")
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(help="Instead of --source and --target: TSV, CSV or JSONL."),
    ] = None,
    valid_pairs: Annotated[
        str | None, typer.Option(help="The same for validation.")
    ] = None,
    test: TestPairs = None,
    alignments: WordAlignments = None,
    images: Annotated[
        str | None, typer.Option(help="Instead of sentences: a folder of images.")
    ] = None,
    captions: Captions = None,
    valid_captions: Annotated[
        str | None, typer.Option(help="Captions for validation.")
    ] = None,
    languages: LanguageCodes = None,
    licence: CardLicence = None,
    author: CardAuthor = None,
    source_of_data: CardOrigin = None,
    preset: Annotated[
        str | None,
        typer.Option(help="A named starting point; regard.presets() lists them."),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="key=value, as often as needed.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue the run in --out from its checkpoint."),
    ] = False,
    parent: Annotated[
        Path | None,
        typer.Option("--from", help="Start from this run's weights and vocabulary."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Train for this time, 30m or 2h; chooses the model size."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Describe the model, its memory and speed only."
        ),
    ] = False,
    processes: Processes = 1,
    device: Device = "auto",
    threads: Threads = None,
    seed: Seed = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train a model on sentence pairs, or on images; without validation files some pairs are held
    out.

    regard train --source train.ko --target train.en --valid-source valid.ko --valid-target valid.en
    --out RUN

    `regard sample .` writes such files to try.

    regard train --images DIR --captions train.tsv --valid-captions valid.tsv --out RUN
    """
    setup_process(threads, quiet or int(os.environ.get("RANK", "0")) > 0, debug)
    from regard import run
    from regard.common.settings import parse_assignments
    from regard.training.compose_recipe import TrainRequest, data_table

    _check_dry_run(out, dry_run, processes)
    data = data_table(
        images,
        languages,
        test,
        captions=captions,
        valid_captions=valid_captions,
        source=source,
        target=target,
        pairs=pairs,
        alignments=alignments,
        valid_source=valid_source,
        valid_target=valid_target,
        valid_pairs=valid_pairs,
    )
    settings = _card(licence, author, source_of_data) | parse_assignments(set_ or ())
    request = TrainRequest(config, preset, parent, data, settings, seed, budget, resume)
    with TrainReporter() as report:
        if dry_run:
            for line in run.dry_run(request, device, report, processes):
                typer.echo(line)
            return
        assert out is not None, "without --dry-run there is a folder"
        ended = run.train_request(request, out, device, threads, report)
    if ended.outcome.stopped is not None:
        _exit_stopped(ended.outcome.stopped, out, threads)
    _say_how_to_use(ended)


def _say_how_to_use(run: Run) -> None:
    command = "translate" if run.recipe.data.images is None else "caption"
    say(f"use it: regard {command} {shlex.quote(str(run.folder))}")


def _exit_stopped(signal: int, out: Path, threads: int | None) -> NoReturn:
    """Print how to resume a run that a signal has stopped, and exit with the signal's status."""
    options = "" if threads is None else f" --threads {threads}"
    say(f"to resume: regard train --out {shlex.quote(str(out))} --resume{options}")
    sys.exit(128 + signal)


def _card(
    licence: str | None, author: str | None, origin: str | None
) -> dict[str, object]:
    """Return the settings of the model card that have values."""
    values = {"data.licence": licence, "data.author": author, "data.origin": origin}
    return {name: text for name, text in values.items() if text is not None}


def _check_dry_run(out: Path | None, dry_run: bool, processes: int) -> None:
    """Raise UsageError if --out is missing, or if an option is only valid with --dry-run."""
    if out is None and not dry_run:
        raise UsageError("--out: say which folder to write, such as --out runs/first")
    if processes > 1 and not dry_run:
        raise UsageError(
            "--processes: only with --dry-run; torchrun starts processes: see the page Training"
        )
