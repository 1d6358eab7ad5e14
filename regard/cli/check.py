"""regard check: what is suspect in files of sentence pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.app import app, say
from regard.cli.options import check_output, select_device
from regard.common.counting import counted
from regard.common.errors import DataError, UsageError
from regard.requests.check_request import CheckCommand

if TYPE_CHECKING:
    from regard.data.checking.check import CheckReport, Judge
    from regard.data.file_formats import PairFiles

TABLES = (".tsv", ".csv")
"""Endings of tables of suspects."""


@app.command(request=CheckCommand, sets=("threads",))
def check(command: CheckCommand) -> None:
    """Look for suspect pairs: garbled, swapped, shifted, in another language, and the like.

    What is usual is learnt from the pairs themselves. The report names each kind, how many pairs
    are of it, three of them, and what training does with such pairs; this command changes nothing.
    """
    from regard.data.checking.suspects import HARMLESS
    from regard.evaluation.suspect_formats import FORMATS

    table = command.suspects
    check_output(table, *command.files, command.corrections, option="--suspects")
    if table is not None and table.suffix.lower() not in TABLES:
        raise UsageError(
            f"`suspects=` wanted a name that ends in {' or '.join(TABLES)}, got {table}"
        )
    reports = _reports(command, _corpora(command))
    if table is not None:
        (report,) = reports.values()
        _write(report, table)
    for line in FORMATS[command.format](reports):
        typer.echo(line)
    suspects = [s for report in reports.values() for s in report.suspects]
    if command.format == "text" and suspects and len(reports) == 1:
        _say_next_steps(command)
    if command.strict and any(s.kind not in HARMLESS for s in suspects):
        raise typer.Exit(1)


def _corpora(command: CheckCommand) -> list[PairFiles]:
    """Return the files of each corpus: a file of pairs, or two files of lines.

    Raises UsageError for other files, and for tables of suspects of several corpora.
    """
    from regard.data.file_formats import PairFiles, holds_pairs

    names = command.files
    plain = [name for name in names if not holds_pairs(name)]
    if len(names) == len(plain) == 2:
        corpora = [PairFiles(*names, max_line=command.max_line)]
    elif plain and len(names) > 1:
        raise UsageError(
            "wanted files of pairs (PO, XLIFF, TMX, JSON, TSV, CSV, XLSX, ODS), or two files of "
            f"lines, got among {len(names)} files, by the ending no file of pairs: "
            f"{', '.join(plain)}; check each of these alone, or with its translations"
        )
    else:
        corpora = [
            PairFiles(pairs=name, max_line=command.max_line, columns=command.columns)
            for name in names
        ]
    if len(corpora) > 1:
        UsageError.raise_all(
            f"`{option}=`: holds lines of one file, got {len(corpora)}; check each alone"
            for option in ("suspects", "corrections")
            if getattr(command, option) is not None
        )
    return [replace(files, corrections=command.corrections) for files in corpora]


def _reports(
    command: CheckCommand, corpora: Sequence[PairFiles]
) -> dict[str, CheckReport]:
    """Check each corpus; return the reports by the names of the files.

    Raises DataError, with the causes of all files that cannot be read.
    """
    from regard.text.contracts import AUTO, checked_dialect

    checked_dialect(command.dialect or AUTO)
    models = _model_judges(command)
    reports: dict[str, CheckReport] = {}
    causes = list[str]()
    for files in corpora:
        try:
            reports[files.names[-1]] = _report(command, files, models)
        except DataError as problem:
            causes += problem.causes
    DataError.raise_all(causes)
    return reports


def _report(
    command: CheckCommand, files: PairFiles, models: Sequence[Judge]
) -> CheckReport:
    """Check a corpus, its strings of programs too if a dialect is given or its entries have
    flags.
    """
    from regard.data.checking.check import check_files
    from regard.data.checking.suspects import KINDS
    from regard.data.file_formats import flags_of_pairs
    from regard.evaluation.broken_strings import StringJudge

    _refuse_captions(files)
    say(f"checking the pairs of {' and '.join(files.names)}")
    strings = StringJudge(command.dialect, flags_of_pairs(files))
    judges = [*models]
    if strings.name is not None or strings.flags:
        judges.insert(0, strings)
    report = check_files(files, judges).of_kinds(command.only or [*KINDS])
    if command.format != "text":
        for note in strings.notes:
            say(f"{files.names[-1]}: {note}")
    return replace(report, notes=(*report.notes, *strings.notes))


def _write(report: CheckReport, table: Path) -> None:
    """Write a table of suspects."""
    kept = report.write(table)
    say(f"wrote {table} ({counted(len(report.by_line), 'suspect pair')})")
    if kept is not None:
        say(f"another table was there, and is {kept} now")


def _say_next_steps(command: CheckCommand) -> None:
    """Say what training does with suspect pairs, and how they can be corrected."""
    say("nothing was changed: training does so (unless data.check = false)")
    table = command.suspects
    first = "" if table else "write a table by --suspects suspects.csv, "
    say(
        f"to correct pairs: {first}fill in its last two columns, and train with --corrections "
        f"{table or 'suspects.csv'}"
    )


def _refuse_captions(files: PairFiles) -> None:
    """Raise UsageError for a table with a column of image files, unless its columns are named, or
    named as languages.
    """
    from regard.data.caption_tables import has_image_ending
    from regard.data.file_formats import is_table, languages_of_pairs, open_table

    name = str(files.pairs)
    is_local = files.pairs is not None and not files.columns and is_table(name)
    if not is_local or not all(Path(path).is_file() for path in files.paths.values()):
        return
    _, table = open_table(name)
    for number, cells in enumerate(zip(*table.rows, strict=True), 1):
        images = [*filter(has_image_ending, cells)]
        if (
            images
            and 2 * len(images) >= len(cells)
            and not all(languages_of_pairs(files).pair)
        ):
            raise UsageError(
                f"{name}: column {number} names images ({images[0]}), so its rows are captions, "
                "and `regard check` compares translations; train with `regard train --images "
                f"FOLDER --captions {name}`, or name the columns of translations (`columns=`)"
            )


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
