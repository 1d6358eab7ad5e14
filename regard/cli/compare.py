"""regard compare: compare several models in one report on quality with significance tests, cost,
training and attention.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from regard.cli.app import app, say
from regard.cli.progress import TrainReporter
from regard.common.errors import UsageError
from regard.common.requests import call_with
from regard.requests.compare_request import CompareArguments

if TYPE_CHECKING:
    from regard.comparison import Comparison

CONTINUE = "to continue: the same command"


@app.command(request=CompareArguments, sets=("threads", "seed"))
def compare(command: CompareArguments) -> None:
    """Compare models on one test set and write a report: scores, significance, length, words, cost,
    attention.

    regard compare runs/rnn runs/rnn-luong --test-source test.ko --test-target test.en --out
    compared

    regard compare --source train.ko --target train.en --test-source test.ko --test-target test.en
    --presets rnn,rnn-luong --minutes 5 --seeds 3 --out compared

    `regard sample .` writes such files to try. The same command continues after a stop.
    """
    from regard.comparison import compare as compare_models
    from regard.run import Interrupted

    if command.out is None:
        raise UsageError("--out: say which folder to write, such as --out compared")
    with TrainReporter() as report:
        try:
            comparison = call_with(compare_models, command, report=report)
        except Interrupted as interrupted:
            say(CONTINUE)
            sys.exit(128 + interrupted.signal)
        except (KeyboardInterrupt, SystemExit):  # between two runs
            say(CONTINUE)
            raise
    _print(comparison)


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
    _print_leads(comparison, names)
    if has_seeds:
        say(
            "1 of 2: so many runs differ from the baseline's of the same seed, in this direction, "
            f"with p < {LEVEL}"
        )


def _print_leads(comparison: Comparison, names: Sequence[str]) -> None:
    """Print the differences from the baseline over seeds, a line for each system and score."""
    from regard.comparison.report_numbers import probability, signed

    for system in comparison.systems:
        for name in names:
            mean = system.score(name)
            if mean is None or mean.lead is None:
                continue
            lead = mean.lead
            typer.echo(
                f"{system.name} − {comparison.baseline}, {name} over seeds: {signed(lead.value)} "
                f"({signed(lead.low)} to {signed(lead.high)}, Welch's p {probability(lead.p)})"
            )
