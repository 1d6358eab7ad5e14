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
    """Print the mean of each score of the systems with its interval, the differences from the
    baseline, and the summary of the report.
    """
    from regard.comparison.report_numbers import between

    width = max(len(system.name) for system in comparison.systems)
    names = [score.name for score in comparison.systems[0].scores]
    if comparison.task == "captions":
        names = [name for name in names if name in ("BLEU-4", "chrF", "CIDEr-D")]
    header = "".join(f"  {name:>7} {'95 % interval':>16}" for name in names)
    typer.echo(" " * width + header)
    for system in comparison.systems:
        cells = []
        for name in names:
            mean = system.score(name)
            cell = ""
            if mean is not None:
                ends = between(mean.low, mean.high).en
                cell = f"  {mean.mean:7.2f} {ends:>16}"
            cells.append(cell.ljust(26))
        typer.echo((system.name.ljust(width) + "".join(cells)).rstrip())
    _print_differences(comparison, names)
    for sentence in comparison.summary:
        typer.echo(sentence.en)


def _print_differences(comparison: Comparison, names: Sequence[str]) -> None:
    """Print the differences from the baseline, a line for each system and score."""
    from regard.comparison.decisions import verdict
    from regard.comparison.report_numbers import signed

    has_counts = False
    for system in comparison.systems:
        for name in names:
            decision = verdict(comparison, system, name)
            if decision is None:
                continue
            runs = decision.run_evidence().en
            has_counts = has_counts or bool(runs)
            evidence = "; ".join(filter(None, (decision.evidence().en, runs)))
            typer.echo(
                f"{system.name} − {comparison.baseline}, {name}: "
                f"{signed(decision.difference)} ({evidence})"
            )
    if has_counts:
        say(
            "runs with p: each against the baseline's of the same seed, by paired bootstrap; that "
            "says how sure these models are, and nothing of the method"
        )
