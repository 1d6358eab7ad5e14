"""regard lab: run experiments that test claims of the notes, and print their verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.app import app, say
from regard.common.bilingual import Text, text_width, words_by
from regard.common.errors import UsageError
from regard.common.requests import call_with
from regard.requests.lab_request import LabCommand

if TYPE_CHECKING:
    from regard.common.bilingual import Language
    from regard.learn.lab.findings import Findings


@app.command(request=LabCommand)
def lab(command: LabCommand) -> None:
    """Try a claim of the notes: train small models or probe tensors, and print tables and a
    verdict.

    `regard lab` lists the experiments, `regard lab attention` tries one, and `--full` does it with
    three seeds.

    The folder gets a page (index.html), the graph (graph.svg), the data (result.json) and the
    models. The same command continues after a stop.
    """
    from regard.learn.lab import run_experiment

    if command.quick and command.full:
        raise UsageError("--quick and --full exclude each other; leave one of them out")
    language: Language = "ko" if command.korean else "en"
    if not command.name:
        typer.echo("\n".join(_list(language)))
        return
    try:
        findings = call_with(run_experiment, command, language=language, say=say)
    except (KeyboardInterrupt, SystemExit):
        say("to continue: the same command")
        raise
    typer.echo("\n".join(_text(findings, language)))
    name = f"{command.name}-{'full' if command.full else 'quick'}"
    folder = Path(command.out or Path("lab") / name)
    say(f"wrote {folder / 'index.html'}, graph.svg and result.json")


def _list(language: Language) -> Iterator[str]:
    """Yield a line for each experiment, with its claim and its source, and finally the usage."""
    from regard.learn.lab import EXPERIMENTS

    width = max(map(len, EXPERIMENTS))
    for experiment in EXPERIMENTS.values():
        claim = experiment.claim.by(language)
        yield f"{experiment.name.ljust(width)}  {claim} ({experiment.source})"
    duration = Text(
        "1 to 3 minutes on two cores at rest; --full 3 to 10",
        "쉬고 있는 코어 두 개로 1~3분, --full은 3~10분 걸립니다",
    )
    option = " --korean" if language == "ko" else ""
    yield f"\nregard lab NAME{option}: {duration.by(language)}"


def _text(findings: Findings, language: Language) -> Iterator[str]:
    """Yield the lines of the tables, the verdict and the remarks."""
    from regard.learn.lab.findings import OUTCOMES

    for table in findings.tables:
        yield words_by(table.title, language)
        rows = [
            [words_by(cell, language) for cell in row]
            for row in (table.columns, *table.rows)
        ]
        yield from _columns(rows)
        yield ""

    verdict = findings.verdict
    change = Text("What would change this", "이 판단이 바뀌려면").by(language)
    outcome = OUTCOMES[verdict.outcome].by(language)
    text = verdict.text.by(language) if verdict.text else ""
    yield f"{outcome}. {text}".rstrip()
    for part in verdict.parts:
        outcome = OUTCOMES[f"part_{part.outcome}"].by(language).upper()
        yield f"- {part.claim.by(language)} {outcome}. {part.reason.by(language)}"
        yield f"  {change}: {part.change.by(language)}."
    yield from (remark.by(language) for remark in findings.remarks)


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, whose first column is aligned left and the others right."""
    widths = [
        max(text_width(row[column]) for row in rows) for column in range(len(rows[0]))
    ]
    for row in rows:
        cells = []
        for column, cell in enumerate(row):
            padding = " " * (widths[column] - text_width(cell))
            cells.append(cell + padding if column == 0 else padding + cell)
        yield "  ".join(cells).rstrip()
