"""The options of `regard calibrate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from pydantic.dataclasses import dataclass

from regard.common.requests import COMMAND, Option
from regard.requests.shared_fields import Columns, Device, Run


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class CalibrateCommand:
    """A call of `regard calibrate`."""

    run: Run
    source: Annotated[
        str | None, Option("Sentences that training has not seen, one per line.")
    ] = None
    target: Annotated[str | None, Option("Their translations, line by line.")] = None
    pairs: Annotated[
        str | None,
        Option("Instead of both: a file of pairs, such as TSV, CSV or XLSX."),
    ] = None
    columns: Columns = ""
    device: Device = "auto"
    sets: Mapping[str, Any] = field(default_factory=dict)
