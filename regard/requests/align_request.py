"""The options of `regard align`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from regard.common.requests import COMMAND, Option
from regard.requests.shared_fields import Columns, Device, Run


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class AlignCommand:
    """A call of `regard align`."""

    run: Run
    source: Annotated[str | None, Option("Sentences, one per line.")] = None
    target: Annotated[str | None, Option("Their translations, line by line.")] = None
    pairs: Annotated[
        str | None,
        Option("Instead of both: a file of pairs, such as TSV, CSV or XLSX."),
    ] = None
    columns: Columns = ""
    gold: Annotated[
        str | None,
        Option("Gold links, line by line: 0-0 if sure, 0p0 if only possible."),
    ] = None
    reverse: Annotated[
        Path | None,
        Option(
            "A model of the reverse direction: links of both are combined.",
            is_local=True,
        ),
    ] = None
    symmetry: Annotated[
        Literal["intersection", "grow-diag", "grow-diag-final", "union"] | None,
        Option(
            "How the links of both directions are combined; as chosen for the model if left out."
        ),
    ] = None
    choose: Annotated[
        bool,
        Option(
            "Pick the layer, head and row that align these pairs best, by --gold or else by the "
            "agreement of both directions, and store the choice in the model folder."
        ),
    ] = False
    output: Annotated[
        Path | None,
        Option("File to write links to instead of standard output.", is_local=True),
    ] = None
    device: Device = "auto"
