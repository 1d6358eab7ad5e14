"""regard check: what is suspect in a file of sentence pairs."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import typer

from regard.cli.app import app, say
from regard.cli.options import check_output, select_device
from regard.common.counting import counted
from regard.common.errors import UsageError
from regard.requests.check_request import CheckCommand

if TYPE_CHECKING:
    from regard.data.checking.check import Judge

TABLES = (".tsv", ".csv")
"""Endings of tables of suspects."""


@app.command(request=CheckCommand, sets=("threads",))
def check(command: CheckCommand) -> None:
    """Look for suspect pairs: garbled, swapped, shifted, in another language, and the like.

    What is usual is learnt from the pairs themselves. The report names each kind, how many pairs
    are of it, three of them, and what training does with such pairs; this command changes nothing.
    """
    from regard.data.checking.check import check_files
    from regard.data.file_formats import PairFiles

    table = command.suspects
    names = command.pairs, command.target, command.corrections
    check_output(table, *names, option="--suspects")
    if table is not None and table.suffix.lower() not in TABLES:
        raise UsageError(
            f"`suspects=` wanted a name that ends in {' or '.join(TABLES)}, got {table}"
        )
    files = PairFiles(
        pairs=command.pairs, max_line=command.max_line, columns=command.columns
    )
    if command.target is not None:
        files = PairFiles(command.pairs, command.target, max_line=command.max_line)
    files = replace(files, corrections=command.corrections)
    say(f"checking the pairs of {' and '.join(files.names)}")
    report = check_files(files, _model_judges(command))
    if table is not None:
        report.write(table)
        say(f"wrote {table} ({counted(len(report.by_line), 'suspect pair')})")
    if not command.json:
        for line in report.lines():
            typer.echo(line)
        if report.suspects or report.shifts:
            say(
                "`regard train` does so, unless data.check = false; this changed nothing"
            )
        return
    for shift in report.shifts:
        typer.echo(json.dumps({"kind": "shifted", **asdict(shift)}))
    for suspect in report.suspects:
        values = {**asdict(suspect), "action": suspect.action}
        typer.echo(json.dumps(values, ensure_ascii=False))


def _model_judges(command: CheckCommand) -> list[Judge]:
    """Load the models that also judge the pairs."""
    if command.model is None:
        return []
    from regard.evaluation.model_suspects import improbable_pairs, uncovered_pairs
    from regard.pipeline import load_translator

    device = select_device(command.device)
    model = load_translator(command.model, device)
    reverse = None
    if command.reverse is not None:
        reverse = load_translator(command.reverse, device)
    judges: list[Judge] = [lambda pairs: improbable_pairs(pairs, model, reverse)]
    if model.has_attention:
        judges.append(lambda pairs: uncovered_pairs(pairs, model))
    return judges
