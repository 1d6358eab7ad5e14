# ruff: noqa: ARG001 (options are read from the context)
"""regard compare: compare several models in one report on quality with significance tests, cost,
training and attention.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.app import app, say
from regard.cli.options import Device, Seed, Threads
from regard.cli.progress import TrainReporter
from regard.common.errors import UsageError

if TYPE_CHECKING:
    from regard.comparison import CompareRequest, Comparison

Out = Annotated[
    Path | None,
    typer.Option(
        help="Folder for report, JSON and CSV; after a stop it is continued there."
    ),
]
Target = Annotated[str | None, typer.Option(help="Their translations, line by line.")]
Pairs = Annotated[str | None, typer.Option(help="Instead of both: TSV, CSV or JSONL.")]
Gold = Annotated[
    str | None,
    typer.Option(
        help="Gold word links of the test pairs: adds the alignment error rate."
    ),
]
Hypotheses = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=FILE: outputs of any other system, line by line; may be repeated."
    ),
]
Seeds = Annotated[
    int,
    typer.Option(
        help="Runs of each preset, with the seeds 1, 2, … (or --seed and those after it)"
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value for all presets, as often as needed."),
]

CONTINUE = "to continue: the same command"


@app.command(sets=("threads", "seed"))
def compare(
    context: typer.Context,
    runs: Annotated[
        list[str] | None, typer.Argument(help="Run or model folders, or NAME=FOLDER.")
    ] = None,
    out: Out = None,
    source: Annotated[
        str | None,
        typer.Option(help="Training sentences: to train on, and to count words in."),
    ] = None,
    target: Target = None,
    pairs: Pairs = None,
    valid_source: Annotated[
        str | None, typer.Option(help="Validation sentences.")
    ] = None,
    valid_target: Target = None,
    valid_pairs: Pairs = None,
    test_source: Annotated[str | None, typer.Option(help="Test sentences.")] = None,
    test_target: Annotated[
        list[str] | None, typer.Option(help="Reference translations; once per set.")
    ] = None,
    test_pairs: Pairs = None,
    test_alignments: Gold = None,
    images: Annotated[
        str | None, typer.Option(help="Instead of sentences: a folder of images.")
    ] = None,
    captions: Annotated[str | None, typer.Option(help="Captions to train on.")] = None,
    valid_captions: Annotated[
        str | None, typer.Option(help="Captions for validation.")
    ] = None,
    test_captions: Annotated[
        str | None, typer.Option(help="Captions to test on.")
    ] = None,
    hypotheses: Hypotheses = None,
    presets: Annotated[
        str,
        typer.Option(
            help="Presets or recipe files (.toml) to train, separated by commas."
        ),
    ] = "",
    minutes: Annotated[
        float | None, typer.Option(help="Budget of each run: minutes of training.")
    ] = None,
    updates: Annotated[int | None, typer.Option(help="Or updates.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Or target tokens.")] = None,
    seeds: Seeds = 1,
    seed: Seed = None,
    set_: Set = None,
    baseline: Annotated[
        str, typer.Option(help="The system to compare with; the first one if left out.")
    ] = "",
    beam: Annotated[
        int | None,
        typer.Option(min=1, max=250, help="Beam for all; else that of each model."),
    ] = None,
    speed: Annotated[
        bool, typer.Option(help="Measure speed and memory of each system.")
    ] = True,
    ter: Annotated[
        bool,
        typer.Option(help="Score TER too, which may take minutes if outputs are long."),
    ] = True,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Compare models on one test set and write a report: scores, significance, length, words, cost,
    attention.

    regard compare runs/rnn runs/rnn-luong --test-source test.ko --test-target test.en --out
    compared

    regard compare --source train.ko --target train.en --test-source test.ko --test-target test.en
    --presets rnn,rnn-luong --minutes 5 --seeds 3 --out compared

    `regard sample .` writes such files to try. The same command continues after a stop.
    """
    from regard.comparison import compare_request
    from regard.run import Interrupted

    if out is None:
        raise UsageError("--out: say which folder to write, such as --out compared")
    with TrainReporter() as report:
        try:
            comparison = compare_request(
                _request(context.params), out, device, threads, report
            )
        except Interrupted as interrupted:
            say(CONTINUE)
            sys.exit(128 + interrupted.signal)
        except (KeyboardInterrupt, SystemExit):  # between two runs
            say(CONTINUE)
            raise
    _print(comparison)


def _request(values: dict[str, Any]) -> CompareRequest:
    """Create the request from the options of the command."""
    from regard.common.settings import parse_assignments
    from regard.comparison import CompareRequest
    from regard.comparison.budget import Budget
    from regard.comparison.entries import named_path
    from regard.comparison.test_data import Files
    from regard.search import SearchOptions

    names = {field.name for field in fields(Files)} - {"test_target"}
    files = Files(
        test_target=tuple(values["test_target"] or ()),
        **{name: values[name] for name in names},
    )
    search = SearchOptions()
    if values["beam"] is not None:
        search = SearchOptions(beam=values["beam"])
    return CompareRequest(
        files,
        [named_path(text) for text in values["runs"] or ()],
        [named_path(text) for text in values["hypotheses"] or ()],
        [name.strip() for name in values["presets"].split(",") if name.strip()],
        parse_assignments(values["set_"] or ()),
        Budget(values["minutes"], values["updates"], values["tokens"]),
        values["seeds"],
        1 if values["seed"] is None else values["seed"],
        values["baseline"],
        search,
        values["speed"],
        values["ter"],
    )


def _print(comparison: Comparison) -> None:
    """Print a table of the systems: mean of each score over seeds, confidence interval, and
    evidence.

    The evidence for a system with one run is its p-value; for a system with several seeds it is the
    number of runs that differ significantly from those of the baseline, in the direction of the
    means, as in the report.
    """
    from regard.comparison.report_summary import LEVEL, verdict

    width = max(len(system.name) for system in comparison.systems)
    names = [score.name for score in comparison.systems[0].scores]
    if comparison.task == "captions":
        names = [name for name in names if name in ("BLEU-4", "chrF", "CIDEr-D")]
    has_seeds = any(len(system.runs) > 1 for system in comparison.systems)
    header = "".join(f"  {name:>7} {'95 %':>15} {'p':>8}" for name in names)
    typer.echo(" " * width + header.rstrip())
    for system in comparison.systems:
        cells = []
        for name in names:
            mean = system.score(name)
            if mean is None:
                cells.append(" " * 34)
                continue
            decision = verdict(comparison, system, name)
            interval = f"{mean.low:.2f} – {mean.high:.2f}"
            evidence = decision.short_evidence() if decision is not None else ""
            cells.append(f"  {mean.mean:7.2f} {interval:>15} {evidence:>8}")
        typer.echo((system.name.ljust(width) + "".join(cells)).rstrip())
    if has_seeds:
        say(
            "1 of 2: so many runs differ from the baseline's of the same seed, in this direction, "
            f"with p < {LEVEL}"
        )
