"""The options of `regard check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from regard.common.errors import UsageError
from regard.common.requests import COMMAND, Option
from regard.data.text import MAX_LINE
from regard.requests.shared_fields import Device


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class CheckCommand:
    """A call of `regard check`."""

    def __post_init__(self) -> None:
        if self.reverse is not None and self.model is None:
            raise UsageError("`reverse=`: only with `model=`; give both")
        # Imported late, since all commands import this module.
        from regard.data.checking.suspects import KINDS

        unknown = [kind for kind in self.only if kind not in KINDS]
        UsageError.raise_all(
            f"`only=`: wanted one of {', '.join(KINDS)}, got {kind!r}"
            for kind in unknown
        )

    files: Annotated[
        tuple[str, ...],
        Option(
            "Files of pairs, such as PO, XLIFF, TSV, CSV or XLSX; or two of lines: of sentences, "
            "and of their translations.",
            is_argument=True,
            is_repeated=True,
        ),
    ]
    columns: Annotated[
        str,
        Option(
            "Columns of a table, as English,hsb or 2,3; by names and content if left out."
        ),
    ] = ""
    suspects: Annotated[
        Path | None,
        Option(
            "A table (.tsv or .csv) to write all suspects to, with proposals, for whoever wrote "
            "the pairs.",
            is_local=True,
        ),
    ] = None
    corrections: Annotated[
        str | None,
        Option("Such a table in which somebody has corrected pairs: check them so."),
    ] = None
    model: Annotated[
        Path | None,
        Option(
            "Also say what this model finds improbable, and which words its attention leaves out.",
            is_local=True,
        ),
    ] = None
    reverse: Annotated[
        Path | None,
        Option(
            "With --model: a model of the reverse direction, so that both judge.",
            is_local=True,
        ),
    ] = None
    device: Device = "auto"
    dialect: Annotated[
        str | None,
        Option(
            "Also judge translated strings of programs: auto (by the flags of a PO file, else by "
            "all its strings), or c, python-brace, icu, fluent, html …"
        ),
    ] = None
    only: Annotated[
        tuple[str, ...],
        Option(
            "Report only suspects of this kind, such as 'broken string'; may be repeated.",
            is_repeated=True,
        ),
    ] = ()
    format: Annotated[
        Literal["text", "json", "sarif", "github"],
        Option("How the report is printed; json is one suspect a line."),
    ] = "text"
    strict: Annotated[bool, Option("End with status 1 if a pair is suspect.")] = False
    max_line: Annotated[
        int, Option("Most characters of a line; longer ones are skipped.", least=1)
    ] = MAX_LINE
