"""regard compare: several models, one report: quality with significance, by length, cost, training, attention."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import app, say, setup_process
from regard.cli.options import Debug, Device, Quiet, Threads
from regard.cli.progress import TrainReporter
from regard.errors import UsageError
from regard.settings import parse_assignments

if TYPE_CHECKING:
    from regard.comparison import Comparison


@app.command()
def compare(
    runs: Annotated[list[str] | None, typer.Argument(help="Run or model folders, or NAME=FOLDER.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report, JSON and CSV; an interrupted comparison resumes there.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Training sentences: to train on, and to count words in.")] = None,
    target: Annotated[str | None, typer.Option(help="Their translations, line by line.")] = None,
    pairs: Annotated[str | None, typer.Option(help="Instead of both: TSV or JSONL.")] = None,
    valid_source: Annotated[str | None, typer.Option(help="Validation sentences.")] = None,
    valid_target: Annotated[str | None, typer.Option(help="Their translations.")] = None,
    valid_pairs: Annotated[str | None, typer.Option(help="Instead of both: TSV or JSONL.")] = None,
    test_source: Annotated[str | None, typer.Option(help="Test sentences.")] = None,
    test_target: Annotated[list[str] | None, typer.Option(help="Reference translations; once per set.")] = None,
    test_pairs: Annotated[str | None, typer.Option(help="Instead of both: TSV or JSONL.")] = None,
    test_alignments: Annotated[
        str | None, typer.Option(help="Gold word links of the test pairs, for the alignment error rate.")
    ] = None,
    images: Annotated[str | None, typer.Option(help="Instead of sentences: a folder of images.")] = None,
    captions: Annotated[str | None, typer.Option(help="Captions to train on.")] = None,
    valid_captions: Annotated[str | None, typer.Option(help="Captions for validation.")] = None,
    test_captions: Annotated[str | None, typer.Option(help="Captions to test on.")] = None,
    hypotheses: Annotated[
        list[str] | None, typer.Option(help="NAME=FILE: outputs of any other system, line by line; may be repeated.")
    ] = None,
    presets: Annotated[str, typer.Option(help="Presets or recipe files (.toml) to train, separated by commas.")] = "",
    minutes: Annotated[float | None, typer.Option(help="Budget of each run: minutes of training.")] = None,
    updates: Annotated[int | None, typer.Option(help="Or updates.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Or target tokens.")] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each preset, with the seeds 1, 2, …")] = 1,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="key=value for all presets, as often as needed.")
    ] = None,
    baseline: Annotated[
        str, typer.Option(help="The system to compare the others with; the first one if left out.")
    ] = "",
    beam: Annotated[int | None, typer.Option(min=1, max=250, help="Beam for all; else that of each model.")] = None,
    speed: Annotated[bool, typer.Option(help="Measure speed and memory of each system.")] = True,
    device: Device = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare models on one test set and write a report: scores, significance, length, words, cost, attention.

    regard compare runs/rnn runs/rnn-luong --test-source test.ko --test-target test.en --out compared

    regard compare --source train.ko --target train.en --test-source test.ko --test-target test.en
    --presets rnn,rnn-luong --minutes 5 --seeds 3 --out compared

    Presets are trained one after another, each run with the same budget; the same command continues after a stop.
    """
    setup_process(threads, quiet, debug)
    from regard.comparison import CompareRequest, compare_request
    from regard.comparison.budget import Budget
    from regard.comparison.entries import named_path
    from regard.comparison.test_data import Files
    from regard.run import Interrupted
    from regard.search import SearchOptions

    if out is None:
        raise UsageError("--out: say which folder to write, such as --out compared")
    files = Files(
        source,
        target,
        pairs,
        valid_source,
        valid_target,
        valid_pairs,
        test_source,
        tuple(test_target or ()),
        test_pairs,
        test_alignments,
        images,
        captions,
        valid_captions,
        test_captions,
    )
    request = CompareRequest(
        files,
        [named_path(text) for text in runs or ()],
        [named_path(text) for text in hypotheses or ()],
        [name.strip() for name in presets.split(",") if name.strip()],
        parse_assignments(set_ or ()),
        Budget(minutes, updates, tokens),
        seeds,
        baseline,
        SearchOptions() if beam is None else SearchOptions(beam=beam),
        speed,
    )
    with TrainReporter() as report:
        try:
            comparison = compare_request(request, out, device, threads, report)
        except Interrupted as interrupted:
            say("to continue: the same command")
            sys.exit(128 + interrupted.signal)
    _print(comparison)


def _print(comparison: Comparison) -> None:
    """Print a table: systems with the mean of each score over their seeds, its interval, and p of the first seed."""
    width = max(len(system.name) for system in comparison.systems)
    names = [score.name for score in comparison.systems[0].scores]
    if comparison.task == "captions":
        names = [name for name in names if name in ("BLEU-4", "chrF", "CIDEr-D")]
    typer.echo(" " * width + "".join(f"  {name:>7} {'95 %':>15} {'p':>7}" for name in names).rstrip())
    for system in comparison.systems:
        cells = []
        for name in names:
            mean = next((score for score in system.scores if score.name == name), None)
            score = comparison.run(system.runs[0]).score(name)
            if mean is None or score is None:
                cells.append(" " * 33)
                continue
            interval = f"{mean.low:.2f} – {mean.high:.2f}"
            p = "" if score.p is None else f"{score.p:.4f}"
            cells.append(f"  {mean.mean:7.2f} {interval:>15} {p:>7}")
        typer.echo((system.name.ljust(width) + "".join(cells)).rstrip())
