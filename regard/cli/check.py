"""regard check: what is suspect in a file of sentence pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.app import app, say
from regard.cli.options import check_output, select_device
from regard.common.counting import counted
from regard.common.errors import UsageError
from regard.requests.check_request import CheckCommand

if TYPE_CHECKING:
    from regard.data.checking.check import Judge
    from regard.data.checking.suspects import Suspect
    from regard.data.file_formats import PairFiles
    from regard.data.pairs import Pair

TABLES = (".tsv", ".csv")
"""Endings of tables of suspects."""


@app.command(request=CheckCommand, sets=("threads",))
def check(command: CheckCommand) -> None:
    """Look for suspect pairs: garbled, swapped, shifted, in another language, and the like.

    What is usual is learnt from the pairs themselves. The report names each kind, how many pairs
    are of it, three of them, and what training does with such pairs; this command changes nothing.
    """
    from regard.data.checking.check import check_files
    from regard.data.checking.suspects import HARMLESS
    from regard.data.file_formats import PairFiles
    from regard.evaluation.suspect_formats import FORMATS

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
    _refuse_captions(files)
    say(f"checking the pairs of {' and '.join(files.names)}")
    report = check_files(files, [*_string_judges(command), *_model_judges(command)])
    if table is not None:
        kept = report.write(table)
        say(f"wrote {table} ({counted(len(report.by_line), 'suspect pair')})")
        if kept is not None:
            say(f"another table was there, and is {kept} now")
    for line in FORMATS[command.format](report, files.names[-1]):
        typer.echo(line)
    if command.format == "text" and report.suspects:
        say("nothing was changed: training does so (unless data.check = false)")
        first = "" if table else "write a table by --suspects suspects.csv, "
        say(
            f"to correct pairs: {first}fill in its last two columns, and train with "
            f"--corrections {table or 'suspects.csv'}"
        )
    if command.strict and any(s.kind not in HARMLESS for s in report.suspects):
        raise typer.Exit(1)


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


def _string_judges(command: CheckCommand) -> Iterator[Judge]:
    """Yield the judge of strings of programs, if it is wanted."""
    name = command.dialect
    if name is None:
        return
    from regard.evaluation.broken_strings import broken_strings, dialect_of
    from regard.text.contracts import AUTO

    if name != AUTO:
        dialect_of(name, ())  # refused before the pairs are read

    def judge(pairs: Sequence[Pair]) -> list[Suspect]:
        dialect = dialect_of(name, pairs)
        say(f"strings are judged as {dialect}")
        return broken_strings(pairs, dialect)

    yield judge


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
